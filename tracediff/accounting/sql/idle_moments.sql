-- Of each cause and place the longest piece on each device, the earliest of several: a place to jump to.
--   cause, thread, place, holder, holder_place VARCHAR
--   copy          BOOLEAN
--   start, "end"  BIGINT
--   api           VARCHAR  CUDA function that it lies in, '' outside
--   period        INTEGER
WITH longest AS (
    SELECT g.unit, i.cause, i.thread, i.place, i.holder, i.holder_place, i.copy, max(i.end_ns - i.start_ns) AS ns
    FROM idle_piece AS i JOIN idle_gap AS g USING (gap)
    GROUP BY ALL
), piece AS (
    SELECT i.*, l.unit
    FROM idle_piece AS i
    JOIN idle_gap AS g USING (gap)
    JOIN longest AS l
        ON l.unit = g.unit AND l.cause = i.cause AND l.thread = i.thread AND l.place = i.place AND l.holder = i.holder
        AND l.holder_place = i.holder_place AND l.copy = i.copy AND l.ns = i.end_ns - i.start_ns
    QUALIFY row_number() OVER (
        PARTITION BY l.unit, i.cause, i.thread, i.place, i.holder, i.holder_place, i.copy ORDER BY i.start_ns
    ) = 1
)
SELECT
    c.cause_name AS cause, c.thread_name AS thread, c.place_name AS place, c.holder_name AS holder, c.holder_place_name AS holder_place,
    i.copy, i.start_ns AS start, i.end_ns AS "end", coalesce(api_name.api, '') AS api, i.period
FROM piece AS i
JOIN idle_cell AS c USING (cause, under, thread, place, holder, holder_place, copy)
LEFT JOIN api_name ON api_name.name = i.api
ORDER BY i.unit, i.end_ns - i.start_ns DESC, i.start_ns;
