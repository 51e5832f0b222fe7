-- aligned_call: CUDA calls of both sides by function, per step. The largest change of each kind of step first.
--   steps           VARCHAR  as in aligned_kernel
--   api             VARCHAR  function without the version suffix: cudaLaunchKernel
--   kind            VARCHAR  launch: puts work on a GPU; sync: waits for a GPU; other
--   baseline_calls  DOUBLE   calls per step
--   baseline_ns     DOUBLE   host time inside them per step
--   candidate_calls DOUBLE   as of the baseline
--   candidate_ns    DOUBLE
--   delta_ns        DOUBLE   candidate - baseline
SELECT
    steps, api, kind, coalesce(per_step(count * weight, side = 0), 0) AS baseline_calls, coalesce(per_step(ns * weight, side = 0), 0) AS baseline_ns,
    coalesce(per_step(count * weight, side = 1), 0) AS candidate_calls, coalesce(per_step(ns * weight, side = 1), 0) AS candidate_ns,
    candidate_ns - baseline_ns AS delta_ns
FROM apis JOIN step_weight USING (side, run, part, period)
GROUP BY steps, api, kind
ORDER BY steps, abs(delta_ns) DESC, api, kind;
