-- thread: a host thread that did something in the capture.
--   capture INTEGER  the export, a row of capture
--   pid     INTEGER  process
--   tid     BIGINT   global thread id of nsys: joins api_call, range, gil, gc and step
--   os_name VARCHAR  the operating system's name for it; empty where not recorded
--   thread  VARCHAR  role, learned from its ranges and calls: executor, await-response, launcher of device 0, ...
SELECT {{capture}}::INTEGER AS capture, thread.pid, thread.tid, thread.name AS os_name, role.role AS thread
FROM thread LEFT JOIN query_role AS role ON role.tid = thread.tid
ORDER BY thread.pid, thread.tid;
