"""A cause is one row of data and one row of words."""

from __future__ import annotations

from typing import get_args

import pytest

from tracediff.model import CATEGORIES, Cause
from tracediff.model.causes import BUSY, CAUSES, IDLE
from tracediff.report import causes, palette
from tracediff.report.grammar import PATTERNS
from tracediff.trace.threads import beside, outside_text


def test_every_cause_has_its_words():
    assert list(causes.CAUSES) == list(CAUSES)
    for key, row in CAUSES.items():
        words = causes.CAUSES[key]
        assert words.name and words.label
        if key in get_args(Cause):  # what a finding may be of
            assert f"advise_{key}" in PATTERNS, key
            assert {f"name_{key}", f"idle_{key}", f"title_{key}"} & PATTERNS.keys(), key
        if row.kind in ("busy", "idle"):
            assert words.meaning and words.light and words.dark, key
    assert CATEGORIES == BUSY + IDLE == tuple(palette.BY_KEY)


@pytest.mark.parametrize(
    ("before", "after", "found"), [("a", "b", ["a", "b"]), ("a", "", ["a"]), ("", "b", ["b"]), ("", "", [])]
)
def test_a_place_outside_any_range_knows_its_neighbours(before, after, found):
    assert beside(outside_text(before, after)) == found
    assert beside("a range") is None
