-- CUDA graph launches, and those of them that own no GPU row.
--   launches BIGINT
--   bare     BIGINT
WITH calls AS (
    SELECT pid, corr FROM api_call JOIN api_name USING (name) WHERE api SIMILAR TO 'cu(da)?GraphLaunch.*'
), owning AS (
    -- in this direction op, the large table, is only run past the few graph launches
    SELECT DISTINCT op.pid, op.corr FROM op JOIN (SELECT DISTINCT pid, corr FROM calls) AS c
        ON c.pid = op.pid AND c.corr = op.corr
)
SELECT count(*) AS launches, count(*) FILTER (owning.pid IS NULL) AS bare
FROM calls LEFT JOIN owning ON owning.pid = calls.pid AND owning.corr = calls.corr;
