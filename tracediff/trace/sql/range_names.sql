-- The ranges that a step label may be among: names with numbers masked, those with the most different texts first.
--   name VARCHAR
SELECT left(regexp_replace(spelled, '[0-9]+', 'N', 'g'), 60) AS name
FROM nvtx_text
WHERE meaning = 'range' AND spelled <> ''
GROUP BY name
ORDER BY count(*) DESC, name
LIMIT 5;
