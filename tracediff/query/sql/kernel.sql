-- kernel: what GPU activities there are: a row for each kernel name, grid and block, and for each kind of copy, not for each launch (`op`).
--   capture      INTEGER  the export, a row of capture
--   kernel       INTEGER  number of the row within the export
--   kind         VARCHAR  kernel, memcpy, memset, or graph (a whole CUDA graph in one row)
--   name         VARCHAR  demangled; [memcpy HtoD] and the like for copies, [memset], [graph]
--   short_name   VARCHAR  the function's name without template and parameters; NULL for copies
--   category     VARCHAR  gemm, attention, norm, ..., communication
--   family       VARCHAR  cutlass, nvjet, cudnn, nccl, pytorch, ...
--   grid, block  VARCHAR  x,y,z; NULL for copies
--   registers    INTEGER  a thread; where kernels of one name, grid and block differ, the most
--   shared_bytes INTEGER  static and dynamic shared memory per block
SELECT
    {{capture}}::INTEGER AS capture, number.kernel,
    CASE op_key.kind WHEN 0 THEN 'kernel' WHEN 1 THEN 'memcpy' WHEN 2 THEN 'memset' ELSE 'graph' END AS kind,
    op_key.name, op_key.short_name, word.category, word.family, op_key.grid, op_key.block, op_key.registers, op_key.shared_bytes
FROM op_key JOIN query_kernel AS number ON number.key = op_key.key JOIN query_word AS word ON word.name = op_key.name
ORDER BY number.kernel;
