-- device: a GPU of the machine.
--   capture      INTEGER  the export, a row of capture
--   device       INTEGER
--   name         VARCHAR
--   sm_count     INTEGER  streaming multiprocessors
--   clock_hz     BIGINT   highest clock
--   memory_bytes BIGINT
SELECT {{capture}}::INTEGER AS capture, device, name, sm_count, clock_hz, memory_bytes FROM device ORDER BY device;
