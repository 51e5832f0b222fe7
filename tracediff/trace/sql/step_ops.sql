-- Ops of each process, with and without a recorded launch.
--   pid INTEGER
--   ops BIGINT
SELECT pid, sum(ops)::BIGINT AS ops
FROM (SELECT descriptor, count(*) AS ops FROM op_row GROUP BY descriptor) JOIN op_descriptor USING (descriptor)
GROUP BY pid;
