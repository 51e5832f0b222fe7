-- For a capture without GPU work: a mark of no length where each step begins, as if an op had been launched there
-- by the thread of the label. The time between two marks is then idle time of that thread, attributed like any.
-- Adds rows to op_row, op_descriptor, op_key, api_call and api_name (columns of op.sql, op_descriptor.sql and api_call.sql); needs
-- the table step. A mark is an op of kind 3 launched by a call of name -2.
INSERT INTO op_key (key, kind, name) VALUES (0, 3, '[step]');
INSERT INTO op_descriptor BY NAME
SELECT DISTINCT pid AS descriptor, 3 AS kind, pid, 0 AS device, 0 AS stream, false AS pageable_dtoh, 0 AS key FROM step;
INSERT INTO op_row BY NAME
SELECT start_ns, start_ns AS end_ns, (pid::BIGINT << 32) - 1 - step AS launch, pid AS descriptor FROM step;
INSERT INTO api_name VALUES (-2, '[step]', 'launch');
INSERT INTO api_call BY NAME
SELECT start_ns, start_ns AS end_ns, tid, pid, -1 - step AS corr, -2 AS name FROM step;
