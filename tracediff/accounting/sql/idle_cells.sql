-- What a piece of idle time is, in the order of cell. All columns VARCHAR but cell INTEGER and copy BOOLEAN, as in the definition of idle_named.
SELECT DISTINCT
    cell, cause_name AS cause, under_name AS under, thread_name AS thread, place_name AS place, holder_name AS holder,
    holder_place_name AS holder_place, copy
FROM idle_cell
ORDER BY cell;
