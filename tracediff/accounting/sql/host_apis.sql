-- CUDA calls by the shape of the step in which they began; a call inside a call counts as well.
--   stratum   BIGINT
--   api       VARCHAR
--   kind      VARCHAR  launch, sync or other, by its name
--   thread    VARCHAR  role
--   count, ns BIGINT
SELECT c.stratum, n.api, n.class AS kind, c.thread, count(*) AS count, sum(c.end_ns - c.start_ns)::BIGINT AS ns
FROM in_step('cuda_call') AS c JOIN api_name AS n ON coalesce(n.name, -1) = c.name
GROUP BY ALL
ORDER BY ALL;
