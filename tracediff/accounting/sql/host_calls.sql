-- Outermost calls of a library (view library_call) by the shape of the step in which they began.
--   stratum   BIGINT
--   thread    VARCHAR  role
--   call      VARCHAR  ? without a name
--   count, ns BIGINT
--   sized     BIGINT   calls whose bytes are known
--   bytes     BIGINT   of those
WITH outer_call AS (
    -- began after all calls before them on their thread were over
    SELECT * FROM library_call
    QUALIFY start_ns >= coalesce(max(end_ns) OVER (
        PARTITION BY tid ORDER BY start_ns, end_ns DESC, coalesce(name, -1), coalesce(bytes, -1)
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), start_ns)
)
SELECT
    stratum, thread, call, count(*) AS count, sum(end_ns - start_ns)::BIGINT AS ns,
    count(*) FILTER (bytes >= 0) AS sized, coalesce(sum(bytes) FILTER (bytes >= 0), 0)::BIGINT AS bytes
FROM in_step('outer_call')
GROUP BY ALL
ORDER BY ALL;
