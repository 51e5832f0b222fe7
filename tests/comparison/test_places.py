"""How sure a place is: corrected for the number of places, by the number of runs, and by permutation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.measuring import FIRST, framed, measured, step
from tracediff.comparison.kernel_table import _differs
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
        # 80 us are 7 % of the step; t = log(135 / 55) / (0.1 sqrt(2)) = 6.4 with 4 degrees of freedom: p = .003
        ([50], [130], "likely"),
        ([50], [80], "within_noise"),  # log(85 / 55): t = 3.1, p = .04
        ([50, 51, 52, 53], [50, 52, 51, 53.5], "within_noise"),
    ],
)
def test_the_level_follows_the_number_of_runs(baseline, candidate, level):
    found = levels(judged(baseline, candidate))
    assert found == {0: "within_noise", 1: level, 2: "within_noise"}


def test_one_run_a_side_says_more_of_kernels_than_of_the_host():
    """s0 is 0.4 % and 0.05 us: t = 20 / (0.53 * sqrt(2)) = 26.7 with 4 degrees of freedom."""
    assert levels(judged([50], [50], more=20.0)) == {0: "within_noise", 1: "within_noise", 2: "likely"}


@pytest.mark.parametrize(
    ("ops", "level"),
    [
        ((1.0, 0.0), "likely"),  # s0 = 0.10 + 0.05: t = 2 / (0.15 sqrt(2)) = 9.2 with 4 degrees of freedom
        ((12.0, 0.0), "within_noise"),  # 0.10 + 12 * 0.05 = 0.70: t = 2.0, p = .11
        ((1.0, 0.5), "within_noise"),  # half of the ops may be of the work: 13 us
    ],
)
def test_one_run_a_side_a_kernel_scatters_by_its_ops(ops, level):
    one, other = ([[step(cells=[1_000 * US, ns * US]) for _ in range(12)]] for ns in (24, 26))
    found = judge(measured(one, other, idle=1, kernels=1, ops=ops))
    assert levels(found)[1] == level


@pytest.mark.parametrize(("gap", "level"), [(0.0, "likely"), (0.5, "within_noise"), (-0.5, "likely")])
def test_one_run_a_side_a_slower_host_may_expose_what_the_gpu_hid(gap, level):
    """50 -> 400 us. A host that is 0.5 slower: error at least 0.5 * 405 = 202, t < 1.8; on a faster host it is the change."""
    one, other = (
        [[step(cells=[1_000 * US, own * US, speed]) for _ in range(12)]]
        for own, speed in ((50, 0.0), (400, gap))
    )
    found = judge(measured(one, other, idle=2, speed=True))
    assert levels(found)[1] == level


@pytest.mark.parametrize(
    ("runs", "more", "kernel", "level"),
    [
        # error and s0 of two runs: 10 % of 90 + 1 = 10 us, t = 4.0 with 6 degrees of freedom, p = .007
        (2, 40, 600, "likely"),  # 40 us of some 700
        (2, 40, 900, "within_noise"),  # of some 1,000: less than 5 %
        (2, 30, 400, "within_noise"),  # t = 30 / 9 = 3.3, p = .016
        # s0 7.7 us, error 7.7 sqrt(1 / 2 x 2 / 3) = 4.4 us, t = 3.8 with 8 degrees of freedom, p = .005
        (3, 17, 200, "within_noise"),  # 17 us of some 270
    ],
)
def test_of_one_or_two_runs_large_places_need_no_correction(
    runs: int, more: float, kernel: float, level: str
):
    """A place of 50 us and twelve of 1 us: 16 tests with the kernel and two categories."""

    def all_of(us: float) -> list[list[dict]]:
        return [[step(cells=[us * US, *[US] * 12, kernel * US]) for _ in range(12)] for _ in range(runs)]

    found = judge(measured(all_of(50), all_of(50 + more), idle=13, kernels=1))
    (moved,) = (one for one in found.rows if one.part == "typical" and one.place.cells == (FIRST,))
    assert moved.q > 0.05 and (moved.p < 0.01) is (more != 30)
    assert levels(found) == {0: level} | dict.fromkeys(range(1, 14), "within_noise")


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


def test_of_sure_places_the_first_is_the_one_that_explains_most():
    """One gains 600 us with runs 200 us apart, one 50 us with runs 1 us apart, which an interval for all tests at once ranks first."""

    def runs(large: list[float], small: float) -> list[list[dict]]:
        return [
            [step(cells=[own * US, (small + at) * US]) for _ in range(12)] for at, own in enumerate(large)
        ]

    found = judge(measured(runs([2_000, 2_200, 2_400], 10), runs([2_600, 2_800, 3_000], 60), idle=2))
    large, small = sorted((one for one in found.rows if one.part == "typical"), key=lambda one: -one.delta)
    assert (large.delta, small.delta) == pytest.approx((600 * US, 50 * US))
    for one in (large, small):
        assert one.score == pytest.approx(one.delta - one.half)  # one phase: its share is 1
    assert large.delta - large.wide < 0 < small.delta - small.wide
    assert large.score > small.score


def test_exchanging_the_sides_changes_signs_alone():
    one, other = ([50, 51, 52, 53], [60, 70, 55, 80])
    forward, backward = judged(one, other), judged(other, one)
    for left, right in zip(forward.rows, backward.rows, strict=True):
        assert (left.delta, left.half, left.p, left.q, left.level) == (
            -right.delta, right.half, right.p, right.q, right.level,
        )  # fmt: skip


# Rare steps


def stops(*tails: float, speed: float | None = None) -> list[list[dict]]:
    """Runs of 24 steps of 50 us, of which one stops: so many us per mean step. speed: of their host."""
    host = [] if speed is None else [speed]
    return [[step(cells=[(50 + 24 * us * (at == 13)) * US, *host]) for at in range(24)] for us in tails]


def test_rare_steps_need_a_stricter_q():
    """s0 is 30 % of X. Tails of 0.3, 0.5, 1.5, 1.7 X: SS = 1.48 X^2, s^2 = (0.36 + 1.48) / 10 X^2, t = 1 / sqrt(0.092) = 3.3 with 10 df."""
    unit = 100_000.0
    wide = judge(measured(stops(0, 0, 0, 0), stops(0.3 * unit, 0.5 * unit, 1.5 * unit, 1.7 * unit), idle=1))
    (rare,) = (one for one in wide.rows if one.part == "tail")
    assert rare.p == pytest.approx(2 * stats.t.sf(1 / np.sqrt(0.092), 10), rel=1e-3)
    assert 0.01 < rare.q < 0.05 and rare.level == "likely"
    near = judge(measured(stops(0, 0, 0, 0), stops(0.9 * unit, unit, unit, 1.1 * unit), idle=1))
    (rare,) = (one for one in near.rows if one.part == "tail")
    assert rare.q < 0.01 and rare.level == "confirmed"


@pytest.mark.parametrize(("runs", "relative"), [(1, 0.1), (2, 0.1), (3, 0.3), (4, 0.3)])
def test_rare_steps_scatter_by_their_time(runs: int, relative: float):
    """And 1 us, for the time is host work."""
    found = measured(stops(*[500.0] * runs), stops(*[800.0] * runs), idle=1)
    assert found.phases[0].tail.scatter[FIRST] == pytest.approx((relative * 800 + 1) * US)


def test_rare_steps_too_are_compared_at_equal_host_speed():
    """Hosts of one speed a side, 0.1 apart: the slope is the usual one, 0.9 of the smaller tail: 90 us of 100."""
    found = measured(stops(*[1_000.0] * 4, speed=0.0), stops(*[1_100.0] * 4, speed=0.1), idle=1, speed=True)
    tail = found.phases[0].tail.estimate
    assert tail.host_speed[FIRST] == pytest.approx(90 * US)
    assert tail.delta[FIRST] == pytest.approx(10 * US)


# Counts that differ for certain


@pytest.mark.parametrize(("common", "certain"), [(6, False), (7, True)])
def test_a_count_that_is_constant_in_equal_workloads_needs_twenty_steps_of_them(common: int, certain: bool):
    """Three runs: of 8 requests 12 ops on the baseline and 14 on the candidate; of 4 and 16, which one side alone has, 20 and 10.

    So the counts of all steps overlap, 10 to 14 and 12 to 20, and 18 or 21 steps a side are of equal workload.
    """

    def runs(others: int) -> list[list[dict]]:
        return [[step(100, gen_reqs=8 if at < common else others) for at in range(20)] for _ in range(3)]

    frame = framed(runs(4), runs(16))
    (phase,) = frame.phases
    assert min(phase.steps) >= 20
    requests, late = frame.steps["gen_reqs"].to_numpy(), frame.steps["side"].to_numpy()
    count = np.select([requests == 4, requests == 16], [20.0, 10.0], 12.0 + 2 * late)
    every = np.arange(len(count))
    assert _differs(frame, phase, every, every * 0, count, 1, 20).tolist() == [certain]
    assert _differs(frame, phase, every, every * 0, count, 1, 1).tolist() == [True]  # in every step there is
    count[0] = 13  # one of the baseline's equal steps has another
    assert _differs(frame, phase, every, every * 0, count, 1, 20).tolist() == [False]
