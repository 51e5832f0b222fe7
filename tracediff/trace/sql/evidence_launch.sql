-- What each process launched and waited for, by process and start of the call, on all its threads.
--   pid        INTEGER
--   start_ns   BIGINT   of the outermost call (a driver call under a runtime call shares its correlation id)
--   content    UBIGINT  equal for calls that launched ops of the same names, whatever their grids
--   ops        BIGINT   ops that the call launched: one, the nodes of a graph, or none
--   kernels    BIGINT   those of them that are kernels
--   reads_back BOOLEAN  copies from the device to the host
--   waits      BOOLEAN  the call synchronises, or is a copy to the host that blocks
-- Where no GPU work was recorded, each launching call stands for a kernel of its own name.
WITH named AS (
    -- 40 bits: the sum over the nodes of a graph fits into 64
    SELECT key, hash(name) % 1099511627776 AS name_hash, name = '[memcpy DtoH]' AS reads_back FROM op_key
), work AS (
    SELECT
        op_row.launch, hash(sum(name_hash), count(*)) AS content, count(*) AS ops, count(*) FILTER (kind IN (0, 3)) AS kernels,
        bool_or(reads_back) AS reads_back, count(*) = 1 AND bool_or(pageable_dtoh) AS blocks
    FROM op_row JOIN op_descriptor USING (descriptor) JOIN named USING (key)
    WHERE op_row.launch IS NOT NULL GROUP BY op_row.launch
), calls AS (
    SELECT call.pid, (call.pid::BIGINT << 32) + call.corr AS launch, min(call.start_ns) AS start_ns,
           bool_or(class = 'sync') AS syncs, bool_or(class = 'launch') AS launches, arg_min(api, call.start_ns) AS api
    FROM api_call AS call JOIN api_name USING (name)
    WHERE call.corr IS NOT NULL
    GROUP BY call.pid, call.corr
)
SELECT
    calls.pid, calls.start_ns, coalesce(work.content, hash(calls.api)) AS content,
    coalesce(work.ops, CASE WHEN alone.host AND calls.launches THEN 1 ELSE 0 END)::BIGINT AS ops,
    coalesce(work.kernels, CASE WHEN alone.host AND calls.launches THEN 1 ELSE 0 END)::BIGINT AS kernels,
    coalesce(work.reads_back, false) AS reads_back, calls.syncs OR coalesce(work.blocks, false) AS waits
FROM calls LEFT JOIN work USING (launch), (SELECT NOT EXISTS (FROM op_descriptor) AS host) AS alone
WHERE work.launch IS NOT NULL OR calls.syncs OR (alone.host AND calls.launches)
ORDER BY calls.pid, calls.start_ns, calls.launch;
