-- device: GPUs of the machine.
--   device INTEGER, name VARCHAR, sm_count INTEGER, clock_hz BIGINT, memory_bytes BIGINT
CREATE TABLE device AS
SELECT coalesce(id, deviceId, cuDevice)::INTEGER AS device, any_value(name) AS name,
       any_value(smCount)::INTEGER AS sm_count, any_value(clockRate)::BIGINT AS clock_hz,
       any_value(totalMemory)::BIGINT AS memory_bytes
FROM staged_TARGET_INFO_GPU
WHERE coalesce(id, deviceId, cuDevice) IS NOT NULL
GROUP BY 1;

-- meta: what was recorded and how: an allow-list. The rest of these tables holds the environment, the command
-- line, the user and the host of the traced program, and never leaves the export.
--   name VARCHAR, value VARCHAR
CREATE TEMP TABLE meta_row AS
SELECT name, value FROM staged_META_DATA_CAPTURE
UNION ALL SELECT name, value FROM staged_META_DATA_EXPORT
UNION ALL SELECT name, value FROM staged_EXPORT_META_DATA
UNION ALL SELECT name, value FROM staged_TARGET_INFO_SYSTEM_ENV
-- when time 0 of the export was: the same clock for all exports of a machine
UNION ALL SELECT 'SESSION_START_NS', utcEpochNs::VARCHAR FROM staged_TARGET_INFO_SESSION_START_TIME WHERE utcEpochNs > 0;
CREATE TABLE meta AS
WITH stripped AS (
    SELECT regexp_replace(name, '^PROCESS_[0-9]+:', '') AS name, value FROM meta_row WHERE length(value) <= 64
)
SELECT DISTINCT name, value FROM stripped WHERE name IN (
    'CAPTURE_EVENT_TYPE', 'CUDA_GRAPH_TRACE_OPTIONS:MODE', 'COLLECT_CUDA_TRACE', 'COLLECT_NVTX_TRACE',
    'RUN_DURATION_MS', 'EXPORT_PRODUCT_VERSION', 'EXPORT_SCHEMA_VERSION', 'NvDriverVersion',
    'CudaDriverVersion', 'CpuCores', 'CpuArchitecture', 'RANK', 'SESSION_START_NS'
);
DROP TABLE meta_row;
