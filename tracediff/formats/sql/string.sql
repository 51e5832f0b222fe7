-- string: interned names. From StringIds.
--   id    INTEGER
--   value VARCHAR
CREATE TABLE string AS
SELECT id::INTEGER AS id, any_value(value) AS value
FROM staged_StringIds WHERE id IS NOT NULL GROUP BY id;

-- is_gil: whether a range is one of nsys's own about the GIL; where the row that names its domain was left behind, the texts tell.
-- is_gc: whether a range is a pause of Python's cyclic garbage collector ('Python GC', 'Python GC gen2', ...).
CREATE MACRO is_gil(domain, said) AS coalesce(domain = 'GIL Trace', said IN ('Holding GIL', 'Waiting for GIL'));
CREATE MACRO is_gc(said) AS starts_with(said, 'Python GC');
