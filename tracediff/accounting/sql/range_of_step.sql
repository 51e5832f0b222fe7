-- range_of_step: NVTX ranges by the step in which they began.
--   period    BIGINT   of the step on the first device of its rank
--   stratum   BIGINT   of that
--   thread    VARCHAR  role
--   place     VARCHAR  text with numbers masked
--   domain    VARCHAR  '' the default one
--   start_ns  BIGINT   of the first
--   count, ns BIGINT
--   squares   DOUBLE   sum of the squares of their ns
--   outer_ns  BIGINT   ns in which no range of their thread that began before was open: these add up to the time in any range
--   wait_ns   BIGINT   of ns, in waits of their thread for the GIL
--   call_ns   BIGINT   of ns, in its CUDA calls, outside of those
CREATE OR REPLACE TABLE range_of_step AS
WITH outer_range AS (
    SELECT range.*, i.wait_ns, i.call_ns, coalesce(max(end_ns) OVER (
        PARTITION BY tid ORDER BY start_ns, end_ns DESC, label ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), start_ns) AS covered_ns
    FROM range JOIN inside_range AS i ON i.row = range.rowid
)
SELECT r.period::BIGINT AS period, r.stratum, r.thread, p.place, coalesce(d.name, '') AS domain, min(r.start_ns) AS start_ns, count(*) AS count,
       sum(r.end_ns - r.start_ns)::BIGINT AS ns, sum((r.end_ns - r.start_ns)::DOUBLE ** 2) AS squares,
       sum(greatest(r.end_ns - greatest(r.start_ns, r.covered_ns), 0))::BIGINT AS outer_ns,
       sum(r.wait_ns)::BIGINT AS wait_ns, sum(r.call_ns)::BIGINT AS call_ns
FROM in_step('outer_range') AS r
JOIN place_of_label USING (label)
JOIN place_name AS p USING (id)
LEFT JOIN nvtx_domain AS d ON d.pid = r.pid AND d.domain = r.domain
GROUP BY ALL;
