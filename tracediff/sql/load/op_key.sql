-- op_key: what an op is. One row for each distinct key of op.
--   key          UBIGINT
--   kind         UTINYINT
--   name         VARCHAR  demangled kernel name; '[memcpy HtoD]', '[memset]', '[graph]' for the others
--   short_name   VARCHAR  function name without template and parameters, as nsys shortens it
--   grid, block  VARCHAR  'x,y,z' of kernels
--   registers    INTEGER  a thread
--   shared_bytes INTEGER  static + dynamic shared memory a block
CREATE TABLE op_key AS
WITH keys AS (
    SELECT
        key, any_value(kind) AS kind, any_value(name) AS name, any_value(short_name) AS short_name,
        any_value(grid_x) AS grid_x, any_value(grid_y) AS grid_y, any_value(grid_z) AS grid_z,
        any_value(block_x) AS block_x, any_value(block_y) AS block_y, any_value(block_z) AS block_z,
        max(registers) AS registers, max(shared_bytes) AS shared_bytes
    FROM op GROUP BY key
)
SELECT
    keys.key, keys.kind,
    CASE keys.kind
        WHEN 0 THEN coalesce(long.value, '[kernel without a name]')
        WHEN 1 THEN '[memcpy ' || CASE keys.name
            WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 3 THEN 'HtoA' WHEN 4 THEN 'AtoH' WHEN 5 THEN 'AtoA'
            WHEN 6 THEN 'AtoD' WHEN 7 THEN 'DtoA' WHEN 8 THEN 'DtoD' WHEN 9 THEN 'HtoH' WHEN 10 THEN 'PtoP'
            ELSE 'of unknown kind' END || ']'
        WHEN 2 THEN '[memset]'
        ELSE '[graph]'
    END AS name,
    CASE keys.kind WHEN 0 THEN coalesce(short.value, long.value, '[kernel without a name]') END AS short_name,
    CASE keys.kind WHEN 0 THEN concat_ws(',', grid_x, grid_y, grid_z) END AS grid,
    CASE keys.kind WHEN 0 THEN concat_ws(',', block_x, block_y, block_z) END AS block,
    keys.registers, keys.shared_bytes
FROM keys
LEFT JOIN string AS long ON keys.kind = 0 AND long.id = keys.name
LEFT JOIN string AS short ON keys.kind = 0 AND short.id = keys.short_name;

-- What op_key now says need not be said by every op: half of the table.
ALTER TABLE op DROP COLUMN name;
ALTER TABLE op DROP COLUMN short_name;
ALTER TABLE op DROP COLUMN grid_x;
ALTER TABLE op DROP COLUMN grid_y;
ALTER TABLE op DROP COLUMN grid_z;
ALTER TABLE op DROP COLUMN block_x;
ALTER TABLE op DROP COLUMN block_y;
ALTER TABLE op DROP COLUMN block_z;
ALTER TABLE op DROP COLUMN registers;
ALTER TABLE op DROP COLUMN shared_bytes;
