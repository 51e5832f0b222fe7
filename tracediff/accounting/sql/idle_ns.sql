-- Idle time of each period by cell.
--   period, cell, ns, count (pieces) BIGINT
WITH sums AS (
    SELECT
        period, cause, under, thread, place, holder, holder_place, copy, sum(end_ns - start_ns)::BIGINT AS ns, count(*) AS count
    FROM idle_piece GROUP BY ALL
)
SELECT period, cell, sum(ns)::BIGINT AS ns, sum(count)::BIGINT AS count
FROM sums JOIN idle_cell USING (cause, under, thread, place, holder, holder_place, copy)
GROUP BY period, cell
ORDER BY period, cell;
