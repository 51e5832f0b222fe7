-- aligned_host_work: idle GPU time by host work, of both sides, told apart by what the launching thread's system recorded, per step. The
-- largest change first.
--   thread               VARCHAR  role of the launching thread
--   place                VARCHAR  its innermost range with numbers masked
--   kind                 VARCHAR  mpi_call, os_call (in none of MPI), off_cpu (in no recorded call), rest
--   call                 VARCHAR  of mpi_call and os_call; else empty
--   baseline_ns          DOUBLE   per step; NULL for a side that did not record what tells this kind
--   baseline_off_cpu_ns  DOUBLE   the part of it on no CPU; NULL without context switches
--   candidate_ns         DOUBLE   as of the baseline
--   candidate_off_cpu_ns DOUBLE
WITH work AS (
    SELECT
        thread, place,
        CASE WHEN mpi THEN 'mpi_call' WHEN call <> '' THEN 'os_call' WHEN off_cpu THEN 'off_cpu' ELSE 'rest' END AS kind, call,
        per_step(ns * weight, side = 0) AS b_ns, per_step(CASE WHEN off_cpu THEN ns ELSE 0 END * weight, side = 0) AS b_off, per_step(ns * weight, side = 1) AS c_ns,
        per_step(CASE WHEN off_cpu THEN ns ELSE 0 END * weight, side = 1) AS c_off
    FROM host_work JOIN stratum_weight USING (side, run, part, stratum) CROSS JOIN setting
    WHERE NOT (with_gil AND gil)  -- a wait for the GIL is no host work where it is known
    GROUP BY ALL
), recorded AS (
    FROM captured WHERE kind IN ('mpi', 'os_calls', 'context_switches')
), told AS (
    SELECT CASE kind WHEN 'mpi' THEN 'mpi_call' WHEN 'os_calls' THEN 'os_call' ELSE 'off_cpu' END AS kind, baseline, candidate FROM recorded
    UNION ALL
    SELECT 'rest', bool_or(baseline), bool_or(candidate) FROM recorded
), switched AS (
    SELECT baseline AS b_switched, candidate AS c_switched FROM captured WHERE kind = 'context_switches'
)
SELECT
    thread, place, kind, call,
    CASE WHEN baseline THEN coalesce(b_ns, 0) END AS baseline_ns,
    CASE WHEN baseline AND b_switched THEN coalesce(b_off, 0) END AS baseline_off_cpu_ns,
    CASE WHEN candidate THEN coalesce(c_ns, 0) END AS candidate_ns,
    CASE WHEN candidate AND c_switched THEN coalesce(c_off, 0) END AS candidate_off_cpu_ns
FROM work JOIN told USING (kind) CROSS JOIN switched
ORDER BY
    coalesce(abs(candidate_ns - baseline_ns), 0) DESC, greatest(coalesce(baseline_ns, 0), coalesce(candidate_ns, 0)) DESC, thread, place,
    kind, call;
