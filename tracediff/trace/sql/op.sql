-- The ops of the export, in no order.
--   pid, device, stream INTEGER
--   start_ns, end_ns    BIGINT
--   key                 INTEGER  dense id in op_key, by name
--   node                INTEGER  id in node_id of a node of a CUDA graph, -1 none
--   launch              BIGINT   process << 32 + correlation id as in call.sql, -2 where there is none
SELECT
    s.pid, s.device, s.stream, r.start_ns, r.end_ns, k.id AS key, s.node, coalesce(r.launch, -2) AS launch
FROM op_row AS r
JOIN (
    SELECT op_descriptor.*, coalesce(node_id.id, -1) AS node FROM op_descriptor LEFT JOIN node_id USING (pid, graph_node)
) AS s USING (descriptor)
JOIN key_id AS k USING (key);
