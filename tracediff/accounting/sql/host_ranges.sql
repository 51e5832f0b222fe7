-- NVTX ranges by the shape of the step in which they began.
--   stratum   BIGINT
--   thread    VARCHAR  role
--   place     VARCHAR  text with numbers masked
--   domain    VARCHAR  '' the default one
--   count, ns BIGINT
--   squares   DOUBLE   sum of the squares of their ns
--   outer_ns  BIGINT   ns in which no range of their thread that began before was open
--   wait_ns   BIGINT   of ns, in waits of their thread for the GIL
--   call_ns   BIGINT   of ns, in its CUDA calls, outside of those
--   after_ns  BIGINT   from the first range of the thread in the step to the first of these, in sum of steps: their order
SELECT
    stratum, thread, place, domain, sum(count)::BIGINT AS count, sum(ns)::BIGINT AS ns, sum(squares) AS squares, sum(outer_ns)::BIGINT AS outer_ns,
    sum(wait_ns)::BIGINT AS wait_ns, sum(call_ns)::BIGINT AS call_ns, sum(start_ns - first_ns)::BIGINT AS after_ns
FROM (SELECT *, min(start_ns) OVER (PARTITION BY period, thread) AS first_ns FROM range_of_step)
GROUP BY ALL
ORDER BY ALL;
