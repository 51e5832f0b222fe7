-- Steps with GPU work, of the process that has most of them: step windows in which a launching call started.
--   steps BIGINT
WITH launching AS (
    SELECT call.pid, call.start_ns FROM api_call AS call SEMI JOIN op_row ON op_row.launch = (call.pid::BIGINT << 32) + call.corr
), worked AS (
    SELECT step.pid, step.step
    FROM launching ASOF JOIN step ON step.pid = launching.pid AND step.start_ns <= launching.start_ns
)
SELECT coalesce(max(steps), 0) AS steps
FROM (SELECT pid, count(DISTINCT step) AS steps FROM worked GROUP BY pid);
