-- Gaps by shape of the period, cause, place and the ops around them; the pieces of a gap with one cause and place are one entry.
--   stratum        BIGINT
--   cause, under, thread, place VARCHAR
--   previous, next VARCHAR  names of the ops; kernels of one name with different grids are rows of their own
--   count, ns      BIGINT
--   crossed_ns     BIGINT  of gaps whose two ops are of different streams
--   p50_ns, p99_ns DOUBLE   linear between neighbours
WITH entry AS (
    SELECT gap, cause, under, thread, place, sum(end_ns - start_ns)::BIGINT AS ns FROM idle_piece GROUP BY ALL
), grouped AS (
    SELECT
        g.unit, p.stratum, e.cause, e.under, e.thread, e.place, g.previous, g.next, count(*) AS count, sum(e.ns)::BIGINT AS ns,
        coalesce(sum(e.ns) FILTER (g.crossed), 0)::BIGINT AS crossed_ns,
        list_sort(list(e.ns)) AS each
    FROM entry AS e JOIN idle_gap AS g USING (gap) JOIN period_shape AS p USING (period)
    GROUP BY ALL
), ranked AS (
    SELECT *, 0.5::DOUBLE * (count - 1) AS p50, 0.99::DOUBLE * (count - 1) AS p99 FROM grouped
)
SELECT
    r.stratum, cause.text AS cause, under.text AS under, thread.text AS thread, place.text AS place, previous.text AS previous,
    next.text AS next, r.count, r.ns, r.crossed_ns,
    each[floor(p50)::INTEGER + 1] + (each[ceil(p50)::INTEGER + 1] - each[floor(p50)::INTEGER + 1]) * (p50 - floor(p50)) AS p50_ns,
    each[floor(p99)::INTEGER + 1] + (each[ceil(p99)::INTEGER + 1] - each[floor(p99)::INTEGER + 1]) * (p99 - floor(p99)) AS p99_ns
FROM ranked AS r
JOIN cause_name AS cause ON cause.number = r.cause
JOIN cause_name AS under ON under.number = r.under
JOIN role_name AS thread ON thread.number = r.thread
JOIN place_name AS place ON place.number = r.place
JOIN op_name AS previous ON previous.number = r.previous
JOIN op_name AS next ON next.number = r.next
ORDER BY r.unit, r.stratum, cause.text, under.text, thread.text, place.text, previous.text, next.text, r.ns, r.count, p50_ns, p99_ns;
