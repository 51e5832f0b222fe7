-- aligned_structure: what a step of either side does, by count: what no clock and no other program on the machine can change.
--   steps     VARCHAR  as in aligned_kernel
--   what      VARCHAR  kernels, copies, memsets, launch_calls (those of graphs too), graph_launches, syncs (calls that wait for a GPU),
--                      other_calls (any other CUDA call)
--   baseline  DOUBLE   per step
--   candidate DOUBLE
--   delta     DOUBLE   candidate - baseline
WITH counted AS (
    SELECT
        steps, CASE WHEN kind <> 'memcpy' THEN 'kernels' WHEN coalesce(baseline_names[1], candidate_names[1]) = '[memset]' THEN 'memsets' ELSE 'copies' END AS what,
        CASE side WHEN 0 THEN count ELSE 0 END AS baseline, CASE side WHEN 1 THEN count ELSE 0 END AS candidate
    FROM kernel_sum JOIN kernel_row USING ("row")
    UNION ALL
    SELECT steps, CASE kind WHEN 'launch' THEN 'launch_calls' WHEN 'sync' THEN 'syncs' ELSE 'other_calls' END, baseline_calls, candidate_calls
    FROM aligned_call
    UNION ALL
    SELECT steps, 'graph_launches', baseline_calls, candidate_calls FROM aligned_call WHERE kind = 'launch' AND contains(api, 'GraphLaunch')
    UNION ALL
    -- of every kind of step, what neither side has too
    SELECT DISTINCT steps, unnest(['kernels', 'copies', 'memsets', 'launch_calls', 'graph_launches', 'syncs', 'other_calls']), 0, 0 FROM kernel_sum
)
SELECT steps, what, sum(baseline)::DOUBLE AS baseline, sum(candidate)::DOUBLE AS candidate, (sum(candidate) - sum(baseline))::DOUBLE AS delta
FROM counted
GROUP BY steps, what
ORDER BY steps, what;
