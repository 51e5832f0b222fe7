-- period: the GPU time of one whole step: [its first op, the first op of the next step) on one device. The first and
-- the last step of a capture have none where they were cut. The categories add up to period_ns exactly.
--   capture              INTEGER  the export, a row of capture
--   run                  INTEGER  as in capture
--   rank                 INTEGER  process with a GPU, numbered over the exports of the run
--   pid                  INTEGER  process
--   device               INTEGER
--   step                 INTEGER  as in step
--   number               BIGINT   as the label of the step says
--   phase                VARCHAR  as in step; without a label the class of what it launches: step, class-2, ..., numbered in each capture
--                                (compare and show name those that all captures share)
--   ctx_reqs             INTEGER  as in step
--   ctx_tokens           INTEGER  as in step
--   gen_reqs             INTEGER  as in step
--   start_ns             BIGINT   first op of the step
--   end_ns               BIGINT   first op of the next step
--   period_ns            BIGINT   end - start: the step time of compare
--   compute_ns           BIGINT   at least one compute kernel ran
--   comm_ns              BIGINT   communication ran, no compute
--   memcpy_ns            BIGINT   a copy or memset ran, neither of those
--   launch_latency_ns    BIGINT   idle: launched, not yet begun
--   dependency_ns        BIGINT   idle: launched before the gap, waited for something else
--   graph_internal_ns    BIGINT   idle: between nodes of one graph launch
--   launch_api_ns        BIGINT   idle: the host was inside the launching call
--   host_sync_ns         BIGINT   idle: the host was inside a synchronising call
--   host_api_ns          BIGINT   idle: the host was inside another CUDA call
--   gc_ns                BIGINT   idle: garbage collection
--   gil_wait_ns          BIGINT   idle: waiting for the GIL; 0 where it was not traced (see capture.gil)
--   host_work_ns         BIGINT   idle: other work of the launching thread
--   unattributed_ns      BIGINT   idle: no launching call was recorded
SELECT
    {{capture}}::INTEGER AS capture, {{run}}::INTEGER AS run, ("rank" + {{first_rank}})::INTEGER AS "rank", pid::INTEGER AS pid,
    device::INTEGER AS device, step::INTEGER AS step, number, phase, ctx_reqs::INTEGER AS ctx_reqs,
    ctx_tokens::INTEGER AS ctx_tokens, gen_reqs::INTEGER AS gen_reqs, start_ns, end_ns, end_ns - start_ns AS period_ns,
    compute AS compute_ns, comm AS comm_ns, memcpy AS memcpy_ns, launch_latency AS launch_latency_ns, dependency AS dependency_ns,
    graph_internal AS graph_internal_ns, launch_api AS launch_api_ns, host_sync AS host_sync_ns, host_api AS host_api_ns,
    gc AS gc_ns, gil_wait AS gil_wait_ns, host_work AS host_work_ns, unattributed AS unattributed_ns
FROM query_period ORDER BY period;
