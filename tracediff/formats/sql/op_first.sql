-- A row of the export for each sort of op, to look up what they share.
--   sort   UBIGINT
--   kind   INTEGER
--   source BIGINT  see op_row
SELECT sort, any_value(kind)::INTEGER AS kind, min(source) AS source FROM op_row GROUP BY sort ORDER BY kind, source;
