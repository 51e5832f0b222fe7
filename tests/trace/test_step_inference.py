"""Steps where nothing labels them, through the tables and against the labels of real captures."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Collection
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import plain, reduced
from tracediff.comparison.compare import compare
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.capture import load_capture
from tracediff.formats.inputs import resolve
from tracediff.trace.inference import infer_steps


def loop(
    steps: int, context_at: int | None = None, kernels: int = 12, lost_in: Collection[int] = ()
) -> TraceBuilder:
    """Steps of 2000 ns without labels: launches 100 ns apart, a copy to the host, a wait; a context has other kernels.

    `lost_in`: steps in which 20,000 calls were made and not recorded.
    """
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    corr = 0
    for step in range(steps):
        begin = 2000 * step
        corr += 20_000 * (step in lost_in)
        for index in range(kernels):
            corr += 1
            at = begin + 100 * index
            name = "embed" if index == 0 else f"layer {index % 4}"
            trace.api(1, "cudaLaunchKernel", at, at + 20, corr=corr)
            trace.kernel(corr, at + 50, at + 120, name=f"context {name}" if step == context_at else name)
        corr += 1
        trace.api(1, "cudaMemcpyAsync", begin + 1300, begin + 1320, corr=corr)
        trace.memcpy(corr, begin + 1340, begin + 1380, kind="DtoH", bytes=64)
        corr += 1
        trace.api(1, "cudaStreamSynchronize", begin + 1400, begin + 1600, corr=corr)
    return trace


def test_periods_of_inferred_steps(tmp_path):
    reduction = reduced(loop(10, context_at=6), tmp_path)
    assert reduction.step_source == "inferred (confidence 1.00)"
    assert reduction.residual_ns == 0
    rows = reduction.periods.select("phase", "number", "start_ns", "end_ns").rows()
    phases = ["class-2" if step == 6 else "step" for step in range(9)]  # another class of work, no odd step
    assert rows == [(phase, None, 2000 * step + 50, 2000 * step + 2050) for step, phase in enumerate(phases)]
    assert {thread.role for thread in reduction.threads} == {"executor"}


def test_the_warning_says_what_repeats(tmp_path):
    (note,) = reduced(loop(10, context_at=6), tmp_path).warnings
    assert note.slug == "steps-inferred"
    assert (
        "9 steps of about 13 launching calls, each from where the host waits for a result (confidence 1.00)"
        in note.message
    )


def test_memsets_that_come_and_go_with_shapes_are_no_other_order(tmp_path):
    """In each step four of the twelve kernels, now these, now those, clear a workspace first: the order is that of the kernels."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    corr = 0
    for step in range(12):
        begin = 4000 * step
        for index in range(12):
            at = begin + 200 * index
            if (index * 5 + step * 7) % 12 < 4:
                corr += 1
                trace.api(1, "cudaMemsetAsync", at - 90, at - 80, corr=corr).memset(corr, at - 60, at - 50)
            corr += 1
            trace.api(1, "cudaLaunchKernel", at, at + 20, corr=corr)
            trace.kernel(corr, at + 50, at + 120, name=f"part {index}")
        corr += 1
        trace.api(1, "cudaMemcpyAsync", begin + 2600, begin + 2620, corr=corr)
        trace.memcpy(corr, begin + 2640, begin + 2680, kind="DtoH", bytes=64)
        trace.api(1, "cudaStreamSynchronize", begin + 2700, begin + 2900)
    reduction = reduced(trace, tmp_path)
    assert reduction.step_source == "inferred (confidence 1.00)"
    assert reduction.periods.height == 11


def test_a_synchronisation_without_a_result_may_be_that_of_a_layer(tmp_path):
    """Thirty ops repeat three parts, so it is taken for a step; the warning says on what ground."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    for step in range(10):
        for index in range(30):
            at, corr = 4000 * step + 100 * index, 30 * step + index + 1
            trace.api(1, "cudaLaunchKernel", at, at + 20, corr=corr).kernel(
                corr, at + 50, at + 120, name=f"part {index % 6}"
            )
        trace.api(1, "cudaDeviceSynchronize", 4000 * step + 3000, 4000 * step + 3200)
    (note,) = reduced(trace, tmp_path).warnings
    assert "from where the host synchronises" in note.message
    assert "these may be layers, or several steps" in note.message


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


def test_the_whole_capture_is_a_step_where_nothing_repeats(tmp_path):
    assert reduced(loop(3), tmp_path).step_source == "whole-capture"


def test_a_graph_row_without_nodes(tmp_path):
    """--cuda-graph-trace=graph: a launch owns one row for the whole graph."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    for step in range(8):
        at = 1000 * step
        trace.api(1, "cudaGraphLaunch", at, at + 20, corr=2 * step + 1).graph(2 * step + 1, at + 50, at + 700)
        trace.api(1, "cudaMemcpyAsync", at + 30, at + 40, corr=2 * step + 2)
        trace.memcpy(2 * step + 2, at + 700, at + 720, kind="DtoH", bytes=64)
    reduction = reduced(trace, tmp_path)
    assert len(reduction.periods) == 7
    assert "each from where a result is copied to the host" in reduction.warnings[0].message


def test_calls_without_gpu_work(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    for step in range(8):
        trace.api(1, "cudaLaunchKernel", 100 * step, 100 * step + 20, corr=step + 1)
        trace.api(1, "cudaStreamSynchronize", 100 * step + 30, 100 * step + 40)
    with closing(load_capture(trace.write(tmp_path / "trace.sqlite"), tmp_path)) as capture:
        inference = infer_steps(capture)
    assert (inference.source, inference.refusal, inference.levels) == (None, "no-launches", ())


@pytest.mark.parametrize(("lost_in", "refusal"), [([5], ""), (range(2, 8), "calls-lost")])
def test_steps_around_calls_that_were_lost(lost_in: Collection[int], refusal: str, tmp_path):
    """Ten steps stand around one loss; where six hold one, what is between two losses is as likely a part of a step or several."""
    with closing(
        load_capture(loop(10, lost_in=lost_in).write(tmp_path / "trace.sqlite"), tmp_path)
    ) as capture:
        assert infer_steps(capture).refusal == refusal


def test_launches_that_were_lost(tmp_path):
    """The call of one op in twelve is not in the file: whatever is cut by calls is doubted."""
    trace = loop(10)
    for step in range(10):
        trace.kernel(9000 + step, 2000 * step + 1700, 2000 * step + 1750, name="lost")
    with closing(load_capture(trace.write(tmp_path / "trace.sqlite"), tmp_path)) as capture:
        inference = infer_steps(capture)
    assert (inference.source, inference.refusal) == (None, "launches-missing")
    assert (inference.levels[0].event, inference.levels[0].segments) == ("result", 10)


def test_each_process_by_itself(tmp_path):
    trace = loop(8)
    trace.process(200).thread(200, 2).device(1)
    for step in range(12):
        at, corr = 1500 * step, 2 * step + 1
        trace.api(2, "cudaLaunchKernel", at, at + 20, corr=corr)
        trace.kernel(corr, at + 50, at + 120, name="other", device=1, pid=200)
        trace.api(2, "cudaMemcpyAsync", at + 30, at + 40, corr=corr + 1)
        trace.memcpy(corr + 1, at + 130, at + 140, kind="DtoH", bytes=64, device=1, pid=200)
        trace.api(2, "cudaStreamSynchronize", at + 50, at + 150)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods["rank"].value_counts().sort("rank").rows() == [(0, 7), (1, 11)]


def loops(*, handed_on: bool, threads: int = 3) -> TraceBuilder:
    """Threads with a loop each: 10 kernels, a copy to the host, a wait, in 3000 ns; the next thread begins 1000 ns later, or after the wait.

    The first thread does 8 steps, every further one two steps more.
    """
    trace = TraceBuilder().process(100).device(0)
    corr = 0
    for nth in range(threads):
        trace.thread(100, nth + 1)
        for step in range(8 + 2 * nth):
            begin = 3000 * (step * threads + nth) if handed_on else 3000 * step + 1000 * nth
            for index in range(11):
                corr += 1
                at = begin + 200 * index
                trace.api(
                    nth + 1, "cudaLaunchKernel" if index < 10 else "cudaMemcpyAsync", at, at + 20, corr=corr
                )
                if index < 10:
                    trace.kernel(corr, at + 50, at + 200, name=f"layer {index % 5}", stream=nth + 1)
                else:
                    trace.memcpy(corr, at + 50, at + 90, kind="DtoH", bytes=64, stream=nth + 1)
            trace.api(nth + 1, "cudaStreamSynchronize", begin + 2300, begin + 2700)
    return trace


def test_threads_that_loop_beside_one_another_are_cut_by_the_one_in_the_middle(tmp_path):
    """8, 10 and 12 steps of 3000 ns: those of the second thread, from its first kernel at 1050 on."""
    reduction = reduced(loops(handed_on=False), tmp_path)
    found = reduction.periods.select("start_ns", "end_ns").rows()
    assert found == [(3000 * step + 1050, 3000 * step + 4050) for step in range(9)]
    (note,) = [one for one in reduction.warnings if one.slug == "steps-inferred"]
    assert "9 steps of about 11 launching calls" in note.message
    assert "of one of 3 threads that launch and wait by themselves" in note.message


def test_steps_that_threads_hand_on_to_one_another_are_one_loop(tmp_path):
    """8 steps of each of two threads in turns, then two more of the second, after a pause of one step each."""
    reduction = reduced(loops(handed_on=True, threads=2), tmp_path)
    assert reduction.periods["start_ns"].to_list()[:15] == [3000 * step + 50 for step in range(15)]


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


@pytest.mark.parametrize("name", ["graph_a1", "eager_a1", "tp2_a1"])
def test_inferred_steps_are_the_labelled_ones(name, unlabelled, reduction_of):
    """Every period of the labels, to the nanosecond."""
    with_labels, without = reduction_of(name), reduce_file(unlabelled(name), Reading(threads=2))
    assert without.step_source == "inferred (confidence 1.00)"
    assert without.residual_ns == 0
    bounds = ["rank", "start_ns", "end_ns"]
    assert without.periods.select(bounds).rows() == with_labels.periods.select(bounds).rows()


@pytest.mark.parametrize("calls_only", [False, True])
def test_steps_of_graphs_whose_kernels_were_not_recorded(calls_only, unlabelled, tmp_path):
    """nsys 2023.4 writes no row for graphs with --cuda-graph-trace=graph: steps are those that the labels time on the host."""
    bare = tmp_path / "bare.sqlite"
    shutil.copy(unlabelled("graph_a1"), bare)
    which = "" if calls_only else "WHERE graphNodeId IS NOT NULL"
    with closing(sqlite3.connect(bare)) as db, db:
        for kind in ("KERNEL", "MEMCPY"):
            db.execute(f"DELETE FROM CUPTI_ACTIVITY_KIND_{kind} {which}")
        db.execute("UPDATE META_DATA_CAPTURE SET value = 'Graph' WHERE name LIKE '%GRAPH_TRACE_OPTIONS:MODE'")
    labelled = reduce_file(plain("graph_a1", tmp_path), Reading(threads=2, host_only=True))
    inferred = reduce_file(bare, Reading(threads=2))
    assert inferred.step_rule.inferred
    both = [one.periods["end_ns"] - one.periods["start_ns"] for one in (labelled, inferred)]
    assert both[1].median() == pytest.approx(both[0].median(), rel=0.01)
    # calls alone do not say which way they copy: the context waits for its inputs as others do for a result, four times
    assert (len(both[0]), len(both[1])) == (30, 34 if calls_only else 30)
    assert both[1].sum() == pytest.approx(both[0].sum(), rel=0.01)


def test_the_cause_is_found_without_labels(unlabelled, compared):
    names = ("graph_a1", "graph_sleep")
    labelled, inferred = compared(*names), compare(*(side(unlabelled(name)) for name in names))
    truth, first = labelled.findings[0], inferred.findings[0]
    assert (first.cause, first.where.range) == ("host_work", "outside any range")
    assert first.delta_ns == pytest.approx(truth.delta_ns, rel=0.05)
    # not the means of all: that of labelled steps holds the one with contexts as well
    (step,) = (one.typical for one in inferred.phases if one.phase == "step")
    (generation,) = (one.typical for one in labelled.phases if one.phase == "generation")
    # what the host's speed explains is estimated on each cut by itself
    assert step.delta_ns == pytest.approx(generation.delta_ns, rel=0.02)
    assert inferred.verdict == labelled.verdict
    assert {check.status for check in inferred.comparability.checks if check.name == "step_labels"} == {"ok"}
    assert [row.compared for row in inferred.strata if row.phase == "irregular"] == [False]


@pytest.mark.slow
def test_a_label_that_is_sure_in_one_run_cuts_the_others(tmp_path):
    """The numbers of one run rise, those of the other say nothing; the third has no such range, so that it stays inferred."""
    paths = []
    for name, label in (("sure", "turn {}"), ("unsure", "turn 7"), ("without", None)):
        trace = loop(10)
        for step in range(10):
            if label:
                trace.range(1, label.format(step), 2000 * step - 10, 2000 * step + 1700, domain=None)
        (tmp_path / name).mkdir()
        paths.append(trace.write(tmp_path / name / "run.sqlite"))
    sure, unsure, without = (resolve(str(path)) for path in paths)

    def rules(*sides):
        return [part.step_rule.rule for one in reduce_sides(sides, Reading(threads=1)) for part in one.parts]

    assert rules(unsure)[0].startswith("inferred")
    assert rules(sure, unsure) == ["range 'turn N'"] * 2
    assert rules(sure, without)[1].startswith("inferred")


def test_loops_of_other_kernels_are_compared_step_by_step_and_say_so(tmp_path):
    """One side's steps launch five times as many kernels: a finding, and no reason to say nothing."""
    sides = [side(loop(20, kernels=count).write(tmp_path / f"{count}.sqlite")) for count in (2, 10)]
    result = compare(*sides)
    assert result.verdict_facts.rung.kind == "inferred" and result.comparability.comparable
    assert [
        (row.baseline, row.candidate) for row in result.structure if row.kind == "kernels" and not row.range
    ] == [(2, 10)]


@pytest.mark.slow
def test_captures_of_different_length(unlabelled, tmp_path):
    whole = unlabelled("graph_a1")
    result = compare(side(whole), side(cut(whole, tmp_path / "part.sqlite", 0.6)))
    assert 10 < result.step.steps.candidate < result.step.steps.baseline
    assert abs(result.step.delta_ns) < 0.02 * result.step.baseline_ns
