-- Processes with GPU work in which no step label is, in order.
--   pid INTEGER
SELECT DISTINCT pid FROM op_descriptor WHERE pid NOT IN (SELECT pid FROM step) ORDER BY pid;
