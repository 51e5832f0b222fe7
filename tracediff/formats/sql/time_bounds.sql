-- Bounds of load/time_extent.sql that DuckDB finds in a tenth of the time: no row starts earlier, ends later, or is longer than from
-- the one to the other. The names of NVTX domains count here, which have a start too.
--   first_ns BIGINT  NULL without rows
--   last_ns  BIGINT
--   row_count BIGINT
SELECT min(start_ns) AS first_ns, max(end_ns) AS last_ns, count(*) AS row_count FROM op_row
UNION ALL
SELECT min(start_ns), max(end_ns), count(*) FROM api_call
UNION ALL
SELECT min(start_ns), max(end_ns), count(*) FROM nvtx_row;
