-- staged_op: the rows of CUPTI_ACTIVITY_KIND_{KERNEL,MEMCPY,MEMSET,GRAPH_TRACE}, one GPU activity each.
--   kind       UTINYINT 0 kernel, 1 memcpy, 2 memset, 3 whole graph
--   descriptor UBIGINT  hash of all that activities share
CREATE VIEW staged_op AS
SELECT *, hash(
    0, globalPid, deviceId, streamId, graphNodeId, demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ,
    registersPerThread, staticSharedMemory, dynamicSharedMemory
) AS descriptor, 0::UTINYINT AS kind
FROM staged_CUPTI_ACTIVITY_KIND_KERNEL
UNION ALL BY NAME
SELECT *, hash(1, globalPid, deviceId, streamId, graphNodeId, copyKind, srcKind, dstKind) AS descriptor, 1::UTINYINT AS kind
FROM staged_CUPTI_ACTIVITY_KIND_MEMCPY
UNION ALL BY NAME
SELECT *, hash(2, globalPid, deviceId, streamId, graphNodeId) AS descriptor, 2::UTINYINT AS kind
FROM staged_CUPTI_ACTIVITY_KIND_MEMSET
UNION ALL BY NAME
SELECT *, hash(3, globalPid, deviceId, streamId) AS descriptor, 3::UTINYINT AS kind
FROM staged_CUPTI_ACTIVITY_KIND_GRAPH_TRACE;

-- op_row: one GPU activity. Narrow, for there are millions: what many of them share is said once, in op_descriptor. The view op spells it out.
--   start_ns, end_ns BIGINT   GPU time, ns from the start of the session; odd ones are set right next (nsys.py)
--   launch           BIGINT   process << 32 + correlation id: the call that launched it; NULL unknown (CUPTI's ids have 32 bits)
--   descriptor       UBIGINT  hash of all that is shared (see op_descriptor)
--   bytes            BIGINT   of a copy or memset
CREATE TABLE op_row AS
SELECT
    "start" AS start_ns, "end" AS end_ns,
    ((globalPid >> 24 & 16777215) << 32) + CASE WHEN correlationId BETWEEN 0 AND 4294967295 THEN correlationId END AS launch,
    descriptor, bytes
FROM staged_op;
