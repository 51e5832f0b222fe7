-- op: one GPU activity: a kernel, a copy, a memset, or a whole CUDA graph where its nodes were not traced.
--   capture         INTEGER  the export, a row of capture
--   start_ns        BIGINT   GPU time, ns from the start of the session
--   end_ns          BIGINT
--   duration_ns     BIGINT   end - start; ops overlap: their sum may exceed the time that the GPU was busy
--   pid             INTEGER  process
--   device          INTEGER
--   stream          INTEGER
--   kind            VARCHAR  kernel, memcpy, memset, graph
--   name            VARCHAR  demangled; [memcpy HtoD] and the like for copies
--   short_name      VARCHAR  without template and parameters; NULL for copies
--   category        VARCHAR  gemm, attention, norm, ..., communication
--   family          VARCHAR  cutlass, nvjet, cudnn, nccl, pytorch, ...
--   grid, block     VARCHAR  x,y,z
--   registers       INTEGER  a thread; where kernels of one name, grid and block differ, the most
--   shared_bytes    INTEGER  a block; likewise
--   bytes           BIGINT   of a copy or memset
--   graph_node      BIGINT   node of a CUDA graph; NULL for an op launched on its own
--   corr            BIGINT   correlation id: with pid, joins api_call and launch
--   launch_start_ns BIGINT   of the launching call, host time; NULL where that was not recorded
--   launch_end_ns   BIGINT
--   launch_tid      BIGINT   thread of the launching call, as in thread
--   launch_api      VARCHAR  its function: cudaLaunchKernel, cudaGraphLaunch, ...
--   step            INTEGER  step of its process in whose host window the launching call began; NULL without one
--   kernel          INTEGER  row of kernel
SELECT
    o.capture, o.start_ns, o.end_ns, o.end_ns - o.start_ns AS duration_ns, o.pid, o.device, o.stream,
    k.kind, k.name, k.short_name, k.category, k.family, k.grid, k.block, k.registers, k.shared_bytes, o.bytes,
    o.graph_node, o.corr, o.launch_start_ns, o.launch_end_ns, o.launch_tid, a.api AS launch_api, o.step, o.kernel
FROM {{rows}}.op AS o
JOIN {{side}}.kernel AS k ON k.capture = o.capture AND k.kernel = o.kernel
LEFT JOIN {{rows}}.api_name AS a ON a.capture = o.capture AND a.id = o.launch_api;
