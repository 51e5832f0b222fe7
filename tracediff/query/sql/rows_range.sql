-- rows_range: range before its texts are spelled out.
--   capture          INTEGER
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   pid              INTEGER
--   domain           INTEGER
--   push_pop         BOOLEAN
--   label            INTEGER  id in rows_range_text
--   step             INTEGER
WITH located AS (
    SELECT start_ns, end_ns, tid, (tid >> 24 & 16777215)::INTEGER AS pid, domain, push_pop, label FROM range
)
SELECT
    {{capture}}::INTEGER AS capture, r.start_ns, r.end_ns, r.tid, r.pid, r.domain, r.push_pop, r.label,
    CASE WHEN r.start_ns < w.end_ns THEN w.step END AS step
FROM located AS r ASOF LEFT JOIN query_window AS w ON w.pid = r.pid AND w.start_ns <= r.start_ns
ORDER BY r.start_ns, r.tid, r.end_ns DESC;
