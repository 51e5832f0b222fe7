-- place: what a range is called with its numbers masked, so that step 31 of one run meets step 44 of another.
-- Of an operator that PyTorch's emit_nvtx labels (`aten::mm, op_id = 7, sizes = ...`) it is the name alone.
--   label BIGINT
--   place VARCHAR
CREATE TABLE accounting.place AS
SELECT
    label,
    CASE
        WHEN label IN (SELECT label FROM step_text) AND contains(text, '_forward_step') THEN '[Executor] _forward_step'
        ELSE regexp_replace(regexp_replace(text, ', (?:seq|op_id) = [0-9]+(?:, .*)?$', '', 's'), '0x[0-9a-fA-F]+|\p{Nd}+(?:\.\p{Nd}+)?', 'N', 'g')
    END AS place
FROM range_text;

-- idle_named: idle_held by the names of threads and places.
--   gap          BIGINT
--   start_ns, ns BIGINT
--   cause, under VARCHAR  see idle_piece; under is the cause itself where there is no wait for the GIL
--   thread       VARCHAR  role of the thread that launched what ended the gap; '' without a launching call
--   place        VARCHAR  its innermost range; outside any: between which ones
--   holder, holder_place VARCHAR  of a wait for the GIL: the same of who held it
--   copy         BOOLEAN  launch_api inside a call that copies
CREATE TABLE accounting.idle_named AS
WITH piece AS (
    SELECT *, row_number() OVER (ORDER BY gap, start_ns) AS piece FROM accounting.idle_held
), who AS (
    SELECT piece, false AS holds, tid, label, start_ns FROM piece WHERE tid IS NOT NULL
    UNION ALL SELECT piece, true, holder, holder_label, start_ns FROM piece WHERE holder IS NOT NULL
), around AS (
    SELECT w.*, coalesce(r.part, 0) AS part
    FROM who AS w ASOF LEFT JOIN accounting.range_part AS r ON r.lane = w.tid AND r.start_ns <= w.start_ns
), named AS (
    SELECT
        a.piece, a.holds, coalesce(role.role, '') AS thread,
        CASE
            WHEN a.label IS NOT NULL THEN inside.place
            WHEN coalesce(previous.place, '') <> '' AND coalesce(following.place, '') <> ''
                THEN 'outside any range, between ' || previous.place || ' and ' || following.place
            WHEN coalesce(previous.place, '') <> '' THEN 'outside any range, after ' || previous.place
            WHEN coalesce(following.place, '') <> '' THEN 'outside any range, before ' || following.place
            ELSE 'outside any range'
        END AS place
    FROM around AS a
    LEFT JOIN role ON role.tid = a.tid
    LEFT JOIN accounting.place AS inside ON inside.label = a.label
    LEFT JOIN accounting.range_part AS before ON before.lane = a.tid AND before.part = a.part
    LEFT JOIN accounting.place AS previous ON previous.label = before.what
    LEFT JOIN accounting.range_part AS after ON after.lane = a.tid AND after.part = a.part + 1
    LEFT JOIN accounting.place AS following ON following.label = after.what
)
SELECT
    p.gap, p.start_ns, p.end_ns - p.start_ns AS ns, p.cause, coalesce(p.under, p.cause) AS under,
    coalesce(t.thread, '') AS thread, coalesce(t.place, '') AS place, coalesce(h.thread, '') AS holder, coalesce(h.place, '') AS holder_place,
    p.cause = 'launch_api' AND coalesce(regexp_matches(n.api, '^cu(da)?Mem(cpy|set)'), false) AS copy
FROM piece AS p
LEFT JOIN api_name AS n ON n.name = p.api
LEFT JOIN named AS t ON t.piece = p.piece AND NOT t.holds
LEFT JOIN named AS h ON h.piece = p.piece AND h.holds;

-- idle: idle time of each period by cause and place.
--   period BIGINT
--   cause, under, thread, place, holder, holder_place VARCHAR  see idle_named
--   copy   BOOLEAN
--   ns     BIGINT
--   count  BIGINT   pieces
CREATE TABLE accounting.idle AS
SELECT g.period, i.cause, i.under, i.thread, i.place, i.holder, i.holder_place, i.copy, sum(i.ns)::BIGINT AS ns, count(*) AS count
FROM accounting.idle_named AS i JOIN accounting.gap AS g USING (gap)
GROUP BY ALL;
