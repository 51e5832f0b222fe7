-- Of each process, the longest stretch in which CUDA calls were made and none was recorded. CUPTI numbers all calls of a process one after the
-- other (correlation ids), also those that the profiler leaves out: it records 12 % of them and more, and no stretch without any is longer than
-- 1.4 % of them (255 processes, PyTorch, JAX, CUDA C++). Where recording broke off, 0.2 % were recorded, and one stretch is half of them or more (7 processes).
--   pid              INTEGER
--   lost             BIGINT  calls in that stretch
--   calls            BIGINT  from the first recorded one to the last
--   start_ns, end_ns BIGINT  of the recorded calls before and after it
WITH few AS (
    SELECT pid, max(corr) - min(corr) + 1 AS calls FROM api_call WHERE corr IS NOT NULL GROUP BY pid HAVING count(*) < 0.05 * calls
), gap AS (
    SELECT pid, calls, lead(corr) OVER following - corr - 1 AS lost, start_ns, lead(start_ns) OVER following AS end_ns
    FROM api_call JOIN few USING (pid) WHERE corr IS NOT NULL
    WINDOW following AS (PARTITION BY pid ORDER BY corr, start_ns)
)
SELECT pid, lost, calls, start_ns, end_ns FROM gap WHERE lost > calls / 3 AND end_ns > start_ns QUALIFY row_number() OVER (PARTITION BY pid ORDER BY lost DESC) = 1 ORDER BY pid;
