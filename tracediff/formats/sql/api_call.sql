-- api_call: one CUDA runtime or driver call (or one of HIP) on a host thread. From CUPTI_ACTIVITY_KIND_RUNTIME.
-- A runtime call and the driver call under it may both be here, with the same correlation id.
--   start_ns, end_ns BIGINT
--   tid              BIGINT   global thread id (hw << 56 | vm << 48 | pid << 24 | tid)
--   pid              INTEGER
--   corr             BIGINT
--   name             INTEGER  id in api_name
CREATE TABLE api_call AS
SELECT
    "start"::BIGINT AS start_ns,
    "end"::BIGINT AS end_ns, -- odd ones are set right next (nsys.py)
    globalTid::BIGINT AS tid,
    (globalTid >> 24 & 16777215)::INTEGER AS pid,
    CASE WHEN correlationId BETWEEN 0 AND 4294967295 THEN correlationId END::BIGINT AS corr,
    nameId::INTEGER AS name
FROM staged_CUPTI_ACTIVITY_KIND_RUNTIME;

-- api_name: function names of api_call and what they do to the calling thread.
--   name  INTEGER  id
--   api   VARCHAR  without the version suffix: cudaLaunchKernel
--   class VARCHAR  launch: puts work on a GPU; sync: waits for a GPU; other
CREATE TABLE api_name AS
WITH names AS (
    SELECT DISTINCT name FROM api_call
), cut AS (
    SELECT names.name, regexp_replace(coalesce(string.value, '[unnamed call]'), '_v[0-9]+$', '') AS api
    FROM names LEFT JOIN string ON string.id = names.name
)
SELECT
    name, api,
    CASE
        WHEN api LIKE '%Synchronize%' THEN 'sync'
        -- capture and node-editing calls carry the word Launch or Memcpy without launching anything
        WHEN api SIMILAR TO '(cu|cuda|hip)Graph(Add|Exec|Kernel|Memcpy|Memset).*' THEN 'other'
        WHEN api SIMILAR TO '(cu|cuda|hip)(Launch.*|GraphLaunch.*)' THEN 'launch'
        WHEN api SIMILAR TO 'hip(Ext|Hcc)?(Module)?Launch.*' THEN 'launch'
        WHEN api SIMILAR TO '(cu|cuda|hip)(Memcpy|Memset).*Async.*' THEN 'launch'
        WHEN api SIMILAR TO '(cu|cuda|hip)Memset.*' THEN 'launch'
        WHEN api SIMILAR TO '(cu|cuda|hip)Memcpy.*' THEN 'sync'
        ELSE 'other'
    END AS class
FROM cut;
