-- Steps in which the program loads code or makes CUDA graphs: calls that it does not repeat.
--   period BIGINT   of the step on the first device of its rank
SELECT DISTINCT c.period::BIGINT AS period
FROM cuda_call AS c JOIN thread_role USING (tid) JOIN api_name AS n ON coalesce(n.name, -1) = c.name
WHERE c.period >= 0 AND regexp_matches(n.api, 'GraphInstantiate|BeginCapture|ModuleLoad|LibraryLoad')
ORDER BY period;
