-- aligned_range: NVTX ranges of both sides by place, domain and thread role, per step. The largest change first.
--   place           VARCHAR  text of the range with its numbers masked
--   domain          VARCHAR  NVTX domain, empty for the default one
--   thread          VARCHAR  role of the thread
--   baseline_count  DOUBLE   ranges per step; NULL where the side has none
--   baseline_ns     DOUBLE   their length per step, with the ranges inside them
--   candidate_count DOUBLE   as of the baseline
--   candidate_ns    DOUBLE
--   delta_ns        DOUBLE   candidate - baseline; a side without the range counts 0
--   baseline_outer_ns  DOUBLE  ns in which no range of their thread that began before was open, per step
--   candidate_outer_ns DOUBLE
--   baseline_wait_ns   DOUBLE  of their length, in waits of their thread for the GIL; NULL of a side that did not trace the GIL
--   candidate_wait_ns  DOUBLE
--   baseline_call_ns   DOUBLE  in its CUDA calls, outside of those; NULL of a side that did not trace calls
--   candidate_call_ns  DOUBLE
SELECT
    place, domain, thread, per_step(count * coalesce(share, 1) * weight, side = 0) AS baseline_count,
    per_step(ns * coalesce(share, 1) * weight, side = 0) AS baseline_ns, per_step(count * coalesce(share, 1) * weight, side = 1) AS candidate_count,
    per_step(ns * coalesce(share, 1) * weight, side = 1) AS candidate_ns, coalesce(candidate_ns, 0) - coalesce(baseline_ns, 0) AS delta_ns,
    per_step(outer_ns * coalesce(share, 1) * weight, side = 0) AS baseline_outer_ns, per_step(outer_ns * coalesce(share, 1) * weight, side = 1) AS candidate_outer_ns,
    CASE WHEN any_value(g.baseline) THEN per_step(wait_ns * coalesce(share, 1) * weight, side = 0) END AS baseline_wait_ns,
    CASE WHEN any_value(g.candidate) THEN per_step(wait_ns * coalesce(share, 1) * weight, side = 1) END AS candidate_wait_ns,
    CASE WHEN any_value(c.baseline) THEN per_step(call_ns * coalesce(share, 1) * weight, side = 0) END AS baseline_call_ns,
    CASE WHEN any_value(c.candidate) THEN per_step(call_ns * coalesce(share, 1) * weight, side = 1) END AS candidate_call_ns
FROM ranges
JOIN stratum_weight USING (side, run, part, stratum)
LEFT JOIN thread_share USING (side, run, part, stratum, thread)
CROSS JOIN (FROM captured WHERE kind = 'gil') AS g
CROSS JOIN (FROM captured WHERE kind = 'cuda_api') AS c
GROUP BY place, domain, thread
ORDER BY abs(delta_ns) DESC, place, thread, domain;
