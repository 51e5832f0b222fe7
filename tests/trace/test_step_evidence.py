"""Ranges that no table knows, chosen by evidence. Every trace here has one launch per window unless said."""

from __future__ import annotations

import numpy as np
import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import reduced
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side, warnings_of
from tracediff.formats.capture import load_capture
from tracediff.trace.labels import ENOUGH, NOTHING, Launched, judge, pattern, results
from tracediff.trace.steps import find_steps


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def work(*contents: int, inside: bool = True, result: tuple[int, ...] = ()) -> Launched:
    """Launch k has this content, one kernel, and starts at 1000 k + 50, or at + 800 where it is not `inside`."""
    count = len(contents)
    at = 50 if inside else 800
    return Launched(
        start=1000 * np.arange(count, dtype=np.int64) + at,
        content=np.array(contents, np.uint64),
        ops=np.ones(count, np.int64),
        kernels=np.ones(count, np.int64),
        result=ints(*result),
    )


def judged(texts: list[str], launched: Launched, length: int = 500):
    """Ranges of this length that begin at 0, 1000, 2000, ..."""
    start = 1000 * np.arange(len(texts), dtype=np.int64)
    return judge(texts, start, start + length, launched)


def points(family) -> dict[str, int]:
    return {mark.code: mark.points for mark in family.marks}


ALL_DIFFERENT = (1, 2, 3, 4, 5, 6)
ALIKE = (1,) * 6


# Points, one by one


@pytest.mark.parametrize(
    ("numbers", "gives"),
    [
        ([7, 8, 9, 10, 11, 12], True),
        ([0, 1, 2, 0, 1, 2], False),  # layers: the number begins again
        ([0, 2, 4, 6, 8, 10], False),
        ([12, 11, 10, 9, 8, 7], False),
        ([3, 3, 3, 3, 3, 3], False),
    ],
)
def test_a_number_that_rises_by_one(numbers, gives):
    family = judged([f"piece {number}" for number in numbers], work(*ALL_DIFFERENT, inside=False))
    assert (points(family).get("number"), family.numbered) == ((3, True) if gives else (None, False))


def test_a_number_may_jump_once_in_ten():
    numbers = [*range(10), 20]  # 9 of the 10 differences are 1
    assert judged([f"piece {number}" for number in numbers], NOTHING).numbered
    assert not judged([f"piece {number}" for number in [*range(9), 20, 30]], NOTHING).numbered  # 8 of 10


def test_the_number_that_rises_may_be_any_of_the_text():
    family = judged([f"epoch 0 part {number} of 6" for number in range(6)], NOTHING)
    assert family.pattern == r"^epoch \d+ part (\d+) of \d+$"


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("cb_iteration", True), ("run_batch", True), ("forwardAsync", True), ("decodeStep", True), ("my-step", True),
        ("Frame", True), ("stepwise", False), ("batched", False), ("schedule", False), ("timestep", False),
    ],
)  # fmt: skip
def test_a_word_that_says_what_a_step_is(text, gives):
    assert points(judged([text] * 6, NOTHING)) == ({"word": 2} if gives else {})


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        (0, {"mostly-inside": 2}),
        (1, {"inside": 1}),  # 5 of 6 launches: 83 %
        (2, {"inside": 1}),  # 67 %
        (3, {}),  # 50 %
    ],
)
def test_ops_inside_the_ranges(outside, expected):
    launched = work(*ALL_DIFFERENT)
    launched.start[:outside] += 700  # behind the ends of the first ranges
    assert points(judged(["piece"] * 6, launched)) == expected


def test_windows_in_which_the_host_waits_for_a_result():
    texts, each = ["piece"] * 6, tuple(range(400, 6000, 1000))
    assert points(judged(texts, work(*ALL_DIFFERENT, result=each)))["waits"] == 1
    assert "waits" not in points(judged(texts, work(*ALL_DIFFERENT, result=each[1:])))  # 5 of 6


def test_a_result_is_a_copy_to_the_host_and_a_wait_after_it():
    #        launch copy  wait  wait  copy that blocks  wait
    start = ints(0, 10, 20, 30, 40, 50)
    copies = np.array([0, 1, 0, 0, 1, 0], np.bool_)
    waits = np.array([0, 0, 1, 1, 1, 1], np.bool_)
    assert results(start, copies, waits).tolist() == [20, 40]


def test_windows_that_launch_alike():
    texts = ["piece"] * 6
    assert points(judged(texts, work(*ALIKE)))["alike"] == 1
    assert points(judged(texts, work(1, 1, 1, 1, 2, 3)))["alike"] == 1  # 3 of the 4 between the edges
    assert "alike" not in points(judged(texts, work(1, 1, 1, 2, 3, 4)))  # 2 of 4
    assert "alike" not in points(judged(texts, work(1, 1, 2, 2, 3, 3)))  # no class of three


@pytest.mark.parametrize(
    ("contents", "is_part"),
    [
        ([1, 1, 1, 2] * 6, True),  # four layers, the last one with the head of the model
        ([1] * 24, False),
        ([2] * 4 + [1] * 36, False),  # prefills, then decodes: neighbours are alike as often
        # prefills now and then: nine in ten windows are like the 5th before, but of four prefills only two
        ([1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, *[1] * 14, 2, *[1] * 13], False),
    ],
)
def test_windows_that_come_in_a_cycle_are_parts(contents, is_part):
    family = judged(["piece"] * len(contents), work(*contents))
    assert points(family).get("part") == (-2 if is_part else None)


def test_parts_lose_two_points():
    family = judged(["my forward"] * 20, work(*[1, 1, 1, 2] * 5))
    assert points(family) == {"word": 2, "mostly-inside": 2, "alike": 1, "part": -2}
    assert (family.score, family.taken) == (3, False)


# Refusals


@pytest.mark.parametrize(
    ("texts", "launched", "length", "code"),
    [
        ([f"decoder layer {number} step" for number in range(6)], work(*ALIKE), 500, "layer"),
        (["TransformerBlock step"] * 6, work(*ALIKE), 500, "layer"),
        (["step work"] * 3, work(*ALIKE), 500, "few"),
        (["step 1 work"], work(*ALIKE), 500, "few"),
        (["step work"] * 6, work(*ALIKE), 1500, "overlaps"),
        (["step work"] * 6, work(1, 1, 1, 1), 500, "idle"),  # 4 of 6 windows
        (["step work"] * 6, work(*ALIKE, inside=False), 500, "outside"),
    ],
)
def test_refusals(texts, launched, length, code):
    family = judged(texts, launched, length)
    assert family.refused is not None and family.refused.code == code
    assert not family.taken


def test_a_block_with_a_number_that_gives_results_is_no_layer():
    texts, each = [f"block {number}" for number in range(6)], tuple(range(400, 6000, 1000))
    assert judged(texts, work(*ALIKE, result=each)).taken  # a block of text, say
    again = [f"block {number % 3}" for number in range(6)]
    for of, results_at in ((texts, ()), (again, each)):
        family = judged(of, work(*ALIKE, result=results_at))
        assert family.refused is not None and family.refused.code == "layer"


def test_two_are_enough_with_a_number():
    family = judged(["work 4", "work 5"], work(1, 1))
    assert (family.refused, points(family)) == (None, {"number": 3, "mostly-inside": 2})
    assert family.score == ENOUGH and family.taken


def test_most_of_the_work_must_come_after_the_first_start():
    launched = work(*[1] * 20)  # at 50, 1050, ..., 19050
    start = 1000 * np.arange(11, 20, dtype=np.int64)  # 9 of 20 launches
    assert judge(["step work"] * 9, start, start + 500, launched).refused.code == "late"
    start = 1000 * np.arange(10, 20, dtype=np.int64)  # 10 of 20
    assert judge(["step work"] * 10, start, start + 500, launched).refused is None


# Patterns


@pytest.mark.parametrize(
    ("text", "group", "expected"),
    [
        ("cb_iteration 7", 0, r"^cb_iteration (\d+)$"),
        ("a.b(c) [1/30]", None, r"^a\.b\(c\) \[\d+/\d+\]$"),
        ("at 0x7f3a, 1.5 s, 3", 2, r"^at 0x[0-9a-fA-F]+, \d+(?:\.\d+)? s, (\d+)$"),
        (
            "it's\n\x1b[31m\u00e9 4",
            1,
            r"^it.s\s.\[\d+m. (\d+)$",
        ),  # nothing that a terminal or a shell would take
    ],
)
def test_patterns(text, group, expected):
    assert pattern(text, group) == expected


# Whole captures


def looped(name: str, count: int = 6, first: int = 0, trace: TraceBuilder | None = None) -> TraceBuilder:
    """Range k of 400 ns at 1000 k, with a launch at + 100 and its kernel at + 200 .. + 300."""
    trace = (trace or TraceBuilder()).process(100).thread(100, 1)
    for number in range(count):
        begin = 1000 * number
        trace.range(1, name.format(number + first), begin, begin + 400, domain=None)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=number + 1)
        trace.kernel(number + 1, begin + 200, begin + 300)
    return trace


def test_the_best_family_is_taken_and_said(tmp_path):
    reduction = reduced(looped("turn {}", first=30), tmp_path)
    assert (reduction.step_source, reduction.step_rule.rule) == ("range 'turn N'", "range 'turn N'")
    assert reduction.periods["number"].to_list() == [30, 31, 32, 33, 34]
    (note,) = [note for note in reduction.warnings if note.slug == "steps-by-evidence"]
    assert (
        "found by evidence: range 'turn N'" in note.message
        and "Evidence: its number rises by 1; " in note.message
    )
    assert r"--step-regex '^turn (\d+)$'" in note.message


def test_the_warning_is_the_same_for_runs_that_are_alike(tmp_path):
    """So that a report of ten runs says it once."""
    notes = []
    for number in (30, 130):
        (tmp_path / str(number)).mkdir()
        notes.append(reduced(looped("turn {}", first=number), tmp_path / str(number)).warnings)
    assert notes[0] == notes[1]


def test_where_the_evidence_of_two_sides_differs_the_warning_names_them(tmp_path):
    """Of equal ones no side; twice the same sentence, in other words, could be of either."""
    for names, said in (("turn {}", "turn {}"), 1), (("turn {}", "round {}"), 2):
        sides = []
        for at, name in enumerate(names):
            folder = tmp_path / f"{said}{at}"
            folder.mkdir()
            sides.append(Side(f"side {at}", [Run("a", [reduced(looped(name), folder)])]))
        notes = [note.message for note in warnings_of(sides) if note.slug == "steps-by-evidence"]
        assert len(notes) == said
        assert [note.startswith(f"side {at}/") for at, note in enumerate(notes)] == [said > 1] * said


def test_layers_never_win(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(24):
        begin = 1000 * number
        trace.range(1, f"layer {number % 12}", begin, begin + 900, domain=None)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=number + 1)
        trace.kernel(number + 1, begin + 200, begin + 300, name="one" if number % 12 else "first")
    for number in range(2):
        trace.range(1, f"pass {number}", 12000 * number - 10, 12000 * number + 11950, domain=None)
    assert reduced(trace, tmp_path).step_source == "range 'pass N'"


def test_known_labels_come_first(tmp_path):
    trace = looped("turn {}")
    for number in range(2):
        trace.range(1, f"ProfilerStep#{number}", 3000 * number - 10, 3000 * number + 2900)
    assert reduced(trace, tmp_path).step_source == "profiler-step"


def test_threads_of_one_name_are_judged_where_it_does_best(tmp_path):
    trace = looped("turn {}").thread(100, 2)
    for begin in (0, 10, 20, 30):
        trace.range(2, "turn 5", begin, begin + 5, domain=None)
    assert reduced(trace, tmp_path).step_source == "range 'turn N'"


@pytest.mark.parametrize("first", ["turn {}", "step {}"])  # found by evidence; a name that the table knows
def test_a_process_without_these_ranges_has_its_own(first, tmp_path):
    """Prefill beside decoding: in process 200 four ranges that begin each 1,500 ns, from 10 on, and a kernel at + 300 in each."""
    trace = looped(first).process(200).thread(200, 21)
    for number in range(4):
        begin = 1500 * number + 10
        trace.range(21, f"prompt {number}", begin, begin + 1400, domain=None)
        trace.api(21, "cudaLaunchKernel", begin + 200, begin + 210, corr=number + 1)
        trace.kernel(number + 1, begin + 300, begin + 400, device=1)
    reduction = reduced(trace, tmp_path)
    assert reduction.step_source == ("range 'turn N'" if first == "turn {}" else "step-range")
    found = reduction.periods.select("pid", "start_ns", "end_ns").rows()
    assert found == [(100, 1000 * k + 200, 1000 * k + 1200) for k in range(5)] + [
        (200, 1500 * k + 310, 1500 * k + 1810) for k in range(3)
    ]
    notes = [note.message for note in reduction.warnings if note.slug == "steps-by-evidence"]
    assert notes[-1].startswith("steps were found by evidence: range 'prompt N'")


def test_a_refusal_lists_what_was_looked_at(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):
        begin = 1000 * number
        trace.range(1, f"s\x1b {2 * number}", begin, begin + 400, domain=None)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=number + 1)
        trace.kernel(number + 1, begin + 200, begin + 300)
    with pytest.raises(TracediffError) as caught:
        find_steps(load_capture(trace.write(tmp_path / "t.sqlite"), tmp_path))
    assert caught.value.slug == "no-steps"
    fix = caught.value.fix
    assert r"'s\x1b N' score 0 (refused: it occurs only 3 times): --step-regex '^s. \d+$'" in fix
    assert "\x1b" not in str(caught.value)
    # a comparison goes on with the whole capture, and the option that it offers works
    assert reduced(trace, tmp_path).step_source == "whole-capture"
    assert reduced(trace, tmp_path, step_regex=r"^s. \d+$").periods["start_ns"].to_list() == [200, 1200]


def test_numbers_with_more_digits_than_python_reads(tmp_path):
    """They number nothing; the range is one all the same."""
    reduction = reduced(looped("9" * 5_000 + " turn {}"), tmp_path)
    assert reduction.step_source.startswith("range ")
