-- op: one GPU activity. From CUPTI_ACTIVITY_KIND_{KERNEL,MEMCPY,MEMSET,GRAPH_TRACE}.
--   start_ns, end_ns BIGINT   GPU time, ns from the start of the session
--   device           INTEGER  device number as the process saw it
--   stream           INTEGER
--   pid              INTEGER  process that launched it (bits 24 to 47 of globalPid)
--   corr             BIGINT   correlation id, unique only together with pid
--   kind             UTINYINT 0 kernel, 1 memcpy, 2 memset, 3 whole graph
--   key              UBIGINT  identity: name, grid, block of a kernel; kind of a copy (see op_key)
--   graph_node       BIGINT   node of a CUDA graph, NULL for an op launched on its own
--   bytes            BIGINT   of a copy or memset
--   pageable_dtoh    BOOLEAN  a copy from device to pageable host memory: the call blocks
--   name, short_name INTEGER  ids in string, kernels only
CREATE TABLE op AS
SELECT
    "start"::BIGINT AS start_ns,
    greatest("end", "start")::BIGINT AS end_ns,
    deviceId::INTEGER AS device,
    streamId::INTEGER AS stream,
    (globalPid >> 24 & 16777215)::INTEGER AS pid,
    correlationId::BIGINT AS corr,
    0::UTINYINT AS kind,
    hash(demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ) AS key,
    nullif(graphNodeId, 0)::BIGINT AS graph_node,
    NULL::BIGINT AS bytes,
    false AS pageable_dtoh,
    coalesce(demangledName, shortName)::INTEGER AS name,
    coalesce(shortName, demangledName)::INTEGER AS short_name,
    gridX::INTEGER AS grid_x, gridY::INTEGER AS grid_y, gridZ::INTEGER AS grid_z,
    blockX::INTEGER AS block_x, blockY::INTEGER AS block_y, blockZ::INTEGER AS block_z,
    registersPerThread::INTEGER AS registers,
    (coalesce(staticSharedMemory, 0) + coalesce(dynamicSharedMemory, 0))::INTEGER AS shared_bytes
FROM staged_CUPTI_ACTIVITY_KIND_KERNEL
WHERE "start" IS NOT NULL AND "end" IS NOT NULL
UNION ALL
SELECT
    "start", greatest("end", "start"), deviceId, streamId, globalPid >> 24 & 16777215, correlationId,
    1, hash('memcpy', copyKind), nullif(graphNodeId, 0), bytes,
    -- CUDA_MEMCPY_KIND 2 is device to host; memory kind 0 is pageable
    coalesce(copyKind = 2 AND dstKind = 0, false), copyKind, copyKind,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM staged_CUPTI_ACTIVITY_KIND_MEMCPY
WHERE "start" IS NOT NULL AND "end" IS NOT NULL
UNION ALL
SELECT
    "start", greatest("end", "start"), deviceId, streamId, globalPid >> 24 & 16777215, correlationId,
    2, hash('memset'), nullif(graphNodeId, 0), bytes, false, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM staged_CUPTI_ACTIVITY_KIND_MEMSET
WHERE "start" IS NOT NULL AND "end" IS NOT NULL
UNION ALL
SELECT
    "start", greatest("end", "start"), deviceId, streamId, globalPid >> 24 & 16777215, correlationId,
    3, hash('graph'), NULL, NULL, false, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM staged_CUPTI_ACTIVITY_KIND_GRAPH_TRACE
WHERE "start" IS NOT NULL AND "end" IS NOT NULL;
