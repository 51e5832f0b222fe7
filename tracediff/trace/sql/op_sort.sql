-- What the ops of a sort share, in order of sort_id.
--   unit          BIGINT   process (upper 32 bits) and device
--   stream        INTEGER
--   key           INTEGER  dense id in op_key, by name
--   node          BIGINT   node of a CUDA graph, -1 for an op launched on its own
--   pageable_dtoh BOOLEAN
SELECT
    s.pid::BIGINT << 32 | s.device AS unit, s.stream, key_id.id AS key, coalesce(s.graph_node, -1) AS node,
    s.pageable_dtoh
FROM op_sort AS s JOIN sort_id USING (sort) JOIN key_id ON key_id.key = s.key
ORDER BY sort_id.id;
