-- aligned_kernel: kernels, copies and memsets of both sides, per step; every op is in one row. The largest change of each kind of step first.
--   steps             VARCHAR    which steps: '' the mean of all compared ones, 'generation' that of this phase, 'generation, typical' its
--                                typical ones
--   row               BIGINT     number of the row
--   kind              VARCHAR    compute, comm, memcpy: what its time counts as
--   match             VARCHAR    exact, name, template, fused (several ops into one), split (one into several), sequence (only the place
--                                is the same), added, removed
--   confidence        DOUBLE     of the match, 0 to 1
--   same_ops          BOOLEAN    both sides have the same ops, by name, grid and block; NULL where one side has none
--   same_name         BOOLEAN    both sides have the same names
--   same_template     BOOLEAN    both sides have the same names without what a compiler chooses
--   changed_with      BIGINT     rows that changed between the same two unchanged ops share a number; -1: unchanged, or alone
--   baseline_names    VARCHAR[]  demangled, the most used first; [memcpy HtoD] and the like for copies
--   candidate_names   VARCHAR[]
--   baseline_count    DOUBLE     ops per step
--   baseline_wall_ns  DOUBLE     their length per step, overlaps not shared out
--   baseline_ns       DOUBLE     their part of the step: the rows add up to its busy time
--   candidate_count   DOUBLE     as of the baseline
--   candidate_wall_ns DOUBLE
--   candidate_ns      DOUBLE
--   delta_ns          DOUBLE     candidate - baseline
WITH per_row AS (
    SELECT
        steps, "row", sum(count) FILTER (side = 0) AS baseline_count, sum(wall_ns) FILTER (side = 0) AS baseline_wall_ns,
        sum(share_ns) FILTER (side = 0) AS baseline_ns, sum(count) FILTER (side = 1) AS candidate_count,
        sum(wall_ns) FILTER (side = 1) AS candidate_wall_ns, sum(share_ns) FILTER (side = 1) AS candidate_ns
    FROM kernel_sum GROUP BY steps, "row"
)
SELECT
    steps, s.row, r.kind, m.match, m.confidence, m.same_ops, m.same_name, m.same_template, r.changed_with, r.baseline_names,
    r.candidate_names, baseline_count, baseline_wall_ns, baseline_ns, candidate_count, candidate_wall_ns, candidate_ns,
    candidate_ns - baseline_ns AS delta_ns
FROM per_row AS s JOIN kernel_row AS r ON r.row = s.row JOIN kernel_match AS m ON m.row = s.row
WHERE baseline_count > 0 OR candidate_count > 0
ORDER BY steps, abs(delta_ns) DESC, s.row;
