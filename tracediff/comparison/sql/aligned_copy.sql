-- aligned_copy: copies and memsets of both sides by kind, per step. The largest change of each kind of step first.
--   steps             VARCHAR  as in aligned_kernel
--   name              VARCHAR  [memcpy HtoD] and the like, [memset]
--   baseline_count    DOUBLE   per step
--   baseline_wall_ns  DOUBLE   their length per step
--   baseline_bytes    DOUBLE   what they copied or set per step
--   baseline_memory   VARCHAR  kinds of the host memory that they read or wrote: pageable, pinned, ...; empty where there is none, or none
--                              recorded
--   candidate_count   DOUBLE   as of the baseline
--   candidate_wall_ns DOUBLE
--   candidate_bytes   DOUBLE
--   candidate_memory  VARCHAR
--   delta_ns          DOUBLE   candidate - baseline, of the length
WITH row_of_name AS (
    SELECT
        steps, coalesce(baseline_names[1], candidate_names[1]) AS name, sum(baseline_count) AS baseline_count,
        sum(baseline_wall_ns) AS baseline_wall_ns, sum(candidate_count) AS candidate_count, sum(candidate_wall_ns) AS candidate_wall_ns
    FROM aligned_kernel WHERE kind = 'memcpy'
    GROUP BY ALL
), moved AS (
    SELECT
        steps, name, coalesce(per_step(bytes * weight, side = 0), 0) AS baseline_bytes, coalesce(per_step(bytes * weight, side = 1), 0) AS candidate_bytes,
        coalesce(string_agg(DISTINCT nullif(memory, ''), ', ' ORDER BY nullif(memory, '')) FILTER (side = 0), '') AS baseline_memory,
        coalesce(string_agg(DISTINCT nullif(memory, ''), ', ' ORDER BY nullif(memory, '')) FILTER (side = 1), '') AS candidate_memory
    FROM copies JOIN step_weight USING (side, run, part, period)
    GROUP BY steps, name
)
SELECT
    steps, name, baseline_count, baseline_wall_ns, baseline_bytes, baseline_memory, candidate_count, candidate_wall_ns, candidate_bytes,
    candidate_memory, candidate_wall_ns - baseline_wall_ns AS delta_ns
FROM row_of_name LEFT JOIN moved USING (steps, name)
ORDER BY steps, abs(delta_ns) DESC, name;
