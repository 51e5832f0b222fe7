"""How sure a place is: corrected for the number of places, by the number of runs, and by permutation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.measuring import COMPUTE, FIRST, IDLE, measured, step
from tracediff.comparison.places import Judged, judge, places_of, rare_steps
from tracediff.model import RareFact

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
        # of the interval, the end near 0; a hundredth of the step is 11 us
        ([50, 51, 52, 53], [120, 121, 122, 123], "confirmed"),  # 64.8 us; 2 of 70 ways to deal the runs out
        ([50, 51, 52, 126], [125, 200, 201, 202], "likely"),  # 53.7 us, but 4 of 70
        ([50, 51, 52], [120, 121, 122], "likely"),  # 63.5 us; of three runs 2 of 20
        ([50, 51], [120, 121], "likely"),
        # 130 (1 - e^-0.1285) = 15.7 and 50 (e^0.1285 - 1) = 6.9: 80 - 17.1
        ([50], [130], "likely"),
        ([50], [62], "within_noise"),  # from 1.9 us on: surely more, and too little to be sure of
        ([50], [55], "within_noise"),  # -4.5 to 14.7 us
        ([50, 51, 52, 53], [50, 52, 51, 53.5], "within_noise"),
    ],
)
def test_the_level_follows_the_number_of_runs(baseline, candidate, level):
    found = levels(judged(baseline, candidate))
    assert found == {0: "within_noise", 1: level, 2: "within_noise"}


def test_a_category_is_as_wide_as_its_places_together():
    """900 us that may be 47.2 off, and 70 us that may be 5.3 off: the root of their squares."""
    found = judged([50, 51, 52, 53], [120, 121, 122, 123])
    halves = [
        (one.high - one.low) / 2 for one in found.rows if one.part == "typical" and one.place.kind == "idle"
    ]
    assert halves == pytest.approx([47.2 * US, 5.3 * US], rel=0.01)
    (whole,) = (one for one in found.categories if one.part == "typical" and one.place.cells == (IDLE,))
    assert (whole.high - whole.low) / 2 == pytest.approx(np.hypot(*halves), rel=0.002)


def test_one_run_a_side_says_more_of_kernels_than_of_the_host():
    """A kernel scatters by 0.4 %, host work by 5 %: 100 -> 112 us are 11 us at least, 50 -> 62 us are 2."""
    assert levels(judged([50], [62], more=12.5)) == {0: "within_noise", 1: "within_noise", 2: "likely"}


@pytest.mark.parametrize(
    ("before", "gap", "level"),
    [
        (50, 0.5, "likely"),  # 50 -> 500: 28 us of it may be a host that is 1.6 times slower
        # 300 -> 500: e^0.225 - e^-0.225 = 0.454 of 376 us both sides have at the mean speed, and the slope may be off by 0.3
        (300, 0.5, "within_noise"),
        (300, -0.5, "likely"),  # the host is faster
    ],
)
def test_a_slower_host_may_explain_what_both_sides_have(before: float, gap: float, level: str):
    one, other = (
        [[step(cells=[1_000 * US, own * US, speed]) for _ in range(12)]]
        for own, speed in ((before, 0.0), (500, gap))
    )
    found = judge(measured(one, other, idle=2, speed=True))
    assert levels(found)[1] == level


@pytest.mark.parametrize(("more", "level"), [(10.5, "within_noise"), (12.0, "confirmed")])
def test_less_than_a_hundredth_of_the_step_is_noise(more: float, level: str):
    """Five runs know a kernel of 100 us to 0.4 us. The step is 1,060 us, the near ends are 10.1 and 11.6."""
    assert levels(judged([50.0] * 5, [50.0] * 5, more=more))[2] == level


@pytest.mark.parametrize(("more", "category"), [(2.0, "exact"), (0.5, "within_noise"), (0.0, "within_noise")])
def test_a_count_is_exact_whatever_its_time(more: float, category: str):
    """What is too small to matter is left out of the findings, not of what is exact: rows of a block may cancel.

    Kernels scatter by 0.4 us: of 2 us their category is as sure as the count.
    """
    found = measured(side([50.0] * 3), side([50.0] * 3, more=more), idle=2, kernels=1)
    found.kernels.exact["generation"][0] = True
    known = judge(found)
    assert levels(known)[2] == "exact" and known.level_of_all(COMPUTE, more) == category


def test_what_only_rare_steps_spend_is_of_the_mean():
    """One step of 24 stops for 20 ms, in four runs of four: 833 us per mean step; the typical step has 1 us more, which is noise."""

    def stopping(ns: float) -> list[list[dict]]:
        runs = side([51.0] * 4, steps=24)
        for steps in runs:
            steps[13]["cells"][1] += ns
        return runs

    found = judge(measured(side([50.0] * 4, steps=24), stopping(20_000 * US), idle=2, kernels=1))
    assert levels(found)[1] == "within_noise" and levels(found, "mean")[1] == "confirmed"
    (rare,) = (one for one in found.rows if one.part == "mean" and one.place.cells == (FIRST + 1,))
    assert rare.delta == pytest.approx(20_000 * US / 24 + US)
    assert found.level_of_all(FIRST + 1, rare.delta) == "confirmed"  # the better of both
    assert found.level_of_all(FIRST + 1, -rare.delta) == "within_noise"


@pytest.mark.parametrize(("other", "level"), [(1_000, "likely"), (1_240, "within_noise")])
def test_what_holds_most_of_a_sure_change_needs_no_correction_for_the_others(other, level):
    """Of 21 places one takes 1,240 us, not 1,000: p < 0.05, which among 21 is nothing. Of a step that surely changed it is most, but not where another gains as much."""

    def runs(*places: float) -> list[list[dict]]:
        return [[step(cells=[one * US for one in places]) for _ in range(12)]]

    found = measured(runs(1_000, 1_000, *[20] * 19), runs(1_240, other, *[20] * 19), idle=21)
    (first,) = (one for one in judge(found).rows if one.part == "typical" and one.place.cells == (FIRST,))
    assert first.p < 0.05 < first.q and first.level == "within_noise"
    sure = judge(found, {("generation", "typical")})
    assert levels(sure)[0] == level
    (one,) = (one for one in sure.rows if one.part == "typical" and one.place.cells == (FIRST,))
    assert one.q == (one.p if level == "likely" else first.q)  # level and q say the same
    assert levels(judge(found, {("mixed", "typical"), ("generation", "mean")}))[0] == "within_noise"


def test_rows_that_changed_together_are_one_place_with_their_sum():
    def kernels(first: float, second: float) -> list[list[dict]]:
        return [[step(cells=[900 * US, first * US, second * US]) for _ in range(12)] for _ in range(4)]

    found = measured(kernels(40, 20), kernels(30, 31), idle=1, kernels=2, blocks=(5, 5))
    assert [one.cells for one in places_of(found) if one.kind == "kernels"] == [(FIRST + 1, FIRST + 2)]
    (block,) = (one for one in judge(found).rows if one.place.kind == "kernels" and one.part == "typical")
    assert (block.baseline, block.candidate, block.delta) == pytest.approx((60 * US, 61 * US, 1 * US))
    apart = measured(kernels(40, 20), kernels(30, 31), idle=1, kernels=2)
    assert len([one for one in places_of(apart) if one.kind == "kernels"]) == 2


@pytest.mark.parametrize(("often", "tested"), [(1.0, True), (1.009, True), (1.011, False)])
def test_kernels_of_steps_that_all_differ_are_tested_where_both_sides_launch_them_as_often(
    often: float, tested: bool
):
    """Steps that all launch something new: what they launch more of is a matter of their shapes."""

    def runs(more: float) -> list[list[dict]]:
        return [
            [step(cells=[900 * US, (100 + more) * US], ops=100 * at + own) for own in range(9)]
            for at in range(4)
        ]

    every = measured(runs(0), runs(50), idle=1, kernels=1)
    every.kernels.often = often
    (kernel,) = (one for one in judge(every).rows if one.place.kind == "kernels" and one.part == "typical")
    assert kernel.level == ("confirmed" if tested else "within_noise")
    assert np.isnan(kernel.q) != tested


def test_kernels_of_steps_that_all_differ_are_not_tested_in_the_tail():
    """Which of such steps are typical is chance: what these launch less of is in the tail."""

    def runs(more: float) -> list[list[dict]]:
        return [
            [step(cells=[900 * US, (100 + more * (own == 4)) * US], ops=100 * at + own) for own in range(9)]
            for at in range(4)
        ]

    every = judge(measured(runs(9), runs(90), idle=1, kernels=1)).rows
    (kernel,) = (one for one in every if one.place.kind == "kernels" and one.part == "tail")
    assert kernel.delta == pytest.approx(9 * US) and kernel.level == "within_noise" and np.isnan(kernel.q)


@pytest.mark.parametrize(("typical", "level"), [(0, "likely"), (400, "within_noise")])
def test_a_tail_of_a_kernel_is_held_against_its_whole_time(typical: float, level: str):
    """One step of 24 has 24 us more, or 240: the tail is 1 us or 10, of a kernel of 400 us hardly anything."""

    def runs(more: float) -> list[list[dict]]:
        return [
            [step(cells=[900 * US, (typical + more * (at == 13)) * US]) for at in range(24)] for _ in range(4)
        ]

    found = judge(measured(runs(24), runs(240), idle=1, kernels=1))
    (kernel,) = (one for one in found.rows if one.place.kind == "kernels" and one.part == "tail")
    assert kernel.delta == pytest.approx(9 * US) and kernel.q < 0.05
    assert kernel.of_row == level


@pytest.mark.parametrize(
    ("runs", "launches", "level"), [(1, 1, "likely"), (1, 2, "within_noise"), (4, 2, "likely")]
)
def test_short_kernels_of_few_runs_differ_by_a_third_of_a_microsecond_per_launch(
    runs: int, launches: int, level: str
):
    """3 -> 3.6 us, 0.42 at least: of one launch, or of two. Four runs tell by themselves what they differ by."""

    def of(us: float) -> list[list[dict]]:
        return [[step(cells=[900 * US, us * US]) for _ in range(12)] for _ in range(runs)]

    found = measured(of(3), of(3.6), idle=1, kernels=1)
    found.kernels.launches = lambda _phase, *, typical: np.full((1, 2), float(launches))
    (kernel,) = (one for one in judge(found).rows if one.place.kind == "kernels" and one.part == "typical")
    assert kernel.of_row == level and (runs > 1 or kernel.low == pytest.approx(0.42 * US, rel=0.03))


def test_of_few_steps_nothing_is_confirmed():
    for steps, level in ((2, "likely"), (12, "confirmed")):
        found = judge(
            measured(side([50.0] * 4, steps=steps), side([90.0] * 4, steps=steps), idle=2, kernels=1)
        )
        assert levels(found)[1] == level


def test_of_sure_places_the_first_is_the_one_that_explains_most():
    """One gains 600 us with runs 200 us apart, one 50 us with runs 1 us apart: what was seen is the size."""

    def runs(large: list[float], small: float) -> list[list[dict]]:
        return [
            [step(cells=[own * US, (small + at) * US]) for _ in range(12)] for at, own in enumerate(large)
        ]

    found = judge(measured(runs([2_000, 2_200, 2_400], 10), runs([2_600, 2_800, 3_000], 60), idle=2))
    large, small = sorted((one for one in found.rows if one.part == "typical"), key=lambda one: -one.delta)
    assert [one.level for one in (large, small)] == ["likely", "likely"]
    assert (large.score, small.score) == pytest.approx((600 * US, 50 * US))  # one phase: its share is 1


def test_exchanging_the_sides_changes_signs_alone():
    one, other = ([50, 51, 52, 53], [60, 70, 55, 80])
    forward, backward = judged(one, other), judged(other, one)
    for left, right in zip(forward.rows, backward.rows, strict=True):
        assert (left.delta, left.low, left.high, left.p, left.q, left.level) == (
            -right.delta, -right.high, -right.low, right.p, right.q, right.level,
        )  # fmt: skip


# Rare steps


def stops(*tails: float, speed: float | None = None) -> list[list[dict]]:
    """Runs of 24 steps of 50 us, of which one stops: so many us per mean step. speed: of their host."""
    host = [] if speed is None else [speed]
    return [[step(cells=[(50 + 24 * us * (at == 13)) * US, *host]) for at in range(24)] for us in tails]


def test_rare_steps_scatter_by_their_time():
    """As waits do, by 30 %, though the time is host work."""
    found = measured(stops(500.0), stops(800.0), idle=1)
    assert found.phases[0].tail.noise.scatter[:, FIRST] == pytest.approx([150 * US, 240 * US])


@pytest.mark.parametrize(
    ("stopping", "before", "level"),
    [
        ({3, 8, 13, 18, 23, 28}, set(), "likely"),
        ({10, 11, 12, 13, 14, 15}, set(), "within_noise"),  # one event beside none
        ({3, 8, 13, 18, 23, 28}, {6}, "within_noise"),  # seven beside one would be enough
    ],
)
def test_steps_that_stop_one_after_another_are_one_event(stopping, before, level):
    """Six of 32 steps take 500 us for 50: 84 us per mean step."""

    def run(stops: set[int]) -> list[dict]:
        return [step(cells=[(500 if at in stops else 50) * US]) for at in range(32)]

    found = judge(measured([run(before)], [run(stopping)], idle=1))
    assert levels(found, "mean") == {0: level}
    (category,) = (one for one in found.categories if one.part == "mean" and one.place.cells == (IDLE,))
    assert category.level == level


def test_a_step_is_rare_where_it_takes_more_than_the_typical_one_of_either_side():
    """Four steps of 200 us among 24 of 50: none takes more than the 300 us that the baseline's usually do."""
    before = [step(cells=[300 * US]) for _ in range(24)]
    after = [step(cells=[(200 if at % 6 == 3 else 50) * US]) for at in range(24)]
    m = measured([before], [after], idle=1)
    assert rare_steps(m, m.phases[0], 1.0, FIRST) == (None, False)
    m = measured([after], [after], idle=1)
    fact, often = rare_steps(m, m.phases[0], 1.0, FIRST)
    assert fact == RareFact(4, 4, 24, 24, 0) and not often


@pytest.mark.parametrize(("stops_of", "rare"), [("mixed", False), ("", True)])
def test_a_stop_that_falls_into_another_phase_is_no_change(stops_of, rare):
    """One step in 24 stops for 2.4 ms, a generation step on the candidate: a mixed one on the baseline, or none."""

    def runs(stopping: str) -> list[list[dict]]:
        every = [(at, phase) for at in range(24) for phase in ("generation", "mixed")]
        return [
            [
                step(phase=phase, cells=[(50 + 2_400 * (at == 13 and phase == stopping)) * US])
                for at, phase in every
            ]
            for _ in range(4)
        ]

    found = measured(runs(stops_of), runs("generation"), idle=1)
    assert found.phases[0].mean.estimate.delta[0] == pytest.approx(100 * US)
    assert found.whole.delta[0] == pytest.approx((50 if rare else 0) * US)
    assert found.phases[0].rare is rare


@pytest.mark.parametrize(("mixed_us", "rare"), [(50, True), (900, True), (5_000, False)])
def test_rare_steps_of_a_small_phase_hold_no_change_where_all_steps_may_not_have_changed(mixed_us, rare):
    """One run a side: 100 us more in the mean of 24 generation steps are 50 us of each step, of 50 us, 475 or 2,525: a tenth is enough."""

    def run(stop_us: float) -> list[dict]:
        sizes = [(50 + stop_us * (at == 13), mixed_us) for at in range(24)]
        return [
            step(phase=phase, cells=[size * US])
            for pair in sizes
            for phase, size in zip(("generation", "mixed"), pair, strict=True)
        ]

    found = measured([run(0)], [run(2_400)], idle=1)
    assert found.whole.delta[0] == pytest.approx(50 * US)
    assert found.phases[0].rare is rare


def test_of_rare_steps_too_a_slower_host_may_explain_a_part():
    """Hosts 0.1 apart: (e^0.09 - 1) of the smaller tail, 94.2 of 100 us."""
    found = measured(stops(*[1_000.0] * 4, speed=0.0), stops(*[1_100.0] * 4, speed=0.1), idle=1, speed=True)
    tail = found.phases[0].tail.estimate
    assert tail.delta[FIRST] == pytest.approx(100 * US)
    assert tail.host_speed[FIRST] == pytest.approx(94.17 * US, rel=1e-4)
