-- aligned_thread: host threads of both sides by role, and how alike their ranges are.
--   role                VARCHAR    executor, await-response, launcher of device 0, ...
--   process             VARCHAR    what its process is: worker, client, ...
--   baseline_places     VARCHAR[]  the ranges of its threads, numbers masked, in order; NULL where the side has no such thread
--   candidate_places    VARCHAR[]
--   baseline_range_ns   DOUBLE     time per step in which one of its ranges is open; NULL where the side has no such thread
--   candidate_range_ns  DOUBLE
--   score               DOUBLE     ranges that both sides have, of all: 0 to 1; NULL where one side has no such thread
--   delta_ns            DOUBLE     candidate - baseline; NULL likewise
WITH roles AS (
    SELECT
        role, arg_min(process, (side, number)) AS process,
        list_sort(list_distinct(flatten(list(places) FILTER (side = 0)))) AS baseline_places,
        list_sort(list_distinct(flatten(list(places) FILTER (side = 1)))) AS candidate_places,
        len(list_intersect(baseline_places, candidate_places)) AS shared, len(list_distinct(flatten(list(places)))) AS every
    FROM thread GROUP BY role
), ranged AS (
    SELECT thread AS role, sum(baseline_outer_ns) AS baseline_ns, sum(candidate_outer_ns) AS candidate_ns FROM aligned_range GROUP BY thread
)
SELECT
    role, process, baseline_places, candidate_places,
    CASE WHEN baseline_places IS NOT NULL THEN coalesce(baseline_ns, 0) END AS baseline_range_ns,
    CASE WHEN candidate_places IS NOT NULL THEN coalesce(candidate_ns, 0) END AS candidate_range_ns,
    CASE
        WHEN baseline_places IS NULL OR candidate_places IS NULL THEN NULL
        WHEN every = 0 THEN 1
        ELSE shared::DOUBLE / every
    END AS score,
    candidate_range_ns - baseline_range_ns AS delta_ns
FROM roles LEFT JOIN ranged USING (role)
ORDER BY role;
