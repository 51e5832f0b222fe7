-- NVTX ranges that touch a sampled period of their process.
--   period           BIGINT   row of the table of periods
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   label            INTEGER  id in range_text
--   text             VARCHAR  of the label
SELECT k.period, r.start_ns, r.end_ns, r.tid, r.label, t.text
FROM range AS r
JOIN sampled_period AS k ON r.start_ns < k.stop_ns AND r.end_ns > k.begin_ns
JOIN range_text AS t ON t.label = r.label
WHERE r.tid IS NOT NULL AND (r.tid >> 24 & 16777215) = k.pid
ORDER BY k.period, r.start_ns, r.end_ns, r.tid, r.label;
