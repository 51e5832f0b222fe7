-- Garbage collections by the shape of the step in which they began.
--   stratum    BIGINT
--   thread     VARCHAR  role
--   generation VARCHAR
--   count, ns  BIGINT
SELECT stratum, thread, generation, count(*) AS count, sum(end_ns - start_ns)::BIGINT AS ns
FROM in_step('gc')
GROUP BY ALL
ORDER BY ALL;
