-- graph_node: the making of each node of a CUDA graph that an op is of. A graph that is instantiated has copies of its nodes, and ops carry the ids of
-- those: a copy was made where its original was.
--   pid      INTEGER
--   node     BIGINT  as op_descriptor.graph_node
--   tid      BIGINT  global id of the thread that made it
--   start_ns BIGINT
CREATE TABLE graph_node AS
WITH RECURSIVE made AS (
    SELECT (globalTid >> 24 & 16777215)::INTEGER AS pid, graphNodeId AS node, originalGraphNodeId AS original, globalTid AS tid, "start" AS start_ns
    FROM (FROM staged_CUDA_GRAPH_NODE_EVENTS UNION ALL BY NAME FROM staged_CUDA_GRAPH_EVENTS)
    WHERE graphNodeId IS NOT NULL AND globalTid IS NOT NULL AND "start" IS NOT NULL
), copied AS (
    SELECT pid, node, min(original) AS original FROM made WHERE original <> node GROUP BY pid, node
), root AS (
    SELECT DISTINCT pid, graph_node AS node, graph_node AS source, 0 AS copies FROM op_descriptor WHERE graph_node IS NOT NULL
    UNION ALL
    SELECT root.pid, root.node, copied.original, root.copies + 1
    FROM root JOIN copied ON copied.pid = root.pid AND copied.node = root.source
    WHERE root.copies < 8  -- a copy of a copy; and no circle goes on
), first AS (
    SELECT pid, node, arg_max(source, copies) AS source FROM root GROUP BY pid, node
)
SELECT first.pid, first.node, arg_min(made.tid, made.start_ns) AS tid, min(made.start_ns) AS start_ns
FROM first JOIN made ON made.pid = first.pid AND made.node = first.source
GROUP BY first.pid, first.node;
