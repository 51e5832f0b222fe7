-- idle: idle GPU time of one whole step by its cause and place. Sums are those of period; a gap may have several causes.
--   capture      INTEGER  the export, a row of capture
--   run          INTEGER  as in capture
--   rank         INTEGER  as in period
--   device       INTEGER
--   step         INTEGER  as in step
--   phase        VARCHAR  as in period
--   cause        VARCHAR  launch_latency, dependency, graph_internal, launch_api, host_sync, host_api, gc, gil_wait,
--                         host_work or unattributed
--   cause_no_gil VARCHAR  what it would be called had the GIL not been traced
--   thread       VARCHAR  role of the thread that launched the op which ended the gap
--   place        VARCHAR  its innermost range with numbers masked, or between which ranges it was
--   holder       VARCHAR  of gil_wait: role of the thread that held the GIL
--   holder_place VARCHAR  of gil_wait: the holder's innermost range
--   copies       BOOLEAN  of launch_api: inside a call that copies or sets memory
--   pieces       BIGINT   how many pieces of gaps
--   idle_ns      BIGINT   their length
WITH spelled AS (
    SELECT period, cause::VARCHAR AS cause, "under"::VARCHAR AS cause_no_gil, thread::VARCHAR AS thread, place::VARCHAR AS place,
           holder::VARCHAR AS holder, holder_place::VARCHAR AS holder_place, copy AS copies, sum(count)::BIGINT AS pieces, sum(ns)::BIGINT AS idle_ns
    FROM query_idle GROUP BY ALL
)
SELECT
    {{capture}}::INTEGER AS capture, {{run}}::INTEGER AS run, (p."rank" + {{first_rank}})::INTEGER AS "rank",
    p.device::INTEGER AS device, p.step::INTEGER AS step, p.phase, s.cause, s.cause_no_gil, s.thread, s.place, s.holder,
    s.holder_place, s.copies, s.pieces, s.idle_ns
FROM spelled AS s JOIN query_period AS p ON p.period = s.period
ORDER BY p.period, s.idle_ns DESC, s.cause, s.cause_no_gil, s.thread, s.place, s.holder, s.holder_place, s.copies;
