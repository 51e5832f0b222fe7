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


def typical(found) -> dict[str, str]:
    """Phase -> verdict of its typical step."""
    return {phase: of["typical"] for phase, of in judge_phases(found).items()}


def verdict_of(found, *, comparable: bool = True):
    return decide(found, judge(found), judge_phases(found), comparable=comparable)


def of_host(baseline: list[float], candidate: list[float]):
    """One place of host work, of so many us in each run, and 900 us of a kernel."""
    return [side(*([own, 900.0] for own in runs)) for runs in (baseline, candidate)]


@pytest.mark.parametrize(
    ("baseline", "candidate", "verdict"),
    [
        # from three runs on a run of a step scatters by 2.5 % at least: +- 28 us of four of them, +- 36 of three
        ([100, 101, 102, 103], [200, 201, 202, 203], "regressed"),  # 2 of 70 ways to deal the runs out
        ([100, 101, 102, 201], [200, 202, 203, 204], "likely_regressed"),  # 4 of 70
        ([100, 101, 102], [200, 201, 202], "likely_regressed"),
        ([100, 101], [250, 251], "likely_regressed"),
        ([100], [500], "likely_regressed"),
        # 5 % of the place and 0.4 % of the kernel: 50 - hypot(13.7, 18.1, 9.2, 9.2)
        ([100], [150], "likely_regressed"),  # 24 to 77 us
        ([100], [108], "inconclusive"),  # -15 to 31 us
        ([100, 101, 102, 103], [100, 103, 102, 101], "no_change"),  # +- 26 us, within 3 % of the step
        ([100, 101, 102, 103], [102, 105, 104, 103], "no_change"),  # 2 us of 1,000
    ],
)
def test_the_verdict_of_a_phase_follows_its_runs(baseline, candidate, verdict):
    one, other = of_host(baseline, candidate)
    forward, backward = measured(one, other, idle=1, kernels=1), measured(other, one, idle=1, kernels=1)
    assert typical(forward) == {"generation": verdict}
    assert typical(backward) == {"generation": OPPOSITE.get(verdict, verdict)}


@pytest.mark.parametrize(("speed", "verdict"), [(False, "likely_improved"), (None, "inconclusive")])
def test_where_the_speed_of_hosts_is_not_known_their_time_scatters_more(speed, verdict):
    """400 -> 300 us of host work, 29.2 either way on one host; 300 us that both have may differ by 25 % of q = 2.306: 173 us."""
    found = measured(*of_host([400, 400, 400], [300, 300]), idle=1, kernels=1, speed=speed)
    of = found.phases[0].typical.estimate
    arm = math.hypot(29.25, 0.0 if speed is False else 2.306 * 0.25 * 300)
    assert of.high[0] == pytest.approx((-100 + arm) * US, rel=0.002)
    assert typical(found) == {"generation": verdict}


def test_time_that_is_new_does_not_depend_on_an_unknown_host():
    """20 -> 120 us: the host may explain a part of the 20 us that both sides have, 2.365 * 25 % of it."""
    found = measured(*of_host([20, 20], [120, 120]), idle=1, kernels=1, speed=None)
    of = found.phases[0].typical.estimate
    assert of.low[0] == pytest.approx((100 - math.hypot(11.0, 11.8)) * US, rel=0.002)
    assert typical(found) == {"generation": "likely_regressed"}


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        (3, "likely_regressed"),
        (6, "likely_regressed"),  # 2 of 64 ways
        (7, "regressed"),  # 2 of 128 ways
    ],
)
def test_pairs_are_judged_by_their_differences(pairs: int, verdict: str):
    """Requests that take 500 to 1,100 us of a step, and 200 us more: runs are far apart, pairs are not."""
    requests = [500 + 100 * at for at in range(pairs)]
    one, other = (
        side(*([100.0 + more, float(us)] for us in requests)) for more in (0, 200)
    )  # host work, and a kernel
    assert typical(measured(one, other, idle=1, kernels=1, paired=True)) == {"generation": verdict}
    if pairs < 7:
        assert typical(measured(one, other, idle=1, kernels=1)) != {"generation": "regressed"}


def test_less_than_half_a_percent_is_no_verdict():
    """A step of 10 ms of kernels, whose runs agree to the ns: +40 us are seen, +60 us count."""

    def kernels(us: float) -> list[list[dict]]:
        return side(*[[us]] * 40)

    for more, verdict in ((40.0, "no_change"), (60.0, "regressed")):
        found = measured(kernels(10_000.0), kernels(10_000.0 + more), idle=0, kernels=1)
        assert typical(found)["generation"] == verdict


def test_phases_are_dealt_out_together_and_the_first_leads():
    """Mixed steps are wholly apart. Where other ways to deal the runs out set generation steps apart as far, that is no evidence."""

    def both(generation: list[float], mixed: list[float]) -> list[list[dict]]:
        one = side(*([us] for us in generation))
        return [
            own + more for own, more in zip(one, side(*([us] for us in mixed), phase="mixed"), strict=True)
        ]

    after = [9000, 9010, 9020, 9030]
    calm = both([1000, 1001, 1002, 1003], [5000, 5010, 5020, 5030]), both([1000, 1003, 1002, 1001], after)
    assert typical(measured(*calm, idle=1)) == {"generation": "no_change", "mixed": "regressed"}  # 2 of 70
    wild = both([1000, 3000, 1000, 3000], [5000, 5010, 5020, 5030]), both([3000, 1000, 3000, 1100], after)
    # 4 of 70: two more set the slow runs against the fast ones
    assert typical(measured(*wild, idle=1)) == {"generation": "inconclusive", "mixed": "likely_regressed"}
    assert verdict_of(measured(*calm, idle=1)) == ("regressed", VerdictFacts("phase", "mixed"))
    found = measured(
        both([2000, 2001, 2002, 2003], [5000, 5010, 5020, 5030]),
        both([1000, 1003, 1002, 1001], after),
        idle=1,
    )
    assert verdict_of(found) == ("improved", VerdictFacts("phase", "generation"))


@pytest.mark.parametrize(
    ("generation", "mixed", "first"),
    [
        (
            600,
            8_900,
            "generation",
        ),  # 80 of 100 steps lose 500 us each, the others 3,900: 400 and 780 us a mean step
        (600, 9_100, "mixed"),  # 400 and 820
        (60, 6_500, "generation"),  # 32 us less, 300 more
        (60, 6_700, "mixed"),  # 340
    ],
)
def test_a_phase_that_lost_far_more_is_said_first(generation: float, mixed: float, first: str):
    def run(us: float, with_prompt: float) -> list[list[dict]]:
        return together(side([us], steps=80), side([with_prompt], phase="mixed", steps=20))

    one, other = run(100, 5_000), run(generation, mixed)
    for found in (measured(one, other, idle=1), measured(other, one, idle=1)):
        assert "inconclusive" not in typical(found).values()
        verdict, facts = verdict_of(found)
        assert (facts.phase, verdict) == (first, typical(found)[first])


def test_a_few_steps_say_nothing_beside_many():
    """Two steps of another phase that take twice as long: once in a run, as much may be its start. Alone they are likely."""

    def runs(us: float) -> list[list[dict]]:
        return side([us], phase="context", steps=2)

    def both(us: float) -> list[list[dict]]:
        return together(side([1_000]), runs(us))

    assert typical(measured(runs(1_000), runs(9_000), idle=1)) == {"context": "likely_regressed"}
    found = measured(both(1_000), both(9_000), idle=1)
    assert typical(found) == {"generation": "no_change", "context": "inconclusive"}
    assert {one.level for one in judge(found).rows} == {"within_noise"}


def together(*phases: list[list[dict]]) -> list[list[dict]]:
    """Runs that have the steps of several phases."""
    return [[row for steps in runs for row in steps] for runs in zip(*phases, strict=True)]


@pytest.mark.parametrize(
    ("runs", "more", "first", "later"),
    [
        # one step of host work, 5 % of it: 1,000 -> 1,120 us are 14 to 227, p = .031, .063 of two phases
        (2, 120, "likely_regressed", "inconclusive"),
        (2, 150, "likely_regressed", "likely_regressed"),  # p = .013
        (5, 50, "regressed", "inconclusive"),  # p = .027; 2 of 252 ways to deal the runs out
        (5, 55, "regressed", "regressed"),  # p = .017
    ],
)
def test_a_phase_after_the_first_needs_a_smaller_p(runs: int, more: float, first: str, later: str):
    base = [[1_000 + 0.1 * at] for at in range(runs)]
    after = [[us + more] for (us,) in base]
    assert typical(measured(side(*base), side(*after), idle=1)) == {"generation": first}
    one, other = (together(side(*base), side(*mixed, phase="mixed")) for mixed in (base, after))
    assert typical(measured(one, other, idle=1))["mixed"] == later


# What carries the verdict where the step is unsure


def large_step(host: float, other: float = 10.0) -> list[float]:
    """9 ms of a kernel, which scatters by 36 us, so many us in a place of host work, and in another."""
    return [host, other, 9_000.0]


def test_a_sure_part_carries_the_verdict():
    """+120 us of 9.1 ms. The step may be off by 239 us; the place by 7, and nothing can have moved against it."""
    found = measured(side(*[large_step(50)] * 4), side(*[large_step(170)] * 4), idle=2, kernels=1)
    assert typical(found)["generation"] == "inconclusive"
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis, facts.phase) == ("regressed", "part", "generation")
    assert facts.carried_ns == pytest.approx(120 * US)


def test_of_three_runs_a_sure_part_is_likely():
    found = measured(side(*[large_step(50)] * 3), side(*[large_step(170)] * 3), idle=2, kernels=1)
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis) == ("likely_regressed", "part")


def test_a_sure_part_of_the_first_phase_comes_before_the_verdict_of_the_next():
    """Mixed steps gain 1,000 us for sure; what users feel first has a sure cause the other way, of 120."""
    mixed = (side(*[[50.0, 10.0, kernel]] * 5, phase="mixed") for kernel in (9_000.0, 8_000.0))
    one, other = (
        together(side(*[large_step(host)] * 5), own) for host, own in zip((50, 170), mixed, strict=True)
    )
    found = measured(one, other, idle=2, kernels=1)
    assert typical(found) == {"generation": "inconclusive", "mixed": "improved"}
    verdict, facts = verdict_of(found)
    assert (verdict, facts.basis, facts.phase) == ("regressed", "part", "generation")


def test_time_that_may_only_have_moved_carries_nothing():
    """Another place of 3 ms may have lost 157 us: more than three quarters of the 150."""
    one, other = (side(*[large_step(us, 3_000)] * 4) for us in (50, 200))
    verdict, facts = verdict_of(measured(one, other, idle=2, kernels=1))
    assert (verdict, facts.basis, facts.moved) == ("inconclusive", "scatter", True)


def test_sure_parts_that_take_turns_carry_nothing():
    """One place gains 400 us, another loses 300: the sum is +100, 1.1 % of the step, and what went against it is larger than three quarters of that."""
    one, other = (side(*[large_step(*us)] * 4) for us in ((50, 350), (450, 50)))
    found = measured(one, other, idle=2, kernels=1)
    assert sorted(round(row.delta) for row in judge(found).rows if row.clear) == [-300 * US, 400 * US]
    assert verdict_of(found)[0] == "inconclusive"


def test_a_sure_part_carries_nothing_where_the_step_moved_the_other_way():
    """One place gains 140 us for sure. Sixty of 100 us lose 3 each, which alone is noise: the step is 40 us shorter, and not slower."""
    one, other = (side(*[[host, *[us] * 60, 3_000.0]] * 4) for host, us in ((50.0, 100.0), (190.0, 97.0)))
    found = measured(one, other, idle=61, kernels=1)
    assert [round(row.delta) for row in judge(found).rows if row.clear] == [140 * US]
    assert verdict_of(found)[0] == "inconclusive"


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
    assert kernel.level == "exact" and kernel.low < 0 < kernel.high
    assert verdict_of(found)[0] == "inconclusive"


def test_rare_steps_carry_the_verdict_where_the_typical_step_does_not():
    one, other = (side(*[large_step(50)] * 4, steps=24) for _ in range(2))
    for steps in other:
        steps[13]["cells"][0] += 40_000 * US
    found = measured(one, other, idle=2, kernels=1)
    assert verdict_of(found) == ("regressed", VerdictFacts("rare", "generation"))
    assert found.phases[0].mean.estimate.delta[0] == pytest.approx(40_000 * US / 24)


@pytest.mark.parametrize("runs", [1, 2])
def test_rare_steps_of_few_runs_are_likely(runs: int):
    """Every sixth step takes 600 us more: 100 of 1,000 us on average, with little scatter."""
    one, other = (side(*[[100.0, 900.0]] * runs, steps=240) for _ in range(2))
    for steps in other:
        for late in steps[3::6]:
            late["cells"][0] += 600 * US
    found = measured(one, other, idle=1, kernels=1)
    assert any(row.part == "mean" and row.level == "likely" for row in judge(found).rows)
    assert verdict_of(found) == ("likely_regressed", VerdictFacts("rare", "generation"))


# What is no change


def test_rare_steps_make_the_typical_step_no_less_known():
    """Two runs a side know a step of 1,000 us to 12 us. One step of 24 stops for 200 ms, which makes the mean 9 ms."""
    one, other = (side([100, 900], [101, 900], steps=24) for _ in range(2))
    for steps in other:
        steps[13]["cells"][0] += 200_000 * US
    found = measured(one, other, idle=1, kernels=1)
    (phase,) = found.phases
    assert phase.typical.estimate.half[0] == pytest.approx(12.4 * US, rel=0.01) and phase.step_ns > 9_000 * US
    assert typical(found)["generation"] == "no_change"
    assert verdict_of(found)[1].basis == "rare"


def test_a_side_against_itself_is_identical():
    one = of_host([100, 150, 200], [])[0]
    assert verdict_of(measured(one, one, idle=1, kernels=1)) == ("no_change", VerdictFacts("identical"))
    assert typical(measured(one, one, idle=1, kernels=1)) == {"generation": "no_change"}


def test_what_cannot_be_compared_has_no_verdict():
    found = measured(*of_host([100] * 4, [300] * 4), idle=1, kernels=1)
    assert verdict_of(found, comparable=False) == ("not_comparable", VerdictFacts("checks"))


def test_a_slower_host_is_no_regression_and_said():
    """All of 1 ms of host work takes 10 to 16 % longer on hosts that are 10 to 16 % slower.

    The usual slope is 0.9, and weighs 1 / 0.3^2; the runs say 1.0 and 1 / 1.13, and weigh 0.002 / 0.05^2 = 0.8 each: 0.9053. So
    e^(0.9053 * 0.13) - 1 of 1 ms is of the hosts, and 0.02 % more, for a mean of runs is not the run of the mean.
    """

    def on(*speeds: float) -> list[list[dict]]:
        return [[step(cells=[1_000 * US * (1 + z), z]) for _ in range(12)] for z in speeds]

    found = measured(on(-0.03, -0.01, 0.01, 0.03), on(0.1, 0.12, 0.14, 0.16), idle=1, speed=True)
    verdict, facts = verdict_of(found)
    assert verdict in ("no_change", "inconclusive") and facts.host
    (phase,) = found.phases
    assert phase.typical.estimate.host_speed[0] == pytest.approx(124.90 * 1.0002 * US, rel=1e-4)
    assert phase_fields(found, phase, judge_phases(found)["generation"], "typical")[
        "host_speed"
    ] == pytest.approx(1.1388, rel=1e-4)


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


@pytest.mark.parametrize(("places", "verdict"), [(1, "likely_regressed"), (4, "inconclusive")])
def test_rare_steps_of_few_runs_tell_more_where_they_stop_in_one_place(places: int, verdict: str):
    """Four steps of 24 of two runs stop for 1 ms. Of four places each was seen once a run: as many may be chance."""

    def runs(stop: float) -> list[list[dict]]:
        return [
            [
                step(
                    cells=[
                        900 * US,
                        *(
                            stop * US * (number in (4, 8, 12, 16) and number // 4 % places == at)
                            for at in range(places)
                        ),
                    ]
                )
                for number in range(24)
            ]
            for _ in range(2)
        ]

    found = measured(runs(0), runs(1_000), idle=1 + places)
    assert typical(found)["generation"] in ("no_change", "inconclusive")
    said, facts = verdict_of(found)
    assert (said, facts.basis) == (verdict, "rare")


@pytest.mark.parametrize(("stop", "verdict"), [(2_400, "no_change"), (4_800, "inconclusive")])
def test_no_change_is_said_only_where_rare_steps_are_quiet(stop: float, verdict: str):
    """One step of the 96 of four runs stops: 25 or 50 us per mean step of 1,000. 30 us are quiet."""
    one, other = (side(*[[0.0, 1_000.0]] * 4, steps=24) for _ in range(2))
    other[0][13]["cells"][0] = stop * US
    found = measured(one, other, idle=1, kernels=1)
    assert typical(found) == {"generation": "no_change"}
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
    assert by_phase["generation"].estimate.df == 5 + 2


def test_a_faster_step_is_no_gain_where_as_much_work_takes_more_of_them() -> None:
    """Steps of 1,000 us take 500 us, four times as many: all together 100 % more. In nearly twice as many 5 % less is no gain either; half as many would be faster still."""
    found = measured(side([100.0, 900.0]), side([100.0, 400.0]), idle=1, kernels=1)

    def decided(steps: tuple[float, float] | None) -> str:
        return decide(found, judge(found), judge_phases(found), comparable=True, steps=steps)[0]

    # 5, 19 and 40 ms for 20
    said = [decided(steps) for steps in (None, (20, 10), (20, 38), (20, 80))]
    assert said == ["likely_improved", "likely_improved", "inconclusive", "inconclusive"]


@pytest.mark.parametrize(
    ("steps", "by_program", "verdict", "recorded"),
    [
        (80, True, "inconclusive", (20, 80)),
        (80, False, "likely_improved", None),  # somebody ended the recording
        (38, True, "likely_improved", (20, 38)),
        (21, True, "likely_improved", None),
    ],
)
def test_a_faster_step_is_no_gain_where_the_program_recorded_more_of_them(
    steps, by_program, verdict, recorded
) -> None:
    """Steps of 1,000 us take 500 us: 20 take 20 ms, 80 of them 40 ms, 38 of them 19 ms."""
    sides = side([100.0, 900.0], steps=20), side([100.0, 400.0], steps=steps)
    found = measured(*sides, idle=1, kernels=1, by_program=by_program)
    said, facts = verdict_of(found)
    assert (said, facts.recorded_steps) == (verdict, recorded)


def test_steps_that_do_not_fill_what_was_recorded_are_not_all() -> None:
    """20 steps of 1,000 us and 80 of 500 us, in recordings of 20 ms: of the baseline's, steps are missing."""
    sides = side([100.0, 900.0], steps=20), side([100.0, 400.0], steps=80)
    found = measured(*sides, idle=1, kernels=1, by_program=True, recorded_ns=(20_000 * US, 20_000 * US))
    said, facts = verdict_of(found)
    assert (said, facts.recorded_steps) == ("likely_improved", None)


@pytest.mark.parametrize(("steps", "verdict"), [(5, "inconclusive"), (15, "likely_regressed")])
def test_a_slower_step_is_no_loss_where_the_program_recorded_far_fewer_of_them(steps, verdict) -> None:
    """20 steps of 500 us are 10 ms; 5 of 1,000 us are 5 ms, 15 are 15 ms."""
    found = measured(
        side([100.0, 400.0], steps=20), side([100.0, 900.0], steps=steps), idle=1, kernels=1, by_program=True
    )
    assert verdict_of(found)[0] == verdict


def test_steps_as_long_as_before_are_the_same_however_many_a_program_recorded() -> None:
    found = measured(
        *([[*side([1_000.0], steps=steps)[0]]] * 4 for steps in (20, 80)), idle=1, by_program=True
    )
    assert verdict_of(found)[0] == "no_change"
