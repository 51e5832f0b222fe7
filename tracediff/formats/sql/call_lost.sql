-- Of each process, the one that lost the largest part first, the stretches in which CUDA calls were made and none was recorded. CUPTI numbers
-- all calls of a process one after the other (correlation ids), also those that the profiler leaves out: no stretch without any is longer than
-- 1.4 % of the calls (300 processes, PyTorch, JAX, CUDA C++), nor than 260 times the usual one. Where recording broke off, the longest holds 14 %
-- of them or more, and 5,000 usual ones (9 processes).
--   pid              INTEGER
--   lost             BIGINT  calls in these stretches
--   calls            BIGINT  from the first recorded one to the last
--   start_ns, end_ns BIGINT  of the recorded calls before the first of them and after the last
--   stretches        BIGINT
WITH gap AS (
    SELECT pid, lead(corr) OVER following - corr AS past, start_ns, lead(start_ns) OVER following AS end_ns
    FROM api_call WHERE corr IS NOT NULL
    WINDOW following AS (PARTITION BY pid ORDER BY corr, start_ns)
), usual AS (
    SELECT pid, sum(past) + 1 AS calls, quantile_disc(past, 0.5) AS past FROM gap GROUP BY pid
)
SELECT pid, sum(gap.past - 1) AS lost, any_value(calls) AS calls, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
    count(*) AS stretches
FROM gap JOIN usual USING (pid)
WHERE gap.past > 0.05 * calls AND gap.past > 1000 * usual.past AND end_ns > start_ns
GROUP BY pid ORDER BY sum(gap.past - 1) / any_value(calls) DESC, pid;
