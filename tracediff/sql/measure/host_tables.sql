-- What host threads did in the host windows of the measured steps, summed by stratum.
-- Needs host_window (pid, stratum, start_ns, end_ns). An event counts in the window in which it starts.
--
-- range_stat: stratum INTEGER, tid BIGINT, label INTEGER, domain VARCHAR, count BIGINT, ns BIGINT
CREATE OR REPLACE TABLE range_stat AS
SELECT w.stratum, r.tid, r.label, coalesce(any_value(d.name), '') AS domain,
       count(*) AS count, sum(r.end_ns - r.start_ns)::BIGINT AS ns
FROM range AS r
ASOF JOIN host_window AS w ON w.pid = (r.tid >> 24 & 16777215)::INTEGER AND w.start_ns <= r.start_ns
LEFT JOIN nvtx_domain AS d ON d.pid = (r.tid >> 24 & 16777215)::INTEGER AND d.domain = r.domain
WHERE r.start_ns < w.end_ns
GROUP BY w.stratum, r.tid, r.label;

-- api_stat: stratum INTEGER, tid BIGINT, name INTEGER, count BIGINT, ns BIGINT (calls inside calls counted once)
CREATE OR REPLACE TABLE api_stat AS
SELECT w.stratum, a.tid, a.name, count(*) AS count, sum(a.end_ns - a.start_ns)::BIGINT AS ns
FROM api_call AS a
ASOF JOIN host_window AS w ON w.pid = a.pid AND w.start_ns <= a.start_ns
WHERE a.start_ns < w.end_ns
GROUP BY w.stratum, a.tid, a.name;

-- gil_stat: stratum INTEGER, tid BIGINT, waiting BOOLEAN, count BIGINT, ns BIGINT
CREATE OR REPLACE TABLE gil_stat AS
SELECT w.stratum, g.tid, g.waiting, count(*) AS count, sum(g.end_ns - g.start_ns)::BIGINT AS ns
FROM gil AS g
ASOF JOIN host_window AS w ON w.pid = (g.tid >> 24 & 16777215)::INTEGER AND w.start_ns <= g.start_ns
WHERE g.start_ns < w.end_ns
GROUP BY w.stratum, g.tid, g.waiting;

-- gc_stat: stratum INTEGER, tid BIGINT, generation VARCHAR, count BIGINT, ns BIGINT
CREATE OR REPLACE TABLE gc_stat AS
SELECT w.stratum, g.tid, g.generation, count(*) AS count, sum(g.end_ns - g.start_ns)::BIGINT AS ns
FROM gc AS g
ASOF JOIN host_window AS w ON w.pid = (g.tid >> 24 & 16777215)::INTEGER AND w.start_ns <= g.start_ns
WHERE g.start_ns < w.end_ns
GROUP BY w.stratum, g.tid, g.generation;
