-- The CUDA calls of one thread (parameter: its global id), in order, and what each does to the thread.
--   start_ns, end_ns BIGINT
--   name             INTEGER  id in api_name
--   class            VARCHAR  launch, sync, other
SELECT
    a.start_ns, a.end_ns, a.name,
    CASE
        -- a call that put work on a GPU launched it, whatever its name
        WHEN api_name.class = 'other' AND launch.corr IS NOT NULL THEN 'launch'
        -- a copy from the device to pageable memory returns when the copy is done: it waits for the GPU
        WHEN api_name.class = 'launch' AND blocking.corr IS NOT NULL THEN 'sync'
        ELSE api_name.class
    END AS class
FROM api_call AS a
JOIN api_name ON api_name.name = a.name
LEFT JOIN launch ON launch.pid = a.pid AND launch.corr = a.corr
LEFT JOIN (SELECT DISTINCT pid, corr FROM op WHERE pageable_dtoh) AS blocking
    ON blocking.pid = a.pid AND blocking.corr = a.corr
WHERE a.tid = ?
ORDER BY a.start_ns, a.end_ns DESC, a.name;
