-- gap: one idle time of a GPU: no op of the process ran on the device between two that did.
--   capture         INTEGER  the export, a row of capture
--   start_ns        BIGINT   GPU time, ns from the start of the session
--   end_ns          BIGINT
--   duration_ns     BIGINT   end - start
--   pid             INTEGER  process
--   device          INTEGER
--   previous        VARCHAR  the op that ended last before it: name without template and parameters, [memcpy HtoD] and the like
--   next            VARCHAR  the op that ends it
--   thread          VARCHAR  role of the thread that launched the op which ends it; NULL where no launch was recorded
--   launch_api      VARCHAR  the function that launched it
--   launch_start_ns BIGINT   of the launching call, host time
--   launch_end_ns   BIGINT
--   step            INTEGER  step of the op which ends it, as in op; idle says by step what the time counts as
WITH reached AS (
    SELECT o.*, max(o.end_ns) OVER earlier AS idle_from, arg_max(o.kernel, (o.end_ns, o.start_ns, o.kernel)) OVER earlier AS last_kernel
    FROM {{rows}}.op AS o
    WINDOW earlier AS (
        PARTITION BY o.capture, o.pid, o.device ORDER BY o.start_ns, o.end_ns, o.kernel ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    r.capture, r.idle_from AS start_ns, r.start_ns AS end_ns, r.start_ns - r.idle_from AS duration_ns, r.pid, r.device,
    coalesce(before.short_name, before.name) AS previous, coalesce(after.short_name, after.name) AS next, t.thread, a.api AS launch_api,
    r.launch_start_ns, r.launch_end_ns, r.step
FROM reached AS r
JOIN {{side}}.kernel AS before ON before.capture = r.capture AND before.kernel = r.last_kernel
JOIN {{side}}.kernel AS after ON after.capture = r.capture AND after.kernel = r.kernel
LEFT JOIN {{rows}}.api_name AS a ON a.capture = r.capture AND a.id = r.launch_api
LEFT JOIN {{side}}.thread AS t ON t.capture = r.capture AND t.tid = r.launch_tid
WHERE r.start_ns > r.idle_from
ORDER BY r.capture, r.pid, r.device, r.start_ns;
