-- idle_piece: a part of a gap with one cause. The pieces of a gap tile it.
--   gap              BIGINT   see gap
--   tid              BIGINT   the thread that launched the op that ends the gap
--   start_ns, end_ns BIGINT
--   cause            VARCHAR
--   under            VARCHAR  of a wait for the GIL: the cause had the GIL not been traced
--   label            BIGINT   innermost range of the thread; what ran by itself has that of its launch
--   api              INTEGER  CUDA function, of pieces inside one
CREATE TABLE accounting.idle_piece AS
WITH ended AS (
    SELECT
        g.gap, g.start_ns, g.end_ns, l.tid, l.start_ns AS call_start, l.end_ns AS call_end,
        CASE
            WHEN l.tid IS NULL THEN 'unattributed'
            WHEN op.later_node THEN 'graph_internal'
            WHEN l.end_ns <= g.start_ns THEN 'dependency' -- it had been launched before the gap began: it waited for something else
        END AS cause
    FROM accounting.gap AS g
    JOIN accounting.op AS op ON op.op = g.gap
    LEFT JOIN accounting.launch AS l ON l.launch = op.launch
), labelled AS (
    SELECT e.*, CASE WHEN e.call_start < r.end_ns THEN r.what END AS label
    FROM ended AS e
    ASOF LEFT JOIN accounting.range_part AS r ON r.lane = e.tid AND r.start_ns <= e.call_start
), walk AS (
    -- until the call returned: what the thread was doing
    SELECT gap, tid, call_start, call_end, start_ns, least(call_end, end_ns) AS end_ns FROM ended WHERE cause IS NULL
), met AS (
    SELECT w.*, unnest(range(first.slot, last.slot + 1)) AS slot
    FROM walk AS w
    ASOF JOIN accounting.thread_slot AS first ON first.tid = w.tid AND first.start_ns <= w.start_ns
    ASOF JOIN accounting.thread_slot AS last ON last.tid = w.tid AND last.start_ns < w.end_ns
), doing AS (
    SELECT
        m.gap, m.tid, greatest(m.start_ns, s.start_ns) AS start_ns, least(m.end_ns, s.end_ns) AS end_ns, s.waits, s.state, s.api, s.label,
        greatest(m.start_ns, s.start_ns) >= m.call_start AND least(m.end_ns, s.end_ns) <= m.call_end AS launching
    FROM met AS m JOIN accounting.thread_slot AS s USING (tid, slot)
), caused AS (
    SELECT
        *,
        -- inside the launching call itself, what blocks or is unusual is launching as well
        CASE
            WHEN waits THEN 'gil_wait'
            WHEN launching AND state IN ('host_sync', 'host_api') THEN 'launch_api'
            ELSE state
        END AS cause,
        CASE WHEN waits THEN CASE WHEN launching AND state <> 'gc' THEN 'launch_api' ELSE state END END AS under
    FROM doing
)
SELECT gap, tid, start_ns, end_ns, cause, NULL::VARCHAR AS under, label, NULL::INTEGER AS api FROM labelled WHERE cause IS NOT NULL
UNION ALL
SELECT gap, tid, call_end, end_ns, 'launch_latency', NULL, label, NULL FROM labelled WHERE cause IS NULL AND call_end < end_ns
UNION ALL
SELECT gap, tid, start_ns, end_ns, cause, under, label, CASE WHEN cause IN ('launch_api', 'host_sync', 'host_api') THEN api END
FROM caused;
