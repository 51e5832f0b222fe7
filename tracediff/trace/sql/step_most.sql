-- Steps of the process that has most of them; where there is GPU work, of a process with some.
--   steps BIGINT
SELECT coalesce(max(steps), 0) AS steps
FROM (
    SELECT count(*) AS steps FROM step
    WHERE pid IN (SELECT pid FROM op_descriptor) OR NOT EXISTS (FROM op_row) GROUP BY pid
);
