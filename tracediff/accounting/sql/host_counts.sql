-- Garbage collections, NVTX ranges and messages of NCCL by the step in which they began; needs range_of_step.
--   period  BIGINT   of the step on the first device of its rank
--   kind    VARCHAR  collections, ranges, messages
--   name    VARCHAR  generation; text of the range with numbers masked; function of NCCL
--   thread  VARCHAR  role
--   group   VARCHAR  of messages the name of their group, '' where it has none
--   count   BIGINT
--   bytes   BIGINT   of messages
SELECT period::BIGINT AS period, 'collections' AS kind, coalesce(generation::VARCHAR, '') AS name, thread, '' AS "group", count(*) AS count, 0::BIGINT AS bytes
FROM in_step('gc')
GROUP BY ALL
UNION ALL
SELECT period, 'ranges', place, thread, '', sum(count)::BIGINT, 0 FROM range_of_step GROUP BY ALL
UNION ALL
SELECT period, 'messages', text, thread, "group", count(*), sum(bytes)::BIGINT
FROM in_step('nccl_size') JOIN range_text USING (label)
WHERE bytes IS NOT NULL
GROUP BY ALL
ORDER BY ALL;
