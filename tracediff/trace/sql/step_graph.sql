-- What the calls that launch several ops hold, one call of each content: the nodes of a graph in order of time.
--   content UBIGINT  as in launched
--   token   INTEGER
WITH one AS (
    SELECT content, min(launch) AS launch FROM launched WHERE token < 0 GROUP BY content
)
SELECT one.content, op_token.token
FROM op_row JOIN one USING (launch) JOIN op_descriptor USING (descriptor) JOIN op_token USING (key)
ORDER BY one.content, op_row.start_ns, op_row.end_ns, op_token.token;
