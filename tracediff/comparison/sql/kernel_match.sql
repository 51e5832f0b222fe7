-- kernel_match: rows of the kernel table in tiers. Which op stands for which is known (kernel_pair); how sure that is follows from what
-- the ops of both sides have in common.
--   row           BIGINT   number of the row
--   same_ops      BOOLEAN  both sides have the same ops, by name, grid and block, and each stands for itself; NULL where one side has none
--   same_name     BOOLEAN  both sides have the same names
--   same_template BOOLEAN  both sides have the same names without what a compiler chooses
--   match         VARCHAR  exact, name, template, fused (several ops into one), split (one into several), sequence (only the place is the
--                          same), added, removed
--   confidence    DOUBLE   0 to 1
WITH pair AS (
    SELECT
        "row", pair, list((name, grid, block) ORDER BY number) FILTER (side = 0) AS one,
        list((name, grid, block) ORDER BY number) FILTER (side = 1) AS other, list(name) FILTER (side = 0) AS one_names,
        list(name) FILTER (side = 1) AS other_names, list(template) FILTER (side = 0) AS one_templates,
        list(template) FILTER (side = 1) AS other_templates
    FROM kernel_pair GROUP BY "row", pair
), known AS (
    SELECT
        "row", count(one) > 0 AS before, count(other) > 0 AS after, coalesce(bool_and(one = other), true) AS alike,
        coalesce(bool_or(len(one) > 1 AND other IS NOT NULL), false) AS fused,
        coalesce(bool_or(len(one) = 1 AND len(other) > 1), false) AS split,
        list_sort(list_distinct(flatten(list(one)))) = list_sort(list_distinct(flatten(list(other)))) AS same_ops,
        list_sort(list_distinct(flatten(list(one_names)))) = list_sort(list_distinct(flatten(list(other_names)))) AS same_name,
        list_sort(list_distinct(flatten(list(one_templates)))) = list_sort(list_distinct(flatten(list(other_templates)))) AS same_template
    FROM pair GROUP BY "row"
), tiers AS (
    SELECT
        "row", CASE WHEN before AND after THEN same_ops AND alike END AS same_ops, CASE WHEN before AND after THEN same_name END AS same_name,
        CASE WHEN before AND after THEN same_template END AS same_template,
        CASE
            WHEN NOT before THEN 'added'
            WHEN NOT after THEN 'removed'
            WHEN same_ops AND alike THEN 'exact'
            WHEN same_name THEN 'name'
            WHEN fused THEN 'fused'
            WHEN split THEN 'split'
            WHEN same_template THEN 'template'
            ELSE 'sequence'
        END AS match
    FROM known
)
SELECT
    "row", same_ops, same_name, same_template, match,
    CASE match
        WHEN 'exact' THEN 1.0 WHEN 'name' THEN 0.95 WHEN 'template' THEN 0.85 WHEN 'sequence' THEN 0.65
        WHEN 'fused' THEN 0.7 WHEN 'split' THEN 0.7 ELSE 0.8
    END::DOUBLE AS confidence
FROM tiers
ORDER BY "row";
