-- api_by_step: CUDA calls that began in the host window of each whole step.
--   capture INTEGER  the export, a row of capture
--   run     INTEGER  as in capture
--   rank    INTEGER  as in period: whose step it is; threads of processes without steps count for the first rank
--   step    INTEGER  as in step
--   phase   VARCHAR  as in period
--   thread  VARCHAR  role of the thread
--   api     VARCHAR  cudaLaunchKernel, ...
--   class   VARCHAR  launch, sync or other
--   calls   BIGINT   how many
--   wall_ns BIGINT   their length
SELECT
    c.capture, h.run, h."rank", c.step, h.phase, c.thread, c.api, c.class, count(*) AS calls,
    sum(c.duration_ns)::BIGINT AS wall_ns
FROM {{side}}.api_call AS c
JOIN {{rows}}.host_step AS h ON h.capture = c.capture AND h.pid = c.pid AND h.step = c.step
GROUP BY ALL ORDER BY c.capture, h."rank", c.step, wall_ns DESC, c.thread, c.api, c.class;
