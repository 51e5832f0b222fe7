-- op_found: one row of the export for each op descriptor, the columns of op.sql.
CREATE TABLE op_found AS SELECT DISTINCT ON (descriptor) * FROM staged_op WHERE "end" IS NOT NULL;

-- op_descriptor: what ops have in common.
--   descriptor    UBIGINT  hash of all that they share, see op.sql
--   kind          UTINYINT 0 kernel, 1 memcpy, 2 memset, 3 whole graph
--   pid           INTEGER  process that launched it (bits 24 to 47 of globalPid)
--   device        INTEGER  device number as the process saw it
--   stream        INTEGER
--   graph_node    BIGINT   node of a CUDA graph, NULL for an op launched on its own
--   pageable_dtoh BOOLEAN  a copy from device to pageable host memory: the call blocks
--   host_memory   VARCHAR  of a copy from or to the host: pageable, pinned, ...; '' of others, and where it is not told
--   key           UBIGINT  identity: name, grid, block of a kernel; kind of a copy (see op_key)
CREATE TABLE op_descriptor AS
SELECT
    descriptor, kind, (globalPid >> 24 & 16777215)::INTEGER AS pid, deviceId::INTEGER AS device,
    streamId::INTEGER AS stream,
    CASE WHEN kind < 3 THEN nullif(graphNodeId, 0) END AS graph_node,
    -- CUDA_MEMCPY_KIND 2 is device to host; memory kind 0 is pageable
    kind = 1 AND coalesce(copyKind = 2 AND dstKind = 0, false) AS pageable_dtoh,
    -- CUDA_MEMCPY_KIND 1 and 3 read from the host, 2 and 4 write to it
    CASE CASE WHEN kind = 1 AND copyKind IN (1, 3) THEN srcKind WHEN kind = 1 AND copyKind IN (2, 4) THEN dstKind END
        WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' WHEN 4 THEN 'managed' ELSE ''
    END AS host_memory,
    CASE kind
        WHEN 0 THEN hash(demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ)
        WHEN 1 THEN hash('memcpy', copyKind)
        WHEN 2 THEN hash('memset')
        ELSE hash('graph')
    END AS key
FROM op_found;

-- op_key: what an op is. One row for each distinct key of op.
--   key          UBIGINT
--   kind         UTINYINT
--   name         VARCHAR  demangled kernel name; '[memcpy HtoD]', '[memset]', '[graph]' for the others
--   short_name   VARCHAR  function name without template and parameters, as nsys shortens it
--   grid, block  VARCHAR  'x,y,z' of kernels
--   registers    INTEGER  a thread
--   shared_bytes INTEGER  static + dynamic shared memory per block
CREATE TABLE op_key AS
WITH keys AS (
    SELECT
        key, any_value(op_descriptor.kind) AS kind,
        any_value(CASE op_descriptor.kind WHEN 1 THEN copyKind ELSE coalesce(demangledName, shortName) END) AS name,
        any_value(coalesce(shortName, demangledName)) AS short_name,
        any_value(gridX) AS grid_x, any_value(gridY) AS grid_y, any_value(gridZ) AS grid_z,
        any_value(blockX) AS block_x, any_value(blockY) AS block_y, any_value(blockZ) AS block_z,
        max(registersPerThread)::INTEGER AS registers,
        max(coalesce(staticSharedMemory, 0) + coalesce(dynamicSharedMemory, 0))::INTEGER AS shared_bytes
    FROM op_descriptor JOIN op_found USING (descriptor) GROUP BY key
)
SELECT
    keys.key, keys.kind,
    CASE keys.kind
        WHEN 0 THEN coalesce(long.value, '[kernel without a name]')
        WHEN 1 THEN '[memcpy ' || CASE keys.name
            WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 3 THEN 'HtoA' WHEN 4 THEN 'AtoH' WHEN 5 THEN 'AtoA'
            WHEN 6 THEN 'AtoD' WHEN 7 THEN 'DtoA' WHEN 8 THEN 'DtoD' WHEN 9 THEN 'HtoH' WHEN 10 THEN 'PtoP'
            WHEN 11 THEN 'unified HtoD' WHEN 12 THEN 'unified DtoH' WHEN 13 THEN 'unified DtoD' -- pages of managed memory
            ELSE 'of unknown kind' END || ']'
        WHEN 2 THEN '[memset]'
        ELSE '[graph]'
    END AS name,
    CASE keys.kind WHEN 0 THEN coalesce(short.value, long.value, '[kernel without a name]') END AS short_name,
    CASE keys.kind WHEN 0 THEN concat_ws(',', grid_x, grid_y, grid_z) END AS grid,
    CASE keys.kind WHEN 0 THEN concat_ws(',', block_x, block_y, block_z) END AS block,
    CASE keys.kind WHEN 0 THEN keys.registers END AS registers,
    CASE keys.kind WHEN 0 THEN keys.shared_bytes END AS shared_bytes
FROM keys
LEFT JOIN string AS long ON keys.kind = 0 AND long.id = keys.name
LEFT JOIN string AS short ON keys.kind = 0 AND short.id = keys.short_name;

DROP TABLE op_found;

-- op: one GPU activity. A view of op_row and op_descriptor.
--   start_ns, end_ns BIGINT   GPU time, ns from the start of the session
--   device           INTEGER  device number as the process saw it
--   stream           INTEGER
--   pid              INTEGER  process that launched it
--   corr             BIGINT   correlation id, unique only together with pid
--   kind             UTINYINT 0 kernel, 1 memcpy, 2 memset, 3 whole graph
--   key              UBIGINT  identity: name, grid, block of a kernel; kind of a copy (see op_key)
--   graph_node       BIGINT   node of a CUDA graph, NULL for an op launched on its own
--   bytes            BIGINT   of a copy or memset
--   pageable_dtoh    BOOLEAN  a copy from device to pageable host memory: the call blocks
CREATE VIEW op AS
SELECT
    r.start_ns, r.end_ns, s.device, s.stream, s.pid, r.launch - (s.pid::BIGINT << 32) AS corr, s.kind, s.key, s.graph_node,
    r.bytes, s.pageable_dtoh
FROM op_row AS r JOIN op_descriptor AS s USING (descriptor);
