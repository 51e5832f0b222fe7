-- Calls into MPI that nsys recorded (-t mpi), of the tables that the export itself documents (nsys 2023.4).
--   tid              BIGINT   calling thread
--   start_ns, end_ns BIGINT
--   name             BIGINT   id in string
--   bytes            BIGINT   of the message, of a collective what is sent; NULL where the call has none
-- nsys writes a row for each request that a call waits for, and may write one for each way of a call: one call here.
CREATE TABLE mpi_call AS
WITH found AS (
    SELECT * FROM staged_MPI_P2P_EVENTS UNION ALL BY NAME SELECT * FROM staged_MPI_COLLECTIVES_EVENTS
    UNION ALL BY NAME SELECT * FROM staged_MPI_START_WAIT_EVENTS UNION ALL BY NAME SELECT * FROM staged_MPI_OTHER_EVENTS
)
SELECT globalTid AS tid, start AS start_ns, "end" AS end_ns, textId AS name,
       -- at most 8 TiB a call: no sum leaves 64 bits
       CASE WHEN sum(size) FILTER (WHERE size >= 0) <= 8796093022208
            THEN sum(size) FILTER (WHERE size >= 0)::BIGINT END AS bytes
FROM found
WHERE globalTid IS NOT NULL
GROUP BY globalTid, start, "end", textId;

-- odd_call, and what goes: as in os_call.sql.
CREATE OR REPLACE TABLE odd_call AS
SELECT count(*) AS rows, count(*) FILTER (start_ns IS NULL OR end_ns IS NULL) AS timeless,
       count(*) FILTER (end_ns < start_ns) AS backward
FROM mpi_call;
DELETE FROM mpi_call
WHERE (end_ns > start_ns AND start_ns > -9007199254740992 AND end_ns < 9007199254740992) IS NOT TRUE;
