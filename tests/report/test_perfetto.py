"""The bytes of a Perfetto trace, read back with Perfetto's own definitions."""

from __future__ import annotations

import pytest

from tests.report.decode import decode
from tests.report.hostile import NAMES
from tracediff.report.perfetto import MOST_TEXT, TraceWriter, clean

ODD = (
    *NAMES,
    "",
    "\ud800 alone",
    "\udcff\udc80",
    "x" * 10_000,
    "\U0001f525" * 5_000,
    "a\x00b",
    "\u202e",
    "é" * 4_096,
)


def test_slices_counters_instants_and_tracks() -> None:
    writer = TraceWriter()
    process = writer.track("side", process=7)
    track = writer.track("work", process, place=3)
    writer.begin(track, 10, "outer", "step", (("n", -5), ("text", "some"), ("big", 2**63 - 1)), starts=9)
    writer.begin(track, 10, "inner", "step", ())
    writer.end(track, 15)
    writer.end(track, 20)
    writer.begin(track, 20, "outer", "other", (("text", "some"),), ends=9)
    writer.end(track, 1 << 40)
    writer.instant(track, 1 << 41, "now", "about", ())
    counter = writer.track("delta", process, counts_ns=True)
    for at, value in ((10, -1), (20, 0), (30, -(2**62)), (40, 2**62)):
        writer.counter(counter, at, value)
    found = decode(writer.data())
    assert found.processes == {7: "side"}
    assert [(one.path, one.start, one.end, one.name, one.category, one.depth) for one in found.slices] == [
        (("side", "work"), 10, 20, "outer", "step", 0),
        (("side", "work"), 10, 15, "inner", "step", 1),
        (("side", "work"), 20, 1 << 40, "outer", "other", 0),
    ]
    assert found.slices[0].args == {"n": -5, "text": "some", "big": 2**63 - 1}
    assert [one.flows for one in found.slices] == [(9,), (), (9,)]
    assert found.instants[0].name == "now"
    assert found.counters == [
        ("delta", 10, -1),
        ("delta", 20, 0),
        ("delta", 30, -(2**62)),
        ("delta", 40, 2**62),
    ]


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_no_name_breaks_the_file(name: str) -> None:
    writer = TraceWriter()
    track = writer.track(name, process=1, about=name)
    writer.begin(track, 1, name, name, ((name or "empty", name),))
    writer.end(track, 2)
    (found,) = decode(writer.data()).slices
    assert found.name == found.category == clean(name)
    assert list(found.args.values()) == [clean(name)]
    assert 0 < len(found.name) <= MOST_TEXT
    assert all(character.isprintable() or character == "\u200d" for character in found.name)


def test_a_name_that_is_harmless_stays_as_it_is() -> None:
    for name in ("void at::native::f<int, (c10::Half)>(int*)", "schedule é 漢字 \U0001f525", "a" * MOST_TEXT):
        assert clean(name) == name
    assert clean("a\x00b\ud800") == "a\\x00b\\ud800"
    assert clean("x" * 10_000).count("x") == MOST_TEXT - 1  # and an ellipsis


def test_texts_are_written_once() -> None:
    writer = TraceWriter()
    track = writer.track("t", process=1)
    sizes = []
    for at in range(3):
        before = len(writer.data())
        writer.begin(
            track,
            at * 2 + 1,
            "a name of some length",
            "category",
            (("key of some length", "value of some length"),),
        )
        writer.end(track, at * 2 + 2)
        sizes.append(len(writer.data()) - before)
    assert sizes[1] == sizes[2] < sizes[0] - 60


def test_the_same_calls_give_the_same_bytes() -> None:
    def written() -> bytes:
        writer = TraceWriter()
        track = writer.track("t", process=1)
        writer.begin(track, 1, "n", "c", (("k", "v"), ("l", 1)))
        writer.end(track, 2)
        return writer.data()

    assert written() == written()
