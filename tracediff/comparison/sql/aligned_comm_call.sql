-- aligned_comm_call: calls into libraries of communication, both sides by library, thread role and function, per step. The largest change first.
--   library                  VARCHAR  MPI, NCCL
--   thread                   VARCHAR  role of the thread
--   call                     VARCHAR
--   baseline_count           DOUBLE   outermost calls per step; NULL for a side that did not record them
--   baseline_ns              DOUBLE   their length per step
--   baseline_bytes           DOUBLE   as the capture counts them, per step; NULL where it does not hold them
--   baseline_bytes_per_call  DOUBLE   mean of the calls whose bytes are known
--   candidate_count          DOUBLE   as of the baseline
--   candidate_ns             DOUBLE
--   candidate_bytes          DOUBLE
--   candidate_bytes_per_call DOUBLE
WITH of_thread AS (
    SELECT
        library, thread, call, per_step(count * coalesce(share, 1) * weight, side = 0) AS b_count,
        per_step(ns * coalesce(share, 1) * weight, side = 0) AS b_ns, nullif(per_step(sized * coalesce(share, 1) * weight, side = 0), 0) AS b_sized,
        per_step(bytes * coalesce(share, 1) * weight, side = 0) AS b_bytes, per_step(count * coalesce(share, 1) * weight, side = 1) AS c_count,
        per_step(ns * coalesce(share, 1) * weight, side = 1) AS c_ns, nullif(per_step(sized * coalesce(share, 1) * weight, side = 1), 0) AS c_sized,
        per_step(bytes * coalesce(share, 1) * weight, side = 1) AS c_bytes
    FROM comm_calls
    JOIN stratum_weight USING (side, run, part, stratum)
    LEFT JOIN thread_share USING (side, run, part, stratum, thread)
    GROUP BY ALL
)
SELECT
    library, thread, call,
    CASE WHEN k.baseline THEN coalesce(b_count, 0) END AS baseline_count,
    CASE WHEN k.baseline THEN coalesce(b_ns, 0) END AS baseline_ns,
    CASE WHEN b_sized > 0 THEN round(b_bytes, 3) END AS baseline_bytes, round(b_bytes / b_sized, 3) AS baseline_bytes_per_call,
    CASE WHEN k.candidate THEN coalesce(c_count, 0) END AS candidate_count,
    CASE WHEN k.candidate THEN coalesce(c_ns, 0) END AS candidate_ns,
    CASE WHEN c_sized > 0 THEN round(c_bytes, 3) END AS candidate_bytes, round(c_bytes / c_sized, 3) AS candidate_bytes_per_call
FROM of_thread JOIN captured AS k ON k.kind = lower(library)
ORDER BY
    coalesce(abs(candidate_ns - baseline_ns), 0) DESC, greatest(coalesce(baseline_ns, 0), coalesce(candidate_ns, 0)) DESC, library, thread, call;
