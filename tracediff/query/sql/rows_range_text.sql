-- rows_range_text: texts of ranges, and with their numbers masked.
--   capture INTEGER
--   label   INTEGER
--   text    VARCHAR
--   place   VARCHAR
SELECT {{capture}}::INTEGER AS capture, label, text, place FROM query_place;
