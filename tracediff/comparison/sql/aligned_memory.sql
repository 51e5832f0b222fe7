-- aligned_memory: memory that CUDA allocated and freed, both sides by kind.
--   kind                                       VARCHAR  device, pinned, managed, ...
--   baseline_allocations, baseline_bytes       DOUBLE   allocated per step; NULL, as all of a side that did not record it
--   baseline_frees, baseline_freed_bytes       DOUBLE   freed per step
--   baseline_peak_bytes                        BIGINT   the most that one process had on one device at once within the steps
--   baseline_steady_bytes                      BIGINT   the least: what stayed
--   candidate_allocations, candidate_bytes     DOUBLE   as of the baseline
--   candidate_frees, candidate_freed_bytes     DOUBLE
--   candidate_peak_bytes                       BIGINT
--   candidate_steady_bytes                     BIGINT
WITH every AS (
    SELECT side, kind, allocations * weight AS allocations, bytes * weight AS bytes, frees * weight AS frees,
        freed_bytes * weight AS freed_bytes, NULL AS peak_bytes, NULL AS least
    FROM memory JOIN stratum_weight USING (side, run, part, stratum)
    UNION ALL
    SELECT side, kind, 0, 0, 0, 0, bytes, least FROM memory_peaks
), of_kind AS (
    SELECT
        kind, per_step(allocations, side = 0) AS b_allocations, per_step(bytes, side = 0) AS b_bytes, per_step(frees, side = 0) AS b_frees,
        per_step(freed_bytes, side = 0) AS b_freed, max(peak_bytes) FILTER (side = 0) AS b_peak, max(least) FILTER (side = 0) AS b_least, per_step(allocations, side = 1) AS c_allocations,
        per_step(bytes, side = 1) AS c_bytes, per_step(frees, side = 1) AS c_frees, per_step(freed_bytes, side = 1) AS c_freed,
        max(peak_bytes) FILTER (side = 1) AS c_peak, max(least) FILTER (side = 1) AS c_least
    FROM every GROUP BY kind
)
SELECT
    of_kind.kind,
    CASE WHEN k.baseline THEN coalesce(b_allocations, 0) END AS baseline_allocations,
    CASE WHEN k.baseline THEN coalesce(b_bytes, 0) END AS baseline_bytes,
    CASE WHEN k.baseline THEN coalesce(b_frees, 0) END AS baseline_frees,
    CASE WHEN k.baseline THEN coalesce(b_freed, 0) END AS baseline_freed_bytes,
    CASE WHEN k.baseline THEN coalesce(b_peak, 0) END::BIGINT AS baseline_peak_bytes,
    CASE WHEN k.baseline THEN coalesce(b_least, 0) END::BIGINT AS baseline_steady_bytes,
    CASE WHEN k.candidate THEN coalesce(c_allocations, 0) END AS candidate_allocations,
    CASE WHEN k.candidate THEN coalesce(c_bytes, 0) END AS candidate_bytes,
    CASE WHEN k.candidate THEN coalesce(c_frees, 0) END AS candidate_frees,
    CASE WHEN k.candidate THEN coalesce(c_freed, 0) END AS candidate_freed_bytes,
    CASE WHEN k.candidate THEN coalesce(c_peak, 0) END::BIGINT AS candidate_peak_bytes,
    CASE WHEN k.candidate THEN coalesce(c_least, 0) END::BIGINT AS candidate_steady_bytes
FROM of_kind CROSS JOIN (FROM captured WHERE kind = 'gpu_memory') AS k
ORDER BY of_kind.kind;
