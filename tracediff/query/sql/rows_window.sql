-- rows_window: which step is under way in each process, by its host clock. A process with GPU work and two labels or
-- more has its own steps; every other process shares those of the first such process, its owner.
--   capture          INTEGER
--   pid              INTEGER
--   owner            INTEGER  the process whose steps they are
--   step             INTEGER
--   start_ns, end_ns BIGINT   [start of the label, start of the next)
SELECT {{capture}}::INTEGER AS capture, pid, owner, step, start_ns, end_ns FROM query_window;
