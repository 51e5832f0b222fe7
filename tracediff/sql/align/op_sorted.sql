-- The ops of every (process, device), in order of time.
--   pid, device      INTEGER
--   start_ns, end_ns BIGINT
--   stream           INTEGER
--   key              INTEGER  dense id in op_key, by name
--   graph            BOOLEAN  a node of a CUDA graph
--   launch           INTEGER  -1 where no launching call was recorded
--   bytes            BIGINT
SELECT
    op.pid, op.device, op.start_ns, op.end_ns, op.stream, key.id AS key, op.graph_node IS NOT NULL AS graph,
    coalesce(launch.launch, -1)::INTEGER AS launch, coalesce(op.bytes, 0) AS bytes, op.pageable_dtoh
FROM op
JOIN key_id AS key ON key.key = op.key
LEFT JOIN launch ON launch.pid = op.pid AND launch.corr = op.corr
ORDER BY op.pid, op.device, op.start_ns, op.corr, op.graph_node NULLS FIRST, op.end_ns, op.stream;
