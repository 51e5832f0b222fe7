-- per_step: what the aligned views sum with. Of rows of both sides, grouped by what is the same on both, the sum of the rows of one side
-- (`mine`); NULL where there is none. Nine digits, so that what is once in every step is 1 whatever the weights add up to.
--   per_step DOUBLE
CREATE OR REPLACE MACRO per_step(weighed, mine) AS round(sum(CASE WHEN mine THEN weighed::DOUBLE END), 9);
