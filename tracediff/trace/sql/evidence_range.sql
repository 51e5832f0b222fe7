-- The ranges that may label steps, of processes that launch, by family, start and end, longest first.
-- A family is what a thread says in one domain, with numbers masked. $library: a regular expression of names that
-- libraries and layers give; $least: how many ranges a family needs.
--   pid              INTEGER
--   family           INTEGER  dense id: process, thread, domain, masked text
--   label            INTEGER  id in range_text
--   start_ns, end_ns BIGINT
WITH named AS (
    SELECT label, regexp_replace(text, '0x[0-9a-fA-F]+|[0-9]+(\.[0-9]+)?', 'N', 'g') AS name
    FROM range_text
    WHERE text <> '' AND NOT regexp_matches(text, $library)
), found AS (
    SELECT r.tid, r.domain, named.name, r.label, r.start_ns, r.end_ns,
           dense_rank() OVER (ORDER BY r.tid >> 24 & 16777215, r.tid, r.domain, named.name) - 1 AS family
    FROM range AS r JOIN named USING (label)
    WHERE NOT EXISTS (FROM op_descriptor) OR (r.tid >> 24 & 16777215) IN (SELECT pid FROM op_descriptor)
    QUALIFY count(*) OVER (PARTITION BY r.tid, r.domain, named.name) >= $least
)
SELECT (tid >> 24 & 16777215)::INTEGER AS pid, family::INTEGER AS family, label, start_ns, end_ns FROM found ORDER BY family, start_ns, end_ns DESC, label;
