-- thread: every host thread that did something in the capture.
--   tid  BIGINT   global thread id
--   pid  INTEGER
--   name VARCHAR  the operating system's name for it, '' where not recorded
CREATE TABLE thread AS
WITH seen AS (
    SELECT DISTINCT tid FROM api_call
    UNION SELECT tid FROM nvtx_use WHERE meaning <> 'gil_other'
), named AS (
    SELECT globalTid::BIGINT AS tid, any_value(string.value) AS name
    FROM staged_ThreadNames JOIN string ON string.id = nameId GROUP BY 1
)
SELECT seen.tid, (seen.tid >> 24 & 16777215)::INTEGER AS pid, coalesce(named.name, '') AS name
FROM seen LEFT JOIN named USING (tid)
WHERE seen.tid IS NOT NULL;
