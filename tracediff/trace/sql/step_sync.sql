-- Calls in which a thread that launches something waits for a GPU, in order.
--   pid    INTEGER
--   tid    BIGINT
--   end_ns BIGINT
SELECT api_call.pid, api_call.tid, api_call.end_ns
FROM api_call JOIN api_name USING (name)
SEMI JOIN launched ON launched.tid = api_call.tid
WHERE class = 'sync'
ORDER BY api_call.pid, api_call.end_ns;
