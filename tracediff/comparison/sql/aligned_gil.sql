-- aligned_gil: who held Python's global interpreter lock (GIL) and who waited for it, both sides by thread role and phase. The longest
-- waits first. Times are per step of all phases, so that those of the phases add up.
--   thread               VARCHAR  role of the thread
--   steps                VARCHAR  in which steps: those of this phase
--   baseline_hold_ns     DOUBLE   time it held the GIL per step; NULL, as all of a side that did not trace the GIL
--   baseline_wait_ns     DOUBLE   time it waited for the GIL per step
--   baseline_exposed_ns  DOUBLE   the part of the waits that kept a GPU idle
--   candidate_hold_ns    DOUBLE   as of the baseline
--   candidate_wait_ns    DOUBLE
--   candidate_exposed_ns DOUBLE
WITH of_thread AS (
    SELECT
        thread, coalesce(phase, '') AS phase, per_step(hold_ns * coalesce(share, 1) * weight, side = 0) AS b_hold,
        per_step(wait_ns * coalesce(share, 1) * weight, side = 0) AS b_wait, per_step(hold_ns * coalesce(share, 1) * weight, side = 1) AS c_hold,
        per_step(wait_ns * coalesce(share, 1) * weight, side = 1) AS c_wait
    FROM gil
    JOIN stratum_weight USING (side, run, part, stratum)
    LEFT JOIN strata USING (side, run, part, stratum)
    LEFT JOIN thread_share USING (side, run, part, stratum, thread)
    GROUP BY ALL
)
SELECT
    thread, phase AS steps,
    CASE WHEN k.baseline THEN coalesce(b_hold, 0) END AS baseline_hold_ns,
    CASE WHEN k.baseline THEN coalesce(b_wait, 0) END AS baseline_wait_ns,
    CASE WHEN k.baseline THEN coalesce(e.baseline_idle_ns, 0) END AS baseline_exposed_ns,
    CASE WHEN k.candidate THEN coalesce(c_hold, 0) END AS candidate_hold_ns,
    CASE WHEN k.candidate THEN coalesce(c_wait, 0) END AS candidate_wait_ns,
    CASE WHEN k.candidate THEN coalesce(e.candidate_idle_ns, 0) END AS candidate_exposed_ns
FROM of_thread LEFT JOIN gil_exposed AS e USING (thread, phase) CROSS JOIN (FROM captured WHERE kind = 'gil') AS k
ORDER BY greatest(coalesce(baseline_wait_ns, 0), coalesce(candidate_wait_ns, 0)) DESC, thread, steps;
