-- idle_held: idle_piece, with waits for the GIL cut along who held it and along the holder's innermost range.
--   gap, tid, start_ns, end_ns, cause, under, label, api  see idle_piece
--   holder       BIGINT  thread that held the GIL; of the time in which nobody held it: who had it last, else who got it next
--   holder_label BIGINT  the holder's innermost range; of the time in which nobody held it: where the holder let it go
CREATE TABLE accounting.idle_held AS
WITH wait AS (
    SELECT *, row_number() OVER (ORDER BY gap, start_ns) AS wait, tid >> 24 & 16777215 AS lane FROM accounting.idle_piece WHERE cause = 'gil_wait'
), met AS (
    -- the time around the holds that a wait may meet: before the first, in, between and after them
    SELECT w.*, unnest(range(coalesce(first.part, 0), coalesce(last.part, 0) + 1)) AS part
    FROM wait AS w
    ASOF LEFT JOIN accounting.hold_part AS first ON first.lane = w.lane AND first.start_ns <= w.start_ns
    ASOF LEFT JOIN accounting.hold_part AS last ON last.lane = w.lane AND last.start_ns < w.end_ns
), cut AS (
    SELECT m.* EXCLUDE (start_ns, end_ns), greatest(m.start_ns, h.start_ns) AS start_ns, least(m.end_ns, h.end_ns) AS end_ns, h.what AS holder
    FROM met AS m JOIN accounting.hold_part AS h ON h.lane = m.lane AND h.part = m.part
    UNION ALL
    SELECT
        m.* EXCLUDE (start_ns, end_ns), greatest(m.start_ns, coalesce(h.end_ns, m.start_ns)), least(m.end_ns, coalesce(n.start_ns, m.end_ns)), NULL
    FROM met AS m
    LEFT JOIN accounting.hold_part AS h ON h.lane = m.lane AND h.part = m.part
    LEFT JOIN accounting.hold_part AS n ON n.lane = m.lane AND n.part = m.part + 1
), handed AS (
    SELECT
        * EXCLUDE (holder), holder IS NOT NULL AS held,
        coalesce(
            holder,
            last_value(holder IGNORE NULLS) OVER (PARTITION BY wait ORDER BY start_ns ROWS UNBOUNDED PRECEDING),
            first_value(holder IGNORE NULLS) OVER (PARTITION BY wait ORDER BY start_ns ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
        ) AS holder
    FROM cut
    WHERE end_ns > start_ns
), let_go AS (
    SELECT h.*, coalesce(before.end_ns - 1, h.end_ns) AS instant
    FROM handed AS h
    ASOF LEFT JOIN (FROM accounting.hold_part) AS before ON before.lane = h.lane AND before.what = h.holder AND before.end_ns <= h.start_ns
    WHERE NOT h.held
), by_range AS (
    SELECT h.*, unnest(range(coalesce(first.part, 0), coalesce(last.part, 0) + 1)) AS range_part
    FROM handed AS h
    ASOF LEFT JOIN accounting.range_part AS first ON first.lane = h.holder AND first.start_ns <= h.start_ns
    ASOF LEFT JOIN accounting.range_part AS last ON last.lane = h.holder AND last.start_ns < h.end_ns
    WHERE h.held
), ranged AS (
    SELECT b.* EXCLUDE (start_ns, end_ns), greatest(b.start_ns, r.start_ns) AS start_ns, least(b.end_ns, r.end_ns) AS end_ns, r.what AS holder_label
    FROM by_range AS b JOIN accounting.range_part AS r ON r.lane = b.holder AND r.part = b.range_part
    UNION ALL
    SELECT
        b.* EXCLUDE (start_ns, end_ns), greatest(b.start_ns, coalesce(r.end_ns, b.start_ns)), least(b.end_ns, coalesce(n.start_ns, b.end_ns)), NULL
    FROM by_range AS b
    LEFT JOIN accounting.range_part AS r ON r.lane = b.holder AND r.part = b.range_part
    LEFT JOIN accounting.range_part AS n ON n.lane = b.holder AND n.part = b.range_part + 1
)
SELECT *, NULL::BIGINT AS holder, NULL::BIGINT AS holder_label FROM accounting.idle_piece WHERE cause <> 'gil_wait'
UNION ALL
SELECT gap, tid, start_ns, end_ns, cause, under, label, api, holder, holder_label FROM ranged WHERE end_ns > start_ns
UNION ALL
SELECT l.gap, l.tid, l.start_ns, l.end_ns, l.cause, l.under, l.label, l.api, l.holder, CASE WHEN l.instant < r.end_ns THEN r.what END
FROM let_go AS l
ASOF LEFT JOIN accounting.range_part AS r ON r.lane = l.holder AND r.start_ns <= l.instant;
