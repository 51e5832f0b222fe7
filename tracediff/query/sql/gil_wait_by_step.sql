-- gil_wait_by_step: waits for the GIL that began in the host window of each whole step, and what of them the GPU was
-- idle for. Empty where the GIL was not traced (see capture.gil).
--   capture    INTEGER  the export, a row of capture
--   run        INTEGER  as in capture
--   rank       INTEGER  as in period: whose step it is; threads of processes without steps count for the first rank
--   step       INTEGER  as in step
--   phase      VARCHAR  as in period
--   thread     VARCHAR  role of the waiting thread
--   waits      BIGINT   how many
--   wait_ns    BIGINT   their length
--   exposed_ns BIGINT   idle time that waits of this thread are the cause of, in the period of the step: as in idle
WITH waited AS (
    SELECT g.capture, h.run, h."rank", g.step, h.phase, t.thread, count(*) AS waits, sum(g.duration_ns)::BIGINT AS wait_ns
    FROM {{side}}.gil AS g
    JOIN {{rows}}.host_step AS h ON h.capture = g.capture AND h.pid = g.pid AND h.step = g.step
    JOIN {{side}}.thread AS t ON t.capture = g.capture AND t.tid = g.tid
    WHERE g.waiting
    GROUP BY ALL
), exposed AS (
    SELECT capture, run, "rank", step, phase, thread, sum(idle_ns)::BIGINT AS exposed_ns
    FROM {{side}}.idle WHERE cause = 'gil_wait' GROUP BY ALL
)
-- an idle period's wait may have begun in the host window of another step
SELECT
    capture, run, "rank", step, phase, thread, coalesce(waits, 0) AS waits, coalesce(wait_ns, 0) AS wait_ns,
    coalesce(exposed_ns, 0) AS exposed_ns
FROM waited FULL JOIN exposed USING (capture, run, "rank", step, phase, thread)
ORDER BY capture, "rank", step, wait_ns DESC, thread;
