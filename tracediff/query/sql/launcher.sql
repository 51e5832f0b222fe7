-- Which threads launched work on which devices, from the outermost call of each correlation id.
--   tid    BIGINT
--   device INTEGER
WITH launch AS (
    SELECT call.pid, call.corr, arg_min(call.tid, (call.start_ns, call.tid)) AS tid
    FROM api_call AS call SEMI JOIN op ON op.pid = call.pid AND op.corr = call.corr
    GROUP BY call.pid, call.corr
)
SELECT DISTINCT launch.tid, op.device
FROM op JOIN launch ON launch.pid = op.pid AND launch.corr = op.corr
WHERE launch.tid IS NOT NULL ORDER BY launch.tid, op.device;
