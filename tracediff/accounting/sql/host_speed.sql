-- How long the CUDA calls took that wait for nothing and began in a step: the speed of the host.
--   period BIGINT   of the step on the first device of its rank
--   api    VARCHAR
--   count  BIGINT
--   log_ns DOUBLE   median of ln(ns)
WITH quick AS (
    SELECT coalesce(name, -1) AS name, api FROM api_name
    -- allocating takes locks of the driver; loading and instantiating are done once; a graph launch grows with its graph;
    -- a copy takes as long as its bytes, and one of pageable memory waits for the GPU, whatever the call is named
    WHERE NOT regexp_matches(api, 'Synchronize|Alloc|alloc|Free|GraphLaunch|Instantiate|ModuleLoad|LibraryLoad|Memcpy|Wait|unnamed')
        -- returns when the memory is set
        AND (contains(api, 'Async') OR NOT regexp_matches(api, '^cu(da)?Memset'))
)
SELECT c.period::BIGINT AS period, q.api, count(*) AS count, median(ln(c.ns)) AS log_ns
FROM cuda_call AS c JOIN thread_role USING (tid) JOIN quick AS q USING (name)
WHERE c.period >= 0 AND c.ns > 0
GROUP BY ALL
ORDER BY ALL;
