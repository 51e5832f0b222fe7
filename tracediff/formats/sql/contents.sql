-- nvtx_seen: what NVTX says, counted, in one pass over the rows.
--   tid          BIGINT   global thread id
--   event        INTEGER  59 push/pop range, 60 start/end range, 75 name of a domain
--   domain       INTEGER
--   text_id      INTEGER  registered string, NULL where the text is inline
--   text         VARCHAR  inline text, NULL where registered
--   ranges       BIGINT   with an end; of a domain's name 1
--   start_ns, end_ns BIGINT
CREATE TABLE nvtx_seen AS
SELECT
    globalTid::BIGINT AS tid, eventType::INTEGER AS event, coalesce(domainId, 0)::INTEGER AS domain, textId::INTEGER AS text_id,
    CASE WHEN textId IS NULL THEN text END AS text, count(*) AS ranges, min("start")::BIGINT AS start_ns,
    max(coalesce("end", "start"))::BIGINT AS end_ns
FROM staged_NVTX_EVENTS
WHERE eventType = 75 OR (eventType IN (59, 60) AND "start" IS NOT NULL AND "end" IS NOT NULL)
GROUP BY ALL;

-- range_seen: the same with texts and domains spelled out.
--   tid, event, ranges, start_ns, end_ns  see nvtx_seen
--   domain  VARCHAR  '' the default one
--   text    VARCHAR
--   gil, gc BOOLEAN  nsys's own 'GIL Trace'; a garbage collection
CREATE TABLE range_seen AS
WITH domains AS (
    SELECT tid >> 24 & 16777215 AS pid, domain, any_value(coalesce(text, string.value, '')) AS name
    FROM nvtx_seen LEFT JOIN string ON string.id = text_id WHERE event = 75 GROUP BY ALL
)
SELECT
    n.tid, n.ranges, n.start_ns, n.end_ns, coalesce(d.name, '') AS domain, coalesce(n.text, s.value, '') AS text,
    is_gil(d.name, coalesce(n.text, s.value, '')) AS gil, NOT gil AND is_gc(coalesce(n.text, s.value, '')) AS gc
FROM nvtx_seen AS n
LEFT JOIN string AS s ON s.id = n.text_id
LEFT JOIN domains AS d ON d.domain = n.domain AND d.pid = (n.tid >> 24 & 16777215)
WHERE n.event <> 75;
DROP TABLE nvtx_seen;

-- kernel_seen: kernels by process, device, whether they are nodes of a graph, and name.
--   pid, device INTEGER; node BOOLEAN; name VARCHAR; kernels, start_ns, end_ns BIGINT
CREATE TABLE kernel_seen AS
WITH counted AS (
    SELECT
        (globalPid >> 24 & 16777215)::INTEGER AS pid, deviceId::INTEGER AS device, coalesce(graphNodeId, 0) <> 0 AS node,
        coalesce(demangledName, shortName) AS name_id, count(*) AS kernels, min("start")::BIGINT AS start_ns,
        max("end")::BIGINT AS end_ns
    FROM staged_CUPTI_ACTIVITY_KIND_KERNEL WHERE "start" IS NOT NULL AND "end" IS NOT NULL GROUP BY ALL
)
SELECT counted.* EXCLUDE (name_id), coalesce(string.value, '') AS name FROM counted LEFT JOIN string ON string.id = name_id;

-- call_seen: CUDA calls by process and name.
--   pid INTEGER; name VARCHAR; calls, start_ns, end_ns BIGINT
CREATE TABLE call_seen AS
SELECT pid, api AS name, count(*) AS calls, min(start_ns) AS start_ns, max(coalesce(end_ns, start_ns)) AS end_ns
FROM api_call LEFT JOIN api_name USING (name) WHERE start_ns IS NOT NULL GROUP BY pid, api;
