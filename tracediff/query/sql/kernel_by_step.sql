-- kernel_by_step: time of each kernel in each whole step on its device.
--   capture      INTEGER  the export, a row of capture
--   run          INTEGER  as in capture
--   rank         INTEGER  as in period
--   device       INTEGER
--   step         INTEGER  as in step
--   phase        VARCHAR  as in period
--   name         VARCHAR  demangled; [memcpy HtoD] and the like for copies
--   short_name   VARCHAR  without template and parameters; NULL for copies
--   category     VARCHAR  gemm, attention, norm, ..., communication
--   kind         VARCHAR  kernel, memcpy, memset, graph
--   grid, block  VARCHAR  x,y,z
--   ops          BIGINT   that start in the period of the step
--   wall_ns      BIGINT   their length, overlaps not shared out
--   share_ns     DOUBLE   part of the period's compute, comm or memcpy: the rows of a step add up to these
WITH spelled AS (
    -- two keys of an export may say the same: kernels whose names are stored twice
    SELECT k.period, n.name, n.short_name, n.kind, n.grid, n.block, sum(k.count)::BIGINT AS ops, sum(k.wall_ns)::BIGINT AS wall_ns,
           sum(k.share_ns)::DOUBLE AS share_ns
    FROM query_kernel_time AS k JOIN query_key AS n ON n.id = k.key
    GROUP BY ALL
)
SELECT
    {{capture}}::INTEGER AS capture, {{run}}::INTEGER AS run, (p."rank" + {{first_rank}})::INTEGER AS "rank",
    p.device::INTEGER AS device, p.step::INTEGER AS step, p.phase, s.name, s.short_name, word.category,
    CASE s.kind WHEN 0 THEN 'kernel' WHEN 1 THEN 'memcpy' WHEN 2 THEN 'memset' ELSE 'graph' END AS kind,
    s.grid, s.block, s.ops, s.wall_ns, s.share_ns
FROM spelled AS s
JOIN query_period AS p ON p.period = s.period
JOIN query_word AS word ON word.name = s.name
ORDER BY p.period, s.share_ns DESC, s.name, s.grid, s.block;
