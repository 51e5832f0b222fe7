-- Garbage collections and NVTX ranges by the step in which they began; needs range_of_step.
--   period  BIGINT   of the step on the first device of its rank
--   kind    VARCHAR  collections, ranges
--   name    VARCHAR  generation; text of the range with numbers masked
--   thread  VARCHAR  role
--   count   BIGINT
SELECT period::BIGINT AS period, 'collections' AS kind, coalesce(generation::VARCHAR, '') AS name, thread, count(*) AS count
FROM in_step('gc')
GROUP BY ALL
UNION ALL
SELECT period, 'ranges', place, thread, sum(count)::BIGINT FROM range_of_step GROUP BY ALL
ORDER BY ALL;
