-- capture: one export of the side: a run, or one rank of it where ranks were exported apart.
--   capture        INTEGER  0, 1, ... within the side; every other table has it
--   run            INTEGER  the run that it belongs to, from 0
--   run_name       VARCHAR
--   file           VARCHAR  base name
--   schema_version VARCHAR  of the export
--   step_source    VARCHAR  where steps came from: tensorrt-llm, inferred (...), whole-capture, ...; empty without steps
--   kernels        BOOLEAN  whether this kind of event was captured: an empty table means nothing where it was not
--   cuda_api       BOOLEAN
--   nvtx           BOOLEAN
--   gil            BOOLEAN
--   gc             BOOLEAN  whether there is any collection: one may just not have happened
--   graphs         BOOLEAN  kernels of CUDA graphs
--   memcpy         BOOLEAN
--   sync           BOOLEAN
SELECT {{capture}}::INTEGER AS capture, run::INTEGER AS run, run_name, file, schema_version, step_source, kernels, cuda_api,
    nvtx, gil, gc, graphs, memcpy, sync
FROM query_capture;
