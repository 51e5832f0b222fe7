-- string: interned names. From StringIds.
--   id    INTEGER
--   value VARCHAR
CREATE TABLE string AS
SELECT id::INTEGER AS id, any_value(value) AS value
FROM staged_StringIds WHERE id IS NOT NULL GROUP BY id;
