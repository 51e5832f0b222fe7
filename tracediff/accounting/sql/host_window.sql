-- in_step(events): events of host threads that began in a measured step, with the shape of the step and the role of the thread.
--   period  BIGINT   of the step on the first device of its rank
--   stratum BIGINT   shape of the step, see host_window
--   thread  VARCHAR  role, see thread_role
--   and the columns of events, which has tid and start_ns
CREATE OR REPLACE MACRO in_step(events) AS TABLE
SELECT w.period, w.stratum, t.role AS thread, t.pid, e.*
FROM query_table(events) AS e
JOIN thread_role AS t USING (tid)
ASOF JOIN host_window AS w ON w.pid = t.pid AND w.start_ns <= e.start_ns
WHERE e.start_ns < w.end_ns;
