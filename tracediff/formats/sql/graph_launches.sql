-- CUDA graph launches, and those of them that own no GPU row.
--   launches BIGINT
--   bare     BIGINT
WITH calls AS (
    SELECT (pid::BIGINT << 32) + corr AS launch FROM api_call JOIN api_name USING (name) WHERE api SIMILAR TO 'cu(da)?GraphLaunch.*'
), owning AS (
    -- in this direction op, the large table, is only run past the few graph launches
    SELECT DISTINCT op_row.launch FROM op_row SEMI JOIN calls ON calls.launch = op_row.launch
)
SELECT count(*) AS launches, count(*) FILTER (owning.launch IS NULL) AS bare
FROM calls LEFT JOIN owning ON owning.launch = calls.launch;
