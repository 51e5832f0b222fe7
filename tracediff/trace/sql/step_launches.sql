-- The launches in order of time, the columns of step_launch.sql.
SELECT pid, tid, start_ns, end_ns, content, token, ops, kernels, graph, closed, reads_back, waits
FROM launched ORDER BY pid, start_ns, launch;
