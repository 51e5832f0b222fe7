-- call: one CUDA call of a host thread, with what it does to that thread.
--   call             BIGINT   1, 2, ... by thread, start, longest first
--   tid              BIGINT
--   start_ns, end_ns BIGINT
--   name             INTEGER  id in api_name, -1 without a name
--   state            VARCHAR  launch_api, host_sync or host_api
--   outermost        BOOLEAN  began after all calls before it on its thread were over
CREATE TABLE accounting.call AS
WITH work AS (
    SELECT launch, bool_or(pageable_dtoh) AS blocks FROM op_row JOIN op_descriptor USING (descriptor) WHERE launch IS NOT NULL GROUP BY launch
), doing AS (
    SELECT
        row_number() OVER (ORDER BY a.tid, a.start_ns, a.end_ns DESC, coalesce(a.name, -1)) AS call,
        a.tid, a.start_ns, a.end_ns, coalesce(a.name, -1) AS name,
        CASE
            -- a copy from the device to pageable memory returns when the copy is done
            WHEN n.class = 'launch' AND n.api LIKE '%Memcpy%' AND coalesce(w.blocks, false) THEN 'host_sync'
            -- what put work on a GPU launched it, whatever its name
            WHEN n.class = 'launch' OR (n.class = 'other' AND w.launch IS NOT NULL) THEN 'launch_api'
            WHEN n.class = 'sync' THEN 'host_sync'
            ELSE 'host_api'
        END AS state
    FROM api_call AS a
    JOIN api_name AS n ON n.name IS NOT DISTINCT FROM a.name
    LEFT JOIN work AS w ON w.launch = (a.pid::BIGINT << 32) + a.corr
)
SELECT
    *,
    end_ns > start_ns AND start_ns >= coalesce(
        max(end_ns) OVER (PARTITION BY tid ORDER BY call ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns
    ) AS outermost
FROM doing;

-- launch: the call that put ops on a GPU. A runtime call and the driver call under it share a correlation id: the first stands for both.
--   launch           BIGINT  process << 32 + correlation id, as in op_row
--   tid              BIGINT
--   start_ns, end_ns BIGINT
CREATE TABLE accounting.launch AS
SELECT (pid::BIGINT << 32) + corr AS launch, tid, start_ns, end_ns
FROM api_call SEMI JOIN op_row ON op_row.launch = (pid::BIGINT << 32) + corr
QUALIFY row_number() OVER (PARTITION BY pid, corr ORDER BY start_ns, tid NULLS FIRST, end_ns DESC, name NULLS FIRST) = 1;
