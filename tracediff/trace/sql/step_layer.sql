-- Starts of the ranges that are named like parts of a step: layers, modules, operators. {{pattern}} tells them.
--   pid      INTEGER
--   family   BIGINT   equal for names that differ in numbers only
--   start_ns BIGINT
SELECT
    (range.tid >> 24 & 16777215)::INTEGER AS pid,
    dense_rank() OVER (ORDER BY range.tid >> 24 & 16777215, regexp_replace(text, '[0-9]+', '#', 'g')) AS family,
    start_ns
FROM range JOIN range_text USING (label)
WHERE regexp_matches(text, {{pattern}})
ORDER BY 2, 3;
