-- Memory that CUDA allocated and freed (nsys --cuda-memory-usage=true).
--   start_ns BIGINT    0 or less: before the recording began
--   pid      BIGINT
--   device   BIGINT
--   kind     VARCHAR   device, pinned, ...; the numbers are those of ENUM_CUDA_MEM_KIND
--   freed    BOOLEAN
--   bytes    BIGINT    0 to 2^50
CREATE TABLE memory_event AS
SELECT start AS start_ns, globalPid >> 24 & 16777215 AS pid, coalesce(deviceId, 0) AS device,
       CASE memKind WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' WHEN 2 THEN 'device' WHEN 3 THEN 'array'
           WHEN 4 THEN 'managed' WHEN 5 THEN 'device static' WHEN 6 THEN 'managed static' ELSE 'unknown' END AS kind,
       memoryOperationType = 1 AS freed, greatest(least(coalesce(bytes, 0), 1125899906842624), 0) AS bytes
FROM staged_CUDA_GPU_MEMORY_USAGE_EVENTS
WHERE start IS NOT NULL AND globalPid IS NOT NULL AND memoryOperationType IN (0, 1);
