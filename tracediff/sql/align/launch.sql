-- launch: one launching call for each (process, correlation id) that owns GPU rows.
-- A runtime call and the driver call under it share a correlation id: the outermost stands for both.
--   launch           INTEGER  dense id
--   pid              INTEGER
--   corr             BIGINT
--   start_ns, end_ns BIGINT   of the outermost call
--   tid              BIGINT   the thread it was made on
--   name             INTEGER  id in api_name
CREATE TABLE launch AS
WITH owned AS (
    SELECT DISTINCT pid, corr FROM op
), calls AS (
    SELECT a.pid, a.corr, min(a.start_ns) AS start_ns, max(a.end_ns) AS end_ns,
           arg_min(a.tid, a.start_ns) AS tid, arg_min(a.name, a.start_ns) AS name
    FROM api_call AS a SEMI JOIN owned USING (pid, corr)
    GROUP BY a.pid, a.corr
)
SELECT (row_number() OVER (ORDER BY pid, start_ns, corr) - 1)::INTEGER AS launch, * FROM calls;
