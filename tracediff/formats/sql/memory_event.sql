-- Memory that CUDA allocated and freed (nsys --cuda-memory-usage=true), or PyTorch's allocator (torch.profiler with profile_memory).
--   start_ns BIGINT    0 or less: before the recording began
--   pid      BIGINT
--   device   BIGINT
--   kind     VARCHAR   device, pinned, ...: the numbers are those of ENUM_CUDA_MEM_KIND; those of kineto.py for what PyTorch's allocator
--                      handed out, and what it keeps from CUDA; once more 'device, by graph capture': while a CUDA graph was captured
--   freed    BOOLEAN
--   bytes    BIGINT    0 to 2^50
CREATE TABLE memory_event AS
WITH event AS (
    SELECT start AS start_ns, globalPid >> 24 & 16777215 AS pid, coalesce(deviceId, 0) AS device,
           CASE memKind WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' WHEN 2 THEN 'device' WHEN 3 THEN 'array'
               WHEN 4 THEN 'managed' WHEN 5 THEN 'device static' WHEN 6 THEN 'managed static'
               WHEN 100 THEN 'PyTorch allocated' WHEN 101 THEN 'PyTorch reserved' ELSE 'unknown' END AS kind,
           memoryOperationType = 1 AS freed, greatest(least(coalesce(bytes, 0), 1125899906842624), 0) AS bytes
    FROM staged_CUDA_GPU_MEMORY_USAGE_EVENTS
    WHERE start IS NOT NULL AND globalPid IS NOT NULL AND memoryOperationType IN (0, 1)
), capture AS (
    SELECT pid::BIGINT AS pid, start_ns, api LIKE '%Begin%' AS begins
    FROM api_call JOIN api_name USING (name) WHERE api SIMILAR TO '(cu|cuda|hip)Stream(Begin|End)Capture.*'
)
FROM event
UNION ALL
SELECT event.* REPLACE ('device, by graph capture' AS kind)
FROM event ASOF JOIN capture ON event.pid = capture.pid AND event.start_ns >= capture.start_ns
WHERE capture.begins AND event.kind = 'device';
