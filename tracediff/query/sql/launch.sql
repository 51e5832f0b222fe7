-- launch: one launching call, with what it put on the GPU.
--   capture           INTEGER  the export, a row of capture
--   pid               INTEGER  process
--   tid               BIGINT   thread, as in thread
--   thread            VARCHAR  role of the thread
--   api               VARCHAR  cudaLaunchKernel, cudaGraphLaunch, cudaMemcpyAsync, ...
--   corr              BIGINT   correlation id
--   start_ns          BIGINT   of the call, host time
--   end_ns            BIGINT
--   duration_ns       BIGINT   end - start
--   graph             BOOLEAN  a CUDA graph
--   ops               BIGINT   ops that it launched
--   kernels           BIGINT   those of them that are no copies
--   first_op_start_ns BIGINT   start of the first of them on the GPU
--   delay_ns          BIGINT   first_op_start_ns - end_ns; negative where the op began before the call returned
--   step              INTEGER  step of its process in whose host window the call began
SELECT
    o.capture, o.pid, any_value(o.launch_tid) AS tid, any_value(t.thread) AS thread, any_value(a.api) AS api, o.corr,
    any_value(o.launch_start_ns) AS start_ns, any_value(o.launch_end_ns) AS end_ns,
    any_value(o.launch_end_ns) - any_value(o.launch_start_ns) AS duration_ns,
    bool_or(o.graph_node IS NOT NULL OR k.kind = 'graph') AS graph, count(*) AS ops,
    count(*) FILTER (k.kind IN ('kernel', 'graph')) AS kernels,
    min(o.start_ns) AS first_op_start_ns, min(o.start_ns) - any_value(o.launch_end_ns) AS delay_ns, any_value(o.step) AS step
FROM {{rows}}.op AS o
JOIN {{side}}.kernel AS k ON k.capture = o.capture AND k.kernel = o.kernel
LEFT JOIN {{rows}}.api_name AS a ON a.capture = o.capture AND a.id = o.launch_api
LEFT JOIN {{side}}.thread AS t ON t.capture = o.capture AND t.tid = o.launch_tid
WHERE o.launch_start_ns IS NOT NULL
GROUP BY o.capture, o.pid, o.corr
ORDER BY o.capture, start_ns, o.pid, o.corr;
