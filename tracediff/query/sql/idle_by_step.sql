-- idle_by_step: idle GPU time of one whole step by its cause.
--   capture INTEGER  the export, a row of capture
--   run     INTEGER  as in capture
--   rank    INTEGER  as in period
--   device  INTEGER
--   step    INTEGER  as in step
--   phase   VARCHAR  as in period
--   cause   VARCHAR  as in idle
--   pieces  BIGINT   how many pieces of gaps
--   idle_ns BIGINT   their length
SELECT capture, run, "rank", device, step, phase, cause, sum(pieces)::BIGINT AS pieces, sum(idle_ns)::BIGINT AS idle_ns
FROM {{side}}.idle GROUP BY ALL ORDER BY capture, "rank", device, step, idle_ns DESC, cause;
