"""What the picture of every step is drawn from: sums, both sides alike, bounds."""

from __future__ import annotations

import pytest

from tests.comparing import compare
from tests.serving import serving
from tests.swapping import close, plain, swapped
from tests.tiny import reduced
from tracediff.comparison import pictures as step_strip
from tracediff.execution.sides import Run, Side
from tracediff.model import Result


def check_sums(result: Result) -> None:
    strip = result.step_strip
    assert strip is not None
    for column in (*strip.baseline, *strip.candidate):
        assert sum(column.parts) == column.ns >= column.median_ns


PAIRS = [
    (("graph_a1", "graph_a2"), "graph_gc"),
    ("eager_a1", "graph_a1"),
    ("tp2_a1", "tp2_a1"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_parts_sum_to_the_whole(pair, compared):
    check_sums(compared(*pair))


@pytest.mark.parametrize("pair", PAIRS[:2], ids=str)
def test_with_the_sides_exchanged_the_picture_is_mirrored(pair, compared):
    one, other = compared(*pair), compared(*pair[::-1])
    mirrored = swapped(plain(other))
    assert close(plain(one)["step_strip"], mirrored["step_strip"]) == []


def test_steps_share_columns_and_the_longest_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(step_strip, "ROWS", 4)
    one = reduced(serving(steps=9, jitter_us=5, seed=1), tmp_path)
    side = Side("one", [Run("run", [one])])
    strip = compare(side, side).step_strip
    assert strip is not None and strip.baseline == strip.candidate
    ns = (one.periods["end_ns"] - one.periods["start_ns"]).to_list()
    width = -(-len(ns) // 4)
    assert [one.ns for one in strip.baseline] == [max(ns[at : at + width]) for at in range(0, len(ns), width)]
    assert [one.steps for one in strip.baseline][:-1] == [width] * (len(strip.baseline) - 1)
    assert sum(one.steps for one in strip.baseline) == len(ns)
