-- CUDA calls by the step in which they began; a call inside a call counts as well.
--   period    BIGINT   of the step on the first device of its rank
--   stratum   BIGINT   of that
--   api       VARCHAR
--   kind      VARCHAR  launch, sync or other, by its name
--   thread    VARCHAR  role
--   count, ns BIGINT
--   nested    BIGINT   of count, calls inside another call: a driver call under a runtime call, code loaded by a launch
--   squares   DOUBLE   sum of the squares of their ns
SELECT m.period, m.stratum, n.api, n.class AS kind, t.role AS thread, count(*) AS count,
    count(*) FILTER (c.nested) AS nested, sum(c.ns)::BIGINT AS ns, sum(c.ns::DOUBLE ** 2) AS squares
FROM cuda_call AS c
JOIN measured AS m USING (period)
JOIN thread_role AS t USING (tid)
JOIN api_name AS n ON coalesce(n.name, -1) = c.name
GROUP BY ALL
ORDER BY ALL;
