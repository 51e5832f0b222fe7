-- op_period: the period in which an op starts; ops before the first and after the last period are not here.
--   op, period BIGINT
CREATE TABLE accounting.op_period AS
SELECT o.op, p.period
FROM accounting.op AS o
ASOF JOIN accounting.period AS p ON p.pid = o.pid AND p.device = o.device AND p.start_ns <= o.start_ns
WHERE o.start_ns < p.end_ns;

-- op_part: an op inside one period; most ops are one part, those that cross a bound are cut there.
--   op, period       BIGINT
--   kind             VARCHAR
--   start_ns, end_ns BIGINT
CREATE TABLE accounting.op_part AS
WITH reach AS (
    SELECT o.op, o.kind, o.start_ns, o.end_ns, coalesce(first.period, earliest.period) AS first, last.period AS last
    FROM accounting.op AS o
    JOIN (SELECT pid, device, min(period) AS period FROM accounting.period GROUP BY ALL) AS earliest USING (pid, device)
    LEFT JOIN accounting.op_period AS first USING (op)
    ASOF JOIN accounting.period AS last ON last.pid = o.pid AND last.device = o.device AND last.start_ns < o.end_ns
    WHERE o.end_ns > o.start_ns
), met AS (
    SELECT op, kind, start_ns, end_ns, unnest(range(first, last + 1)) AS period FROM reach
)
SELECT m.op, m.period, m.kind, greatest(m.start_ns, p.start_ns) AS start_ns, least(m.end_ns, p.end_ns) AS end_ns
FROM met AS m JOIN accounting.period AS p USING (period)
WHERE m.start_ns < p.end_ns AND m.end_ns > p.start_ns;

-- busy_slot: the device between two instants at which an op starts or ends.
--   period BIGINT
--   ns     BIGINT   its start
--   length BIGINT   ns
--   kind   VARCHAR  compute if a compute kernel runs, else comm, else memcpy; NULL where nothing runs
--   ops    HUGEINT  of that kind that run
CREATE TABLE accounting.busy_slot AS
WITH boundary AS (
    SELECT period, start_ns AS ns, kind, 1 AS change FROM accounting.op_part
    UNION ALL
    SELECT period, end_ns, kind, -1 FROM accounting.op_part
), running AS (
    SELECT
        period, ns, lead(ns) OVER w - ns AS length,
        sum(change) FILTER (kind = 'compute') OVER w AS compute,
        sum(change) FILTER (kind = 'comm') OVER w AS comm,
        sum(change) FILTER (kind = 'memcpy') OVER w AS memcpy
    FROM boundary
    WINDOW w AS (PARTITION BY period ORDER BY ns ROWS UNBOUNDED PRECEDING)
)
SELECT
    period, ns, length,
    CASE WHEN compute > 0 THEN 'compute' WHEN comm > 0 THEN 'comm' WHEN memcpy > 0 THEN 'memcpy' END AS kind,
    CASE WHEN compute > 0 THEN compute WHEN comm > 0 THEN comm WHEN memcpy > 0 THEN memcpy END AS ops
FROM running
WHERE length > 0;

-- busy: busy time of each period by kind.
--   period BIGINT
--   kind   VARCHAR  compute, comm, memcpy
--   ns     BIGINT
CREATE TABLE accounting.busy AS
SELECT period, kind, sum(length)::BIGINT AS ns FROM accounting.busy_slot WHERE kind IS NOT NULL GROUP BY period, kind;

-- kernel: time of each kind of op in each period.
--   period   BIGINT
--   key      BIGINT
--   ops      BIGINT  that start in the period
--   graph    BIGINT  those of them launched by graphs
--   wall_ns  BIGINT  their length; ops overlap, so the sum may exceed the period
--   wall_square DOUBLE  sum of their squared lengths, ns^2
--   share_ns DOUBLE  of the accounting: k ops that run at once have 1/k of the time each, so this adds up to busy
CREATE TABLE accounting.kernel AS
WITH total AS (
    -- what an op that runs from the first boundary of its period on would have got until each boundary
    SELECT period, ns + length AS ns, w.kind,
           sum(CASE WHEN s.kind = w.kind THEN length / ops ELSE 0 END) OVER (PARTITION BY period, w.kind ORDER BY ns) AS ns_until
    FROM accounting.busy_slot AS s
    CROSS JOIN (VALUES ('compute'), ('comm'), ('memcpy')) AS w (kind)
), share AS (
    SELECT part.period, part.op, until.ns_until - coalesce(before.ns_until, 0) AS share_ns
    FROM accounting.op_part AS part
    JOIN total AS until ON until.period = part.period AND until.kind = part.kind AND until.ns = part.end_ns
    LEFT JOIN total AS before ON before.period = part.period AND before.kind = part.kind AND before.ns = part.start_ns
), counted AS (
    SELECT period, key, 1 AS ops, node::INTEGER AS graph, end_ns - start_ns AS wall_ns,
        (end_ns - start_ns)::DOUBLE ** 2 AS wall_square, 0.0::DOUBLE AS share_ns
    FROM accounting.op JOIN accounting.op_period USING (op)
    UNION ALL
    SELECT share.period, op.key, 0, 0, 0, 0, share_ns FROM share JOIN accounting.op AS op USING (op)
)
SELECT period, key, sum(ops)::BIGINT AS ops, sum(graph)::BIGINT AS graph, sum(wall_ns)::BIGINT AS wall_ns,
    sum(wall_square) AS wall_square, sum(share_ns) AS share_ns
FROM counted
GROUP BY period, key;
