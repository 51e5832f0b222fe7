-- When a thread was on no CPU (nsys --cpuctxsw): from its being scheduled out to the next time that it is scheduled in.
--   tid              BIGINT
--   start_ns, end_ns BIGINT
-- What lies before the first switch of a thread and after its last one is not known, and not counted.
CREATE TABLE off_cpu AS
SELECT tid, start_ns, end_ns
FROM (
    SELECT globalTid AS tid, start AS start_ns, isSchedIn AS came,
           lead(start) OVER switches AS end_ns, lead(isSchedIn) OVER switches AS comes
    FROM staged_SCHED_EVENTS
    WHERE globalTid IS NOT NULL AND isSchedIn IS NOT NULL
          AND start BETWEEN -9007199254740992 AND 9007199254740992 -- a hundred days: no sum leaves 64 bits
    WINDOW switches AS (PARTITION BY globalTid ORDER BY start, isSchedIn = 0)
)
WHERE came = 0 AND comes <> 0 AND end_ns > start_ns;
