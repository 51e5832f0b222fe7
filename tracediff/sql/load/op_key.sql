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
        any_value(concat_ws(',', grid_x, grid_y, grid_z)) AS grid,
        any_value(concat_ws(',', block_x, block_y, block_z)) AS block,
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
    CASE keys.kind WHEN 0 THEN keys.grid END AS grid,
    CASE keys.kind WHEN 0 THEN keys.block END AS block,
    keys.registers, keys.shared_bytes
FROM keys
LEFT JOIN string AS long ON keys.kind = 0 AND long.id = keys.name
LEFT JOIN string AS short ON keys.kind = 0 AND short.id = keys.short_name;
