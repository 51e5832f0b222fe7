-- aligned_idle: idle GPU time of both sides as causes name it, per step. The largest change of each kind of step first.
--   steps               VARCHAR  as in aligned_kernel
--   cause               VARCHAR  as in idle; where one side lacks the GIL's trace, what it would be without on both
--   thread              VARCHAR  role of the thread that launched the op which ended the gap
--   place               VARCHAR  its innermost range with numbers masked, or between which ranges it was
--   holder              VARCHAR  role of the thread that held the GIL; '' of any other cause
--   holder_place        VARCHAR  the innermost range of that thread
--   copies              BOOLEAN  whether a launching call was one that copies
--   baseline_pieces     DOUBLE   gaps per step; 0 where the side has none
--   baseline_ns         DOUBLE   their length per step
--   candidate_pieces    DOUBLE   as of the baseline
--   candidate_ns        DOUBLE
--   delta_ns            DOUBLE   candidate - baseline
SELECT
    steps, cause, thread, place, holder, holder_place, copy AS copies, coalesce(per_step(count * weight, side = 0), 0) AS baseline_pieces,
    coalesce(per_step(ns * weight, side = 0), 0) AS baseline_ns, coalesce(per_step(count * weight, side = 1), 0) AS candidate_pieces,
    coalesce(per_step(ns * weight, side = 1), 0) AS candidate_ns, candidate_ns - baseline_ns AS delta_ns
FROM idle_part JOIN step_weight USING (side, run, part, period)
GROUP BY ALL
ORDER BY steps, abs(delta_ns) DESC, cause, thread, place, holder, holder_place, copies;
