-- Synchronising calls of one thread, in order. ?: its global thread id.
--   start_ns BIGINT
SELECT start_ns FROM api_call JOIN api_name USING (name) WHERE tid = ? AND class = 'sync' ORDER BY start_ns;
