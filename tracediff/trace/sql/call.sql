-- The CUDA calls of the export and what each does to its thread, in no order.
--   start_ns, end_ns BIGINT
--   thread           SMALLINT  place of its thread in the order of global thread ids, -1 unknown
--   corr             BIGINT    process << 32 + correlation id as in op_row, -1 where there is none
--   name             INTEGER   id in api_name, -1 where there is none
--   kind             TINYINT   0 launch, 1 sync, 2 other
--   owns             BOOLEAN   there are ops of its correlation id
WITH work AS (
    SELECT launch AS corr, bool_or(pageable_dtoh) AS blocks FROM op_row JOIN op_descriptor USING (descriptor) WHERE launch IS NOT NULL GROUP BY launch
), numbered AS (
    SELECT tid, row_number() OVER (ORDER BY tid) - 1 AS number FROM thread
), named AS (
    SELECT name, class, api LIKE '%Memcpy%' AS copies FROM api_name
)
SELECT
    a.start_ns, a.end_ns, coalesce(numbered.number, -1)::SMALLINT AS thread, coalesce((a.pid::BIGINT << 32) + a.corr, -1) AS corr,
    coalesce(a.name, -1) AS name,
    (CASE
        -- a copy from the device to pageable memory returns when the copy is done: it waits for the GPU
        -- (a graph launch with such a copy among its nodes does not)
        WHEN n.class = 'launch' AND n.copies AND coalesce(work.blocks, false) THEN 1
        -- what put work on a GPU launched it, whatever its name
        WHEN n.class = 'launch' OR (n.class = 'other' AND work.corr IS NOT NULL) THEN 0
        WHEN n.class = 'sync' THEN 1
        ELSE 2
    END)::TINYINT AS kind, work.corr IS NOT NULL AS owns
FROM api_call AS a
JOIN named AS n ON n.name IS NOT DISTINCT FROM a.name
LEFT JOIN numbered ON numbered.tid = a.tid
LEFT JOIN work ON work.corr = (a.pid::BIGINT << 32) + a.corr;
