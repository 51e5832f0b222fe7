-- Copies of a mebibyte and more: those of less are as long as it takes to start one.
--   start_ns BIGINT, ns BIGINT, pid BIGINT, device BIGINT
--   key      UBIGINT, name VARCHAR: as in op_key
--   bytes    DOUBLE
SELECT op.start_ns, op.end_ns - op.start_ns AS ns, op.pid::BIGINT AS pid, op.device::BIGINT AS device,
       op_key.key, op_key.name, op.bytes::DOUBLE AS bytes
FROM op JOIN op_key USING (key)
WHERE op.kind = 1 AND op.bytes >= 1048576
ORDER BY ALL;
