-- Numbers that a program gave to its NVTX ranges (nvtxEventAttributes_t.payload; nvtx.annotate(..., payload=64)).
--   start_ns BIGINT
--   tid      BIGINT   global thread id
--   label    INTEGER  id in range_text
--   domain   INTEGER
--   value    DOUBLE   finite; whole numbers are exact up to 2^53
CREATE OR REPLACE TABLE payload (start_ns BIGINT, tid BIGINT, label INTEGER, domain INTEGER, value DOUBLE);

-- nccl_size: what NCCL says of a call, from the payload as JSON (nsys 2024 and later: nsys export --include-json=true; formats/kineto.py).
-- The keys are the names that NCCL gives to the entries in its payload schemas (NCCL, src/include/nvtx_payload_schemas.h).
--   start_ns BIGINT
--   tid      BIGINT
--   label    INTEGER
--   bytes    BIGINT   of its message, at most 8 TiB: no sum leaves 64 bits
--   comm     VARCHAR  its communicator: the same on all ranks of a group
--   group    VARCHAR  how the program calls the group of ranks (torch.distributed's group_desc, in traces of torch.profiler); '' not at all
CREATE OR REPLACE TABLE nccl_size (start_ns BIGINT, tid BIGINT, label INTEGER, bytes BIGINT, comm VARCHAR, "group" VARCHAR);

-- shape_payload: what torch.profiler says of the inputs of an operator (record_shapes=True), see limits/work.py.
--   start_ns BIGINT
--   tid      BIGINT
--   label    INTEGER
--   json     VARCHAR
CREATE OR REPLACE TABLE shape_payload (start_ns BIGINT, tid BIGINT, label INTEGER, json VARCHAR);
