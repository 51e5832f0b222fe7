-- Calls into the operating system that nsys recorded (-t osrt): those longer than --osrt-threshold, by default 1 us.
--   tid              BIGINT   calling thread
--   start_ns, end_ns BIGINT
--   name             BIGINT   id in string
-- Marks of where the recording of a process began and ended have no length and are left out.
CREATE TABLE os_call AS
SELECT globalTid AS tid, start AS start_ns, "end" AS end_ns, nameId AS name
FROM staged_OSRT_API
WHERE globalTid IS NOT NULL;

-- odd_call: how many rows there are, and how many without a time, or with an end before the start; nsys.py says it.
CREATE OR REPLACE TABLE odd_call AS
SELECT count(*) AS rows, count(*) FILTER (start_ns IS NULL OR end_ns IS NULL) AS timeless,
       count(*) FILTER (end_ns < start_ns) AS backward
FROM os_call;
DELETE FROM os_call
WHERE (end_ns > start_ns
       -- a hundred days: no sum leaves 64 bits
       AND start_ns > -9007199254740992 AND end_ns < 9007199254740992) IS NOT TRUE;
