-- innermost: intervals that nest -> the parts of time in which each is the innermost one.
-- At an instant at which n intervals are open, the innermost is the one that was the last to begin as the n-th. Where intervals
-- of a lane overlap without nesting (damaged input, two NVTX domains that interleave), it is the last that began and is still open.
--   lane             BIGINT  what the intervals nest in: a thread, or a process
--   part             BIGINT  1, 2, ... in the lane, in order of time
--   start_ns, end_ns BIGINT
--   what             BIGINT  of the interval
CREATE MACRO accounting.innermost(intervals) AS TABLE
WITH numbered AS (
    SELECT *, row_number() OVER (ORDER BY lane, start_ns, end_ns DESC, what) AS number FROM query_table(intervals)
    WHERE end_ns > start_ns
), boundary AS (
    -- at one instant ends come before starts, inner ends before outer ones
    SELECT lane, start_ns AS ns, 1 AS change, number AS place, number FROM numbered
    UNION ALL
    SELECT lane, end_ns, -1, -number, number FROM numbered
), depth AS (
    SELECT *, sum(change) OVER w AS depth, lead(ns) OVER w AS until FROM boundary
    WINDOW w AS (PARTITION BY lane ORDER BY ns, change, place ROWS UNBOUNDED PRECEDING)
), slot AS (
    SELECT
        lane, ns, until, depth,
        max(CASE WHEN change = 1 THEN number END) OVER (
            PARTITION BY lane, depth ORDER BY ns, change, place ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM depth
), interleaved AS (
    SELECT DISTINCT lane FROM (
        SELECT lane FROM depth GROUP BY lane, number
        HAVING max(depth) FILTER (change = 1) <> max(depth) FILTER (change = -1) + 1
    )
), found AS (
    SELECT lane, ns, until, number FROM slot ANTI JOIN interleaved USING (lane) WHERE depth > 0 AND until > ns
    UNION ALL
    SELECT s.lane, any_value(s.ns), any_value(s.until), max(n.number)
    FROM (SELECT *, row_number() OVER (ORDER BY lane, ns) AS slot FROM slot SEMI JOIN interleaved USING (lane) WHERE until > ns) AS s
    JOIN numbered AS n ON n.lane = s.lane AND n.start_ns <= s.ns AND n.end_ns > s.ns
    GROUP BY s.lane, s.slot
), changed AS (
    -- a part goes on where an interval ends that was not the innermost
    SELECT * FROM found WINDOW w AS (PARTITION BY lane ORDER BY ns)
    QUALIFY number IS DISTINCT FROM lag(number) OVER w OR ns > lag(until) OVER w
)
SELECT c.lane, row_number() OVER w AS part, c.ns AS start_ns, least(n.end_ns, coalesce(lead(c.ns) OVER w, n.end_ns)) AS end_ns, n.what
FROM changed AS c JOIN numbered AS n USING (number)
WINDOW w AS (PARTITION BY c.lane ORDER BY c.ns);

CREATE VIEW accounting.range_of_thread AS
SELECT tid AS lane, start_ns, end_ns, label::BIGINT AS what FROM range WHERE push_pop AND tid IS NOT NULL;

-- range_part: which NVTX range a thread was in. Columns: see innermost; lane is the thread, what the label of the range.
CREATE TABLE accounting.range_part AS FROM accounting.innermost('accounting.range_of_thread');

CREATE VIEW accounting.hold_of_process AS
SELECT tid >> 24 & 16777215 AS lane, start_ns, end_ns, tid AS what FROM gil WHERE NOT waiting AND tid IS NOT NULL;

-- hold_part: who held the GIL of a process. Columns: see innermost; lane is the process, what the thread that held it.
CREATE TABLE accounting.hold_part AS FROM accounting.innermost('accounting.hold_of_process');
