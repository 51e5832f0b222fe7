-- api_call: one CUDA runtime or driver call on a host thread. A runtime call and the driver call under it may both be here.
--   capture     INTEGER  the export, a row of capture
--   start_ns    BIGINT   host time, ns from the start of the session
--   end_ns      BIGINT
--   duration_ns BIGINT   end - start; calls nest
--   pid         INTEGER  process
--   tid         BIGINT   thread, as in thread
--   thread      VARCHAR  role of the thread: executor, ...
--   api         VARCHAR  function without the version suffix: cudaLaunchKernel
--   class       VARCHAR  launch: puts work on a GPU; sync: waits for a GPU; other; by the function's name
--   corr        BIGINT   correlation id: with pid, joins op and launch
--   step        INTEGER  step in whose host window the call began; NULL outside all
SELECT
    c.capture, c.start_ns, c.end_ns, c.end_ns - c.start_ns AS duration_ns, c.pid, c.tid, t.thread, a.api, a.class, c.corr, c.step
FROM {{rows}}.api_call AS c
LEFT JOIN {{rows}}.api_name AS a ON a.capture = c.capture AND a.id IS NOT DISTINCT FROM c.api
LEFT JOIN {{side}}.thread AS t ON t.capture = c.capture AND t.tid = c.tid;
