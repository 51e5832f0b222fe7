"""Small words that were stumbled over: thread names, steps a run, p values."""

from __future__ import annotations

import msgspec
import pytest

from tests.report import sample
from tracediff.compare.comparability import _counts
from tracediff.compare.findings import _the_thread
from tracediff.compare.verdict import _all_the_same, _probability
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


def test_only_what_was_counted_or_confirmed_is_sure():
    """A likely place stays likely, and does not stand before a sure one."""
    one = sample.full().findings[0]
    likely, exact = (
        msgspec.structs.replace(one, level=level, title=level, delta_ns=delta)
        for level, delta in (("likely", 366_700.0), ("exact", -20_600.0))
    )
    assert _all_the_same([likely]) == " But one thing is likely: likely (+366.7 us)."
    assert _all_the_same([likely, exact]) == " But one thing is sure: exact (-20.6 us)."
    assert _all_the_same([]) == ""
