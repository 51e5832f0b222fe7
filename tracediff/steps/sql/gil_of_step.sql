-- Holds of and waits for the GIL that touch a sampled period of their process.
--   period           BIGINT   row of the table of periods
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   waiting          BOOLEAN
SELECT k.period, g.start_ns, g.end_ns, g.tid, g.waiting
FROM gil AS g
JOIN sampled_period AS k ON g.start_ns < k.stop_ns AND g.end_ns > k.begin_ns
WHERE g.tid IS NOT NULL AND (g.tid >> 24 & 16777215) = k.pid
ORDER BY k.period, g.start_ns, g.end_ns, g.tid, g.waiting;
