-- rows_op: op before its names are spelled out.
--   capture          INTEGER
--   start_ns, end_ns BIGINT
--   pid, device, stream INTEGER
--   corr             BIGINT
--   kernel           INTEGER  row of kernel
--   graph_node       BIGINT
--   bytes            BIGINT
--   launch_start_ns, launch_end_ns BIGINT of the launching call: the outermost where calls share the correlation id
--   launch_tid       BIGINT
--   launch_api       INTEGER  id in rows_api_name
--   step             INTEGER
WITH launch AS (
    SELECT call.pid, call.corr, min(call.start_ns) AS start_ns, max(call.end_ns) AS end_ns,
           arg_min(call.tid, (call.start_ns, call.tid, -call.end_ns, call.name)) AS tid,
           arg_min(call.name, (call.start_ns, call.tid, -call.end_ns, call.name)) AS api
    FROM api_call AS call SEMI JOIN op ON op.pid = call.pid AND op.corr = call.corr
    GROUP BY call.pid, call.corr
), own AS (
    SELECT pid, step, start_ns FROM query_window WHERE owner = pid
), placed AS (
    SELECT launch.*, own.step
    FROM launch ASOF LEFT JOIN own ON own.pid = launch.pid AND own.start_ns <= launch.start_ns
)
SELECT
    {{capture}}::INTEGER AS capture, op.start_ns, op.end_ns, op.pid::INTEGER AS pid,
    op.device::INTEGER AS device, op.stream::INTEGER AS stream, op.corr, number.kernel,
    op.graph_node, op.bytes, placed.start_ns AS launch_start_ns, placed.end_ns AS launch_end_ns, placed.tid AS launch_tid,
    placed.api AS launch_api, placed.step
FROM op
JOIN query_kernel AS number ON number.key = op.key
LEFT JOIN placed ON placed.pid = op.pid AND placed.corr = op.corr
ORDER BY op.start_ns, op.pid, op.device, op.corr, op.graph_node;
