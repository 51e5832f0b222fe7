-- Garbage collections that touch a sampled period of their process.
--   period           BIGINT   row of the table of periods
--   tid              BIGINT
--   start_ns, end_ns BIGINT
--   generation       VARCHAR
SELECT k.period, g.tid, g.start_ns, g.end_ns, g.generation
FROM gc AS g
JOIN sampled_period AS k ON g.start_ns < k.stop_ns AND g.end_ns > k.begin_ns
WHERE g.tid IS NOT NULL AND (g.tid >> 24 & 16777215) = k.pid
ORDER BY k.period, g.start_ns, g.end_ns, g.tid, g.generation;
