-- What nsys says of the recording: which processes it saw, what it could not record and why.
--   text VARCHAR without folders, that of a path keeps its last part
CREATE TABLE diagnostic AS
SELECT DISTINCT left(regexp_replace(text, '(/[^/[:space:]]+)+/', '', 'g'), 300) AS text
FROM staged_DIAGNOSTIC_EVENT
WHERE text IS NOT NULL
ORDER BY text;
