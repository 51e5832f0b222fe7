"""Ranges that a program renamed are compared as the same; those that came where others went are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import reduced
from tracediff.execution.sides import Run, Side

US = 1_000


def side(folder: Path, name: str, ranges: list[tuple[str, int]]) -> Side:
    """20 steps: ranges with their us, one after another and 10 us apart, then a launch; its kernel takes 100 us, and the host waits."""
    trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
    for number in range(20):
        begin = now
        for text, us in ranges:
            trace.range(1, text, now, now + us * US)
            now += (us + 10) * US
        trace.api(1, "cudaLaunchKernel", now, now + 5 * US, corr=number + 1)
        trace.kernel(number + 1, now + 10 * US, now + 110 * US, name="gemm")
        trace.api(1, "cudaStreamSynchronize", now + 5 * US, now + 110 * US)
        now += 110 * US
        trace.range(1, f"step {number}", begin, now)
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_a_range_with_another_name_is_the_same_range(tmp_path):
    """`sample` is called `pick` and takes 400 us more: nothing came or went, and what lies between it and others has no other place."""
    one = side(tmp_path, "one", [("schedule", 200), ("sample", 300)])
    other = side(tmp_path, "other", [("schedule", 200), ("pick", 700)])
    result = compare(one, other)
    assert result.headline.why == "+400 us of it: host work in pick."
    assert result.headline.counts == ""
    places = {row.range: row.delta_ns for row in result.places if not row.phase}
    assert {place: ns for place, ns in places.items() if ns} == {"pick": pytest.approx(400 * US)}
    (note,) = [note for note in result.warnings if note.slug == "ranges-renamed"]
    assert note.message.endswith("sample -> pick")
    back = compare(other, one)
    assert back.headline.why == "-400 us of it: host work in sample."


def test_another_algorithm_of_a_library_is_no_range_with_another_name(tmp_path: Path):
    sides = [side(tmp_path, name, [("schedule", 200), (f"cub::{name}", 300)]) for name in ("Scan", "Sort")]
    assert all(note.slug != "ranges-renamed" for note in compare(*sides).warnings)


@pytest.mark.parametrize(
    "ranges",
    [
        [("pick", 700), ("schedule", 200)],  # elsewhere in the step
        [("schedule", 200), ("pick", 350), ("pick", 340)],  # more often
        [("schedule", 200), ("pick", 300), ("log", 390)],  # and another one
        [("sample", 200), ("pick", 700)],  # a name that is known
    ],
)
def test_another_range_is_not_the_one_that_went(ranges: list[tuple[str, int]], tmp_path: Path):
    one = side(tmp_path, "one", [("schedule", 200), ("sample", 300)])
    result = compare(one, side(tmp_path, "other", ranges))
    assert result.observed.delta_ns == pytest.approx(400 * US)
    assert all(note.slug != "ranges-renamed" for note in result.warnings)
