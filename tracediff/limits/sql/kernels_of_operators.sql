-- Kernels that were launched on their own inside operators of table `known` (start_ns, end_ns, tid, work); of those that lie in each
-- other the one that began last.
--   run      BIGINT  the operator's run: row of `known`
--   start_ns BIGINT, ns BIGINT, pid BIGINT, device BIGINT
--   key      UBIGINT, name VARCHAR: as in op_key
WITH call AS (
    SELECT (pid::BIGINT << 32) + corr AS launch, tid, start_ns
    FROM api_call
    QUALIFY row_number() OVER (PARTITION BY pid, corr ORDER BY start_ns, tid) = 1
), kernel AS (
    SELECT op.start_ns, op.end_ns - op.start_ns AS ns, op.pid, op.device, op.key, call.tid, call.start_ns AS called
    FROM op JOIN call ON call.launch = (op.pid::BIGINT << 32) + op.corr
    WHERE op.kind = 0 AND op.graph_node IS NULL
)
SELECT known.run, kernel.start_ns, kernel.ns, kernel.pid::BIGINT AS pid, kernel.device::BIGINT AS device, op_key.key, op_key.name
FROM kernel ASOF JOIN known ON known.tid = kernel.tid AND kernel.called >= known.start_ns
JOIN op_key ON op_key.key = kernel.key
WHERE kernel.called < known.end_ns
ORDER BY ALL;
