-- op: one GPU activity, numbered in order of time.
--   op               BIGINT   1, 2, ... by process, device and start
--   pid, device, stream INTEGER
--   start_ns, end_ns BIGINT
--   kind             VARCHAR  compute, comm or memcpy (see op_class)
--   key              BIGINT   what it is: 0, 1, ... in the order of the names in op_key
--   launch           BIGINT   its launching call, NULL where there is none
--   node             BOOLEAN  of a CUDA graph
--   later_node       BOOLEAN  of a CUDA graph, and started after the first op of its launch
CREATE TABLE accounting.op AS
WITH numbered AS (
    SELECT key, kind = 3 AS whole_graph, row_number() OVER (ORDER BY kind, name, grid, block, short_name) - 1 AS number FROM op_key
), ordered AS (
    SELECT
        row_number() OVER (
            ORDER BY s.pid, s.device, r.start_ns, coalesce(r.launch, -2), coalesce(s.graph_node, -1), r.end_ns, s.stream, k.number
        ) AS op,
        s.pid, s.device, s.stream, r.start_ns, r.end_ns, op_class.kind, k.number AS key, l.launch, s.graph_node IS NOT NULL AS node,
        k.whole_graph
    FROM op_row AS r
    JOIN op_descriptor AS s USING (descriptor)
    JOIN numbered AS k USING (key)
    JOIN op_class USING (key)
    LEFT JOIN accounting.launch AS l ON l.launch = r.launch
)
SELECT
    *, node AND launch IS NOT NULL AND start_ns > min(start_ns) OVER (PARTITION BY pid, device, launch) AS later_node
FROM ordered;
