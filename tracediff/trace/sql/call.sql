-- A stretch of the CUDA calls of the export (parameters: first row, row after the last).
--   start_ns, end_ns BIGINT
--   thread           SMALLINT  place of its thread in the order of global thread ids, -1 unknown
--   corr             BIGINT    process and correlation id in one number, -1 where there is none
--   name             INTEGER   id in api_name, -1 where there is none
--   class            TINYINT   what the call does to its thread: 0 launch, 1 sync, 2 other, 3 launch of a copy
WITH numbered AS (
    SELECT tid, (row_number() OVER (ORDER BY tid) - 1)::SMALLINT AS number FROM thread
), named AS (
    -- before the join: once a name, not once a call
    SELECT
        name,
        (CASE class WHEN 'launch' THEN CASE WHEN api LIKE '%Memcpy%' THEN 3 ELSE 0 END WHEN 'sync' THEN 1 ELSE 2 END)::TINYINT AS class
    FROM api_name
)
SELECT
    a.start_ns, a.end_ns, coalesce(numbered.number, -1)::SMALLINT AS thread,
    coalesce((a.pid::BIGINT << 32) + a.corr, -1) AS corr, coalesce(a.name, -1) AS name, named.class
FROM api_call AS a
JOIN named ON named.name IS NOT DISTINCT FROM a.name
LEFT JOIN numbered ON numbered.tid = a.tid
WHERE a.rowid >= ? AND a.rowid < ?;
