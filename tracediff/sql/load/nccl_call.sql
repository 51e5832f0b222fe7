-- Calls into NCCL: the ranges of its own NVTX domain, `NCCL` (ncclAllReduce, ncclGroupEnd, ...).
--   tid              BIGINT   calling thread
--   start_ns, end_ns BIGINT
--   name             INTEGER  label, id in range_text
--   bytes            BIGINT   NULL: what NCCL says of the message is not in the plain columns of an export
CREATE TABLE nccl_call AS
SELECT r.tid, r.start_ns, r.end_ns, r.label AS name, NULL::BIGINT AS bytes
FROM range AS r
JOIN nvtx_domain AS d ON d.pid = (r.tid >> 24 & 16777215)::INTEGER AND d.domain = r.domain
WHERE d.name = 'NCCL' AND r.push_pop AND r.end_ns > r.start_ns
      AND r.start_ns > -9007199254740992 AND r.end_ns < 9007199254740992; -- a hundred days: no sum leaves 64 bits
