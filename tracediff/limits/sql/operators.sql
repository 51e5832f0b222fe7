-- operator: ranges of operators whose shapes are told, see limits/work.py.
--   start_ns, end_ns BIGINT
--   tid              BIGINT   global thread id
--   text             VARCHAR  as in range_text
--   json             VARCHAR  of torch.profiler
CREATE OR REPLACE TABLE operator AS
SELECT r.start_ns, r.end_ns, r.tid, t.text, s.json
FROM range AS r JOIN range_text AS t ON t.label = r.label
LEFT JOIN shape_payload AS s ON s.start_ns = r.start_ns AND s.tid = r.tid AND s.label = r.label
WHERE r.push_pop AND t.text LIKE 'aten::%' AND (s.json IS NOT NULL OR contains(t.text, ', sizes = [['));
