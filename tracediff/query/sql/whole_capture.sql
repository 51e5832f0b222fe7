-- With --whole-capture, or where a capture has no steps: the tables of find_steps without rows (columns of
-- trace/sql/step.sql), and for {{whole}} = 1 one window from the first event to the last.
--   pid, owner, step INTEGER
--   start_ns, end_ns BIGINT
CREATE OR REPLACE TABLE step_text (label INTEGER, number BIGINT, ctx_reqs INTEGER, ctx_tokens INTEGER, gen_reqs INTEGER);
CREATE OR REPLACE TABLE step (pid INTEGER, step INTEGER, tid BIGINT, number BIGINT, ctx_reqs INTEGER,
    ctx_tokens INTEGER, gen_reqs INTEGER, phase VARCHAR, start_ns BIGINT, label_end_ns BIGINT, next_ns BIGINT);
CREATE OR REPLACE TEMP TABLE query_window AS
WITH events AS (
    SELECT start_ns, end_ns FROM api_call UNION ALL SELECT start_ns, end_ns FROM op
), span AS (
    SELECT min(start_ns) AS start_ns, max(end_ns) + 1 AS end_ns FROM events
), owners AS (
    SELECT DISTINCT pid FROM op
), processes AS (
    SELECT pid FROM owners UNION SELECT pid FROM thread
)
SELECT processes.pid, coalesce(owners.pid, (SELECT min(pid) FROM owners)) AS owner, 0 AS step, span.start_ns, span.end_ns
FROM processes LEFT JOIN owners ON owners.pid = processes.pid, span
WHERE {{whole}} = 1 AND EXISTS (FROM owners);
