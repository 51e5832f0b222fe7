-- rows_domain: NVTX domains by process.
--   capture INTEGER
--   pid     INTEGER
--   domain  INTEGER
--   name    VARCHAR
SELECT {{capture}}::INTEGER AS capture, pid, domain, name FROM nvtx_domain;
