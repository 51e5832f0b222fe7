"""Repeats with numbers known beforehand: outlying and single runs, kinds of trace that one side lacks."""

from __future__ import annotations

from functools import cache

import pytest

from tests.comparing import compare
from tests.serving import run_of, runs_of, step_ns
from tracediff.comparison.compare import Options
from tracediff.errors import TracediffError
from tracediff.execution.sides import Side

CALM = (100, 101, 99, 100.5, 99.5)  # us of host work in `_schedule`; a step is 707 us long at 100
SLOW = (130, 131, 129, 130.5, 129.5)  # 30 us more
ONE_HOST = Options(in_turns=True)  # these traces hold no calls that tell the speed of their hosts


@pytest.fixture(scope="module")
def repeats(tmp_path_factory):
    """The runs' `_schedule` times and a name -> a side; each run is made once."""
    folder = tmp_path_factory.mktemp("runs")
    run = cache(lambda name, number, schedule: run_of(folder, name, number, schedule))

    def side(schedules, name):
        return Side(name, [run(name, number, schedule) for number, schedule in enumerate(schedules)])

    return side


def test_five_calm_runs_a_side_and_30_us_more(repeats):
    result = compare(repeats(CALM, "b"), repeats(SLOW, "c"), ONE_HOST)
    assert result.verdict == "regressed"
    assert result.step.baseline_ns == pytest.approx(step_ns(100), abs=2000)  # jitter of 2 us a step
    first = result.findings[0]
    assert (first.cause, first.level, first.where.range) == ("host_work", "confirmed", "_schedule")
    assert first.ci_low_ns < 30_000 < first.ci_high_ns
    # hosts of unknown speed: 25 % of what both sides have, 105 us, times t(13) = 2.16, are 57 us
    assert compare(repeats(CALM, "b"), repeats(SLOW, "c")).verdict == "inconclusive"


@pytest.mark.parametrize(("side", "outlier"), [("baseline", 10), ("candidate", 1000)])
def test_one_outlying_run_of_five_makes_no_change(side, outlier, repeats):
    odd = repeats((*CALM[:4], outlier), "odd")
    calm = repeats(CALM, "b")
    result = compare(odd, calm) if side == "baseline" else compare(calm, odd)
    assert result.verdict in ("no_change", "inconclusive")
    assert [one.title for one in result.findings if one.level != "within_noise"] == []


@pytest.mark.parametrize(
    ("baseline", "candidate", "side", "apart"),
    [
        (CALM, (*SLOW[:4], 1000), "candidate", 870),
        ((*CALM[:4], 10), SLOW, "baseline", -90),
    ],
)  # fmt: skip
def test_one_outlying_run_of_five_hides_no_change(baseline, candidate, side, apart, repeats):
    """Four runs of five say 30 us more; the fifth is named and left out, of the accounting as well."""
    result = compare(repeats(baseline, "odd"), repeats(candidate, "c"), ONE_HOST)
    first = result.findings[0]
    assert (first.cause, first.level, first.where.range) == ("host_work", "confirmed", "_schedule")
    assert first.delta_ns == pytest.approx(30_000, abs=3_000)
    # Host work scatters by 5 %; four and five calm runs with 7 degrees of freedom make it 5 sqrt(5.1 / 12) = 3.3 %. t(12) = 2.18 times
    # that: 100 us of five runs to 3.2 us, 130 of four to 4.6; 100 of four to 3.6, 130 of five to 4.1; the steps are known to half a us
    assert first.ci_high_ns - first.ci_low_ns == pytest.approx(2 * 5_600, rel=0.05)
    assert result.verdict == "regressed"
    (odd,) = result.phases[0].odd_runs
    assert (odd.side, odd.run[-1], odd.cause, odd.left_out) == (side, "4", "host_work", True)
    assert (odd.delta_ns, odd.cause_ns) == pytest.approx((1000 * apart, 1000 * apart), abs=3_000)
    assert result.accounting.delta["host_work"] == pytest.approx(30_000, abs=3_000)
    assert result.accounting.level["host_work"] == "confirmed"


def test_a_mean_that_an_outlying_run_turned_is_not_called_sure(repeats):
    """Two runs of three say 30 us more, the means 270 us less: of three runs nobody can say which one is odd."""
    result = compare(repeats((*CALM[:2], 1000), "odd"), repeats(SLOW[:3], "c"))
    assert result.phases[0].odd_runs == []
    assert result.accounting.delta["host_work"] == pytest.approx(-270_000, abs=5_000)
    assert result.accounting.level["host_work"] == "within_noise"
    assert {one.level for one in result.findings} == {"within_noise"}
    assert result.verdict == "inconclusive"


def test_one_run_a_side_is_at_best_likely(repeats):
    result = compare(repeats((100,), "b"), repeats((400,), "c"))
    assert result.verdict == "likely_regressed"
    assert {one.level for one in result.findings} <= {"likely", "within_noise"}


# Coverage


def test_a_category_that_was_not_captured_is_absent(tmp_path):
    plain_side = runs_of(tmp_path, "p", (100, 100), jitter_us=0)
    traced = runs_of(tmp_path, "t", (100, 100), jitter_us=0, gil=True)
    result = compare(plain_side, plain_side)
    assert "gil_wait" not in result.accounting.baseline and "gc" not in result.accounting.baseline
    assert result.gil.rows == [] and result.gc.rows == []
    both = compare(traced, traced).accounting
    # thread 1 waits from 10 to 30 us of every step, with the device idle
    assert both.baseline["gil_wait"] == both.candidate["gil_wait"] == pytest.approx(20_000)
    one_side = compare(plain_side, traced)
    assert "gil_wait" not in one_side.accounting.candidate
    assert one_side.accounting.candidate["host_work"] == both.baseline["host_work"] + 20_000
    assert one_side.verdict == "no_change"
    assert "gil-one-side" in [note.slug for note in one_side.warnings]
    assert {row.cause for row in one_side.gaps} == {"host_work", "launch_api", "launch_latency"}
    # the side that traced it still says what it saw: 20 us of waiting, all of them with the device idle
    (row,) = one_side.gil.rows
    assert (row.baseline_wait_ns, row.candidate_wait_ns, row.candidate_exposed_ns) == (
        None,
        20_000,
        pytest.approx(20_000),
    )
    assert one_side.accounting.hidden_candidate["gil_wait"] == 0
    assert "gil_wait" not in one_side.accounting.hidden_baseline


# An A/A floor from repeats given apart


@pytest.mark.slow
def test_repeats_given_apart_set_the_noise(tmp_path):
    """Runs of the baseline's program at 100, 180 and 260 us say more noise than runs at 100, 101 and 99."""
    one, other = runs_of(tmp_path, "b", (100,)), runs_of(tmp_path, "c", (130,))
    loud, calm = runs_of(tmp_path, "loud", (100, 180, 260)), runs_of(tmp_path, "calm", (100, 101, 99))
    plain = compare(one, other, ONE_HOST)
    # A step: 100 or 130 us of host work (5 %), 5 us of launching (5 %), 2 us of latency (30 %), 600 us of kernels (0.4 %). Its usual
    # variance is 31.2 us^2, which counts for five degrees of freedom, the repeats for two. They scatter by 80 us: 2 * 6,400 / 31.2 =
    # 410, so by sqrt((5 + 410) / 7) = 7.7 times the usual; or by 1: 0.85 times. t(7) = 2.365.
    # Down from 100: 100 (1 - e^-0.91) = 59.8 us, up 7.7 * 100 (e^0.118 - 1) = 96.7; of all cells and both sides 139 down, 153 up
    for repeats, half in ((loud, 146_000), (calm, 18_100)):
        result = compare(one, other, ONE_HOST, noise=repeats)
        (phase,) = result.phases
        assert phase.typical.noise_floor_ns == pytest.approx(half, rel=0.04)
        assert result.step.noise_source == "given"
        assert result.accounting.delta == plain.accounting.delta


def test_repeats_given_apart_may_hold_other_kernels(tmp_path):
    one, other = runs_of(tmp_path, "b", (100,)), runs_of(tmp_path, "c", (130,))
    repeats = runs_of(tmp_path, "n", (100, 101), kernel_name="conv")
    result = compare(one, other, noise=repeats)
    assert {name for row in result.kernels for name in row.baseline.names} == {
        f"gemm_{node}" for node in range(3)
    }


def test_one_repeat_is_no_noise(tmp_path):
    one = runs_of(tmp_path, "b", (100,))
    with pytest.raises(TracediffError) as raised:
        compare(one, one, noise=one)
    assert raised.value.slug == "noise-too-few" and raised.value.fix


def test_gc_on_one_side_counts_there(tmp_path):
    calm = runs_of(tmp_path, "p", (100,), jitter_us=0)
    collecting = runs_of(tmp_path, "g", (100,), jitter_us=0, gc_us=40)
    result = compare(calm, collecting)
    # the collection takes 40 of the 100 us of `_schedule`: nothing changed in total, a cause moved
    assert "gc" not in result.accounting.baseline
    (found,) = [one for one in result.findings if one.cause == "gc"]
    assert found.note == "The baseline recorded no collection: none ran there, or none was traced."
    assert result.accounting.candidate["gc"] == pytest.approx(40_000)
    assert result.step.delta_ns == pytest.approx(0, abs=1e-6)
    assert result.accounting.delta["gc"] + result.accounting.delta["host_work"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("runs", "one_host"), [(2, False), (3, True)])
def test_runs_in_turns_are_of_one_host_where_three_a_side_tell_how_far_they_differ(tmp_path, runs, one_host):
    """With fewer, chance may have given one side the slower runs: they are as any two captures."""
    sides = runs_of(tmp_path, "b", (100, 101, 99)[:runs]), runs_of(tmp_path, "c", (130, 131, 129)[:runs])
    in_turns, plain = (compare(*sides, options).observed for options in (ONE_HOST, Options()))
    assert (in_turns.ci_high_ns < plain.ci_high_ns) is one_host
    assert in_turns.delta_ns == plain.delta_ns == pytest.approx(30_000, rel=0.02)  # jitter
