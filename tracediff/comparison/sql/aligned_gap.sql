-- aligned_gap: idle GPU time of both sides by cause, place and the ops around it, per step. The largest change first.
--   cause                              VARCHAR  as in idle; where one side lacks the GIL's trace, what it would be without on both
--   thread                             VARCHAR  role of the thread that launched the op which ended the gap
--   place                              VARCHAR  its innermost range with numbers masked, or between which ranges it was
--   previous, next                     VARCHAR  the op before the gap and the op that ended it
--   baseline_count                     DOUBLE   pieces of gaps per step; NULL where the side has none
--   baseline_ns                        DOUBLE   their length per step
--   baseline_p50_ns, baseline_p99_ns   DOUBLE   of one piece: quantiles of runs and workloads, averaged with their pieces as weights
--   candidate_count, candidate_ns      DOUBLE   as of the baseline
--   candidate_p50_ns, candidate_p99_ns DOUBLE
--   delta_ns                           DOUBLE   candidate - baseline; a side without the gap counts 0
SELECT
    CASE WHEN with_gil THEN cause ELSE under END AS cause, thread, place, previous, next, per_step(count * weight, side = 0) AS baseline_count,
    per_step(ns * weight, side = 0) AS baseline_ns, per_step(p50_ns * count * weight, side = 0) / baseline_count AS baseline_p50_ns,
    per_step(p99_ns * count * weight, side = 0) / baseline_count AS baseline_p99_ns, per_step(count * weight, side = 1) AS candidate_count,
    per_step(ns * weight, side = 1) AS candidate_ns, per_step(p50_ns * count * weight, side = 1) / candidate_count AS candidate_p50_ns,
    per_step(p99_ns * count * weight, side = 1) / candidate_count AS candidate_p99_ns,
    coalesce(candidate_ns, 0) - coalesce(baseline_ns, 0) AS delta_ns
FROM gaps JOIN stratum_weight USING (side, run, part, stratum) CROSS JOIN setting
GROUP BY ALL
ORDER BY abs(delta_ns) DESC, cause, thread, place, previous, next;
