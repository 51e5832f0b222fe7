-- thread_slot: what a launching thread did between two instants at which anything changed.
--   tid              BIGINT
--   slot             BIGINT   1, 2, ... on the thread, in order of time; the first begins, and the last ends, outside the capture
--   start_ns, end_ns BIGINT
--   waits            BOOLEAN  for the GIL
--   state            VARCHAR  what else it did, the first of: gc, launch_api, host_sync, host_api, host_work
--   api              INTEGER  function of the outermost call, NULL outside
--   label            BIGINT   innermost range, NULL outside
CREATE TABLE accounting.thread_slot AS
WITH event AS (
    SELECT tid, start_ns, end_ns, state AS what, call AS id FROM accounting.call
    UNION ALL SELECT tid, start_ns, end_ns, 'outermost', call FROM accounting.call WHERE outermost
    UNION ALL SELECT lane, start_ns, end_ns, 'range', part FROM accounting.range_part
    UNION ALL SELECT tid, start_ns, end_ns, 'gil_wait', 0 FROM gil WHERE waiting
    UNION ALL SELECT tid, start_ns, end_ns, 'gc', 0 FROM gc
), mine AS (
    FROM event SEMI JOIN accounting.launch USING (tid) WHERE end_ns > start_ns
), boundary AS (
    SELECT tid, start_ns AS ns, what, id, 1 AS change FROM mine
    UNION ALL SELECT tid, end_ns, what, id, -1 FROM mine
    UNION ALL SELECT DISTINCT tid, -(1::BIGINT << 62), '', 0, 0 FROM accounting.launch WHERE tid IS NOT NULL
), running AS (
    SELECT
        tid, ns, coalesce(lead(ns) OVER w, 1::BIGINT << 62) AS until,
        coalesce(sum(change) FILTER (what = 'gil_wait') OVER w, 0) > 0 AS waits,
        coalesce(sum(change) FILTER (what = 'gc') OVER w, 0) > 0 AS gc,
        coalesce(sum(change) FILTER (what = 'launch_api') OVER w, 0) > 0 AS launch_api,
        coalesce(sum(change) FILTER (what = 'host_sync') OVER w, 0) > 0 AS host_sync,
        coalesce(sum(change) FILTER (what = 'host_api') OVER w, 0) > 0 AS host_api,
        -- of the outermost calls, and of the parts by range, one is open at most: the last that began
        CASE WHEN sum(change) FILTER (what = 'outermost') OVER w > 0 THEN max(id) FILTER (what = 'outermost') OVER w END AS call,
        CASE WHEN sum(change) FILTER (what = 'range') OVER w > 0 THEN max(id) FILTER (what = 'range') OVER w END AS part
    FROM boundary
    WINDOW w AS (PARTITION BY tid ORDER BY ns, change, id ROWS UNBOUNDED PRECEDING)
), slot AS (
    SELECT
        tid, ns, waits AND NOT gc AS waits,
        CASE WHEN gc THEN 'gc' WHEN launch_api THEN 'launch_api' WHEN host_sync THEN 'host_sync' WHEN host_api THEN 'host_api'
             ELSE 'host_work' END AS state,
        call, part
    FROM running
    WHERE until > ns
), changed AS (
    FROM slot
    QUALIFY (waits, state, call, part) IS DISTINCT FROM lag((waits, state, call, part)) OVER (PARTITION BY tid ORDER BY ns)
)
SELECT
    c.tid, row_number() OVER w AS slot, c.ns AS start_ns, coalesce(lead(c.ns) OVER w, 1::BIGINT << 62) AS end_ns,
    c.waits, c.state, call.name AS api, part.what AS label
FROM changed AS c
LEFT JOIN accounting.call AS call ON call.call = c.call
LEFT JOIN accounting.range_part AS part ON part.lane = c.tid AND part.part = c.part
WINDOW w AS (PARTITION BY c.tid ORDER BY c.ns);
