-- nvtx_row: the rows of NVTX_EVENTS that matter, read once: ranges, and domain names.
--   start_ns, end_ns BIGINT  end_ns NULL for a domain's name; odd ones are set right next
--   tid              BIGINT  global thread id
--   event            UTINYINT 59 push/pop range, 60 start/end range, 75 name of a domain
--   key              UBIGINT which thread says what (see nvtx_text)
--   domain           INTEGER
--   text_id          INTEGER registered string, NULL where the text is inline
--   text             VARCHAR inline text, NULL where registered
CREATE TABLE nvtx_row AS
SELECT
    "start"::BIGINT AS start_ns, "end"::BIGINT AS end_ns, globalTid::BIGINT AS tid,
    eventType::UTINYINT AS event, hash(globalTid, eventType, coalesce(domainId, 0), textId, text) AS key,
    coalesce(domainId, 0)::INTEGER AS domain, textId::INTEGER AS text_id, text
FROM staged_NVTX_EVENTS
WHERE globalTid IS NOT NULL
  AND eventType IN (59, 60, 75);

-- odd_range: what of the ranges cannot be; nsys.py says it. Then they are left out, or have no length.
--   rows, still_open BIGINT  ranges, and those with a start and no end
--   torn             BIGINT  without a start; still open though the range around them, on their thread, was closed
--   backward         BIGINT  with an end before the start
CREATE TABLE odd_range AS
WITH counted AS (
    SELECT count(*) AS rows, count(*) FILTER (end_ns IS NULL) AS still_open,
           count(*) FILTER (start_ns IS NULL) AS timeless, count(*) FILTER (end_ns < start_ns) AS backward
    FROM nvtx_row WHERE event <> 75
), pushed AS (
    SELECT start_ns, end_ns, max(end_ns) OVER (
        PARTITION BY tid, domain ORDER BY start_ns GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS around_ns
    FROM nvtx_row WHERE event = 59 AND start_ns IS NOT NULL AND (SELECT still_open FROM counted) > 0
)
SELECT rows, still_open, timeless + (SELECT count(*) FROM pushed WHERE end_ns IS NULL AND around_ns > start_ns) AS torn, backward
FROM counted;
DELETE FROM nvtx_row WHERE event <> 75 AND (start_ns IS NULL OR end_ns IS NULL);
UPDATE nvtx_row SET end_ns = start_ns WHERE end_ns < start_ns;

-- nvtx_domain: NVTX domains by process.
--   pid    INTEGER
--   domain INTEGER
--   name   VARCHAR
CREATE TABLE nvtx_domain AS
SELECT (tid >> 24 & 16777215)::INTEGER AS pid, domain, any_value(coalesce(text, string.value, '')) AS name
FROM nvtx_row LEFT JOIN string ON string.id = text_id
WHERE event = 75
GROUP BY 1, 2;

-- nvtx_text: each distinct text of a domain of a thread once, with its meaning.
--   key        UBIGINT
--   tid        BIGINT   global thread id
--   event      UTINYINT 59 or 60, see nvtx_row
--   domain     INTEGER
--   label      INTEGER  dense id of the spelled-out text
--   spelled    VARCHAR
--   meaning    VARCHAR  gil_hold, gil_wait: nsys's own 'GIL Trace' domain; gc; range
--   generation VARCHAR  of a garbage collection, '?' where the text does not say
CREATE TABLE nvtx_text AS
WITH texts AS (
    SELECT
        key, any_value(tid) AS tid, any_value(event) AS event, any_value("domain") AS "domain",
        any_value(text_id) AS text_id, any_value(text) AS text
    FROM nvtx_row WHERE event <> 75 GROUP BY key
), spelled AS (
    SELECT texts.*, coalesce(texts.text, string.value, '') AS spelled,
           is_gil(nvtx_domain.name, spelled) AS gil
    FROM texts
    -- no condition on texts alone in here: it would make this a nested loop over all strings
    LEFT JOIN string ON string.id = texts.text_id
    LEFT JOIN nvtx_domain ON nvtx_domain.pid = (texts.tid >> 24 & 16777215)::INTEGER AND nvtx_domain.domain = texts.domain
)
SELECT
    key, tid, event, "domain", spelled,
    (dense_rank() OVER (ORDER BY spelled) - 1)::INTEGER AS label,
    CASE
        WHEN gil AND spelled = 'Holding GIL' THEN 'gil_hold'
        WHEN gil AND spelled = 'Waiting for GIL' THEN 'gil_wait'
        WHEN gil THEN 'gil_other'
        WHEN is_gc(spelled) THEN 'gc'
        ELSE 'range'
    END AS meaning,
    coalesce(nullif(regexp_extract(spelled, 'gen(?:eration)? ?([0-9])', 1), ''), '?') AS generation
FROM spelled;
-- What nvtx_text now says need not be said by every row.
ALTER TABLE nvtx_row DROP COLUMN text;
ALTER TABLE nvtx_row DROP COLUMN text_id;
ALTER TABLE nvtx_row DROP COLUMN domain;
ALTER TABLE nvtx_row DROP COLUMN event;
ALTER TABLE nvtx_row DROP COLUMN tid;

-- range_text: label -> text.
CREATE TABLE range_text AS SELECT DISTINCT label, spelled AS text FROM nvtx_text;

-- gil: who holds the GIL and who waits for it (nsys profile -t python-gil). A view: with a row or more for every
-- CUDA call it would be the largest table, and it is read once.
--   row              BIGINT  rowid of nvtx_row, to read it in chunks
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   waiting          BOOLEAN
CREATE VIEW gil AS
SELECT r.rowid AS row, r.start_ns, r.end_ns, t.tid, t.meaning = 'gil_wait' AS waiting
FROM nvtx_row AS r JOIN nvtx_text AS t ON t.key = r.key
WHERE t.meaning IN ('gil_hold', 'gil_wait');

-- gc: pauses of Python's cyclic garbage collector.
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   generation       VARCHAR
CREATE TABLE gc AS
SELECT r.start_ns, r.end_ns, t.tid, t.generation
FROM nvtx_row AS r JOIN nvtx_text AS t ON t.key = r.key
WHERE t.meaning = 'gc';

-- range: every other NVTX range.
--   start_ns, end_ns BIGINT
--   tid              BIGINT
--   domain           INTEGER
--   push_pop         BOOLEAN  nested on its thread (59); false: start/end (60), may overlap anything
--   label            INTEGER  id in range_text
CREATE TABLE range AS
SELECT r.start_ns, r.end_ns, t.tid, t.domain, t.event = 59 AS push_pop, t.label
FROM nvtx_row AS r JOIN nvtx_text AS t ON t.key = r.key
WHERE t.meaning = 'range';

-- nvtx_use: which thread says what.
--   tid     BIGINT
--   meaning VARCHAR
--   label   INTEGER
CREATE TABLE nvtx_use AS SELECT DISTINCT tid, meaning, label FROM nvtx_text;
