-- range_by_step: NVTX ranges that began in the host window of each whole step.
--   capture INTEGER  the export, a row of capture
--   run     INTEGER  as in capture
--   rank    INTEGER  as in period: whose step it is; threads of processes without steps count for the first rank
--   step    INTEGER  as in step
--   phase   VARCHAR  as in period
--   thread  VARCHAR  role of the thread
--   place   VARCHAR  text of the range with its numbers masked
--   domain  VARCHAR  NVTX domain, empty for the default one
--   ranges  BIGINT   how many
--   wall_ns BIGINT   their length, with the ranges inside them
SELECT
    r.capture, h.run, h."rank", r.step, h.phase, r.thread, r.place, r.domain, count(*) AS ranges,
    sum(r.duration_ns)::BIGINT AS wall_ns
FROM {{side}}.range AS r
JOIN {{rows}}.host_step AS h ON h.capture = r.capture AND h.pid = r.pid AND h.step = r.step
GROUP BY ALL ORDER BY r.capture, h."rank", r.step, wall_ns DESC, r.thread, r.place, r.domain;
