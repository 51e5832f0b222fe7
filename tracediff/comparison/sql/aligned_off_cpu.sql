-- aligned_off_cpu: thread roles on no CPU, both sides, per step. The largest change first.
--   thread          VARCHAR  role of the thread
--   baseline_count  DOUBLE   how often per step; NULL for a side that did not record them
--   baseline_ns     DOUBLE   how long per step
--   candidate_count DOUBLE   as of the baseline
--   candidate_ns    DOUBLE
WITH of_thread AS (
    SELECT
        thread, per_step(count * coalesce(share, 1) * weight, side = 0) AS b_count, per_step(ns * coalesce(share, 1) * weight, side = 0) AS b_ns,
        per_step(count * coalesce(share, 1) * weight, side = 1) AS c_count, per_step(ns * coalesce(share, 1) * weight, side = 1) AS c_ns
    FROM off_cpu
    JOIN stratum_weight USING (side, run, part, stratum)
    LEFT JOIN thread_share USING (side, run, part, stratum, thread)
    GROUP BY ALL
)
SELECT
    thread,
    CASE WHEN k.baseline THEN coalesce(b_count, 0) END AS baseline_count,
    CASE WHEN k.baseline THEN coalesce(b_ns, 0) END AS baseline_ns,
    CASE WHEN k.candidate THEN coalesce(c_count, 0) END AS candidate_count,
    CASE WHEN k.candidate THEN coalesce(c_ns, 0) END AS candidate_ns
FROM of_thread CROSS JOIN (FROM captured WHERE kind = 'context_switches') AS k
WHERE k.baseline OR k.candidate
ORDER BY
    coalesce(abs(candidate_ns - baseline_ns), 0) DESC, greatest(coalesce(baseline_ns, 0), coalesce(candidate_ns, 0)) DESC, thread;
