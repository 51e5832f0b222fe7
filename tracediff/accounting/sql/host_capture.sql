-- For a capture without GPU work and without steps: the whole of it as one step of each of its ranks, from its first event to its
-- last. Makes the table step with what step_marks needs: a mark at the begin, and one at the end.
-- A rank is a process that launches GPU work; where none does, one with CUDA calls; where none has, that with the most ranges; where
-- there are none either, that with the most OS calls. Its
-- thread is that with the most of those events.
CREATE OR REPLACE TABLE step AS
WITH event AS (
    SELECT tid, start_ns, end_ns, CASE WHEN n.class = 'launch' THEN 3 ELSE 2 END AS worth
    FROM api_call AS c JOIN api_name AS n ON coalesce(n.name, -1) = coalesce(c.name, -1) WHERE tid IS NOT NULL
    UNION ALL
    SELECT tid, start_ns, end_ns, 1 FROM range
    UNION ALL
    SELECT tid, start_ns, end_ns, 0 FROM os_call
), extent AS (
    SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM event
), thread_worth AS (
    SELECT (tid >> 24 & 16777215)::INTEGER AS pid, tid, worth, count(*) AS events
    FROM event WHERE worth = (SELECT max(worth) FROM event) GROUP BY ALL
), executor AS (
    SELECT pid, arg_max(tid, (events, -tid)) AS tid, sum(events) AS events, any_value(worth) AS worth FROM thread_worth GROUP BY pid
), rank AS (
    SELECT pid, tid FROM executor
    QUALIFY worth > 1 OR row_number() OVER (ORDER BY events DESC, pid) = 1
)
SELECT pid, 0 AS step, tid, first_ns AS start_ns FROM rank, extent
UNION ALL
-- a capture of events without length lasts a nanosecond
SELECT pid, 1, tid, greatest(last_ns, first_ns + 1) FROM rank, extent;
-- Threads that only called the operating system are in no other table; they count where there are no others.
INSERT INTO thread
SELECT DISTINCT tid, (tid >> 24 & 16777215)::INTEGER, '' FROM os_call WHERE (SELECT count(*) FROM thread) = 0;
