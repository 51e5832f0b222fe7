-- Ops of each process, with and without a recorded launch.
--   pid INTEGER
--   ops BIGINT
SELECT pid, sum(ops)::BIGINT AS ops
FROM (SELECT sort, count(*) AS ops FROM op_row GROUP BY sort) JOIN op_sort USING (sort)
GROUP BY pid;
