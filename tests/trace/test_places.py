"""Places: numbers masked, step labels one place, and what lies outside any range named by its neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from fixtures.builders import HOSTILE_NAMES, TraceBuilder
from tests.tiny import STEP, idle, label, one_gap, reduced
from tracediff.formats.capture import load_capture
from tracediff.trace.steps import find_steps
from tracediff.trace.threads import OUTSIDE, Places, mask, outside_text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("", ""),
        ("_schedule", "_schedule"),
        ("layer 12", "layer N"),
        ("layer12.attn3", "layerN.attnN"),
        ("layer 12: 0x7f3a took 1.5 ms", "layer N: N took N ms"),
        ("0xDEADBEEF", "N"),
        ("v1.2.3", "vN.N"),  # 1.2 is a number, .3 is another
        ("10-20", "N-N"),
        ("-5", "-N"),
        ("already N", "already N"),
        ("aten::mm, op_id = 7, sizes = [[16, 8], [8, 4]], input_op_ids = [(5,0), (6,0)]", "aten::mm"),
        ("autograd::engine::X, seq = 12", "autograd::engine::X"),
        ("load, seq = next", "load, seq = next"),
        ("\u0663\u0664 requests", "N requests"),  # digits of other scripts are digits
    ],
)
def test_numbers_are_masked(text, masked):
    assert mask(text) == masked


@pytest.mark.parametrize("text", HOSTILE_NAMES)
def test_no_number_is_left_and_masking_twice_changes_nothing(text):
    masked = mask(text)
    assert not any(character.isdecimal() for character in masked)
    assert mask(masked) == masked


def test_what_lies_outside_any_range():
    assert outside_text("a", "b") == f"{OUTSIDE}, between a and b"
    assert outside_text("a", "") == f"{OUTSIDE}, after a"
    assert outside_text("", "b") == f"{OUTSIDE}, before b"
    assert outside_text("", "") == OUTSIDE
    sort = (
        "cub::DeviceRadixSort"  # a part of some operator, after which the host does anything to the next one
    )
    assert outside_text(sort, sort) == OUTSIDE and outside_text("a", sort) == outside_text("a", "")


@pytest.fixture
def places(tmp_path):
    """Places of a trace with two numbered ranges of one kind, another range, and step labels."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):
        trace.range(1, label(number), 1000 * number, 1000 * number + 400)
        trace.range(1, f"layer {number}", 1000 * number + 500, 1000 * number + 600)
        trace.api(1, "cudaLaunchKernel", 1000 * number + 10, 1000 * number + 20, corr=number)
        trace.kernel(number, 1000 * number + 30, 1000 * number + 40)
    capture = load_capture(trace.range(1, "_schedule", 700, 800).write(tmp_path / "t.sqlite"), tmp_path)
    find_steps(capture)
    yield (
        Places(capture.db),
        {text: label for label, text in capture.db.execute("SELECT label, text FROM range_text").fetchall()},
    )
    capture.close()


def test_labels_of_one_kind_are_one_place(places):
    found, labels = places
    assert sorted(found.names) == sorted([STEP, "layer N", "_schedule"])
    assert {found.of_label(labels[f"layer {number}"]) for number in range(3)} == {"layer N"}
    assert {found.of_label(labels[label(number)]) for number in range(3)} == {STEP}
    assert found.name(-1) == ""
    ids = found.ids(np.array([labels["layer 0"], -1, labels["layer 2"]]))
    assert ids[0] == ids[2] and ids[1] == -1


def test_instants_between_ranges(places):
    found, labels = places
    # the innermost ranges of a thread: label 0 at 0, layer 0 at 500, _schedule at 700
    starts = np.array([0, 500, 700])
    names = np.array([labels[label(0)], labels["layer 0"], labels["_schedule"]])
    ids = found.outside(starts, names, np.array([-5, 450, 650, 900, 450]))
    assert [found.name(one) for one in ids] == [
        f"{OUTSIDE}, before {STEP}",
        f"{OUTSIDE}, between {STEP} and layer N",
        f"{OUTSIDE}, between layer N and _schedule",
        f"{OUTSIDE}, after _schedule",
        f"{OUTSIDE}, between {STEP} and layer N",
    ]
    nothing = np.empty(0, np.int64)
    assert [found.name(one) for one in found.outside(nothing, nothing, np.array([1]))] == [OUTSIDE]
    assert len(found.outside(starts, names, nothing)) == 0


def test_labels_of_all_generations_are_one_place(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    texts = [f"{STEP}: 0 ctx reqs, 4 gen reqs", f"{STEP} 2: 0 ctx reqs, 4 gen reqs", label(3), label(4)]
    for number, text in enumerate(texts):
        trace.range(1, text, 1000 * number, 1000 * number + 900)
        trace.api(1, "cudaLaunchKernel", 1000 * number + 500, 1000 * number + 510, corr=number)
        trace.kernel(number, 1000 * number + 510, 1000 * number + 600)
    assert set(idle(reduced(trace, tmp_path), "place", cause="host_work")) == {
        STEP, f"{OUTSIDE}, between {STEP} and {STEP}",
    }  # fmt: skip


def test_a_range_without_text_is_not_taken_for_no_range(tmp_path):
    found = idle(reduced(one_gap().range(1, "", 300, 400), tmp_path), "place", cause="host_work")
    assert found[""] == 100
