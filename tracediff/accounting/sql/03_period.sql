-- op_step: the step that an op belongs to: that in whose host window its launching call began.
--   op   BIGINT
--   step INTEGER  of its process (table step); NULL before the first. An op without a launching call goes with the op before it on its stream.
CREATE TABLE accounting.op_step AS
WITH launched AS (
    SELECT o.op, o.pid, o.device, o.stream, o.launch IS NOT NULL AS launched,
           -- the only step of a process ends with its label
           coalesce(CASE WHEN l.start_ns < coalesce(s.next_ns, l.start_ns + 1) THEN s.step END, -1) AS step
    FROM accounting.op AS o
    LEFT JOIN accounting.launch AS l ON l.launch = o.launch
    ASOF LEFT JOIN step AS s ON s.pid = o.pid AND s.start_ns <= l.start_ns
)
SELECT
    op,
    nullif(last_value(CASE WHEN launched THEN step END IGNORE NULLS) OVER (
        PARTITION BY pid, device, stream ORDER BY op ROWS UNBOUNDED PRECEDING
    ), -1) AS step
FROM launched;

-- period: the GPU time of a step on a device: from the first op of the step to the first op of the next one.
--   period           BIGINT   0, 1, ... by process, device and time
--   pid, device      INTEGER
--   step             INTEGER  of its process
--   start_ns, end_ns BIGINT
--   phase            VARCHAR  context, generation or mixed; step where the label does not say
--   stratum          BIGINT   number of its shape: phase, and what the label says of requests and tokens
CREATE TABLE accounting.period AS
WITH profiler AS (
    SELECT c.tid >> 24 & 16777215 AS pid, min(c.start_ns) AS start_ns
    FROM accounting.call AS c JOIN api_name AS n USING (name)
    WHERE n.api SIMILAR TO 'cu.*ProfilerStart' GROUP BY ALL
), cut AS (
    SELECT pid, count(*) = 1 AS single FROM step GROUP BY pid HAVING count(*) > 1 OR max(next_ns) IS NOT NULL
), seen AS (
    SELECT o.pid, o.device, s.step, min(o.start_ns) AS start_ns, CASE WHEN cut.single THEN max(o.end_ns) END AS last_ns
    FROM accounting.op AS o JOIN accounting.op_step AS s USING (op) JOIN cut USING (pid)
    WHERE s.step IS NOT NULL
    GROUP BY o.pid, o.device, s.step, cut.single
), whole AS (
    -- the first step was cut where its label opened before the program started the profiler
    SELECT seen.*
    FROM seen JOIN step USING (pid, step) LEFT JOIN profiler USING (pid)
    QUALIFY coalesce(step.start_ns >= profiler.start_ns, true) OR row_number() OVER (PARTITION BY seen.pid, device ORDER BY seen.step) > 1
), in_order AS (
    -- a step that begins on the GPU after a later one gives its time to the step before it
    FROM whole QUALIFY coalesce(start_ns < min(start_ns) OVER (
        PARTITION BY pid, device ORDER BY step ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ), true)
), bounded AS (
    -- the last step was cut, but for one that ends with its label: it lasts until its last op ends
    SELECT *, coalesce(lead(start_ns) OVER (PARTITION BY pid, device ORDER BY step), last_ns) AS end_ns FROM in_order
), shaped AS (
    SELECT
        b.pid, b.device, b.step, b.start_ns, b.end_ns, s.ctx_reqs, s.ctx_tokens, s.gen_reqs,
        CASE
            WHEN s.phase IS NOT NULL THEN s.phase
            WHEN s.ctx_reqs IS NULL AND s.gen_reqs IS NULL THEN 'step'
            WHEN s.ctx_reqs > 0 AND s.gen_reqs = 0 THEN 'context'
            WHEN s.ctx_reqs = 0 THEN 'generation'
            ELSE 'mixed'
        END AS phase
    FROM bounded AS b JOIN step AS s USING (pid, step)
    WHERE b.end_ns IS NOT NULL
)
SELECT
    row_number() OVER (ORDER BY pid, device, start_ns) - 1 AS period, pid, device, step, start_ns, end_ns, phase,
    dense_rank() OVER (ORDER BY phase, ctx_reqs NULLS LAST, ctx_tokens NULLS LAST, gen_reqs NULLS LAST) - 1 AS stratum
FROM shaped;
