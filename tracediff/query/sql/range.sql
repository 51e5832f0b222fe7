-- range: one NVTX range. Ranges of garbage collections and of the GIL are in gc and gil.
--   capture     INTEGER  the export, a row of capture
--   start_ns    BIGINT   host time, ns from the start of the session
--   end_ns      BIGINT
--   duration_ns BIGINT   end - start, with the ranges inside it
--   pid         INTEGER  process
--   tid         BIGINT   thread, as in thread
--   thread      VARCHAR  role of the thread
--   text        VARCHAR  as the program says it
--   place       VARCHAR  text with its numbers masked: the same place in every step
--   domain      VARCHAR  NVTX domain, empty for the default one
--   push_pop    BOOLEAN  nested on its thread; false: a start/end range, may overlap anything
--   step        INTEGER  step in whose host window the range began; NULL outside all
SELECT
    r.capture, r.start_ns, r.end_ns, r.end_ns - r.start_ns AS duration_ns, r.pid, r.tid, t.thread, s.text, s.place,
    coalesce(d.name, '') AS domain, r.push_pop, r.step
FROM {{rows}}.range AS r
JOIN {{rows}}.range_text AS s ON s.capture = r.capture AND s.label = r.label
LEFT JOIN {{rows}}.domain AS d ON d.capture = r.capture AND d.pid = r.pid AND d.domain = r.domain
LEFT JOIN {{side}}.thread AS t ON t.capture = r.capture AND t.tid = r.tid;
