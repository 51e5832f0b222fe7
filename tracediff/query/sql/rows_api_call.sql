-- rows_api_call: api_call before its names are spelled out.
--   capture          INTEGER
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   pid              INTEGER
--   corr             BIGINT
--   api              INTEGER  id in rows_api_name
--   step             INTEGER
SELECT
    {{capture}}::INTEGER AS capture, call.start_ns, call.end_ns, call.tid, call.pid, call.corr, call.name AS api,
    CASE WHEN call.start_ns < w.end_ns THEN w.step END AS step
FROM api_call AS call ASOF LEFT JOIN query_window AS w ON w.pid = call.pid AND w.start_ns <= call.start_ns
ORDER BY call.start_ns, call.tid;
