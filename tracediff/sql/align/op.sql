-- The ops of every (process, device), in no order; see Unit in align/timeline.py, which sorts them.
--   unit             BIGINT   process (upper 32 bits) and device
--   start_ns, end_ns BIGINT
--   stream           INTEGER
--   key              INTEGER  dense id in op_key, by name
--   node             BIGINT   node of a CUDA graph, -1 for an op launched on its own
--   corr             BIGINT   process and correlation id in one number as in call.sql, -2 where there is none
--   pageable_dtoh    BOOLEAN
SELECT
    op.pid::BIGINT << 32 | op.device AS unit, op.start_ns, op.end_ns, op.stream, key.id AS key,
    coalesce(op.graph_node, -1) AS node,
    coalesce((op.pid::BIGINT << 32) + op.corr, -2) AS corr, op.pageable_dtoh
FROM op JOIN key_id AS key ON key.key = op.key;
