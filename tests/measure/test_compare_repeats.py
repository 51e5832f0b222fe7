"""Repeats with numbers known beforehand: outlying and single runs, kinds of trace that one side lacks."""

from __future__ import annotations

import pytest

from tests.serving import runs_of, step_ns
from tracediff.measure.compare import compare

CALM = (100, 101, 99, 100.5, 99.5)  # us of host work in `_schedule`; a step is 707 us long at 100
SLOW = (130, 131, 129, 130.5, 129.5)  # 30 us more


@pytest.fixture(scope="module")
def repeats(tmp_path_factory):
    """Sides by the runs' `_schedule` times, each made once."""
    made = {}

    def side(schedules, name):
        key = schedules, name
        if key not in made:
            made[key] = runs_of(tmp_path_factory.mktemp("runs"), name, schedules)
        return made[key]

    return side


def test_five_calm_runs_a_side_and_30_us_more(repeats):
    result = compare(repeats(CALM, "b"), repeats(SLOW, "c"))
    assert result.verdict == "regressed"
    assert result.step.baseline_ns == pytest.approx(step_ns(100), abs=2000)  # jitter of 2 us a step
    first = result.findings[0]
    assert (first.cause, first.level, first.where.range) == ("host_work", "confirmed", "_schedule")
    assert first.ci_low_ns < 30_000 < first.ci_high_ns


@pytest.mark.parametrize("outlier", [1000, 10])
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_one_outlying_run_of_five_makes_no_change(side, outlier, repeats):
    odd = repeats((*CALM[:4], outlier), "odd")
    calm = repeats(CALM, "b")
    result = compare(odd, calm) if side == "baseline" else compare(calm, odd)
    assert result.verdict in ("no_change", "inconclusive")
    assert [one.title for one in result.findings if one.level != "within_noise"] == []


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [(CALM, (*SLOW[:4], 1000)), (CALM, (*SLOW[:4], 10)), ((*CALM[:4], 1000), SLOW), ((*CALM[:4], 10), SLOW)],
)
def test_one_outlying_run_of_five_hides_no_change(baseline, candidate, repeats):
    """Four runs of five say 30 us more: so does the finding, in number and in word; never the opposite."""
    result = compare(repeats(baseline, "odd"), repeats(candidate, "c"))
    first = result.findings[0]
    assert (first.cause, first.level, first.where.range) == ("host_work", "confirmed", "_schedule")
    assert first.delta_ns == pytest.approx(30_000, abs=3_000)
    assert first.ci_low_ns > 20_000 and first.ci_high_ns < 40_000
    assert first.title.startswith("more ")
    assert result.verdict in ("regressed", "inconclusive")


def test_one_run_a_side_is_at_best_likely(repeats):
    result = compare(repeats((100,), "b"), repeats((400,), "c"))
    assert result.verdict == "likely_regressed"
    assert result.step.p_value is None
    assert {one.level for one in result.findings} <= {"likely", "within_noise", "exact"}
    assert "single-run" in [note.slug for note in result.warnings]


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


def test_gc_on_one_side_counts_there(tmp_path):
    calm = runs_of(tmp_path, "p", (100,), jitter_us=0)
    collecting = runs_of(tmp_path, "g", (100,), jitter_us=0, gc_us=40)
    result = compare(calm, collecting)
    # the collection takes 40 of the 100 us of `_schedule`: nothing changed in total, a cause moved
    assert "gc" not in result.accounting.baseline
    assert result.accounting.candidate["gc"] == pytest.approx(40_000)
    assert result.step.delta_ns == 0
    assert result.accounting.delta["gc"] + result.accounting.delta["host_work"] == pytest.approx(0)
