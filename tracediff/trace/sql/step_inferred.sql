-- step of inferred steps, with the columns of step.sql, from the table `inferred` (pid, tid, start_ns);
-- step_text is empty, for no range is a label.
CREATE OR REPLACE TABLE step_text (label INTEGER, number BIGINT, ctx_reqs INTEGER, ctx_tokens INTEGER, gen_reqs INTEGER);
CREATE OR REPLACE TABLE step AS
SELECT
    pid::INTEGER AS pid, (row_number() OVER running - 1)::INTEGER AS step, tid::BIGINT AS tid,
    NULL::BIGINT AS number, NULL::INTEGER AS ctx_reqs, NULL::INTEGER AS ctx_tokens, NULL::INTEGER AS gen_reqs,
    {{phase}} AS phase,
    start_ns, coalesce(lead(start_ns) OVER running, start_ns) AS label_end_ns,
    lead(start_ns) OVER running AS next_ns
FROM inferred
WINDOW running AS (PARTITION BY pid ORDER BY start_ns);
