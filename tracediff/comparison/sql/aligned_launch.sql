-- aligned_launch: launching calls of both sides and how long their first op waited, and copies, per step: a row for each kind of step.
--   steps                                             VARCHAR as in aligned_kernel
--   baseline_calls, candidate_calls                   DOUBLE  launching calls per step
--   baseline_graph_launches, candidate_graph_launches DOUBLE  those of CUDA graphs
--   baseline_kernels, candidate_kernels               DOUBLE  kernels per step
--   baseline_graph_kernels, candidate_graph_kernels   DOUBLE  those of CUDA graphs
--   baseline_copies, candidate_copies                 DOUBLE  copies per step, without memsets
--   baseline_copied_bytes, candidate_copied_bytes     DOUBLE  NULL where those of some copies were not recorded
--   baseline_delay_mean_ns, candidate_delay_mean_ns   DOUBLE  return of a call -> start of its first op; below 0 where the op began first
--   baseline_delay_p50_ns, candidate_delay_p50_ns     DOUBLE  quantiles of runs and workloads, averaged with their calls as weights
--   baseline_delay_p99_ns, candidate_delay_p99_ns     DOUBLE
WITH copied AS (
    SELECT
        steps, coalesce(per_step(count * weight, side = 0), 0) AS baseline_copies, coalesce(per_step(count * weight, side = 1), 0) AS candidate_copies,
        CASE WHEN bool_or(side = 0 AND bytes = 0) THEN NULL ELSE coalesce(per_step(bytes * weight, side = 0), 0) END AS baseline_copied_bytes,
        CASE WHEN bool_or(side = 1 AND bytes = 0) THEN NULL ELSE coalesce(per_step(bytes * weight, side = 1), 0) END AS candidate_copied_bytes
    FROM copies JOIN step_weight USING (side, run, part, period)
    WHERE name <> '[memset]'
    GROUP BY steps
)
SELECT
    steps, coalesce(per_step(calls * weight, side = 0), 0) AS baseline_calls, coalesce(per_step(calls * weight, side = 1), 0) AS candidate_calls,
    coalesce(per_step(graph_launches * weight, side = 0), 0) AS baseline_graph_launches,
    coalesce(per_step(graph_launches * weight, side = 1), 0) AS candidate_graph_launches,
    coalesce(per_step(kernels * weight, side = 0), 0) AS baseline_kernels, coalesce(per_step(kernels * weight, side = 1), 0) AS candidate_kernels,
    coalesce(per_step(graph_kernels * weight, side = 0), 0) AS baseline_graph_kernels,
    coalesce(per_step(graph_kernels * weight, side = 1), 0) AS candidate_graph_kernels,
    coalesce(any_value(copied.baseline_copies), 0) AS baseline_copies, coalesce(any_value(copied.candidate_copies), 0) AS candidate_copies,
    CASE WHEN bool_or(copied.baseline_copies IS NULL) THEN 0 ELSE any_value(copied.baseline_copied_bytes) END AS baseline_copied_bytes,
    CASE WHEN bool_or(copied.candidate_copies IS NULL) THEN 0 ELSE any_value(copied.candidate_copied_bytes) END AS candidate_copied_bytes,
    coalesce(per_step(delay_mean_ns * calls * weight, side = 0) / nullif(baseline_calls, 0), 0) AS baseline_delay_mean_ns,
    coalesce(per_step(delay_mean_ns * calls * weight, side = 1) / nullif(candidate_calls, 0), 0) AS candidate_delay_mean_ns,
    coalesce(per_step(delay_p50_ns * calls * weight, side = 0) / nullif(baseline_calls, 0), 0) AS baseline_delay_p50_ns,
    coalesce(per_step(delay_p50_ns * calls * weight, side = 1) / nullif(candidate_calls, 0), 0) AS candidate_delay_p50_ns,
    coalesce(per_step(delay_p99_ns * calls * weight, side = 0) / nullif(baseline_calls, 0), 0) AS baseline_delay_p99_ns,
    coalesce(per_step(delay_p99_ns * calls * weight, side = 1) / nullif(candidate_calls, 0), 0) AS candidate_delay_p99_ns
FROM launch_weight LEFT JOIN launch USING (side, run, part, stratum) LEFT JOIN copied USING (steps)
GROUP BY steps
ORDER BY steps;
