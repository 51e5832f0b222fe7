-- process: a process that did something in the capture.
--   capture INTEGER    the export, a row of capture
--   pid     INTEGER    as the process knew it
--   devices INTEGER[]  the devices it worked on; empty for a process without GPU work
--   ops     BIGINT     its GPU activities
--   threads BIGINT     its threads in thread
--   steps   BIGINT     its steps in step
WITH working AS (
    SELECT pid, list_sort(list(DISTINCT device)) AS devices, count(*) AS ops FROM op GROUP BY pid
), threads AS (
    SELECT pid, count(*) AS threads FROM thread GROUP BY pid
), steps AS (
    SELECT pid, count(*) AS steps FROM step GROUP BY pid
), found AS (
    SELECT pid FROM working UNION SELECT pid FROM threads
)
SELECT
    {{capture}}::INTEGER AS capture, found.pid::INTEGER AS pid, coalesce(working.devices, [])::INTEGER[] AS devices, coalesce(working.ops, 0) AS ops,
    coalesce(threads.threads, 0) AS threads, coalesce(steps.steps, 0) AS steps
FROM found LEFT JOIN working USING (pid) LEFT JOIN threads USING (pid) LEFT JOIN steps USING (pid)
ORDER BY found.pid;
