-- aligned_transition: kernels that one side launches one by one and the other side by graphs, per step.
--   kernel                              VARCHAR
--   baseline_eager, candidate_eager     DOUBLE  launched one by one, per step
--   baseline_graph, candidate_graph     DOUBLE  launched by graphs, per step
SELECT
    keys.name AS kernel, coalesce(per_step(eager * weight, side = 0), 0) AS baseline_eager, coalesce(per_step(eager * weight, side = 1), 0) AS candidate_eager,
    coalesce(per_step(graph * weight, side = 0), 0) AS baseline_graph, coalesce(per_step(graph * weight, side = 1), 0) AS candidate_graph
FROM transitions AS t
JOIN stratum_weight USING (side, run, part, stratum)
JOIN keys ON keys.side = t.side AND keys.run = t.run AND keys.part = t.part AND keys.id = t.key
GROUP BY keys.name
HAVING (baseline_eager > 0 AND candidate_graph > 0 AND baseline_graph < candidate_graph)
    OR (baseline_graph > 0 AND candidate_eager > 0 AND candidate_graph < baseline_graph)
ORDER BY kernel;
