-- Of each process of which some steps make CUDA calls, and all from one on none, where these are a part (`?`) of its steps.
--   pid      INTEGER
--   later    BIGINT  steps that begin after its last recorded call
--   steps    BIGINT
--   ended_ns BIGINT  the end of that call
SELECT pid, count(*) FILTER (start_ns > ended_ns) AS later, count(*) AS steps, any_value(ended_ns) AS ended_ns
FROM step JOIN (SELECT pid, max(end_ns) AS ended_ns FROM api_call GROUP BY pid) USING (pid)
GROUP BY pid HAVING later > 1 AND later >= ? * steps AND later < steps ORDER BY pid;
