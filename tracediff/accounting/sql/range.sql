-- A stretch of the ranges (parameters: first row, row after the last).
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   label            INTEGER  id in range_text
--   domain           BIGINT   place of its domain's name among all names, from 1; 0 where it has none
WITH names AS (
    SELECT name, row_number() OVER (ORDER BY name) AS number FROM (SELECT DISTINCT name FROM nvtx_domain)
), domains AS (
    SELECT d.pid, d.domain, names.number FROM nvtx_domain AS d JOIN names USING (name)
)
SELECT r.start_ns, r.end_ns, r.tid, r.label, coalesce(d.number, 0) AS domain
FROM range AS r
LEFT JOIN domains AS d ON d.pid = (r.tid >> 24 & 16777215)::INTEGER AND d.domain = r.domain
WHERE r.rowid >= ? AND r.rowid < ? AND r.tid IS NOT NULL;
