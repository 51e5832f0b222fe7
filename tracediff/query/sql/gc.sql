-- gc: one pause of Python's cyclic garbage collector. Empty where none was traced (see capture.gc).
--   capture     INTEGER  the export, a row of capture
--   start_ns    BIGINT   host time, ns from the start of the session
--   end_ns      BIGINT
--   duration_ns BIGINT   end - start
--   pid         INTEGER  process
--   tid         BIGINT   thread, as in thread
--   generation  VARCHAR  0, 1, 2; ? where the range does not say
--   step        INTEGER  step in whose host window it began; NULL outside all
WITH located AS (
    SELECT start_ns, end_ns, (tid >> 24 & 16777215)::INTEGER AS pid, tid, generation FROM gc WHERE tid IS NOT NULL
)
SELECT
    {{capture}}::INTEGER AS capture, g.start_ns, g.end_ns, g.end_ns - g.start_ns AS duration_ns, g.pid, g.tid, g.generation,
    CASE WHEN g.start_ns < w.end_ns THEN w.step END AS step
FROM located AS g ASOF LEFT JOIN query_window AS w ON w.pid = g.pid AND w.start_ns <= g.start_ns
ORDER BY g.start_ns, g.tid, g.end_ns;
