-- op_row: one GPU activity, from CUPTI_ACTIVITY_KIND_{KERNEL,MEMCPY,MEMSET,GRAPH_TRACE}. Narrow, for there are millions:
-- what many of them share is said once, in op_sort. The view op spells it out.
--   start_ns, end_ns BIGINT   GPU time, ns from the start of the session
--   launch           BIGINT   process << 32 + correlation id: the call that launched it; NULL unknown (CUPTI's ids have 32 bits)
--   sort             UBIGINT  hash of all that is shared (see op_sort)
--   bytes            BIGINT   of a copy or memset
--   kind             UTINYINT 0 kernel, 1 memcpy, 2 memset, 3 whole graph
--   source           BIGINT   row of the export's table
CREATE TABLE op_row AS
SELECT
    "start"::BIGINT AS start_ns,
    greatest("end", "start")::BIGINT AS end_ns,
    ((globalPid >> 24 & 16777215) << 32) + CASE WHEN correlationId BETWEEN 0 AND 4294967295 THEN correlationId END AS launch,
    hash(
        0, globalPid, deviceId, streamId, graphNodeId, demangledName, shortName, gridX, gridY, gridZ, blockX, blockY,
        blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory
    ) AS sort,
    NULL::BIGINT AS bytes,
    0::UTINYINT AS kind,
    source
FROM staged_CUPTI_ACTIVITY_KIND_KERNEL
WHERE "start" IS NOT NULL AND "end" IS NOT NULL
UNION ALL
SELECT
    "start", greatest("end", "start"), ((globalPid >> 24 & 16777215) << 32) + CASE WHEN correlationId BETWEEN 0 AND 4294967295 THEN correlationId END,
    hash(1, globalPid, deviceId, streamId, graphNodeId, copyKind, dstKind), bytes, 1, source
FROM staged_CUPTI_ACTIVITY_KIND_MEMCPY
WHERE "start" IS NOT NULL AND "end" IS NOT NULL
UNION ALL
SELECT
    "start", greatest("end", "start"), ((globalPid >> 24 & 16777215) << 32) + CASE WHEN correlationId BETWEEN 0 AND 4294967295 THEN correlationId END,
    hash(2, globalPid, deviceId, streamId, graphNodeId), bytes, 2, source
FROM staged_CUPTI_ACTIVITY_KIND_MEMSET
WHERE "start" IS NOT NULL AND "end" IS NOT NULL
UNION ALL
SELECT
    "start", greatest("end", "start"), ((globalPid >> 24 & 16777215) << 32) + CASE WHEN correlationId BETWEEN 0 AND 4294967295 THEN correlationId END,
    hash(3, globalPid, deviceId, streamId), NULL, 3, source
FROM staged_CUPTI_ACTIVITY_KIND_GRAPH_TRACE
WHERE "start" IS NOT NULL AND "end" IS NOT NULL;
