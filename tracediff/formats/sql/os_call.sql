-- Calls into the operating system that nsys recorded (-t osrt): those longer than --osrt-threshold, by default 1 us.
--   tid              BIGINT   calling thread
--   start_ns, end_ns BIGINT
--   name             BIGINT   id in string
-- Marks of where the recording of a process began and ended have no length and are left out.
CREATE TABLE os_call AS
SELECT globalTid AS tid, start AS start_ns, "end" AS end_ns, nameId AS name
FROM staged_OSRT_API
WHERE globalTid IS NOT NULL AND "end" > start
      AND start > -9007199254740992 AND "end" < 9007199254740992; -- a hundred days: no sum leaves 64 bits
