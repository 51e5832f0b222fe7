-- aligned_group: groups of ranks that share a communicator of NCCL, on both sides: how long they wait for each other. Of ranks of one clock.
--   members                                BIGINT[] ranks, numbered over the exports of a run
--   name                                   VARCHAR  how the program calls the group; '' not at all
--   calls                                  VARCHAR  functions of NCCL that they call: ncclAllReduce; ncclSend or ncclRecv of a pipeline, ncclSend and ncclRecv of an all-to-all; ...
--   baseline_wait_ns, candidate_wait_ns    DOUBLE   from a rank's own start until the last one's, per step, sum of its ranks; NULL where the side has no such group
--   baseline_late, candidate_late          BIGINT   the rank for which the others waited longest; the first of several
--   baseline_caused_ns, candidate_caused_ns DOUBLE  what they waited for that one
WITH waited AS (
    SELECT
        side, list_transform(members, lambda one: one + first_rank) AS members, "group" AS name, calls, "rank" + first_rank AS "rank",
        sum(wait_ns * weight) AS wait_ns, sum(caused_ns * weight) AS caused_ns
    FROM collectives JOIN first_rank USING (side, run, part) JOIN stratum_weight USING (side, run, part, stratum)
    GROUP BY ALL
), many AS (
    -- the weights divide by the steps of all ranks
    SELECT side, count(DISTINCT "rank") AS ranks FROM waited GROUP BY side
), grouped AS (
    SELECT
        side, members, name, calls, round(sum(wait_ns), 9) * any_value(ranks) AS wait_ns, arg_max("rank", (caused_ns, -"rank")) AS late,
        round(max(caused_ns), 9) * any_value(ranks) AS caused_ns
    FROM waited JOIN many USING (side) WHERE len(members) > 0 GROUP BY side, members, name, calls
)
SELECT
    members, name, calls, b.wait_ns AS baseline_wait_ns, c.wait_ns AS candidate_wait_ns, b.late AS baseline_late, c.late AS candidate_late,
    b.caused_ns AS baseline_caused_ns, c.caused_ns AS candidate_caused_ns
FROM (FROM grouped WHERE side = 0) AS b FULL JOIN (FROM grouped WHERE side = 1) AS c USING (members, name, calls)
ORDER BY members, name, calls;
