-- idle_cell: what pieces of idle time are, numbered in the order of their names.
--   cause .. copy         as in idle_piece
--   cell                  INTEGER  0, 1, ...
--   ..._name              VARCHAR  in words
CREATE OR REPLACE TABLE idle_cell AS
WITH found AS (
    SELECT DISTINCT cause, under, thread, place, holder, holder_place, copy FROM idle_piece
), named AS (
    SELECT
        f.*, cause.text AS cause_name, under.text AS under_name, thread.text AS thread_name, place.text AS place_name,
        holder.text AS holder_name, holder_place.text AS holder_place_name
    FROM found AS f
    JOIN cause_name AS cause ON cause.number = f.cause
    JOIN cause_name AS under ON under.number = f.under
    JOIN role_name AS thread ON thread.number = f.thread
    JOIN place_name AS place ON place.number = f.place
    JOIN role_name AS holder ON holder.number = f.holder
    JOIN place_name AS holder_place ON holder_place.number = f.holder_place
)
SELECT
    *,
    dense_rank() OVER (
        ORDER BY cause_name, under_name, thread_name, place_name, holder_name, holder_place_name, copy
    ) - 1 AS cell
FROM named;
