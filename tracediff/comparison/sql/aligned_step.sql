-- aligned_step: whole steps of both sides by workload class: the phase that their label says, or the class of what they launch.
--   phase                                             VARCHAR   context, generation, mixed; step, step-with-KERNEL, ...
--   baseline_steps                                    BIGINT    how many; NULL, as all of a side that has none
--   baseline_mean_ns                                  DOUBLE    of all of them, whatever they count for
--   baseline_p50_ns, baseline_p90_ns, baseline_p99_ns DOUBLE
--   baseline_run_means_ns                             DOUBLE[]  of each run that has such steps
--   candidate_steps                                   BIGINT    as of the baseline
--   candidate_mean_ns                                 DOUBLE
--   candidate_p50_ns, candidate_p90_ns, candidate_p99_ns DOUBLE
--   candidate_run_means_ns                            DOUBLE[]
--   delta_mean_ns, delta_p50_ns, delta_p99_ns         DOUBLE    candidate - baseline; NULL where one side has none
WITH run_mean AS (
    SELECT phase, side, run, avg(ns) AS ns FROM step GROUP BY phase, side, run
), means AS (
    SELECT
        phase, list(ns ORDER BY run) FILTER (side = 0) AS baseline_run_means_ns,
        list(ns ORDER BY run) FILTER (side = 1) AS candidate_run_means_ns
    FROM run_mean GROUP BY phase
), times AS (
    SELECT
        phase, nullif(count(*) FILTER (side = 0), 0) AS baseline_steps, avg(ns) FILTER (side = 0) AS baseline_mean_ns,
        quantile_cont(ns, 0.5) FILTER (side = 0) AS baseline_p50_ns, quantile_cont(ns, 0.9) FILTER (side = 0) AS baseline_p90_ns,
        quantile_cont(ns, 0.99) FILTER (side = 0) AS baseline_p99_ns, nullif(count(*) FILTER (side = 1), 0) AS candidate_steps,
        avg(ns) FILTER (side = 1) AS candidate_mean_ns, quantile_cont(ns, 0.5) FILTER (side = 1) AS candidate_p50_ns,
        quantile_cont(ns, 0.9) FILTER (side = 1) AS candidate_p90_ns, quantile_cont(ns, 0.99) FILTER (side = 1) AS candidate_p99_ns
    FROM step GROUP BY phase
)
SELECT
    phase, baseline_steps, baseline_mean_ns, baseline_p50_ns, baseline_p90_ns, baseline_p99_ns, baseline_run_means_ns, candidate_steps,
    candidate_mean_ns, candidate_p50_ns, candidate_p90_ns, candidate_p99_ns, candidate_run_means_ns,
    candidate_mean_ns - baseline_mean_ns AS delta_mean_ns, candidate_p50_ns - baseline_p50_ns AS delta_p50_ns,
    candidate_p99_ns - baseline_p99_ns AS delta_p99_ns
FROM times JOIN means USING (phase)
ORDER BY phase;
