-- How far the times of each kind of row reach: what is computed of them must fit into 64 bits.
--   source   VARCHAR  where the rows come from
--   first_ns BIGINT   earliest start; NULL without rows
--   last_ns  BIGINT   latest end
--   total_ns HUGEINT  lengths of all rows together
SELECT 'CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET or _GRAPH_TRACE' AS source, min(start_ns) AS first_ns,
       max(end_ns) AS last_ns, sum(end_ns) - sum(start_ns) AS total_ns FROM op_row
UNION ALL
SELECT 'CUPTI_ACTIVITY_KIND_RUNTIME', min(start_ns), max(end_ns), sum(end_ns) - sum(start_ns) FROM api_call
UNION ALL
SELECT 'NVTX_EVENTS', min(r.start_ns), max(r.end_ns), sum(r.end_ns) - sum(r.start_ns)
FROM nvtx_row AS r SEMI JOIN nvtx_text AS t ON t.key = r.key;
