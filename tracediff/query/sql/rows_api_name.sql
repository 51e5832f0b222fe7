-- rows_api_name: functions of api_call.
--   capture INTEGER
--   id      INTEGER
--   api     VARCHAR
--   class   VARCHAR
SELECT {{capture}}::INTEGER AS capture, name AS id, api, class FROM api_name;
