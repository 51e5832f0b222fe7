-- launch_of_shape: launching calls of all periods of a shape on a device, and how long their first op waited.
-- An op counts in the period in which it starts.
--   pid, device    INTEGER
--   stratum        BIGINT  the shape, see period
--   kernels        BIGINT  kernels, and graphs that were traced as a whole
--   graph_kernels  BIGINT  those of them launched by graphs
--   calls          BIGINT  launching calls
--   graph_launches BIGINT  those of them that launched graphs
--   delay_mean_ns, delay_p50_ns, delay_p99_ns DOUBLE  from the return of a call to the start of its first op; negative where it began before
CREATE TABLE accounting.launch_of_shape AS
WITH inside AS (
    SELECT o.*, p.stratum FROM accounting.op AS o JOIN accounting.op_period USING (op) JOIN accounting.period AS p USING (period)
), called AS (
    SELECT i.pid, i.device, arg_min(i.stratum, i.op) AS stratum, min(i.start_ns) - any_value(l.end_ns) AS delay_ns, bool_or(i.node OR i.whole_graph) AS graph
    FROM inside AS i JOIN accounting.launch AS l USING (launch)
    GROUP BY i.pid, i.device, i.launch
), calls AS (
    SELECT
        pid, device, stratum, count(*) AS calls, count(*) FILTER (graph) AS graph_launches, avg(delay_ns) AS delay_mean_ns,
        quantile_cont(delay_ns, 0.5) AS delay_p50_ns, quantile_cont(delay_ns, 0.99) AS delay_p99_ns
    FROM called GROUP BY pid, device, stratum
), kernels AS (
    SELECT pid, device, stratum, count(*) FILTER (kind <> 'memcpy') AS kernels,
           count(*) FILTER (kind <> 'memcpy' AND (node OR whole_graph)) AS graph_kernels
    FROM inside GROUP BY pid, device, stratum
)
SELECT
    k.pid, k.device, k.stratum, k.kernels, k.graph_kernels, coalesce(c.calls, 0) AS calls, coalesce(c.graph_launches, 0) AS graph_launches,
    c.delay_mean_ns, c.delay_p50_ns, c.delay_p99_ns
FROM kernels AS k LEFT JOIN calls AS c USING (pid, device, stratum);

-- gap_of_shape: gaps by cause, place and the ops around them; the pieces of a gap with one cause and place are one entry.
--   pid, device    INTEGER
--   stratum        BIGINT
--   cause, under, thread, place VARCHAR  see idle
--   previous, next BIGINT  key of the op before and after
--   count, ns      BIGINT
--   crossed_ns     BIGINT  of gaps whose two ops are of different streams
--   p50_ns, p99_ns DOUBLE
CREATE TABLE accounting.gap_of_shape AS
WITH entry AS (
    SELECT gap, cause, under, thread, place, sum(ns)::BIGINT AS ns FROM accounting.idle_named GROUP BY ALL
)
SELECT
    p.pid, p.device, p.stratum, e.cause, e.under, e.thread, e.place, before.key AS previous, after.key AS next, count(*) AS count, sum(e.ns)::BIGINT AS ns,
    coalesce(sum(e.ns) FILTER (before.stream <> after.stream), 0)::BIGINT AS crossed_ns,
    quantile_cont(e.ns, 0.5) AS p50_ns, quantile_cont(e.ns, 0.99) AS p99_ns
FROM entry AS e
JOIN accounting.gap AS g USING (gap)
JOIN accounting.period AS p USING (period)
JOIN accounting.op AS before ON before.op = g.previous
JOIN accounting.op AS after ON after.op = g.gap
GROUP BY ALL;
