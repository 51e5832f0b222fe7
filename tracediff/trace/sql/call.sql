-- call: the CUDA calls of the export and what each does to its thread; in the order of thread, start, longest first, name.
--   start_ns, end_ns BIGINT
--   thread           SMALLINT  place of its thread in the order of global thread ids, -1 unknown
--   corr             BIGINT    process << 32 + correlation id as in op_row, NULL where there is none
--   name             INTEGER   id in api_name, -1 where there is none
--   kind             TINYINT   0 launch, 1 sync, 2 other
CREATE OR REPLACE TABLE call AS
WITH work AS (
    SELECT launch AS corr, bool_or(pageable_dtoh) AS blocks FROM op_row JOIN op_sort USING (sort) WHERE launch IS NOT NULL GROUP BY launch
), numbered AS (
    SELECT tid, row_number() OVER (ORDER BY tid) - 1 AS number FROM thread
), named AS (
    SELECT name, class, api LIKE '%Memcpy%' AS copies FROM api_name
)
SELECT
    a.start_ns, a.end_ns, coalesce(numbered.number, -1)::SMALLINT AS thread, (a.pid::BIGINT << 32) + a.corr AS corr,
    coalesce(a.name, -1) AS name,
    (CASE
        -- a copy from the device to pageable memory returns when the copy is done: it waits for the GPU
        -- (a graph launch with such a copy among its nodes does not)
        WHEN n.class = 'launch' AND n.copies AND coalesce(work.blocks, false) THEN 1
        -- what put work on a GPU launched it, whatever its name
        WHEN n.class = 'launch' OR (n.class = 'other' AND work.corr IS NOT NULL) THEN 0
        WHEN n.class = 'sync' THEN 1
        ELSE 2
    END)::TINYINT AS kind
FROM api_call AS a
JOIN named AS n ON n.name IS NOT DISTINCT FROM a.name
LEFT JOIN numbered ON numbered.tid = a.tid
LEFT JOIN work ON work.corr = (a.pid::BIGINT << 32) + a.corr
ORDER BY thread, a.start_ns, a.end_ns DESC, coalesce(a.name, -1), corr;

-- launch: the calls that put ops on a GPU. A runtime call and the driver call under it share a correlation id: the first stands for both.
--   id               INTEGER  0, 1, ... in the order of corr
--   corr             BIGINT
--   start_ns, end_ns BIGINT
--   tid              BIGINT   -1 unknown
--   name             INTEGER
--   shared           BOOLEAN  another call of this correlation id began after it was over
CREATE OR REPLACE TABLE launch AS
WITH earliest AS (
    SELECT corr, min(start_ns) AS start_ns, max(start_ns) AS last_ns FROM call SEMI JOIN op_row ON op_row.launch = call.corr GROUP BY corr
), first AS (
    SELECT corr, any_value(e.start_ns) AS start_ns, any_value(e.last_ns) AS last_ns, min(c.rowid) AS row
    FROM earliest AS e JOIN call AS c USING (corr, start_ns) GROUP BY corr
)
SELECT
    (row_number() OVER (ORDER BY f.corr) - 1)::INTEGER AS id, f.corr, c.start_ns, c.end_ns, coalesce(thread.tid, -1) AS tid, c.name,
    f.last_ns > c.end_ns AS shared
FROM first AS f
JOIN call AS c ON c.rowid = f.row
LEFT JOIN (SELECT tid, row_number() OVER (ORDER BY tid) - 1 AS number FROM thread) AS thread ON thread.number = c.thread;
