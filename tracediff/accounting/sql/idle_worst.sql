-- The 20 longest gaps of each device, with the cause and place of their longest piece.
--   start, ns BIGINT
--   cause, thread, place, previous, next VARCHAR
--   period    INTEGER
WITH least AS (
    SELECT unit, list_min(max(end_ns - start_ns, 20)) AS ns FROM idle_gap GROUP BY unit
), worst AS (
    SELECT g.* FROM idle_gap AS g JOIN least AS l ON l.unit = g.unit AND g.end_ns - g.start_ns >= l.ns
    QUALIFY row_number() OVER (PARTITION BY g.unit ORDER BY g.end_ns - g.start_ns DESC, g.start_ns) <= 20
), longest AS (
    SELECT i.* FROM idle_piece AS i SEMI JOIN worst USING (gap)
    QUALIFY row_number() OVER (PARTITION BY i.gap ORDER BY i.end_ns - i.start_ns DESC, i.start_ns) = 1
)
SELECT
    w.start_ns AS start, w.end_ns - w.start_ns AS ns, c.cause_name AS cause, c.thread_name AS thread, c.place_name AS place,
    previous.text AS previous, next.text AS next, w.period
FROM worst AS w
JOIN longest AS i USING (gap)
JOIN idle_cell AS c USING (cause, under, thread, place, holder, holder_place, copy)
JOIN op_name AS previous ON previous.number = w.previous
JOIN op_name AS next ON next.number = w.next
ORDER BY w.unit, ns DESC, start;
