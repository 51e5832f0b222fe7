"""Steps where nothing labels them: the part of the launch sequence that repeats."""

from __future__ import annotations

import shutil
import sqlite3
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import plain, reduced
from tracediff.comparison.compare import compare
from tracediff.errors import TracediffError
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Run, Side
from tracediff.trace.inference import Launched, Repetition, find_repetition

# A step is an embedding, layers, a head and a sampler, after which the host waits (|) for the tokens.
LAYER = "qkvamgd"
STEP = "e" + LAYER * 6 + "hs|"
CONTEXT = "e" + "QKVAMGD" * 6 + "hs|"


def launched(text: str, graphs: str = "", ops: dict[str, int] | None = None) -> Launched:
    """One launch a letter; | is a synchronising call, < a copy to the host, those in `graphs` are graphs."""
    letters = [letter for letter in text if letter != "|"]
    waits = np.cumsum([letter == "|" for letter in text])[[letter != "|" for letter in text]]
    return Launched(
        content=np.array([ord(letter) for letter in letters], np.uint64),
        ops=np.array([(ops or {}).get(letter, 1) for letter in letters], np.int64),
        graph=np.array([letter in graphs for letter in letters], np.bool_),
        reads_back=np.array([letter == "<" for letter in letters], np.bool_),
        waits=waits.astype(np.int64),
    )


def repetition(text: str, graphs: str = "", ops: dict[str, int] | None = None) -> Repetition:
    result = find_repetition(launched(text, graphs, ops))
    assert result is not None
    return result


def test_a_step_not_a_layer():
    result = repetition(STEP * 10)
    assert result.start.tolist() == [45 * step for step in range(10)]
    assert (result.launches, result.equal, result.confidence) == (45, 9, 1.0)
    assert result.regular.all()


def test_a_step_not_a_request():
    """Every request is a context and seven generations: it repeats too, and more exactly than a step."""
    result = repetition(("E" + CONTEXT[1:] + STEP * 7) * 8)
    assert result.launches == 45
    assert result.equal == 8 * 6 + 7
    assert result.confidence == pytest.approx(0.87, abs=0.03)
    assert int((~result.regular).sum()) == 8


def test_contexts_are_irregular():
    result = repetition(STEP * 9 + CONTEXT + STEP * 9)
    assert result.start.tolist() == [45 * step for step in range(19)]
    assert np.flatnonzero(~result.regular).tolist() == [9]
    assert result.confidence == pytest.approx(17 / 18)


def test_the_step_starts_after_the_wait_whatever_marks_it():
    """Only the head occurs once a step; the step begins with the first launch after the wait all the same."""
    result = repetition("aabbaabbh|" * 8)
    assert result.start.tolist() == [9 * step for step in range(8)]


def test_a_capture_that_begins_inside_a_step():
    result = repetition(STEP[20:] + STEP * 8)
    assert result.start.tolist() == [25 + 45 * step for step in range(8)]


def test_copies_to_the_host_tell_where_nobody_waits():
    result = repetition(("e" + LAYER * 6 + "hs<") * 8)
    assert result.start.tolist() == [46 * step for step in range(8)]


def test_a_layer_that_synchronises_is_no_step():
    """The host waits in every layer, but for a result only at the end of the step."""
    result = repetition(("e" + (LAYER + "|") * 6 + "hs<|") * 8)
    assert result.start.tolist() == [46 * step for step in range(8)]


def test_a_wait_in_a_part_that_repeats_less_often():
    """Layers repeat, but the loop around them waits: without enough of its repetitions there are no steps."""
    assert find_repetition(launched(STEP * 3)) is None


def test_without_any_wait_the_longest_repetition_is_the_step():
    result = repetition(("e" + LAYER * 6 + "hs") * 8)
    assert (result.launches, result.equal) == (45, 7)


def test_each_graph_launch_starts_a_step():
    result = repetition("G<|" * 20, graphs="G", ops={"G": 150})
    assert result.start.tolist() == [2 * step for step in range(20)]
    assert (result.launches, result.ops) == (2, 151)


def test_inputs_are_copied_before_the_graph_is_launched():
    result = repetition("iiG<|" * 20, graphs="G", ops={"G": 150})
    assert result.start.tolist() == [4 * step for step in range(20)]
    assert result.graph


def test_a_graph_of_another_batch_size_is_another_step():
    result = repetition("G<|" * 12 + "B<|" * 2 + "G<|" * 6, graphs="GB", ops={"G": 150, "B": 300})
    assert len(result.start) == 20
    assert np.flatnonzero(~result.regular).tolist() == [12, 13]


def test_a_graph_for_each_piece_of_a_model():
    """Piecewise graphs: the middle pieces are alike, the first is not."""
    ops = dict.fromkeys("FMH", 40)
    result = repetition("FaMaMaMaMaHs|" * 9, graphs="FMH", ops=ops)
    assert result.start.tolist() == [12 * step for step in range(9)]


def test_a_few_more_ops_are_still_the_same_step():
    result = repetition(STEP * 6 + STEP[:20] + "xx" + STEP[20:] + STEP * 6)
    assert result.regular.all()
    assert result.equal == 11
    assert result.confidence == pytest.approx(11 * 45 / (12 * 45 + 2))


@pytest.mark.parametrize("steps", [2, 4])
def test_too_few_repetitions(steps):
    assert find_repetition(launched(STEP * steps)) is None


def test_the_fewest_repetitions():
    assert repetition(STEP * 5).equal == 4


def test_too_unlike():
    """Every third step is a context of the same size: two thirds of the ops repeat."""
    assert find_repetition(launched((CONTEXT + STEP * 2) * 10)) is None


def test_a_corner_of_the_capture_is_no_loop():
    setup = "".join(chr(1000 + index) for index in range(1000))
    assert find_repetition(launched(setup + STEP * 10)) is None
    assert find_repetition(launched(setup[:300] + STEP * 10)) is not None


def test_nothing_repeats():
    rng = np.random.default_rng(1)
    text = "".join(chr(97 + letter) for letter in rng.integers(0, 20, 5000))
    assert find_repetition(launched(text)) is None
    assert find_repetition(launched("")) is None


def test_one_kernel_in_a_loop():
    result = repetition("k|" * 50)
    assert (result.launches, result.equal) == (1, 49)


# --- through the tables


def loop(steps: int, context_at: int | None = None, kernels: int = 12) -> TraceBuilder:
    """Steps of 2000 ns without labels: launches 100 ns apart, then a wait; a context has other kernels."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    corr = 0
    for step in range(steps):
        begin = 2000 * step
        for index in range(kernels):
            corr += 1
            at = begin + 100 * index
            name = "embed" if index == 0 else f"layer {index % 4}"
            trace.api(1, "cudaLaunchKernel", at, at + 20, corr=corr)
            trace.kernel(corr, at + 50, at + 120, name=f"context {name}" if step == context_at else name)
        trace.api(1, "cudaStreamSynchronize", begin + 1400, begin + 1600)
    return trace


def test_periods_of_inferred_steps(tmp_path):
    reduction = reduced(loop(10, context_at=6), tmp_path)
    assert reduction.step_source == "inferred (confidence 0.89)"
    assert reduction.residual_ns == 0
    rows = reduction.periods.select("phase", "number", "start_ns", "end_ns").rows()
    phases = ["irregular" if step == 6 else "step" for step in range(9)]
    assert rows == [(phase, None, 2000 * step + 50, 2000 * step + 2050) for step, phase in enumerate(phases)]
    assert {thread.role for thread in reduction.threads} == {"executor"}


def test_the_warning_says_what_repeats(tmp_path):
    (note,) = reduced(loop(10, context_at=6), tmp_path).warnings
    assert note.slug == "steps-inferred"
    assert "8 of 9 repetitions are the same 12 launches of 12 ops, and hold 89% of their ops" in note.message


def test_labels_come_first(tmp_path):
    trace = loop(10)
    for step in range(0, 10, 2):
        trace.range(1, f"step {step}", 2000 * step, 2000 * step + 100, domain=None)
    reduction = reduced(trace, tmp_path)
    assert reduction.step_source == "step-range"
    assert len(reduction.periods) == 4


def test_a_step_regex_is_never_replaced_by_inference(tmp_path):
    with pytest.raises(TracediffError) as caught:
        reduced(loop(10), tmp_path, step_regex="nothing")
    assert caught.value.slug == "no-steps"


def test_no_steps_where_nothing_repeats(tmp_path):
    with pytest.raises(TracediffError) as caught:
        reduced(loop(3), tmp_path)
    assert caught.value.slug == "no-steps"
    assert "--whole-capture" in str(caught.value.fix)


def test_a_graph_row_without_nodes(tmp_path):
    """--cuda-graph-trace=graph: a launch owns one row for the whole graph."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    for step in range(6):
        at = 1000 * step
        trace.api(1, "cudaGraphLaunch", at, at + 20, corr=2 * step + 1).graph(2 * step + 1, at + 50, at + 700)
        trace.api(1, "cudaMemcpyAsync", at + 30, at + 40, corr=2 * step + 2)
        trace.memcpy(2 * step + 2, at + 700, at + 720, kind="DtoH", bytes=64)
    reduction = reduced(trace, tmp_path)
    assert len(reduction.periods) == 5
    assert "with a CUDA graph" in reduction.warnings[0].message


def test_each_process_by_itself(tmp_path):
    trace = loop(8)
    trace.process(200).thread(200, 2).device(1)
    for step in range(12):
        at = 1500 * step
        trace.api(2, "cudaLaunchKernel", at, at + 20, corr=step + 1)
        trace.kernel(step + 1, at + 50, at + 120, name="other", device=1, pid=200)
        trace.api(2, "cudaStreamSynchronize", at + 30, at + 150)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods["rank"].value_counts().sort("rank").rows() == [(0, 7), (1, 11)]


# --- against the labels of real captures


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory):
    """Name of a bundled capture -> a copy without its NVTX ranges; only the GIL trace stays."""
    folder = tmp_path_factory.mktemp("unlabelled")
    return cache(lambda name: stripped(plain(name, folder), folder / f"{name}-stripped.sqlite"))


def stripped(source: Path, target: Path) -> Path:
    shutil.copy(source, target)
    with sqlite3.connect(target) as db:
        db.execute(
            """
            DELETE FROM NVTX_EVENTS WHERE (globalTid >> 24, domainId) NOT IN (
                SELECT globalTid >> 24, domainId FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId
                WHERE eventType = 75 AND coalesce(text, value) = 'GIL Trace')
            """
        )
    db.close()
    return target


def cut(source: Path, target: Path, share: float) -> Path:
    """The first part of a capture."""
    shutil.copy(source, target)
    with sqlite3.connect(target) as db:
        low, high = db.execute("SELECT min(start), max(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table.startswith("CUPTI_ACTIVITY_KIND_"):
                db.execute(f"DELETE FROM {table} WHERE start > ?", [int(low + share * (high - low))])
    db.close()
    return target


def side(path: Path) -> Side:
    return Side(path.stem, [Run(path.stem, [reduce_file(path, Reading(threads=2))])])


def mean_ns(reduction, phase: str) -> dict[int, tuple[int, float]]:
    """Rank -> steps of the phase and their mean."""
    steps = reduction.periods.filter(pl.col("phase") == phase)
    means = steps.group_by("rank").agg(pl.len(), (pl.col("end_ns") - pl.col("start_ns")).mean().alias("mean"))
    return {rank: (count, mean) for rank, count, mean in means.iter_rows()}


@pytest.mark.parametrize(("name", "tolerance"), [("graph_a1", 0.01), ("eager_a1", 0.01), ("tp2_a1", 0.02)])
def test_inferred_steps_are_the_labelled_ones(name, tolerance, unlabelled, reduction_of):
    """In tp2_a1 the graph inside the step with contexts counts too: 1.2 % of the mean of rank 1."""
    with_labels, without = reduction_of(name), reduce_file(unlabelled(name), Reading(threads=2))
    assert without.step_source == "inferred (confidence 0.90)"
    assert without.residual_ns == 0
    truth, inferred = mean_ns(with_labels, "generation"), mean_ns(without, "step")
    assert inferred.keys() == truth.keys()
    for rank, (count, mean) in inferred.items():
        assert count == 30
        assert mean == pytest.approx(truth[rank][1], rel=tolerance)


def test_the_cause_is_found_without_labels(unlabelled, compared):
    names = ("graph_a1", "graph_sleep")
    labelled, inferred = compared(*names), compare(*(side(unlabelled(name)) for name in names))
    truth, first = labelled.findings[0], inferred.findings[0]
    assert (first.cause, first.where.range) == ("host_work", "outside any range")
    assert first.delta_ns == pytest.approx(truth.delta_ns, rel=0.05)
    # not the means of all: that of labelled steps holds the one with contexts as well
    (step,) = (one.typical for one in inferred.phases if one.phase == "step")
    (generation,) = (one.typical for one in labelled.phases if one.phase == "generation")
    assert step.delta_ns == pytest.approx(generation.delta_ns, rel=0.01)
    assert inferred.verdict == labelled.verdict
    assert {check.status for check in inferred.comparability.checks if check.name == "step_labels"} == {"ok"}
    assert [row.compared for row in inferred.strata if row.phase == "irregular"] == [False]


def test_different_loops_are_not_comparable(tmp_path):
    """One side's steps are five times the other's: what repeats is not the same part of the program."""
    sides = [side(loop(20, kernels=count).write(tmp_path / f"{count}.sqlite")) for count in (2, 10)]
    (check,) = [check for check in compare(*sides).comparability.checks if check.name == "step_labels"]
    assert (check.status, check.baseline, check.candidate) == ("fail", "2 ops a step", "10 ops a step")


def test_captures_of_different_length(unlabelled, tmp_path):
    whole = unlabelled("graph_a1")
    result = compare(side(whole), side(cut(whole, tmp_path / "part.sqlite", 0.6)))
    assert result.step.steps.baseline == 30
    assert 10 < result.step.steps.candidate < 30
    assert abs(result.step.delta_ns) < 0.02 * result.step.baseline_ns
