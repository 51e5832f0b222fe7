-- A stretch of the ops of the export (parameters: first row, row after the last).
--   start_ns, end_ns BIGINT
--   sort             INTEGER  id in sort_id
--   launch           BIGINT   process << 32 + correlation id as in call.sql, -2 where there is none
SELECT op_row.start_ns, op_row.end_ns, sort_id.id AS sort, coalesce(op_row.launch, -2) AS launch
FROM op_row JOIN sort_id USING (sort)
WHERE op_row.rowid >= ? AND op_row.rowid < ?;
