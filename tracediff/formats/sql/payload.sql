-- The rows of payload, nccl_size and shape_payload, columns of payload_tables.sql: made where an event has a payload.
CREATE TABLE payload_row AS
SELECT
    "start"::BIGINT AS start_ns, globalTid::BIGINT AS tid, jsonText AS json, jsonTextId::BIGINT AS json_id,
    hash(globalTid, eventType, coalesce(domainId, 0), textId, text) AS key, -- as in nvtx.sql
    coalesce(
        int64Value::DOUBLE, doubleValue::DOUBLE, int32Value::DOUBLE, uint32Value::DOUBLE, floatValue::DOUBLE,
        -- SQLite holds 64 bits as if they had a sign
        CASE WHEN uint64Value < 0 THEN uint64Value::DOUBLE + 18446744073709551616.0 ELSE uint64Value::DOUBLE END
    ) AS value
FROM staged_NVTX_EVENTS
WHERE eventType IN (59, 60) AND globalTid IS NOT NULL AND "start" IS NOT NULL AND "end" IS NOT NULL
      AND (int64Value IS NOT NULL OR doubleValue IS NOT NULL OR uint64Value IS NOT NULL OR uint32Value IS NOT NULL
           OR int32Value IS NOT NULL OR floatValue IS NOT NULL OR jsonText IS NOT NULL OR jsonTextId IS NOT NULL);

INSERT INTO payload
SELECT r.start_ns, r.tid, t.label, t.domain, r.value
FROM payload_row AS r JOIN nvtx_text AS t ON t.key = r.key
WHERE t.meaning = 'range' AND isfinite(r.value) AND abs(r.value) < 1e100; -- no sum leaves a double

INSERT INTO nccl_size
WITH said AS (
    SELECT r.start_ns, r.tid, t.label, coalesce(r.json, string.value) AS json
    FROM payload_row AS r JOIN nvtx_text AS t ON t.key = r.key
    JOIN nvtx_domain AS d ON d.pid = (r.tid >> 24 & 16777215)::INTEGER AND d.domain = t.domain
    LEFT JOIN string ON string.id = r.json_id
    WHERE d.name = 'NCCL'
), read AS (
    SELECT start_ns, tid, label,
           CASE WHEN json_valid(json) THEN try_cast(json_extract_string(json, '$."Message size [bytes]"') AS BIGINT) END AS bytes,
           CASE WHEN json_valid(json) THEN json_extract_string(json, '$."NCCL communicator ID"') END AS comm,
           CASE WHEN json_valid(json) THEN json_extract_string(json, '$."Process Group Description"') END AS "group"
    FROM said
)
SELECT start_ns, tid, label, max(bytes) FILTER (bytes BETWEEN 0 AND 8796093022208) AS bytes, max(comm) FILTER (regexp_full_match(comm, '[0-9]{1,20}')) AS comm,
       coalesce(max(left("group", 64)), '') AS "group"
FROM read
GROUP BY start_ns, tid, label;

INSERT INTO shape_payload
SELECT r.start_ns, r.tid, t.label, min(coalesce(r.json, string.value)) AS json
FROM payload_row AS r JOIN nvtx_text AS t ON t.key = r.key
LEFT JOIN string ON string.id = r.json_id
WHERE contains(coalesce(r.json, string.value), '"Input Dims"')
GROUP BY r.start_ns, r.tid, t.label
HAVING count(*) = 1; -- of two operators with one name that begin together, which is which is not known
DROP TABLE payload_row;
