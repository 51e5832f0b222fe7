"""The verdict of phases and of the whole, by the number of runs and by what is sure."""

from __future__ import annotations

import math

import pytest

from tests.measuring import measured, step
from tracediff.comparison.places import judge
from tracediff.comparison.verdict import decide, judge_phases, odd_runs, phase_fields, step_of
from tracediff.model import VerdictFacts

US = 1_000.0
OPPOSITE = {"regressed": "improved", "likely_regressed": "likely_improved"}


def side(*runs: list[float], phase: str = "generation", steps: int = 12) -> list[list[dict]]:
    """Runs of steps that all take so many us in each cell."""
    return [[step(cells=[us * US for us in own], phase=phase) for _ in range(steps)] for own in runs]


def verdict_of(found, *, comparable: bool = True):
    return decide(found, judge(found), judge_phases(found), comparable=comparable)


def of_host(baseline: list[float], candidate: list[float]):
    """One place of host work, of so many us in each run, and 900 us of a kernel."""
    return [side(*([own, 900.0] for own in runs)) for runs in (baseline, candidate)]


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        # s0 of the step is 2.5 % + 0.5 us: 26 us and more
        ([100, 101, 102, 103], [200, 201, 202, 203], "regressed"),  # P = 2 / 70
        ([100, 101, 102, 201], [200, 202, 203, 204], "inconclusive"),  # P = 4 / 70
        ([100, 101, 102], [200, 201, 202], "likely_regressed"),
        ([100, 101], [250, 251], "likely_regressed"),
        ([100], [500], "likely_regressed"),
        ([100], [150], "inconclusive"),
        ([100, 101, 102, 103], [100, 103, 102, 101], "no_change"),
        ([100, 101, 102, 103], [102, 105, 104, 103], "no_change"),  # 2 us of 1,000
    ],
)
def test_the_verdict_of_a_phase_follows_its_runs(baseline, candidate, verdict):
    one, other = of_host(baseline, candidate)
    forward, backward = measured(one, other, idle=1, kernels=1), measured(other, one, idle=1, kernels=1)
    assert judge_phases(forward) == {"generation": verdict}
    assert judge_phases(backward) == {"generation": OPPOSITE.get(verdict, verdict)}


@pytest.mark.parametrize(("speed", "verdict"), [(False, "likely_improved"), (None, "inconclusive")])
def test_where_the_speed_of_hosts_is_not_known_their_time_scatters_more(speed, verdict):
    """400 -> 300 us of host work: hosts are 15 % apart, and nine tenths of 300 us go with them."""
    found = measured(*of_host([400, 400, 400], [300, 300]), idle=1, kernels=1, speed=speed)
    usual, of_host_work = 0.025 * 1_300 + 0.5, 0.0 if speed is False else 0.15 * 0.9 * 300
    assert found.phases[0].typical.scatter[0] == pytest.approx(math.hypot(usual, of_host_work) * US)
    assert judge_phases(found) == {"generation": verdict}


def test_time_that_is_new_does_not_depend_on_an_unknown_host():
    """20 -> 120 us: no host is that much slower."""
    found = measured(*of_host([20, 20], [120, 120]), idle=1, kernels=1, speed=None)
    assert found.phases[0].typical.scatter[0] == pytest.approx((0.025 * 1_020 + 0.5) * US)


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        (3, "likely_regressed"),
        (4, "regressed"),
        (6, "regressed"),
        (7, "regressed"),  # 2 of 128 ways
    ],
)
def test_pairs_are_judged_by_their_differences(pairs: int, verdict: str):
    """Requests that take 500 to 1,100 us of a step, and 200 us more: runs are far apart, pairs are not."""
    requests = [500 + 100 * at for at in range(pairs)]
    one, other = (
        side(*([100.0 + more, float(us)] for us in requests)) for more in (0, 200)
    )  # host work, and a kernel
    assert judge_phases(measured(one, other, idle=1, kernels=1, paired=True)) == {"generation": verdict}
    if pairs < 7:
        assert judge_phases(measured(one, other, idle=1, kernels=1)) != {"generation": "regressed"}


def test_less_than_half_a_percent_is_no_verdict():
    """A step of 10 ms of kernels, whose runs agree to the ns: +40 us are seen, +60 us count."""

    def kernels(us: float) -> list[list[dict]]:
        return side(*[[us]] * 40)

    for more, verdict in ((40.0, "no_change"), (60.0, "regressed")):
        found = measured(kernels(10_000.0), kernels(10_000.0 + more), idle=0, kernels=1)
        assert judge_phases(found)["generation"] == verdict


def test_phases_are_dealt_out_together_and_the_first_leads():
    """Mixed steps are wholly apart: 2 of 70 of four runs, too much for a phase that is not the first; 2 of 252 of five is sure."""

    def both(generation: list[float], mixed: list[float]) -> list[list[dict]]:
        one = side(*([us] for us in generation))
        return [
            own + more for own, more in zip(one, side(*([us] for us in mixed), phase="mixed"), strict=True)
        ]

    four = (
        both([1000, 1001, 1002, 1003], [5000, 5010, 5020, 5030]),
        both([1000, 1003, 1002, 1001], [9000, 9010, 9020, 9030]),
    )
    assert judge_phases(measured(*four, idle=1)) == {"generation": "no_change", "mixed": "inconclusive"}
    five = (
        both([1000, 1001, 1002, 1003, 1004], [5000, 5010, 5020, 5030, 5040]),
        both([1000, 1003, 1002, 1001, 1004], [9000, 9010, 9020, 9030, 9040]),
    )
    found = measured(*five, idle=1)
    assert judge_phases(found) == {"generation": "no_change", "mixed": "regressed"}
    assert verdict_of(found) == ("regressed", VerdictFacts("phase", "mixed"))
    found = measured(
        both([2000, 2001, 2002, 2003], [5000, 5010, 5020, 5030]),
        both([1000, 1003, 1002, 1001], [9000, 9010, 9020, 9030]),
        idle=1,
    )
    assert verdict_of(found) == ("improved", VerdictFacts("phase", "generation"))


def together(*phases: list[list[dict]]) -> list[list[dict]]:
    """Runs that have the steps of several phases."""
    return [[row for steps in runs for row in steps] for runs in zip(*phases, strict=True)]


@pytest.mark.parametrize(
    ("runs", "more", "first", "later"),
    [
        # s0 is 2.5 % of the slower step + 0.5 us, and so is the error of two runs a side; 6 degrees of freedom
        (2, 80, "likely_regressed", "inconclusive"),  # t = 80 / 27.5 = 2.9, p = .03
        (2, 150, "likely_regressed", "likely_regressed"),  # t = 150 / 29.25 = 5.1, p = .002
        # of five it is s0 sqrt(4 / 12 x 2 / 5) = 0.365 s0, with 12 degrees of freedom; P = 2 / 252
        (5, 25, "regressed", "inconclusive"),  # t = 25 / 9.54 = 2.6, p = .02
        (5, 35, "regressed", "regressed"),  # t = 35 / 9.63 = 3.6, p = .003
    ],
)
def test_a_phase_after_the_first_needs_a_smaller_p(runs: int, more: float, first: str, later: str):
    base = [[1_000 + 0.1 * at] for at in range(runs)]
    after = [[us + more] for (us,) in base]
    assert judge_phases(measured(side(*base), side(*after), idle=1)) == {"generation": first}
    one, other = (together(side(*base), side(*mixed, phase="mixed")) for mixed in (base, after))
    assert judge_phases(measured(one, other, idle=1))["mixed"] == later


# What carries the verdict where the step is unsure


def large_step(host: float, other: float = 10.0) -> list[float]:
    """9 ms of a kernel (s0 36 us), so many us in a place of host work, and in another."""
    return [host, other, 9_000.0]


def test_a_sure_part_carries_the_verdict():
    """+120 us of 9.1 ms: s0 of the step is 230 us, so the step is unsure; the place is sure, and nothing can have moved against it."""
    found = measured(side(*[large_step(50)] * 4), side(*[large_step(170)] * 4), idle=2, kernels=1)
    assert judge_phases(found)["generation"] == "inconclusive"
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis, facts.phase) == ("regressed", "part", "generation")
    assert facts.carried_ns == pytest.approx(120 * US)


def test_of_three_runs_a_sure_part_is_likely():
    found = measured(side(*[large_step(50)] * 3), side(*[large_step(170)] * 3), idle=2, kernels=1)
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis) == ("likely_regressed", "part")


def test_a_sure_part_of_the_first_phase_comes_before_the_verdict_of_the_next():
    """Mixed steps are twice as fast for sure; what users feel first has a sure cause the other way."""
    mixed = (side(*[[50.0, 10.0, kernel]] * 5, phase="mixed") for kernel in (9_000.0, 4_500.0))
    one, other = (
        together(side(*[large_step(host)] * 5), own) for host, own in zip((50, 170), mixed, strict=True)
    )
    found = measured(one, other, idle=2, kernels=1)
    assert judge_phases(found) == {"generation": "inconclusive", "mixed": "improved"}
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis, facts.phase) == ("regressed", "part", "generation")


@pytest.mark.parametrize(
    ("more", "other", "scatter", "carries"),
    [
        (200, 500, 0, False),  # 2.6 % of 7.6 ms; p of the step is .02
        # 5.5 %. The other place is 255 us more or less in four of five runs, so the step of some slow run of the baseline is above
        # that of a fast one of the candidate: P = 12 / 252. SS is 8 x 255^2, s0 201 us, the error 151 us: it may have lost 329 us, not 375
        (500, 2_000, 255, True),
    ],
)
def test_a_sure_part_of_a_later_phase_carries_the_verdict_from_five_percent(
    more: float, other: float, scatter: float, carries: bool
):
    def runs(host: float) -> list[list[dict]]:
        own = [[host, other + sign * scatter, 7_000.0] for sign in (1, -1, 1, -1, 0)]
        return together(side(*[[10.0, 10.0, 1_000.0]] * 5), side(*own, phase="mixed"))

    found = measured(runs(50), runs(50 + more), idle=2, kernels=1)
    assert judge_phases(found) == {"generation": "no_change", "mixed": "inconclusive"}
    verdict, facts = verdict_of(found)
    if carries:
        assert (verdict, facts.basis, facts.phase) == ("regressed", "part", "mixed")
    else:
        assert (verdict, facts.basis, facts.moved) == ("inconclusive", "scatter", True)


def test_time_that_may_only_have_moved_carries_nothing():
    """Another place of 3 ms scatters by 180 us: it may have lost three quarters of the 120 us."""
    one, other = (side(*[large_step(us, 3_000)] * 4) for us in (50, 170))
    verdict, facts = verdict_of(measured(one, other, idle=2, kernels=1))
    assert (verdict, facts.basis, facts.moved) == ("inconclusive", "scatter", True)


def test_less_than_a_percent_carries_nothing():
    found = measured(side(*[large_step(50)] * 4), side(*[large_step(135)] * 4), idle=2, kernels=1)
    assert verdict_of(found)[0] != "regressed"


def test_an_exact_count_whose_time_is_unsure_carries_nothing():
    """A kernel of 1 us and one of 9 ms that scatters by 600 us: its count is exact, its +200 us are not."""
    base = [[10.0, 9_000.0 + us] for us in (0, 1_200, 0, 1_200)]
    after = [[10.0, 9_200.0 + us] for us in (0, 1_200, 0, 1_200)]
    found = measured(side(*base), side(*after), idle=1, kernels=1)
    found.kernels.exact["generation"][0] = True
    (kernel,) = (one for one in judge(found).rows if one.place.kind == "kernels" and one.part == "typical")
    assert kernel.level == "exact" and kernel.half > kernel.delta
    assert verdict_of(found)[0] == "inconclusive"


def test_rare_steps_carry_the_verdict_where_the_typical_step_does_not():
    one, other = (side(*[large_step(50)] * 4, steps=24) for _ in range(2))
    for steps in other:
        steps[13]["cells"][0] += 40_000 * US
    verdict, facts = verdict_of(measured(one, other, idle=2, kernels=1))
    assert (verdict, facts.basis, facts.carried_ns) == ("regressed", "rare", pytest.approx(40_000 * US / 24))


@pytest.mark.parametrize(("runs", "verdict"), [(1, "inconclusive"), (2, "likely_regressed")])
def test_rare_steps_of_a_lone_run_carry_the_verdict_from_a_quarter_of_the_step_on(runs: int, verdict: str):
    """Every sixth step takes 600 us more: 100 of 1,000 us on average, with little scatter."""
    one, other = (side(*[[100.0, 900.0]] * runs, steps=240) for _ in range(2))
    for steps in other:
        for late in steps[3::6]:
            late["cells"][0] += 600 * US
    found = measured(one, other, idle=1, kernels=1)
    assert any(row.part == "tail" and row.level == "likely" for row in judge(found).rows)
    assert verdict_of(found)[0] == verdict


# What is no change


def test_rare_steps_do_not_make_the_typical_step_known():
    """Two runs a side know a step of 1,000 us to some 6 %. One step of 24 stops for 200 ms, which makes the mean 9 ms."""
    one, other = (side([100, 900], [101, 900], steps=24) for _ in range(2))
    for steps in other:
        steps[13]["cells"][0] += 200_000 * US
    found = measured(one, other, idle=1, kernels=1)
    (phase,) = found.phases
    half = float(phase.typical.estimate.half[0])
    assert 30 * US < half < 90 * US and phase.step_ns > 9_000 * US
    assert judge_phases(found)["generation"] == "inconclusive"


def test_a_side_against_itself_is_identical():
    one = of_host([100, 150, 200], [])[0]
    assert verdict_of(measured(one, one, idle=1, kernels=1)) == ("no_change", VerdictFacts("identical"))
    assert judge_phases(measured(one, one, idle=1, kernels=1)) == {"generation": "no_change"}


def test_what_cannot_be_compared_has_no_verdict():
    found = measured(*of_host([100] * 4, [300] * 4), idle=1, kernels=1)
    assert verdict_of(found, comparable=False) == ("not_comparable", VerdictFacts("checks"))


def test_a_slower_host_is_no_regression_and_said():
    """All of 1 ms of host work takes 10 to 16 % longer on hosts that are 10 to 16 % slower; the usual slope is 0.9 of it."""

    def on(*speeds: float) -> list[list[dict]]:
        return [[step(cells=[1_000 * US * (1 + z), z]) for _ in range(12)] for z in speeds]

    found = measured(on(-0.03, -0.01, 0.01, 0.03), on(0.1, 0.12, 0.14, 0.16), idle=1, speed=True)
    verdict, facts = verdict_of(found)
    assert verdict in ("no_change", "inconclusive") and facts.host
    (phase,) = found.phases
    # S_zz = 2 * 0.002: the slope is (0.004 * 1,000 + 0.05 * 0.9 * 1,000) / 0.054 = 907.4 us, the smaller side's; of 130 us 118.0
    assert phase.typical.estimate.host_speed[0] == pytest.approx(0.13 * 907.407 * US, rel=1e-4)
    assert phase_fields(found, phase, "no_change")["host_speed"] == pytest.approx(1.1388, rel=1e-4)


# Numbers of the result


def test_the_step_of_the_result():
    found = measured(*of_host([100, 101, 102, 103], [200, 201, 202, 203]), idle=1, kernels=1)
    result = step_of(found, decided=True)
    assert (result.baseline_ns, result.candidate_ns) == pytest.approx((1001.5 * US, 1101.5 * US))
    assert result.delta_ns == pytest.approx(100 * US)
    assert (result.runs.baseline, result.steps.candidate, result.runs_advised) == (4, 48, None)
    assert (result.time_share.baseline, result.time_share.candidate) == (1, 1)


def test_more_runs_are_advised_where_they_would_show_two_percent():
    found = measured(*of_host([100, 200], [100, 200]), idle=1, kernels=1)
    advised = step_of(found, decided=False).runs_advised
    assert advised is not None and advised >= 5
    calm = measured(side(*[[10_000.0]] * 12), side(*[[10_000.0]] * 12), idle=0, kernels=1)
    assert step_of(calm, decided=False).runs_advised is None


def test_one_run_that_lies_apart_is_named_and_two_are_not():
    base = of_host([100, 101, 102, 103, 104], [])[0]
    odd = of_host([100, 101, 102, 103, 400], [])[0]
    (found,) = odd_runs(measured(base, odd, idle=1, kernels=1)).values()
    assert (found.side, found.run, found.cause) == ("candidate", "run 4", "host_work")
    assert found.delta_ns == pytest.approx((400 - 101.5) * US)
    two = of_host([100, 101, 102, 400, 400], [])[0]
    assert odd_runs(measured(base, two, idle=1, kernels=1)) == {}
    assert odd_runs(measured(base[:4], odd[1:], idle=1, kernels=1)) == {}  # of four nobody is left out


def test_a_run_on_a_host_half_as_slow_again_is_left_out():
    """Nothing but a kernel, so its time is the same: log ratios of 0.41 and 0.39, 1.5 times slower and a bit less."""

    def on(*speeds: float) -> list[list[dict]]:
        return [[step(cells=[1_000 * US, z]) for _ in range(12)] for z in speeds]

    base = on(0, 0, 0, 0, 0)
    (found,) = odd_runs(measured(base, on(0, 0, 0, 0, 0.41), idle=0, kernels=1, speed=True)).values()
    assert (found.side, found.run, found.delta_ns) == ("candidate", "run 4", 0)
    assert found.host_speed == pytest.approx(1.507, abs=1e-3)
    assert odd_runs(measured(base, on(0, 0, 0, 0, 0.39), idle=0, kernels=1, speed=True)) == {}


@pytest.mark.parametrize(("odd", "left_out"), [(1, 1), (2, 2), (3, 0)])
def test_of_ten_runs_two_may_be_odd(odd: int, left_out: int):
    base = [100.0 + at for at in range(10)]
    one, other = of_host(base, base[odd:] + [400.0] * odd)
    assert len(odd_runs(measured(one, other, idle=1, kernels=1))) == left_out


# Rare steps


@pytest.mark.parametrize(
    ("many", "stop", "basis"), [(2, 1_000, "rare"), (1, 1_000, "scatter"), (1, 3_000, "rare")]
)
def test_of_few_runs_all_that_rare_steps_add_may_be_likely(many: int, stop: float, basis: str):
    """Five steps of 24 stop, each in a place of its own: five events of a run tell more than one each of five places.

    Of one run nothing tells whether it is five events or one bad spell of its machine: stops of 1 ms are 208 us
    of a mean step of 1,108, less than a quarter; those of 3 ms are 625 of 1,525.
    """

    def runs(stop: float) -> list[list[dict]]:
        at = {4: 1, 8: 2, 12: 3, 16: 4, 20: 5}
        return [
            [
                step(cells=[900 * US, *(stop * US * (at.get(number) == place) for place in range(1, 6))])
                for number in range(24)
            ]
            for _ in range(many)
        ]

    found = measured(runs(0), runs(stop), idle=6)
    assert judge_phases(found)["generation"] in ("no_change", "inconclusive")
    assert {one.level for one in judge(found).rows} == {"within_noise"}
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis) == ("likely_regressed" if basis == "rare" else "inconclusive", basis)
    assert facts.carried_ns == (pytest.approx(5 * stop * US / 24) if basis == "rare" else None)


@pytest.mark.parametrize(("stop", "verdict"), [(2_400, "no_change"), (4_800, "inconclusive")])
def test_no_change_is_said_only_where_rare_steps_are_quiet(stop: float, verdict: str):
    """One step of the 96 of four runs stops: 25 or 50 us per mean step of 1,000. 30 us are quiet."""
    one, other = (side(*[[0.0, 1_000.0]] * 4, steps=24) for _ in range(2))
    other[0][13]["cells"][0] = stop * US
    found = measured(one, other, idle=1, kernels=1)
    assert judge_phases(found) == {"generation": "no_change"}
    assert verdict_of(found)[0] == verdict


# Pairs


def test_a_phase_that_a_run_lacks_is_not_compared_by_pairs():
    def run(own: float, context: bool) -> list[dict]:
        rows = side([own])[0]
        return rows + side([own], phase="context")[0] * context

    one = [run(100, True), run(200, True), run(300, True)]
    other = [run(110, True), run(210, True), run(310, False)]
    found = measured(one, other, idle=1, paired=True)
    by_phase = {phase.steps.phase: phase.typical for phase in found.phases}
    assert by_phase["generation"].sample.paired and not by_phase["context"].sample.paired
    # every pair differs by 10; the runs keep the means of their sides, 200 and 210
    assert [values[:, 0].tolist() for values in by_phase["generation"].sample.values] == [
        pytest.approx([200 * US] * 3),
        pytest.approx([210 * US] * 3),
    ]
    assert by_phase["generation"].estimate.df[0] == 4 + 2
