-- step: one executor iteration of a process, on the host. period says how long it was on each GPU.
--   capture      INTEGER  the export, a row of capture
--   pid          INTEGER  process
--   step         INTEGER  0, 1, ... within the process
--   number       BIGINT   as its label says; NULL where the label does not say
--   phase        VARCHAR  context, generation or mixed; step where the label says nothing of requests
--   ctx_reqs     INTEGER  requests in their context phase; NULL where the label does not say
--   ctx_tokens   INTEGER
--   gen_reqs     INTEGER  requests in their generation phase
--   tid          BIGINT   thread of the label, as in thread
--   start_ns     BIGINT   start of the label: the host window begins
--   label_end_ns BIGINT   end of the label
--   end_ns       BIGINT   start of the next label: the host window ends; NULL for the last
SELECT
    {{capture}}::INTEGER AS capture, pid, step, number,
    CASE
        WHEN phase IS NOT NULL THEN phase
        WHEN ctx_reqs IS NULL AND gen_reqs IS NULL THEN 'step'
        WHEN ctx_reqs > 0 AND gen_reqs = 0 THEN 'context'
        WHEN ctx_reqs = 0 THEN 'generation'
        ELSE 'mixed'
    END AS phase,
    ctx_reqs, ctx_tokens, gen_reqs, tid, start_ns, label_end_ns, next_ns AS end_ns
FROM step ORDER BY pid, step;
