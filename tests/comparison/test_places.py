"""How sure a place is: corrected for the number of places, by the number of runs, and by permutation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.measuring import FIRST, measured, step
from tracediff.comparison.places import Judged, judge, places_of

US = 1_000.0


def side(runs: list[float], *, steps: int = 12, more: float = 0.0, jitter: float = 0.0) -> list[list[dict]]:
    """Runs whose steps take 900 us in one place, so many us in another, and 100 us in a kernel (`more` above that)."""
    rng = np.random.default_rng(1)
    return [
        [
            step(cells=[900 * US, own * US + rng.normal(0, 1) * jitter, (100 + more) * US], ops=1)
            for _ in range(steps)
        ]
        for own in runs
    ]


def levels(found: Judged, part: str = "typical") -> dict[int, str]:
    return {one.place.cells[0] - FIRST: one.level for one in found.rows if one.part == part}


def judged(baseline: list[float], candidate: list[float], **rest) -> Judged:
    return judge(measured(side(baseline), side(candidate, **rest), idle=2, kernels=1))


@pytest.mark.parametrize(
    ("baseline", "candidate", "level"),
    [
        # s0 of 10 % and 1 us: 13 us and more
        ([50, 51, 52, 53], [120, 121, 122, 123], "confirmed"),  # q, and 2 of 70 splits
        ([50, 51, 52, 126], [125, 200, 201, 202], "likely"),  # q, but 4 of 70 splits
        ([50, 51, 52], [120, 121, 122], "confirmed"),
        ([50, 51], [120, 121], "likely"),
        ([50], [400], "within_noise"),  # s0^2 counts 2.25 times, with 4 degrees of freedom
        ([50, 51, 52, 53], [50, 52, 51, 53.5], "within_noise"),
    ],
)
def test_the_level_follows_the_number_of_runs(baseline, candidate, level):
    found = levels(judged(baseline, candidate))
    assert found == {0: "within_noise", 1: level, 2: "within_noise"}


def test_one_run_a_side_says_more_of_kernels_than_of_the_host():
    """s0 is 0.4 % and 0.05 us: t = 20 / (1.5 * 0.53 * sqrt(2)) = 17.8 with 4 degrees of freedom."""
    assert levels(judged([50], [50], more=20.0)) == {0: "within_noise", 1: "within_noise", 2: "likely"}


def test_three_runs_whose_q_is_above_one_in_a_hundred_are_likely():
    found = judged([50, 51, 52], [70, 71, 72])
    (moved,) = (one for one in found.rows if one.part == "typical" and one.place.cells == (FIRST + 1,))
    assert 0.01 < moved.q < 0.05 and moved.level == "likely"


def test_a_change_under_a_thousandth_of_the_step_is_noise():
    """A kernel's s0 is 0.4 % + 0.05 us. The step is about 1,050 us."""
    base = [50.0] * 5
    assert levels(judged(base, base, more=1.0))[2] == "within_noise"  # 1 us is less than 1.05 us
    assert levels(judged(base, base, more=1.1))[2] == "confirmed"


@pytest.mark.parametrize("more", [2.0, 0.5, 0.0])
def test_a_count_is_exact_whatever_its_time(more: float):
    """What is too small to matter is left out of the findings, not of what is exact: rows of a block may cancel."""
    found = measured(side([50.0] * 3), side([50.0] * 3, more=more), idle=2, kernels=1)
    found.kernels.exact["generation"][0] = True
    assert levels(judge(found))[2] == "exact"


def test_what_only_rare_steps_spend_is_of_the_tail():
    """One step of 24 stops for 20 ms, in four runs of four: 833 us per mean step, and the typical step is as before."""

    def stopping(ns: float) -> list[list[dict]]:
        runs = side([50.0] * 4, steps=24)
        for steps in runs:
            steps[13]["cells"][1] += ns
        return runs

    found = judge(measured(side([50.0] * 4, steps=24), stopping(20_000 * US), idle=2, kernels=1))
    assert levels(found)[1] == "within_noise" and levels(found, "tail")[1] == "confirmed"
    (rare,) = (one for one in found.rows if one.part == "tail" and one.place.cells == (FIRST + 1,))
    assert rare.delta == pytest.approx(20_000 * US / 24)


def test_rows_that_changed_together_are_one_place_with_their_sum():
    def kernels(first: float, second: float) -> list[list[dict]]:
        return [[step(cells=[900 * US, first * US, second * US]) for _ in range(12)] for _ in range(4)]

    found = measured(kernels(40, 20), kernels(30, 31), idle=1, kernels=2, blocks=(5, 5))
    assert [one.cells for one in places_of(found) if one.kind == "kernels"] == [(FIRST + 1, FIRST + 2)]
    (block,) = (one for one in judge(found).rows if one.place.kind == "kernels" and one.part == "typical")
    assert (block.baseline, block.candidate, block.delta) == pytest.approx((60 * US, 61 * US, 1 * US))
    apart = measured(kernels(40, 20), kernels(30, 31), idle=1, kernels=2)
    assert len([one for one in places_of(apart) if one.kind == "kernels"]) == 2


def test_phases_with_too_few_steps_and_unknown_kernels_are_not_tested():
    """Steps that all launch something new: their kernels are a matter of their shapes."""

    def runs(more: float) -> list[list[dict]]:
        return [
            [step(cells=[900 * US, (100 + more) * US], ops=100 * at + own) for own in range(9)]
            for at in range(4)
        ]

    found = judge(measured(runs(0), runs(50), idle=1, kernels=1))
    (kernel,) = (one for one in found.rows if one.place.kind == "kernels" and one.part == "typical")
    assert np.isnan(kernel.q) and kernel.level == "within_noise"
    few = judge(measured(side([50.0] * 4, steps=2), side([90.0] * 4, steps=2), idle=2, kernels=1))
    assert {one.level for one in few.rows} == {"within_noise"} and all(np.isnan(one.q) for one in few.rows)


def test_findings_rank_by_what_survives_their_uncertainty():
    found = judged([50, 51, 52, 53], [120, 121, 122, 123])
    tests = sum(not np.isnan(one.q) for one in (*found.rows, *found.categories))
    wider = stats.t.ppf(1 - 0.025 / tests, 10) / stats.t.ppf(0.975, 10)  # of 4 + 6 degrees of freedom
    for one in found.rows:
        assert one.score == pytest.approx(
            max(0.0, abs(one.delta) - wider * one.half)
        )  # one phase: its share is 1
    assert max(found.rows, key=lambda one: one.score).place.cells == (FIRST + 1,)


def test_exchanging_the_sides_changes_signs_alone():
    one, other = ([50, 51, 52, 53], [60, 70, 55, 80])
    forward, backward = judged(one, other), judged(other, one)
    for left, right in zip(forward.rows, backward.rows, strict=True):
        assert (left.delta, left.half, left.p, left.q, left.level) == (
            -right.delta, right.half, right.p, right.q, right.level,
        )  # fmt: skip
