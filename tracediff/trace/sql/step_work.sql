-- How the steps hold the GPU work.
--   steps  BIGINT  step windows in which a launching call started, of the process that has most of them
--   inside BIGINT  ops launched inside the labels, of the process that launched most ops
--   ops    BIGINT  launched by that process
WITH work AS (
    SELECT launch, count(*) AS ops FROM op_row WHERE launch IS NOT NULL GROUP BY launch
), launching AS (
    SELECT call.pid, min(call.start_ns) AS start_ns, any_value(work.ops) AS ops
    FROM work JOIN api_call AS call ON (call.pid::BIGINT << 32) + call.corr = work.launch
    GROUP BY work.launch, call.pid
), placed AS (
    SELECT launching.pid, launching.ops, step.step, coalesce(launching.start_ns < step.label_end_ns, false) AS inside
    FROM launching ASOF LEFT JOIN step ON step.pid = launching.pid AND step.start_ns <= launching.start_ns
), processes AS (
    SELECT pid, count(DISTINCT step) AS steps, coalesce(sum(ops) FILTER (inside), 0) AS inside, sum(ops) AS ops
    FROM placed GROUP BY pid
)
SELECT
    coalesce(max(steps), 0)::BIGINT AS steps, coalesce(arg_max(inside, (ops, -pid)), 0)::BIGINT AS inside,
    coalesce(max(ops), 0)::BIGINT AS ops
FROM processes;
