-- What the main launching thread of each process launched, in the order of its calls.
--   pid        INTEGER
--   tid        BIGINT    the thread that launched most ops of its process
--   start_ns   BIGINT    of the outermost call (a driver call under a runtime call shares its correlation id)
--   content    UBIGINT   equal for calls that launched ops of the same names, whatever their grids
--   ops        BIGINT    ops that the call launched: one, or the nodes of a graph
--   graph      BOOLEAN   a CUDA graph launch
--   reads_back BOOLEAN   copies from the device to the host
WITH named AS (
    -- 40 bits: the sum over the nodes of a graph fits into 64
    SELECT key, hash(name) % 1099511627776 AS name_hash, name = '[memcpy DtoH]' AS reads_back FROM op_key
), work AS (
    SELECT op_row.launch, hash(sum(name_hash), count(*)) AS content, count(*) AS ops,
           bool_or(reads_back) AS reads_back
    FROM op_row JOIN op_sort USING (sort) JOIN named USING (key)
    GROUP BY op_row.launch
), calls AS (
    SELECT call.pid, call.corr, min(call.start_ns) AS start_ns, arg_min(call.tid, call.start_ns) AS tid,
           bool_or(api SIMILAR TO 'cu(da)?GraphLaunch.*') AS graph
    FROM api_call AS call
    JOIN api_name ON api_name.name = call.name
    SEMI JOIN work ON work.launch = (call.pid::BIGINT << 32) + call.corr
    GROUP BY call.pid, call.corr
), main AS (
    SELECT pid, arg_max(tid, (ops, -tid)) AS tid
    FROM (
        SELECT calls.pid, calls.tid, sum(work.ops) AS ops
        FROM calls JOIN work ON work.launch = (calls.pid::BIGINT << 32) + calls.corr GROUP BY ALL
    )
    GROUP BY pid
)
SELECT calls.pid, calls.tid, calls.start_ns, work.content, work.ops, calls.graph, work.reads_back
FROM calls
JOIN main ON main.pid = calls.pid AND main.tid = calls.tid
JOIN work ON work.launch = (calls.pid::BIGINT << 32) + calls.corr
ORDER BY calls.pid, calls.start_ns, calls.corr;
