-- aligned_copy: copies and memsets of both sides by kind, per step. The largest change of each kind of step first.
--   steps             VARCHAR  as in aligned_kernel
--   name              VARCHAR  [memcpy HtoD] and the like, [memset]
--   baseline_count    DOUBLE   per step
--   baseline_wall_ns  DOUBLE   their length per step; NULL of typical steps
--   candidate_count   DOUBLE   as of the baseline
--   candidate_wall_ns DOUBLE
--   delta_ns          DOUBLE   candidate - baseline, of the length
WITH copied AS (
    SELECT
        steps, coalesce(baseline_names[1], candidate_names[1]) AS name, sum(baseline_count) AS baseline_count,
        sum(baseline_wall_ns) AS baseline_wall_ns, sum(candidate_count) AS candidate_count, sum(candidate_wall_ns) AS candidate_wall_ns
    FROM aligned_kernel WHERE kind = 'memcpy'
    GROUP BY ALL
)
SELECT *, candidate_wall_ns - baseline_wall_ns AS delta_ns
FROM copied
ORDER BY steps, coalesce(abs(delta_ns), 0) DESC, name;
