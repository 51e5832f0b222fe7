"""Sides that ran batches of other sizes: what the load may explain is no change of the program."""

from __future__ import annotations

import pytest

from tests.serving import serving
from tracediff import compare
from tracediff.report.headline import headline


def runs(folder, batch: int, schedule_us: int, many: int = 2):
    """Captures whose generation steps have so many requests, and so much host work."""
    folder.mkdir()
    for number in range(many):
        trace = serving(steps=24, schedule_us=schedule_us + number, gen=batch)
        trace.write(folder / f"run{number}.sqlite")
    return folder


@pytest.mark.parametrize(("batch", "verdict"), [(2, "likely_regressed"), (16, "inconclusive")])
def test_eight_times_the_requests_explain_a_step_of_twice_the_time(batch, verdict, tmp_path):
    found = compare(runs(tmp_path / "a", 2, 100), runs(tmp_path / "b", batch, 900)).result
    assert found.verdict == verdict
    if batch == 16:
        assert "different batches (2 -> 16 generation requests" in headline(found).text
    else:
        assert found.verdict_facts.load is None


def test_more_time_than_the_load_explains_is_a_change(tmp_path):
    """Twice the requests, more than four times the time: 100 -> 2,500 us of host work beside 607 us."""
    found = compare(runs(tmp_path / "a", 16, 100), runs(tmp_path / "b", 32, 2_500)).result
    assert found.step.candidate_ns > 4 * found.step.baseline_ns
    assert found.verdict == "likely_regressed"
