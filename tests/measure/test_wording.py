"""Small words that were stumbled over: thread names, steps a run, p values."""

from __future__ import annotations

import pytest

from tracediff.measure.comparability import _counts
from tracediff.measure.findings import _the_thread
from tracediff.measure.verdict import _probability
from tracediff.report import units


@pytest.mark.parametrize(
    ("role", "said"),
    [
        ("executor", "the executor thread"),
        ("thread without ranges", "the thread without ranges"),
        ("thread cuda-EvtHandlr", "the thread cuda-EvtHandlr"),
    ],
)
def test_no_thread_is_a_thread_twice(role, said):
    assert _the_thread(role) == said


@pytest.mark.parametrize(
    ("steps", "said"), [([30], "30"), ([30, 30, 30], "30 a run"), ([30, 29, 30], "30 | 29 | 30")]
)
def test_steps_of_each_run(steps, said):
    assert _counts(steps) == said


@pytest.mark.parametrize("p", [0.0286, 0.4857, 0.00099, 0.0079])
def test_p_is_written_as_in_the_reports(p):
    assert _probability(p).replace("= ", "").replace(" ", "") == units.probability(p)
