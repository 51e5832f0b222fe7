"""OS calls, context switches and CUDA's memory on traces whose numbers a reader works out."""

from __future__ import annotations

import sqlite3
from io import StringIO

import polars as pl
import pytest
from rich.console import Console

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import US, serving
from tests.swapping import close, plain, swapped
from tests.tiny import STEP, idle, one_gap, reduced, spent
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.model import Result
from tracediff.report.html import render_html
from tracediff.report.terminal import render_terminal

WAIT = "clock_nanosleep"


def host_work(reduction) -> dict:
    """(call, off_cpu) -> idle ns."""
    out: dict = {}
    for row in reduction.host_work.iter_rows(named=True):
        key = (row["call"], row["off_cpu"])
        out[key] = out.get(key, 0) + row["ns"]
    return out


# one_gap(): the device is idle from 100 to 1000; the thread launches from 900 to 950, so host work is 100..900


def test_host_work_is_told_apart_by_calls_and_switches(tmp_path):
    trace = one_gap().os_call(1, WAIT, 200, 500).off_cpu(1, 210, 480).off_cpu(1, 600, 650)
    reduction = reduced(trace, tmp_path)
    assert host_work(reduction) == {(WAIT, True): 270, (WAIT, False): 30, ("", True): 50, ("", False): 450}
    assert spent(reduction)["host_work"] == 270 + 30 + 50 + 450 == 800
    # until 850 between the two labels, then in the second
    between = f"outside any range, between {STEP} and {STEP}"
    assert set(reduction.host_work.group_by("place").agg(pl.col("ns").sum()).rows()) == {
        (between, 750),
        (STEP, 50),
    }
    assert reduction.coverage["os_calls"] == reduction.coverage["context_switches"] == "captured"
    # the step's window on the host runs from its label to the next one, -200 to 850
    assert reduction.os_calls.select("thread", "call", "count", "ns").rows() == [("executor", WAIT, 1, 300)]
    assert reduction.off_cpu.select("thread", "count", "ns").rows() == [("executor", 2, 270 + 50)]


def test_the_accounting_is_the_same_with_and_without_them(tmp_path):
    bare = reduced(one_gap(), tmp_path)
    full = reduced(one_gap().os_call(1, "read", 200, 500).off_cpu(1, 210, 480), tmp_path)
    assert spent(bare) == spent(full) and bare.cells.equals(full.cells) and bare.idle_ns.equals(full.idle_ns)
    assert bare.host_work.is_empty() and bare.os_calls.is_empty() and bare.off_cpu.is_empty()
    assert {bare.coverage[kind] for kind in ("os_calls", "context_switches", "gpu_memory")} == {
        "not_captured"
    }


def test_a_call_counts_only_where_the_gpu_was_idle_for_host_work(tmp_path):
    # 50..150: half of it under the first kernel; 880..930: from 900 on inside the launching call
    trace = one_gap().os_call(1, "read", 50, 150).os_call(1, "futex", 880, 930)
    assert host_work(reduced(trace, tmp_path)) == {
        ("read", False): 50,
        ("futex", False): 20,
        ("", False): 730,
    }


def test_calls_of_another_thread_are_none_of_the_launching_one(tmp_path):
    trace = one_gap().thread(100, 2).range(2, "await_response", 0, 1000).os_call(2, "sem_wait", 100, 900)
    reduction = reduced(trace, tmp_path)
    assert host_work(reduction) == {("", False): 800}
    assert reduction.os_calls.select("thread", "call", "ns").rows() == [("await-response", "sem_wait", 800)]


def test_a_call_within_a_call_counts_once_as_the_outer_one(tmp_path):
    trace = one_gap().os_call(1, "fopen", 200, 400).os_call(1, "mmap", 250, 300, nesting=1)
    reduction = reduced(trace, tmp_path)
    assert host_work(reduction) == {("fopen", False): 200, ("", False): 600}
    assert reduction.os_calls.select("call", "count", "ns").rows() == [("fopen", 1, 200)]


def test_marks_without_length_and_a_thread_that_never_comes_back(tmp_path):
    trace = one_gap().os_call(1, "OS runtime libraries profiling started", 200, 200).off_cpu(1, 300, None)
    reduction = reduced(trace, tmp_path)
    assert reduction.coverage["os_calls"] == reduction.coverage["context_switches"] == "captured"
    assert host_work(reduction) == {("", False): 800}
    assert reduction.os_calls.is_empty() and reduction.off_cpu.is_empty()


def test_a_thread_that_comes_and_goes_at_one_instant(tmp_path):
    trace = one_gap().off_cpu(1, 200, 300).off_cpu(1, 300, 400)
    assert reduced(trace, tmp_path).off_cpu["ns"].sum() == 200


def test_a_wait_for_the_gil_is_no_host_work(tmp_path):
    trace = (
        one_gap()
        .gil(1, "wait", 200, 500)
        .gil(2, "hold", 200, 500)
        .os_call(1, "pthread_cond_timedwait", 200, 600)
    )
    reduction = reduced(trace, tmp_path)
    table = reduction.host_work.group_by("gil", "call").agg(pl.col("ns").sum()).sort("gil", "call")
    assert table.rows() == [
        (False, "", 400),
        (False, "pthread_cond_timedwait", 100),
        (True, "pthread_cond_timedwait", 300),
    ]
    assert idle(reduction, "cause")["gil_wait"] == 300 and idle(reduction, "cause")["host_work"] == 500


def test_empty_tables_are_not_captured(tmp_path):
    path = one_gap().os_call(1, "read", 200, 500).write(tmp_path / "trace.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM OSRT_API")
    assert reduce_file(path, Reading(threads=1)).coverage["os_calls"] == "not_captured"


# CUDA's memory


def test_memory_by_step_and_its_peak(tmp_path):
    # window -200..850. 1000 B from before the recording, + 300 - 300 in the step, + 5000 after it
    trace = one_gap().memory(-10_000, 1000).memory(0, 300).memory(500, 300, freed=True).memory(2000, 5000)
    trace.memory(100, 64, kind="pinned")
    reduction = reduced(trace, tmp_path)
    assert reduction.memory.drop("stratum").rows() == [("device", 1, 300, 1, 300), ("pinned", 1, 64, 0, 0)]
    assert reduction.memory_peaks.rows() == [("device", 1300, 1000), ("pinned", 64, 0)]


def test_a_level_from_before_the_step_is_its_peak_where_the_step_only_frees(tmp_path):
    reduction = reduced(one_gap().memory(-10_000, 1000).memory(10, 400, freed=True), tmp_path)
    assert reduction.memory_peaks.rows() == [("device", 1000, 600)]


def test_the_peak_is_that_of_one_device(tmp_path):
    reduction = reduced(one_gap().memory(0, 700).memory(1, 600, device=1), tmp_path)
    assert reduction.memory_peaks.rows() == [("device", 700, 0)]
    assert reduction.memory.select("allocations", "bytes").rows() == [(2, 1300)]


def test_memory_of_graph_captures_is_told_apart(tmp_path):
    """4096 B before a capture, 512 B in it, 64 B after it; pinned memory in it is no memory of the device."""
    trace = one_gap().memory(-5000, 4096).api(1, "cudaStreamBeginCapture", -4000, -3990)
    trace.memory(-3500, 512).memory(-3400, 256, kind="pinned").api(1, "cudaStreamEndCapture", -3000, -2990)
    reduction = reduced(trace.memory(-2000, 64), tmp_path)
    assert reduction.memory_peaks.rows() == [
        ("device", 4672, 4672), ("device, by graph capture", 512, 512), ("pinned", 256, 256),
    ]  # fmt: skip


# Comparisons. serving(): 12 steps; `_schedule` is all host work


def system(sleep_us: float, *, calls: bool = True, switches: bool = True, alloc: int = 0) -> TraceBuilder:
    """`_schedule` 100 us longer than `sleep_us`, which lies in a call, 3 us of it still on the CPU; `alloc` bytes a step."""
    trace = serving(schedule_us=100 + sleep_us)
    step = int((100 + sleep_us + 5 + 2 + 3 * 200) * US)
    for number in range(13):
        begin = number * step
        if calls:
            trace.os_call(1, WAIT, begin + 10 * US, begin + 10 * US + int(sleep_us * US) + 1000)
        if switches:
            trace.off_cpu(1, begin + 12 * US, begin + 10 * US + int(sleep_us * US) + 1000)
        if alloc:
            trace.memory(begin + 20 * US, alloc).memory(begin + 30 * US, alloc, freed=True)
    return trace.memory(-5000, 4096)


@pytest.fixture
def compared_traces(tmp_path):
    def compared(baseline, candidate) -> Result:
        sides = []
        for name, trace in (("baseline", baseline), ("candidate", candidate)):
            (tmp_path / name).mkdir(exist_ok=True)
            sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name)])]))
        return compare(*sides)

    return compared


def us(value):
    return pytest.approx(value * US)


def test_a_finding_names_the_call_that_its_time_lies_in(compared_traces):
    result = compared_traces(system(10), system(400))
    (finding,) = [one for one in result.findings if one.cause == "host_work"]
    assert finding.delta_ns == us(390) and finding.where.os_call == WAIT
    assert "11.0 -> 401 us in clock_nanosleep" in finding.note
    parts = {(row.kind, row.call): row for row in result.system.host_work if row.range == "_schedule"}
    assert set(parts) == {("os_call", WAIT), ("rest", "")}
    slept = parts["os_call", WAIT]
    assert (slept.baseline_ns, slept.candidate_ns) == (us(11), us(401))
    assert (slept.baseline_off_cpu_ns, slept.candidate_off_cpu_ns) == (us(9), us(399))
    assert (parts["rest", ""].baseline_ns, parts["rest", ""].candidate_ns) == (us(99), us(99))
    total = sum(row.candidate_ns for row in result.system.host_work)
    assert total == pytest.approx(result.accounting.candidate["host_work"])
    (call,) = result.system.os_calls
    assert (call.thread, call.baseline_count, call.candidate_ns) == ("executor", pytest.approx(1), us(401))
    (off,) = result.system.off_cpu
    assert (off.candidate_count, off.candidate_ns) == (pytest.approx(1), us(399))


def test_time_on_no_cpu_is_told_without_calls(compared_traces):
    result = compared_traces(system(10, calls=False), system(400, calls=False))
    (finding,) = [one for one in result.findings if one.cause == "host_work"]
    assert finding.where.os_call is None and "9.00 -> 399 us on no CPU" in finding.note
    assert result.system.os_calls == [] and {row.kind for row in result.system.host_work} == {
        "off_cpu",
        "rest",
    }


def test_what_one_side_lacks_is_unknown_there_and_said(compared_traces):
    result = compared_traces(system(10, calls=False, switches=False), system(400))
    assert result.coverage.baseline["os_calls"] == "not_captured"
    assert {row.baseline_ns for row in result.system.host_work} == {None}
    assert [row.baseline_count for row in result.system.os_calls] == [None]
    (check,) = [one for one in result.comparability.checks if one.name == "trace_os_calls"]
    assert (check.status, check.baseline, check.candidate) == ("warn", "not captured", "captured")
    (finding,) = [one for one in result.findings if one.cause == "host_work"]
    assert finding.where.os_call is None


def test_without_any_of_it_there_is_nothing_to_show(compared_traces):
    result = compared_traces(serving(), serving())
    assert result.system is None
    assert not [
        one for one in result.comparability.checks if one.name in ("trace_os_calls", "trace_gpu_memory")
    ]


def test_memory_of_a_step_on_both_sides(compared_traces):
    result = compared_traces(system(10), system(10, alloc=1 << 20))
    (row,) = result.system.memory
    assert (row.baseline.allocations_per_step, row.candidate.allocations_per_step) == pytest.approx((0, 1))
    assert (row.candidate.bytes_per_step, row.candidate.freed_bytes_per_step) == pytest.approx(
        (1 << 20, 1 << 20)
    )
    assert (row.baseline.peak_bytes, row.baseline.steady_bytes) == (4096, 4096)
    assert (row.candidate.peak_bytes, row.candidate.steady_bytes) == (4096 + (1 << 20), 4096)
    (peak,) = [row for row in result.structure if row.kind == "memory"]
    assert (peak.name, peak.baseline, peak.candidate, peak.certain) == (
        "device",
        4096,
        4096 + (1 << 20),
        True,
    )
    assert "device memory peak 0.004 -> 1.05 MB" in " ".join(result.headline.text.split())


def test_a_peak_that_moves_by_less_than_a_hundredth_is_in_no_sentence(compared_traces):
    result = compared_traces(system(10).memory(-4000, 1 << 20), system(10, alloc=8192).memory(-4000, 1 << 20))
    assert [row.kind for row in result.structure if row.kind == "memory"] == []
    (row,) = result.system.memory
    assert row.candidate.peak_bytes - row.baseline.peak_bytes == 8192


def test_pages_that_migrate_are_counted_and_said(compared_traces):
    """Six copies of 10 us a step of 707 us, while the GPU has nothing else to do."""
    moved = serving()
    for step in range(13):
        for page in range(6):
            begin = step * 707 * US + (10 + 12 * page) * US
            moved.memcpy(0, begin, begin + 10 * US, kind="unified HtoD", bytes=65536)
    result = compared_traces(serving(), moved)
    assert "migrations of managed memory HtoD 0 -> 6" in " ".join(result.headline.text.split())
    (cause,) = [one for one in result.findings if one.cause == "memcpy"]
    assert cause.delta_ns == pytest.approx(60 * US) and "cudaMemPrefetchAsync" in cause.next


def test_exchanged_sides_exchange_all_of_it(compared_traces):
    one, other = system(10, switches=False), system(400, alloc=512)
    there, back = plain(compared_traces(one, other).system), plain(compared_traces(other, one).system)
    assert close(swapped(there), back) == []


def test_against_itself_nothing_moved(compared_traces):
    result = compared_traces(system(400, alloc=512), system(400, alloc=512))
    for row in (*result.system.os_calls, *result.system.off_cpu, *result.system.host_work):
        assert row.baseline_ns == row.candidate_ns
    assert [row.baseline for row in result.system.memory] == [row.candidate for row in result.system.memory]
    assert result.verdict == "no_change"


def test_the_order_of_rows_does_not_matter(tmp_path):
    path = system(30, alloc=256).write(tmp_path / "one.sqlite")
    other = tmp_path / "other.sqlite"
    other.write_bytes(path.read_bytes())
    with sqlite3.connect(other) as db:
        for table in ("OSRT_API", "SCHED_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS"):
            db.execute(f"CREATE TEMP TABLE turned AS SELECT * FROM {table} ORDER BY start DESC, rowid DESC")
            db.execute(f"DELETE FROM {table}")
            db.execute(f"INSERT INTO {table} SELECT * FROM turned")
            db.execute("DROP TABLE turned")
    one, two = (reduce_file(file, Reading(threads=1)) for file in (path, other))
    for table in ("os_calls", "off_cpu", "host_work", "memory", "memory_peaks"):
        assert getattr(one, table).equals(getattr(two, table)), table
        assert not getattr(one, table).is_empty()


def test_names_of_calls_are_text_in_every_report(compared_traces):
    evil = "<script>alert(1)</script> | `x`\n\x1b[31m"
    # in `_schedule` of the fourth step, which the device is idle for
    one = serving().os_call(1, evil, (3 * 707 + 10) * US, (3 * 707 + 20) * US)
    other = serving(schedule_us=150).os_call(1, evil, (3 * 757 + 10) * US, (3 * 757 + 90) * US)
    result = compared_traces(one, other)
    assert [row.call for row in result.system.os_calls] == [evil]
    console = Console(file=StringIO(), width=100)
    render_terminal(result, console)
    texts = [render_html(result), console.file.getvalue()]
    assert all("alert(1)" in text for text in texts)
    assert "<script>alert" not in texts[0]
    assert not any("\x1b[31m" in text for text in texts)
