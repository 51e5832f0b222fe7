-- query_kernel: a number for each kind of op.
--   key    UBIGINT  of op_key
--   kernel INTEGER
CREATE OR REPLACE TEMP TABLE query_kernel AS
SELECT key, (row_number() OVER (ORDER BY kind, name, grid, block, short_name, key) - 1)::INTEGER AS kernel FROM op_key;
