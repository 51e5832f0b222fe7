-- step: the steps of each process, in order: the thread that carries most step labels is its executor.
-- pattern: a regular expression with up to four groups: number, ctx requests, ctx tokens, gen requests;
-- number ... gen say which group holds which (0: none).
--   pid        INTEGER
--   step       INTEGER  0, 1, ... within the process
--   tid        BIGINT   the thread of the label
--   number     BIGINT   as the label says, NULL where it does not
--   ctx_reqs, ctx_tokens, gen_reqs INTEGER  NULL where the label does not say; a label that names one of context
--                     and generation only has none of the other
--   phase      VARCHAR  NULL: what the numbers of requests say
--   start_ns   BIGINT   start of the label = start of the host window
--   label_end_ns BIGINT end of the label
--   next_ns    BIGINT   start of the next label = end of the host window; NULL for the last
CREATE OR REPLACE TABLE step_text AS
WITH matched AS (
    SELECT label, text FROM range_text WHERE regexp_matches(text, {{pattern}})
)
SELECT
    label,
    CASE WHEN {{number}} > 0 THEN TRY_CAST(regexp_extract(text, {{pattern}}, {{number}}) AS BIGINT) END AS number,
    CASE WHEN {{ctx}} > 0 THEN TRY_CAST(regexp_extract(text, {{pattern}}, {{ctx}}) AS INTEGER) END AS ctx_reqs,
    CASE WHEN {{tokens}} > 0 THEN TRY_CAST(regexp_extract(text, {{pattern}}, {{tokens}}) AS INTEGER) END AS ctx_tokens,
    CASE WHEN {{gen}} > 0 THEN TRY_CAST(regexp_extract(text, {{pattern}}, {{gen}}) AS INTEGER) END AS gen_reqs
FROM matched;

CREATE OR REPLACE TABLE step AS
WITH labelled AS (
    SELECT (r.tid >> 24 & 16777215)::INTEGER AS pid, r.tid, r.start_ns, r.end_ns, t.number,
           coalesce(t.ctx_reqs, CASE WHEN {{ctx}} > 0 AND t.gen_reqs IS NOT NULL THEN 0 END)::INTEGER AS ctx_reqs,
           t.ctx_tokens,
           coalesce(t.gen_reqs, CASE WHEN {{gen}} > 0 AND t.ctx_reqs IS NOT NULL THEN 0 END)::INTEGER AS gen_reqs
    FROM range AS r JOIN step_text AS t USING (label)
), executor AS (
    SELECT pid, arg_max(tid, (labels, -tid)) AS tid
    FROM (SELECT pid, tid, count(*) AS labels FROM labelled GROUP BY pid, tid) GROUP BY pid
), outermost AS (
    -- a label repeated inside itself (a wrapper and its wrapped function) is one step
    SELECT l.*, max(l.end_ns) OVER (
        PARTITION BY l.pid ORDER BY l.start_ns, l.end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS reach
    FROM labelled AS l JOIN executor AS e ON e.pid = l.pid AND e.tid = l.tid
)
SELECT
    pid, (row_number() OVER running - 1)::INTEGER AS step, tid, number, ctx_reqs, ctx_tokens, gen_reqs,
    NULL::VARCHAR AS phase, start_ns, end_ns AS label_end_ns, lead(start_ns) OVER running AS next_ns
FROM outermost
WHERE reach IS NULL OR start_ns >= reach
WINDOW running AS (PARTITION BY pid ORDER BY start_ns, end_ns DESC);
