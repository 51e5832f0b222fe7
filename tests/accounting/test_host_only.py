"""Captures without GPU work: steps from label to label on the host, on traces whose answer is worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.judging import judge
from tests.tiny import STEP, label, one_gap, reduced, spent
from tracediff.comparison.gates import parse_gate
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side


def hosts(held: int = 100, collected: int = 50, period: int = 1000, steps: int = 6) -> TraceBuilder:
    """Steps of `period`, longer by what `held` is beyond 100 and `collected` beyond 50.

    thread 1  label 0 to 90; _schedule from 200 on, in it from 300 on a wait for the GIL of `held`, then 100 more;
              100 after it a collection of `collected`
    thread 2  serialize_responses, the GIL held, for as long as thread 1 waits
    """
    trace = TraceBuilder().process(100).thread(100, 1).thread(100, 2)
    at = 0
    for number in range(steps):
        trace.range(1, label(number), at, at + 90)
        trace.range(1, "_schedule", at + 200, at + 400 + held)
        trace.gil(2, "hold", at + 250, at + 300 + held).gil(1, "wait", at + 300, at + 300 + held)
        trace.range(2, "serialize_responses", at + 240, at + 310 + held)
        trace.gil(1, "hold", at + 300 + held, at + 400 + held)
        if collected:
            trace.gc(1, at + 500 + held, at + 500 + held + collected)
        at += period + (held - 100) + (collected - 50)
    return trace


def side(name: str, trace: TraceBuilder, folder) -> Side:
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_a_step_is_all_of_the_time_to_the_next_label(tmp_path):
    """1000 ns: 100 waiting for the GIL, 50 collecting, the rest at work: 850."""
    reduction = reduced(hosts(), tmp_path, host_only=True)
    assert len(reduction.periods) == 5  # the sixth label has no next one
    assert reduction.residual_ns == 0
    for period in range(5):
        assert spent(reduction, period) == {"gil_wait": 100, "gc": 50, "host_work": 850}
    work = reduction.idle.filter(reduction.idle["cause"] == "host_work")
    places = {place: work.filter(work["place"] == place)["ns"].sum() / 5 for place in work["place"].unique()}
    assert places["_schedule"] == 200  # 200 to 500 without the wait
    assert places[STEP] == 90
    assert set(reduction.idle["thread"]) == {"executor"}
    assert reduction.coverage["kernels"] == "not_captured"
    assert len(reduction.kernels) == len(reduction.transitions) == 0
    assert reduction.strata["steps"].to_list() == [4, 1]  # the first step is a start
    assert reduction.launch["kernels"].to_list() == reduction.launch["calls"].to_list() == [0, 0]
    assert "[step]" not in reduction.apis["api"].to_list()
    columns = reduction.periods.select("op_key", "ops", "copies", "start_up")
    assert columns.rows() == [(0, 0, 0, True)] + [(0, 0, 0, False)] * 4
    assert columns.schema["op_key"] == pl.UInt64
    assert len(reduction.host_speed) == 0
    assert reduction.sequences == {"generation": []}


def test_a_planted_wait_and_a_planted_collection_are_found(tmp_path):
    """50 us more of waiting and 100 us more of collecting, in steps 150 us longer."""
    result = compare(
        side("baseline", hosts(period=100_000), tmp_path),
        side("candidate", hosts(held=50_100, collected=100_050, period=100_000), tmp_path),
    )
    assert result.step.delta_ns == pytest.approx(150_000)
    assert result.accounting.delta == pytest.approx({"gc": 100_000, "gil_wait": 50_000, "host_work": 0})
    assert "compute" not in result.accounting.baseline  # not captured is never zero
    assert "launch_api" not in result.accounting.baseline
    first, second = result.findings[:2]
    assert (first.cause, first.delta_ns) == ("gc", pytest.approx(100_000))
    assert (second.cause, second.delta_ns) == ("gil_wait", pytest.approx(50_000))
    assert second.where.holder_range == "serialize_responses"
    assert "GPU" not in first.title + second.title
    assert "host-only" in [note.slug for note in result.warnings]
    assert result.kernels == []
    assert result.verdict == "likely_regressed"  # one run a side


def test_a_side_with_kernels_is_not_comparable(tmp_path):
    trace = one_gap()
    with_gpu = trace.range(1, label(3), 1900, 2000).api(1, "cudaLaunchKernel", 1910, 1950, corr=3)
    with_gpu.kernel(3, 2000, 2100)
    result = compare(side("baseline", hosts(), tmp_path), side("candidate", with_gpu, tmp_path))
    assert result.verdict == "not_comparable"
    assert next(one.name for one in result.comparability.checks if one.status == "fail") == "trace_kernels"


def test_calls_of_an_export_without_kernels_are_told(tmp_path):
    """A launch of 40 ns in each step, whose kernels were not recorded: 850 - 40 at work."""
    trace = hosts()
    for number in range(6):
        trace.api(1, "cudaLaunchKernel", 1000 * number + 10, 1000 * number + 50, corr=number)
    reduction = reduced(trace, tmp_path, host_only=True)
    assert spent(reduction) == {"gil_wait": 100, "gc": 50, "launch_api": 40, "host_work": 810}


@pytest.mark.parametrize("steps", [0, 1])
def test_without_labels_the_whole_capture_is_a_step(steps: int, tmp_path):
    """From the first range, at 0 or 90,000, to the end of the last at 90,100."""
    reduction = reduced(hosts(steps=steps).range(1, "_schedule", 90_000, 90_100), tmp_path)
    (period,) = reduction.periods.to_dicts()
    assert (period["start_ns"], period["end_ns"]) == (0 if steps else 90_000, 90_100)
    assert reduction.step_source == "whole-capture"
    assert reduction.residual_ns == 0


def test_range_names_of_a_loop_of_ones_own_are_labels(tmp_path):
    """What `tracediff inputs` finds by the same rules: "turn 3" is no label, "step 3" is; three steps of 1000 ns."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(4):
        trace.range(1, f"step {number}", 1000 * number, 1000 * number + 900)
        trace.range(1, f"turn {number}", 1000 * number + 100, 1000 * number + 800)
    reduction = reduced(trace, tmp_path, host_only=True)
    assert reduction.periods["number"].to_list() == [0, 1, 2]
    assert [spent(reduction, period) for period in range(3)] == [{"host_work": 1000}] * 3


def test_ranges_that_a_pattern_does_not_match_are_named(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(4):
        trace.range(1, f"turn {number}", 1000 * number, 1000 * number + 900)
    with pytest.raises(TracediffError) as refused:
        reduced(trace, tmp_path, step_regex="step")
    assert refused.value.slug == "no-steps" and "'turn N'" in refused.value.fix


def test_what_was_not_captured_passes_no_gate(tmp_path):
    """No kernels and no CUDA calls: their counts are not zero, they are not known."""
    result = compare(side("baseline", hosts(), tmp_path), side("candidate", hosts(), tmp_path))
    for metric in ("launches", "graph_launches", "kernels", "copies", "copied_bytes", "syncs", "kernel:gemm"):
        told = judge(parse_gate(f"{metric}:+1{'us' * (':' in metric)}"), result)
        what = "kernels" if ":" in metric else metric
        assert (told.outcome, told.delta) == ("inconclusive", None)
        assert told.message.startswith(f"{what} were not captured on both sides. ")
        assert told.message.endswith("Capture with -t cuda to see it")


def test_kernels_are_not_looked_at_where_the_host_is_wanted(tmp_path):
    trace = hosts().kernel(1, 2000, 2100)
    reduction = reduced(trace, tmp_path, host_only=True)
    assert reduction.coverage["kernels"] == "not_captured"
    assert len(reduction.periods) == 5 and spent(reduction) == {"gil_wait": 100, "gc": 50, "host_work": 850}


def test_of_processes_without_calls_that_with_the_most_ranges_is_the_rank(tmp_path):
    """One range of 50 ns in process 100, two in process 200: one step, of the whole capture."""
    trace = TraceBuilder().process(100).thread(100, 1).process(200).thread(200, 2)
    trace.range(1, "a", 0, 50).range(2, "b", 0, 30).range(2, "c", 40, 90)
    assert reduced(trace, tmp_path).periods.select("pid", "start_ns", "end_ns").rows() == [(200, 0, 90)]
