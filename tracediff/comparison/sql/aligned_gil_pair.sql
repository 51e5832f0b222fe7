-- aligned_gil_pair: who waited for the GIL while whom held it, both sides, per step. The longest first.
--   waiter       VARCHAR  role of the thread that waited
--   holder       VARCHAR  role of the thread that held the GIL
--   holder_place VARCHAR  the holder's innermost range with numbers masked
--   baseline_ns  DOUBLE   per step; NULL for a side that did not trace the GIL
--   candidate_ns DOUBLE
WITH pair AS (
    SELECT
        waiter, holder, holder_place, per_step(ns * coalesce(share, 1) * weight, side = 0) AS b, per_step(ns * coalesce(share, 1) * weight, side = 1) AS c
    FROM gil_pairs AS p
    JOIN stratum_weight USING (side, run, part, stratum)
    LEFT JOIN thread_share AS t
        ON t.side = p.side AND t.run = p.run AND t.part = p.part AND t.stratum = p.stratum AND t.thread = p.waiter
    GROUP BY ALL
)
SELECT
    waiter, holder, holder_place, CASE WHEN k.baseline THEN coalesce(b, 0) END AS baseline_ns,
    CASE WHEN k.candidate THEN coalesce(c, 0) END AS candidate_ns
FROM pair CROSS JOIN (FROM captured WHERE kind = 'gil') AS k
ORDER BY greatest(coalesce(baseline_ns, 0), coalesce(candidate_ns, 0)) DESC, waiter, holder, holder_place;
