-- aligned_payload: numbers that NVTX ranges carried, both sides by place, domain and thread role. The mean that changed most, as a part of
-- it, first.
--   place                          VARCHAR  text of the range with its numbers masked
--   domain                         VARCHAR  NVTX domain, empty for the default one
--   thread                         VARCHAR  role of the thread
--   baseline_count                 DOUBLE   numbers per step; NULL, as all of a side without them
--   baseline_sum                   DOUBLE   their sum per step
--   baseline_mean                  DOUBLE   of one
--   baseline_low, baseline_high    DOUBLE   the least and the most of the compared steps
--   candidate_count, candidate_sum DOUBLE   as of the baseline
--   candidate_mean                 DOUBLE
--   candidate_low, candidate_high  DOUBLE
--   delta_mean                     DOUBLE   candidate - baseline; NULL where one side has none
WITH carried AS (
    SELECT
        place, domain, thread, nullif(per_step(count * coalesce(share, 1) * weight, side = 0), 0) AS baseline_count,
        per_step(sum * coalesce(share, 1) * weight, side = 0) AS baseline_sum, min(low) FILTER (side = 0)::DOUBLE AS baseline_low,
        max(high) FILTER (side = 0)::DOUBLE AS baseline_high, nullif(per_step(count * coalesce(share, 1) * weight, side = 1), 0) AS candidate_count,
        per_step(sum * coalesce(share, 1) * weight, side = 1) AS candidate_sum, min(low) FILTER (side = 1)::DOUBLE AS candidate_low,
        max(high) FILTER (side = 1)::DOUBLE AS candidate_high
    FROM payloads
    JOIN stratum_weight USING (side, run, part, stratum)
    LEFT JOIN thread_share USING (side, run, part, stratum, thread)
    GROUP BY ALL
)
SELECT
    place, domain, thread, baseline_count, baseline_sum,
    least(greatest(baseline_sum / baseline_count, baseline_low), baseline_high) AS baseline_mean, baseline_low, baseline_high,
    candidate_count, candidate_sum, least(greatest(candidate_sum / candidate_count, candidate_low), candidate_high) AS candidate_mean,
    candidate_low, candidate_high, candidate_mean - baseline_mean AS delta_mean
FROM carried
ORDER BY
    coalesce(abs(delta_mean) / coalesce(nullif(greatest(abs(baseline_mean), abs(candidate_mean)), 0), 1), 0) DESC, place, domain, thread;
