-- Where a capture has no steps: the tables of find_steps (columns of trace/sql/step.sql) and of window.sql, without rows.
CREATE OR REPLACE TABLE step_text (label INTEGER, number BIGINT, ctx_reqs INTEGER, ctx_tokens INTEGER, gen_reqs INTEGER);
CREATE OR REPLACE TABLE step (pid INTEGER, step INTEGER, tid BIGINT, number BIGINT, ctx_reqs INTEGER,
    ctx_tokens INTEGER, gen_reqs INTEGER, phase VARCHAR, start_ns BIGINT, label_end_ns BIGINT, next_ns BIGINT);
CREATE OR REPLACE TEMP TABLE query_window (pid INTEGER, owner INTEGER, step INTEGER, start_ns BIGINT, end_ns BIGINT);
