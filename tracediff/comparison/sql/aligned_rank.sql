-- aligned_rank: ranks of both sides: step time, waits in collectives, and how often a rank was the last.
--   rank                                                BIGINT   process with a GPU, numbered over the exports of a run
--   device                                              BIGINT
--   baseline_ns, candidate_ns                           DOUBLE   of a step; NULL where the side has no such rank, as all of it
--   baseline_own_ns, candidate_own_ns                   DOUBLE   the step less exposed communication
--   baseline_last, candidate_last                       DOUBLE   share of the steps that all ranks share in which its own time was the longest
--   baseline_behind_ns, candidate_behind_ns             DOUBLE   in those, by how much it was longer than the median rank's
--   baseline_comm_wait_ns, candidate_comm_wait_ns       DOUBLE   collectives until the last rank arrived, per step; of ranks of one clock
--   baseline_comm_transfer_ns, candidate_comm_transfer_ns DOUBLE the rest of them
--   baseline_caused_wait_ns, candidate_caused_wait_ns   DOUBLE   what the other ranks waited in sum while this one was the last
--   baseline_sent_bytes, candidate_sent_bytes           DOUBLE   that it sends to single ranks of its groups per step; NULL where that is not in the captures
--   delta_ns, delta_own_ns                              DOUBLE   candidate - baseline
WITH of_run AS (
    SELECT side, run, "rank", device, sum(ns * weight) / sum(weight * units) AS ns, sum(own_ns * weight) / sum(weight * units) AS own_ns
    FROM step WHERE weight > 0 GROUP BY side, run, "rank", device
), time AS (
    SELECT side, "rank", device, avg(ns) AS ns, avg(own_ns) AS own_ns FROM of_run GROUP BY side, "rank", device
), late AS (
    SELECT side, "rank", device, avg(last::INTEGER) AS last, avg(behind_ns) FILTER (last) AS behind_ns
    FROM joint_step GROUP BY side, "rank", device
), waited AS (
    SELECT
        side, "rank" + first_rank AS "rank", sum(wait_ns * weight) AS wait_ns, sum(transfer_ns * weight) AS transfer_ns,
        sum(caused_ns * weight) AS caused_ns
    FROM collectives JOIN first_rank USING (side, run, part) JOIN stratum_weight USING (side, run, part, stratum)
    GROUP BY ALL
), wait AS (
    -- the weights divide by the steps of all ranks; a rank's own are their share
    SELECT
        side, "rank", round(wait_ns, 9) * count(*) OVER of_side AS comm_wait_ns,
        round(transfer_ns, 9) * count(*) OVER of_side AS comm_transfer_ns, round(caused_ns, 9) * count(*) OVER of_side AS caused_wait_ns
    FROM waited WINDOW of_side AS (PARTITION BY side)
), message AS (
    SELECT side, run, part, period, sum(bytes) AS bytes FROM messages WHERE name IN ('ncclSend', 'ncclAlltoAll') GROUP BY ALL
), sent AS (
    -- messages are in the steps of a rank's first device
    SELECT side, "rank", device, round(sum(coalesce(bytes, 0) * weight) / sum(weight * units), 3) AS sent_bytes
    FROM step LEFT JOIN message USING (side, run, part, period) WHERE weight > 0
    GROUP BY side, "rank", device HAVING count(bytes) > 0
), known AS (
    FROM time LEFT JOIN late USING (side, "rank", device) LEFT JOIN wait USING (side, "rank") LEFT JOIN sent USING (side, "rank", device)
)
SELECT
    "rank", device, b.ns AS baseline_ns, c.ns AS candidate_ns, b.own_ns AS baseline_own_ns, c.own_ns AS candidate_own_ns,
    b.last AS baseline_last, c.last AS candidate_last, b.behind_ns AS baseline_behind_ns, c.behind_ns AS candidate_behind_ns,
    b.comm_wait_ns AS baseline_comm_wait_ns, c.comm_wait_ns AS candidate_comm_wait_ns, b.comm_transfer_ns AS baseline_comm_transfer_ns,
    c.comm_transfer_ns AS candidate_comm_transfer_ns, b.caused_wait_ns AS baseline_caused_wait_ns,
    c.caused_wait_ns AS candidate_caused_wait_ns, b.sent_bytes AS baseline_sent_bytes, c.sent_bytes AS candidate_sent_bytes, c.ns - b.ns AS delta_ns, c.own_ns - b.own_ns AS delta_own_ns
FROM (FROM known WHERE side = 0) AS b FULL JOIN (FROM known WHERE side = 1) AS c USING ("rank", device)
ORDER BY "rank", device;
