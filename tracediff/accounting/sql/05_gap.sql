-- gap: idle time of a device between two ops.
--   gap              BIGINT  the op that ends it
--   previous         BIGINT  the op that ran last before it
--   period           BIGINT
--   start_ns, end_ns BIGINT
CREATE TABLE accounting.gap AS
WITH reached AS (
    SELECT op, pid, device, start_ns, max(end_ns) OVER (
        PARTITION BY pid, device ORDER BY op ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS reach
    FROM accounting.op
), idle AS (
    SELECT op, pid, device, reach AS start_ns, start_ns AS end_ns FROM reached WHERE start_ns > reach
), last AS (
    SELECT pid, device, end_ns, max(op) AS op FROM accounting.op GROUP BY pid, device, end_ns
)
SELECT i.op AS gap, last.op AS previous, p.period, i.start_ns, i.end_ns
FROM idle AS i
JOIN last ON last.pid = i.pid AND last.device = i.device AND last.end_ns = i.start_ns
ASOF JOIN accounting.period AS p ON p.pid = i.pid AND p.device = i.device AND p.start_ns <= i.start_ns
WHERE i.start_ns < p.end_ns;
