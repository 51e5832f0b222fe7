-- For a capture that lacks GPU rows: each call that launches something and owns none, as if it had launched one GPU activity, so that
-- steps are found by calls. Adds rows to op_row, op_descriptor and op_key (columns of op.sql, op_descriptor.sql).
CREATE TEMP TABLE bare AS
WITH launching AS (
    SELECT
        (pid::BIGINT << 32) + corr AS launch, pid, min(start_ns) AS start_ns,
        -- the outermost one: a driver call under a runtime call shares its correlation id
        arg_min(api, (start_ns, -end_ns)) AS api
    FROM api_call JOIN api_name USING (name)
    WHERE corr IS NOT NULL AND (class = 'launch' OR (class = 'sync' AND api LIKE '%Memcpy%'))
    GROUP BY pid, corr
)
SELECT
    *,
    (CASE WHEN api SIMILAR TO 'cu(da)?GraphLaunch.*' THEN 3 WHEN api LIKE '%Memcpy%' THEN 1 WHEN api LIKE '%Memset%' THEN 2 ELSE 0 END)::UTINYINT AS kind,
    hash(api) AS key, hash(api, pid) AS descriptor
FROM launching
ANTI JOIN op_row USING (launch);

INSERT INTO op_key BY NAME
SELECT DISTINCT
    key, kind,
    -- only calls of the driver say which way they copy
    CASE WHEN kind = 1 THEN coalesce('[memcpy ' || nullif(regexp_extract(api, '[HD]to[HD]'), '') || ']', '[memcpy of unknown kind]') ELSE api END AS name
FROM bare;
INSERT INTO op_descriptor BY NAME
SELECT DISTINCT descriptor, kind, pid, 0 AS device, 0 AS stream, false AS pageable_dtoh, key FROM bare;
INSERT INTO op_row BY NAME
SELECT start_ns, start_ns AS end_ns, launch, descriptor FROM bare;
DROP TABLE bare;
