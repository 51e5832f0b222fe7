-- aligned_gc: pauses of Python's garbage collector, both sides by thread role and generation, per step. The longest first.
--   thread               VARCHAR  role of the thread
--   generation           VARCHAR  0, 1, 2; ? where the range does not say
--   baseline_count       DOUBLE   collections per step; NULL, as all of a side where none was recorded
--   baseline_ns          DOUBLE   their length per step
--   baseline_exposed_ns  DOUBLE   the part that kept a GPU idle: known of the thread, shared out among generations by their length
--   candidate_count      DOUBLE   as of the baseline
--   candidate_ns         DOUBLE
--   candidate_exposed_ns DOUBLE
WITH of_generation AS (
    SELECT
        thread, generation, per_step(count * coalesce(share, 1) * weight, side = 0) AS b_count, per_step(ns * coalesce(share, 1) * weight, side = 0) AS b_ns,
        per_step(count * coalesce(share, 1) * weight, side = 1) AS c_count, per_step(ns * coalesce(share, 1) * weight, side = 1) AS c_ns
    FROM gc
    JOIN stratum_weight USING (side, run, part, stratum)
    LEFT JOIN thread_share USING (side, run, part, stratum, thread)
    GROUP BY ALL
), shared_out AS (
    SELECT
        *, b_ns / nullif(sum(b_ns) OVER of_thread, 0) AS b_part, c_ns / nullif(sum(c_ns) OVER of_thread, 0) AS c_part
    FROM of_generation WINDOW of_thread AS (PARTITION BY thread)
)
SELECT
    thread, generation,
    CASE WHEN k.baseline THEN coalesce(b_count, 0) END AS baseline_count,
    CASE WHEN k.baseline THEN coalesce(b_ns, 0) END AS baseline_ns,
    CASE WHEN k.baseline THEN coalesce(e.baseline_idle_ns * b_part, 0) END AS baseline_exposed_ns,
    CASE WHEN k.candidate THEN coalesce(c_count, 0) END AS candidate_count,
    CASE WHEN k.candidate THEN coalesce(c_ns, 0) END AS candidate_ns,
    CASE WHEN k.candidate THEN coalesce(e.candidate_idle_ns * c_part, 0) END AS candidate_exposed_ns
FROM shared_out LEFT JOIN gc_exposed AS e USING (thread) CROSS JOIN (FROM captured WHERE kind = 'gc') AS k
ORDER BY greatest(coalesce(baseline_ns, 0), coalesce(candidate_ns, 0)) DESC, thread, generation;
