-- Calls into NCCL: the ranges of its own NVTX domain, `NCCL` (ncclAllReduce, ncclGroupEnd, ...).
--   tid              BIGINT   calling thread
--   start_ns, end_ns BIGINT
--   name             INTEGER  label, id in range_text
--   bytes            BIGINT   of the message, of an all-gather what one rank sends; NULL where the export does not hold it
--   comm             VARCHAR  its communicator, the same on all ranks of a group; NULL likewise
--   group            VARCHAR  how the program calls that group; '' where the export does not say
CREATE TABLE nccl_call AS
SELECT r.tid, r.start_ns, r.end_ns, r.label AS name, s.bytes, s.comm, coalesce(s."group", '') AS "group"
FROM range AS r
JOIN nvtx_domain AS d ON d.pid = (r.tid >> 24 & 16777215)::INTEGER AND d.domain = r.domain
LEFT JOIN nccl_size AS s ON s.tid = r.tid AND s.start_ns = r.start_ns AND s.label = r.label
WHERE d.name = 'NCCL' AND r.push_pop AND r.end_ns > r.start_ns
      AND r.start_ns > -9007199254740992 AND r.end_ns < 9007199254740992; -- a hundred days: no sum leaves 64 bits
