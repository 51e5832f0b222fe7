-- aligned_thread: host threads of both sides by role, and how alike their ranges are.
--   role                VARCHAR    executor, await-response, launcher of device 0, ...
--   process             VARCHAR    what its process is: worker, client, ...
--   baseline_places     VARCHAR[]  the ranges of its threads, numbers masked, in order; NULL where the side has no such thread
--   candidate_places    VARCHAR[]
--   baseline_range_ns   DOUBLE     time per step in which one of its ranges is open; NULL where the side has no such thread, or no range of it
--   candidate_range_ns  DOUBLE
--   score               DOUBLE     ranges that both sides have, of all: 0 to 1; NULL where one side has no such thread
--   delta_ns            DOUBLE     candidate - baseline; NULL likewise
--   baseline_every      BIGINT     n where it begins ranges in every n-th step only, as with responses every n-th step; NULL where in every step, or at no one distance
--   candidate_every     BIGINT
--   baseline_burst_ns   DOUBLE     what it then works in n steps; NULL where baseline_every is
--   candidate_burst_ns  DOUBLE
WITH roles AS (
    SELECT
        role, arg_min(process, (side, number)) AS process,
        list_sort(list_distinct(flatten(list(places) FILTER (side = 0)))) AS baseline_places,
        list_sort(list_distinct(flatten(list(places) FILTER (side = 1)))) AS candidate_places,
        len(list_intersect(baseline_places, candidate_places)) AS shared, len(list_distinct(flatten(list(places)))) AS every
    FROM thread GROUP BY role
), ranged AS (
    SELECT thread AS role, sum(baseline_outer_ns) AS baseline_ns, sum(candidate_outer_ns) AS candidate_ns FROM aligned_range GROUP BY thread
), worked AS (
    SELECT side, run, part, "rank", device, period, weight, thread AS role
    FROM step JOIN entered USING (side, run, part, period)
), apart AS (
    SELECT side, role, period - lag(period) OVER (PARTITION BY side, run, part, "rank", device, role ORDER BY period) AS steps FROM worked
), rhythm AS (
    -- three quarters of the distances are one number; four bursts at least
    SELECT side, role, quantile_disc(steps, 0.5)::BIGINT AS every FROM apart WHERE steps IS NOT NULL GROUP BY side, role
    HAVING count(*) >= 3 AND every > 1 AND quantile_disc(steps, 0.125) = quantile_disc(steps, 0.875)
), all_steps AS (
    SELECT side, run, part, "rank", device, count(*) AS steps FROM step WHERE weight > 0 GROUP BY ALL
), bursts AS (
    SELECT side, run, part, "rank", device, role, count(*) AS bursts FROM worked WHERE weight > 0 GROUP BY ALL
), burst AS (
    SELECT side, role, any_value(every) AS every, sum(steps) / sum(bursts) AS steps_of_one
    FROM rhythm JOIN bursts USING (side, role) JOIN all_steps USING (side, run, part, "rank", device) GROUP BY side, role
)
SELECT
    role, process, baseline_places, candidate_places,
    CASE WHEN len(baseline_places) > 0 THEN coalesce(baseline_ns, 0) END AS baseline_range_ns,
    CASE WHEN len(candidate_places) > 0 THEN coalesce(candidate_ns, 0) END AS candidate_range_ns,
    CASE
        WHEN baseline_places IS NULL OR candidate_places IS NULL THEN NULL
        WHEN roles.every = 0 THEN 1
        ELSE shared::DOUBLE / roles.every
    END AS score,
    candidate_range_ns - baseline_range_ns AS delta_ns,
    b.every AS baseline_every, c.every AS candidate_every, round(b.steps_of_one * baseline_ns, 3) AS baseline_burst_ns,
    round(c.steps_of_one * candidate_ns, 3) AS candidate_burst_ns
FROM roles LEFT JOIN ranged USING (role)
LEFT JOIN (FROM burst WHERE side = 0) AS b USING (role) LEFT JOIN (FROM burst WHERE side = 1) AS c USING (role)
ORDER BY role;
