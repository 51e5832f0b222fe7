"""The descriptive tables of a result on `tests/serving.py`, whose every time is an argument.

A step: `_schedule` 100 us, cudaGraphLaunch 5, latency 2, kernels 3 x 200, cudaStreamSynchronize from the
return of the launch to the end: 707 us. The device is idle between the kernels of two steps: 107 us.
"""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import serving, step_ns
from tests.tiny import STEP, label, reduced
from tracediff.execution.sides import Run, Side
from tracediff.model import Change, Pair, Shares

US = 1000


@pytest.fixture
def compared_traces(tmp_path):
    def compared(baseline, candidate):
        sides = []
        for name, trace in (("baseline", baseline), ("candidate", candidate)):
            (tmp_path / name).mkdir()
            sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name)])]))
        return compare(*sides)

    return compared


def us(value):
    return pytest.approx(value * US)


def test_step_and_accounting(compared_traces):
    result = compared_traces(serving(), serving(schedule_us=150, kernel_us=190))
    assert (step_ns(), step_ns(150, 190)) == (707 * US, 727 * US)
    assert (result.step.baseline_ns, result.step.candidate_ns) == (us(707), us(727))
    wanted = {"compute": -30, "host_work": 50, "launch_api": 0, "launch_latency": 0}
    assert {name: ns for name, ns in result.accounting.delta.items() if name in wanted} == us_of(wanted)
    # the longer `_schedule` is in the label's host window; nothing else idles
    assert result.accounting.baseline["host_work"] == us(100)


def us_of(table: dict[str, float]) -> dict:
    return {name: us(value) for name, value in table.items()}


def test_ranges(compared_traces):
    result = compared_traces(serving(), serving(schedule_us=150))
    rows = {row.range: row for row in result.ranges}
    assert set(rows) == {"_schedule", STEP}
    assert rows["_schedule"].thread == "executor" and rows["_schedule"].domain == "TensorRT-LLM"
    assert (rows["_schedule"].baseline.ns_per_step, rows["_schedule"].candidate.mean_ns) == (us(100), us(150))
    assert rows["_schedule"].baseline.count_per_step == pytest.approx(1)
    assert rows[STEP].baseline.ns_per_step == us(707)  # inclusive of what is inside


def test_gaps(compared_traces):
    result = compared_traces(serving(), serving(schedule_us=150))
    rows = {(row.cause, row.range): row for row in result.gaps}
    schedule = rows["host_work", "_schedule"]
    assert (schedule.previous, schedule.next, schedule.thread) == ("gemm_2", "gemm_0", "executor")
    assert (schedule.baseline.count_per_step, schedule.baseline.ns_per_step, schedule.delta_ns) == (
        pytest.approx(1),
        us(100),
        us(50),
    )
    assert (schedule.candidate.p50_ns, schedule.candidate.p99_ns) == (us(150), us(150))
    assert rows["launch_api", STEP].baseline.ns_per_step == us(5)
    assert rows["launch_latency", STEP].baseline.ns_per_step == us(2)
    assert len(rows) == 3


def test_what_a_run_begins_with_is_in_no_table(compared_traces):
    """The first step of both sides loads for 20 and 30 ms, then launches one kernel more: 707 us are 20.914 and 30.914 ms."""
    result = compared_traces(serving(load_us=20_000), serving(load_us=30_000, schedule_us=150))
    assert (result.step.baseline_ns, result.step.candidate_ns) == (us(707), us(757))
    assert (result.mix.baseline_raw_ns, result.mix.candidate_raw_ns) == (us(707), us(757))
    assert (result.mix.begins, result.mix.begin) == (Pair(1, 1), Change(us(20_914), us(30_964), us(10_050)))
    assert (result.mix.starts, result.mix.not_compared_ns) == (Pair(0, 0), us(0))
    assert (result.step.time_share, [row.compared for row in result.strata]) == (Shares(1, 1), [True])
    (phase,) = result.phases
    assert (phase.start, phase.baseline.steps, phase.baseline.p99_ns) == (None, 11, us(707))
    rows = {(row.cause, row.range): row.baseline.ns_per_step for row in result.gaps}
    assert rows == {
        ("host_work", "_schedule"): us(100),
        ("launch_api", STEP): us(5),
        ("launch_latency", STEP): us(2),
    }
    for cause, ns in result.accounting.baseline.items():
        assert sum(of for (name, _), of in rows.items() if name == cause) == us(ns / US) or cause == "compute"
    assert "_load" not in {row.range for row in result.ranges}
    assert "loaded" not in {name for row in result.kernels for name in row.baseline.names}
    assert result.launch.baseline.kernels_per_step == pytest.approx(3)


def test_the_longest_gaps(compared_traces):
    result = compared_traces(serving(), serving(schedule_us=150))
    worst = [gap for gap in result.worst_gaps if gap.side == "candidate"]
    assert worst[0].duration_ns == 157 * US and worst[0].cause == "host_work"
    # all of one length, so by time: the ten first of twelve, each begins where the kernels of a step of 757 us end
    assert [gap.start_ns for gap in worst] == [757 * number * US for number in range(1, 11)]


def test_launches(compared_traces):
    result = compared_traces(serving(), serving(kernels=2))
    one, other = result.launch.baseline, result.launch.candidate
    counts = one.calls_per_step, one.graph_launches_per_step, one.kernels_per_step, one.graph_coverage
    assert counts == pytest.approx((1, 1, 3, 1))
    assert other.kernels_per_step == pytest.approx(2)
    assert (one.api_ns_per_step, one.exposed_ns_per_step) == (us(5), us(7))
    assert one.queue_delay_mean_ns == one.queue_delay_p99_ns == us(2)  # of a graph's first node
    apis = {row.api: row for row in result.launch.apis}
    assert (apis["cudaGraphLaunch"].kind, apis["cudaGraphLaunch"].baseline_calls) == (
        "launch",
        pytest.approx(1),
    )
    assert apis["cudaStreamSynchronize"].kind == "sync"
    assert apis["cudaStreamSynchronize"].baseline_ns == us(602) and apis[
        "cudaStreamSynchronize"
    ].delta_ns == us(-200)
    assert result.graphs.nodes_per_launch_baseline == pytest.approx(3)
    assert result.launch.transitions == []


def test_gil_waits_exposed_and_hidden(compared_traces):
    # thread 1 waits 10-30 us into every step, with the device idle, while thread 2 holds the GIL;
    # and 300-340 us into it, behind the kernels
    plain, traced = serving(), serving()
    for trace in (plain, traced):
        for number in range(13):
            begin = 707 * US * number
            trace.gil(2, "hold", begin + 5 * US, begin + 30 * US)
            trace.range(2, "handle_response", begin + 20 * US, begin + 400 * US)
    for number in range(13):
        begin = 707 * US * number
        traced.gil(1, "wait", begin + 10 * US, begin + 30 * US).gil(
            1, "wait", begin + 300 * US, begin + 340 * US
        )
    result = compared_traces(plain, traced)
    books = result.accounting
    assert (books.baseline["gil_wait"], books.candidate["gil_wait"]) == (0, us(20))
    assert books.candidate["host_work"] == us(80)
    assert (books.hidden_baseline["gil_wait"], books.hidden_candidate["gil_wait"]) == (0, us(40))
    rows = {row.thread: row for row in result.gil.rows}
    executor = rows["executor"]
    assert (executor.candidate_wait_ns, executor.candidate_exposed_ns, executor.candidate_hold_ns) == (
        us(60),
        us(20),
        0,
    )
    assert rows["dispatch-result"].baseline_hold_ns == us(25)
    # 10-20 us thread 2 is outside any range, 20-30 in handle_response; 300-340 nobody held it
    pairs = {(row.waiter, row.holder, row.holder_range): row.candidate_ns for row in result.gil.matrix}
    assert pairs["executor", "dispatch-result", "handle_response"] == us(10)
    assert sum(ns for (_, holder, _), ns in pairs.items() if holder == "dispatch-result") == us(20)
    assert sum(pairs.values()) == us(60)
    findings = [one for one in result.findings if one.cause == "gil_wait"]
    assert {one.where.holder_thread for one in findings} <= {"dispatch-result"}


def test_gc_exposed_and_hidden(compared_traces):
    # each step a collection of 40 us inside `_schedule`, and in the candidate one of 50 us behind the kernels
    baseline, candidate = serving(gc_us=40), serving(gc_us=40)
    for number in range(13):
        begin = 707 * US * number
        candidate.gc(1, begin + 300 * US, begin + 350 * US, generation=0)
    result = compared_traces(baseline, candidate)
    assert (result.accounting.baseline["gc"], result.accounting.candidate["gc"]) == (us(40), us(40))
    assert (result.accounting.hidden_baseline["gc"], result.accounting.hidden_candidate["gc"]) == (0, us(50))
    rows = {row.generation: row for row in result.gc.rows}
    assert (rows["2"].baseline_count, rows["2"].baseline_ns, rows["2"].baseline_exposed_ns) == (
        pytest.approx(1),
        us(40),
        us(40),
    )
    assert (rows["0"].baseline_count, rows["0"].candidate_count, rows["0"].candidate_ns) == (
        0,
        pytest.approx(1),
        us(50),
    )
    assert sum(row.candidate_exposed_ns for row in result.gc.rows) == us(40)


def test_phases_and_samples(compared_traces):
    # steps of 707 us, and 12 of which the last three have 100 us more of host work each
    slow = serving()
    result = compared_traces(slow, serving(steps=24))
    (phase,) = result.phases
    assert (phase.phase, phase.baseline.steps, phase.candidate.steps) == ("generation", 12, 24)
    assert phase.baseline.p50_ns == phase.baseline.p99_ns == phase.baseline.mean_ns == step_ns()
    assert phase.delta_p99_ns == 0
    assert len(result.samples) == 36 and result.samples_left_out == 0
    assert {sample.period_ns for sample in result.samples} == {int(step_ns())}
    assert (result.step.steps.baseline, result.step.steps.candidate) == (12, 24)


def test_quantiles_of_a_phase(compared_traces):
    """Twelve steps whose host work grows by 10 us from step to step: 707, 717, ... 817."""
    growing = stepwise([100 + 10 * number for number in range(13)])
    (phase,) = compared_traces(growing, growing).phases
    # period k ends with the host work of step k + 1: 110, 120, ... 220 us of it, so 717 ... 827
    times = [717 + 10 * number for number in range(12)]
    assert phase.baseline.mean_ns == us(sum(times) / 12)
    assert phase.baseline.p50_ns == us((times[5] + times[6]) / 2)
    assert phase.baseline.p90_ns == us(times[9] + 0.9 * 10)  # position 0.9 * 11 = 9.9 of the sorted twelve
    assert phase.baseline.p99_ns == us(times[10] + 0.89 * 10)  # position 10.89


def stepwise(schedules_us):
    """`serving` with a `_schedule` of its own length in every step."""
    from fixtures.builders import TraceBuilder
    from tests.tiny import label

    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    for number, length in enumerate(schedules_us):
        launch = now + length * US
        trace.range(1, "_schedule", now, launch).api(
            1, "cudaGraphLaunch", launch, launch + 5 * US, corr=number + 1
        )
        for node in range(3):
            start = launch + 7 * US + node * 200 * US
            trace.kernel(number + 1, start, start + 200 * US, name=f"gemm_{node}", graph_node=100 + node)
        end = launch + 607 * US
        trace.range(1, label(number), now, end).api(1, "cudaStreamSynchronize", launch + 5 * US, end)
        now = end
    return trace


def test_eager_to_graph_is_a_transition(compared_traces):
    result = compared_traces(serving(steps=6, graph=False), serving(steps=6))
    # without node ids the three kernels of a step were launched on their own
    moved = {
        row.kernel: (row.eager_per_step_baseline, row.graph_per_step_candidate)
        for row in result.launch.transitions
    }
    assert moved == {f"gemm_{node}": (pytest.approx(1), pytest.approx(1)) for node in range(3)}
    assert (result.launch.baseline.graph_coverage, result.launch.candidate.graph_coverage) == (0, 1)


def test_a_graph_that_was_traced_as_a_whole_was_launched_as_one(tmp_path):
    """A graph of 100 ns in each of two steps instead of the kernels: one launch a step, and it is of a graph."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number, at in enumerate((0, 1000, 2000), 1):
        trace.range(1, label(number), at - 200, at - 50).api(
            1, "cudaGraphLaunch", at - 150, at - 100, corr=number
        )
        trace.graph(number, at, at + 100)
    launch = reduced(trace, tmp_path).launch  # the first step is a start
    assert launch.select("calls", "graph_launches", "kernels", "graph_kernels").rows() == [(1, 1, 1, 1)] * 2
