-- launched: what each process launched, all its threads together, from the table op_token (key, token, reads_back);
-- then its rows in order of time.
--   pid        INTEGER
--   tid        BIGINT
--   launch     BIGINT    as in op_row
--   start_ns, end_ns BIGINT of the outermost call (a driver call under a runtime call shares its correlation id)
--   content    UBIGINT   equal for calls that launched ops of the same tokens, whatever their grids
--   token      INTEGER   of a call that launched one op, -1 otherwise
--   ops        INTEGER   ops that the call launched: one, or the nodes of a graph
--   kernels    INTEGER   of these; a graph that was recorded as a whole is one
--   graph      BOOLEAN   a CUDA graph launch
--   closed     BOOLEAN   a CUDA graph that was recorded as a whole
--   reads_back BOOLEAN   copies from the device to the host
--   waits      BOOLEAN   returns when the work is done
CREATE OR REPLACE TEMP TABLE launched AS
WITH work AS (
    SELECT
        op_row.launch, count(*) AS ops, min(token) AS token, count(*) FILTER (kind IN (0, 3)) AS kernels,
        -- 40 bits: the sum over the nodes of a graph fits into 64
        hash(sum(hash(token) % 1099511627776), count(*)) AS content,
        bool_or(kind = 3) AS closed, bool_or(reads_back) AS reads_back, bool_or(pageable_dtoh) AS waits
    FROM op_row JOIN op_descriptor USING (descriptor) JOIN op_token USING (key)
    GROUP BY op_row.launch
), calls AS (
    SELECT call.pid, call.corr, min(call.start_ns) AS start_ns, max(call.end_ns) AS end_ns,
           arg_min(call.tid, call.start_ns) AS tid, bool_or(api SIMILAR TO 'cu(da)?GraphLaunch.*') AS graph
    FROM api_call AS call
    JOIN api_name ON api_name.name = call.name
    SEMI JOIN work ON work.launch = (call.pid::BIGINT << 32) + call.corr
    GROUP BY call.pid, call.corr
)
SELECT
    calls.pid, calls.tid, work.launch, calls.start_ns, calls.end_ns, work.content,
    CASE WHEN ops = 1 AND NOT graph THEN token ELSE -1 END::INTEGER AS token,
    work.ops::INTEGER AS ops, work.kernels::INTEGER AS kernels, calls.graph, work.closed, work.reads_back, work.waits
FROM calls JOIN work ON work.launch = (calls.pid::BIGINT << 32) + calls.corr;

SELECT pid, tid, start_ns, end_ns, content, token, ops, kernels, graph, closed, reads_back, waits
FROM launched ORDER BY pid, start_ns, launch;
