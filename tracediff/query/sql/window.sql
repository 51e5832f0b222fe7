-- query_window: see rows_window.sql.
--   pid, owner, step INTEGER
--   start_ns, end_ns BIGINT
CREATE OR REPLACE TEMP TABLE query_window AS
WITH labelled AS (
    SELECT pid, step, start_ns, coalesce(next_ns, label_end_ns) AS end_ns FROM step
), several AS (
    SELECT pid FROM step GROUP BY pid HAVING count(*) > 1 OR max(next_ns) IS NOT NULL
), working AS (
    SELECT pid FROM several SEMI JOIN op USING (pid)
), owners AS (
    -- without any GPU work the labels alone say whose steps they are
    SELECT pid FROM working UNION ALL SELECT pid FROM several WHERE NOT EXISTS (FROM working)
), processes AS (
    SELECT DISTINCT pid FROM thread UNION SELECT DISTINCT pid FROM op
), owned AS (
    SELECT processes.pid, coalesce(owners.pid, (SELECT min(pid) FROM owners)) AS owner
    FROM processes LEFT JOIN owners ON owners.pid = processes.pid
)
SELECT owned.pid, owned.owner, labelled.step, labelled.start_ns, labelled.end_ns
FROM owned JOIN labelled ON labelled.pid = owned.owner;
