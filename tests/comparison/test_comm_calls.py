"""Calls of MPI and NCCL on traces whose numbers a reader works out, and on recorded programs."""

from __future__ import annotations

import lzma
import shutil
import sqlite3
from io import StringIO

import polars as pl
import pytest
from rich.console import Console

from fixtures.builders import TraceBuilder
from tests.comparing import compare, show
from tests.serving import US, serving
from tests.tiny import FIXTURES, one_gap, reduced, spent
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.report.causes import advice
from tracediff.report.html import render_html
from tracediff.report.phrases import with_words
from tracediff.report.show import render_show_html, render_show_markdown, render_show_terminal
from tracediff.report.terminal import render_terminal

MPI = "MPI_Allreduce"


def parts(reduction) -> dict:
    """(MPI, call, off_cpu) -> idle ns of host work."""
    out: dict = {}
    for row in reduction.host_work.iter_rows(named=True):
        key = (row["mpi"], row["call"], row["off_cpu"])
        out[key] = out.get(key, 0) + row["ns"]
    return out


def calls(reduction) -> list[tuple]:
    by, columns = ("library", "thread", "call"), ("count", "ns", "sized", "bytes")
    return reduction.comm_calls.group_by(by, maintain_order=True).agg(pl.col(columns).sum()).rows()


# one_gap(): host work is 100..900; the step's window on the host runs from -200 to 850


def test_an_os_call_inside_a_call_of_mpi_is_part_of_it(tmp_path):
    trace = one_gap().mpi(1, MPI, 200, 500, 64).os_call(1, "poll", 250, 300).os_call(1, "poll", 450, 600)
    trace.off_cpu(1, 260, 280).off_cpu(1, 550, 650)
    reduction = reduced(trace, tmp_path)
    assert parts(reduction) == {
        (True, MPI, False): 280,  # 200..500 but for 20 on no CPU
        (True, MPI, True): 20,
        (False, "poll", False): 50,  # 500..550
        (False, "poll", True): 50,  # 550..600
        (False, "", True): 50,  # 600..650
        (False, "", False): 100 + 250,  # 100..200, 650..900
    }
    assert spent(reduction)["host_work"] == 800
    assert calls(reduction) == [("MPI", "executor", MPI, 1, 300, 1, 64)]
    assert reduction.os_calls.select("call", "count", "ns").rows() == [("poll", 2, 50 + 150)]
    assert reduction.coverage["mpi"] == "captured" and reduction.coverage["nccl"] == "not_captured"


def test_the_accounting_is_the_same_with_and_without_them(tmp_path):
    bare, full = reduced(one_gap(), tmp_path), reduced(one_gap().mpi(1, MPI, 200, 500), tmp_path)
    assert spent(bare) == spent(full) and bare.cells.equals(full.cells) and bare.idle_ns.equals(full.idle_ns)
    assert bare.comm_calls.is_empty() and bare.coverage["mpi"] == "not_captured"


def test_a_wait_for_two_requests_is_one_call(tmp_path):
    trace = one_gap()
    for _ in range(2):
        trace.mpi(1, "MPI_Waitall", 200, 300, table="MPI_START_WAIT_EVENTS")
    trace.mpi(1, "MPI_Sendrecv", 400, 450, 10, "MPI_P2P_EVENTS").mpi(
        1, "MPI_Sendrecv", 400, 450, 7, "MPI_P2P_EVENTS"
    )
    assert calls(reduced(trace, tmp_path)) == [
        ("MPI", "executor", "MPI_Sendrecv", 1, 50, 1, 17),
        ("MPI", "executor", "MPI_Waitall", 1, 100, 0, 0),
    ]


def test_a_call_within_a_call_counts_once_and_no_length_is_no_call(tmp_path):
    trace = one_gap().mpi(1, "MPI_Init", 200, 400, table="MPI_OTHER_EVENTS").mpi(1, "MPI_Barrier", 250, 300)
    trace.mpi(1, "MPI_Comm_rank", 500, 500, table="MPI_OTHER_EVENTS")
    assert calls(reduced(trace, tmp_path)) == [("MPI", "executor", "MPI_Init", 1, 200, 0, 0)]


@pytest.mark.parametrize("size", [-1, 1 << 62])
def test_a_size_that_cannot_be_is_not_known(tmp_path, size):
    assert calls(reduced(one_gap().mpi(1, MPI, 200, 500, size), tmp_path)) == [
        ("MPI", "executor", MPI, 1, 300, 0, 0)
    ]


def test_ranges_of_the_domain_nccl_are_its_calls(tmp_path):
    trace = one_gap().range(1, "ncclGroupEnd", 200, 400, domain="NCCL")
    trace.range(1, "ncclAllReduce", 250, 300, domain="NCCL").range(
        1, "ncclAllReduce", 500, 550, domain="mine"
    )
    reduction = reduced(trace, tmp_path)
    assert calls(reduction) == [("NCCL", "executor", "ncclGroupEnd", 1, 200, 0, 0)]
    assert reduction.coverage["nccl"] == "captured" and reduction.coverage["mpi"] == "not_captured"
    assert reduction.host_work.is_empty()  # its ranges name host work already


def stepping(many: int, us: int = 20, size: int = 1000, schedule: int = 100) -> TraceBuilder:
    """serving() with calls of MPI in `_schedule`, which is host work all of it."""
    trace = serving(schedule_us=schedule)
    step = int((schedule + 5 + 2 + 3 * 200) * US)
    for number in range(13):
        for call in range(many):
            begin = number * step + int((5 + call * us) * US)
            trace.mpi(1, MPI, begin, begin + int(us * US) - 500, size)
    return trace


def side(name: str, trace: TraceBuilder, folder) -> Side:
    (folder / name).mkdir(exist_ok=True)
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


@pytest.mark.slow
def test_calls_bytes_and_host_time_of_a_step_on_both_sides(tmp_path):
    one, other = side("one", stepping(1), tmp_path), side("other", stepping(3), tmp_path)
    result = compare(one, other)
    (row,) = result.system.comm_calls
    assert (row.library, row.call, row.thread) == ("MPI", MPI, "executor")
    assert (row.baseline_count, row.candidate_count) == pytest.approx((1, 3))
    assert (row.baseline_bytes, row.candidate_bytes) == pytest.approx((1000, 3000))
    assert (row.baseline_ns, row.candidate_ns) == (pytest.approx(19_500), pytest.approx(58_500))
    (work,) = [part for part in result.system.host_work if part.kind == "mpi_call"]
    assert (work.range, work.call, work.baseline_off_cpu_ns) == ("_schedule", MPI, None)
    assert (work.baseline_ns, work.candidate_ns) == (pytest.approx(19_500), pytest.approx(58_500))
    total = sum(part.candidate_ns for part in result.system.host_work)
    assert total == pytest.approx(result.accounting.candidate["host_work"])
    console = Console(file=StringIO(), width=120, record=True)
    render_terminal(result, console)
    (line,) = [one for one in console.export_text().splitlines() if one.startswith("  MPI_Allreduce")]
    said = "MPI_Allreduce MPI executor 1 -> 3 19.50 -> 58.50 +39.00 +200 % 1.0 kB -> 3.0 kB"
    assert " ".join(line.split()).startswith(said)
    assert 'data-name="communication"' in render_html(result)


def test_the_call_of_mpi_that_holds_the_change_is_in_the_first_sentence(tmp_path):
    """Of 50 us more in `_schedule` 39 are in two calls more of 19.5 us."""
    one, other = side("one", stepping(1), tmp_path), side("other", stepping(3, schedule=150), tmp_path)
    result = with_words(compare(one, other))
    assert "host work (time in MPI_Allreduce) in _schedule (+50.0 us)" in result.headline.why
    assert advice(result.findings[0]) == "find what calls MPI_Allreduce in _schedule"


def test_a_side_without_them_is_not_captured_and_said(tmp_path):
    result = compare(side("one", serving(schedule_us=100), tmp_path), side("other", stepping(3), tmp_path))
    (row,) = result.system.comm_calls
    assert (row.baseline_count, row.baseline_ns, row.baseline_bytes) == (None, None, None)
    (check,) = [one for one in result.comparability.checks if one.name == "trace_mpi"]
    assert (check.status, check.baseline, check.candidate) == ("warn", "not captured", "captured")
    console = Console(file=StringIO(), width=120, record=True)
    render_terminal(result, console)
    said = "Not seen on the baseline, each with what records it: MPI calls (-t mpi)."
    assert said in " ".join(console.export_text().split())


def test_one_side_shows_them(tmp_path):
    report = show(side("one", stepping(3), tmp_path))
    (call,) = report.system.comm_calls
    assert (call.library, call.call) == ("MPI", MPI)
    assert (call.baseline_count, call.baseline_bytes) == pytest.approx((3, 3000))
    assert call.baseline_ns == pytest.approx(58_500)
    ((kind, ns),) = [(row.kind, row.baseline_ns) for row in report.system.host_work if row.call == MPI]
    assert kind == "mpi_call" and ns == pytest.approx(58_500)
    console = Console(file=StringIO(), width=120, record=True)
    render_show_terminal(report, console)
    lines = [" ".join(one.split()) for one in console.export_text().splitlines()]
    assert "MPI_Allreduce MPI executor 3 58.50 3.0 kB 1.0 kB" in lines
    markdown = render_show_markdown(report)
    assert "| `MPI_Allreduce` | MPI | executor | 3 | 58.50 | 3.0 kB | 1.0 kB |\n" in markdown
    page = render_show_html(report)
    assert 'data-name="communication"' in page and "OS calls (-t osrt)" in page


def test_one_side_without_any_of_it(tmp_path):
    report = show(side("one", serving(), tmp_path))
    page = render_show_html(report)
    assert report.system is None and "Not seen, each with what records it: " in page
    assert "MPI calls (-t mpi)" in page


def test_one_side_shows_os_calls_switches_and_memory(tmp_path):
    trace = serving(schedule_us=100)
    step = int((100 + 5 + 2 + 3 * 200) * US)
    for number in range(13):
        at = number * step
        trace.os_call(1, "read", at + 10 * US, at + 20 * US).off_cpu(1, at + 12 * US, at + 18 * US)
        trace.memory(at + 20 * US, 512).memory(at + 30 * US, 512, freed=True)
    report = show(side("one", trace, tmp_path))
    (call,) = report.system.os_calls
    assert (call.call, call.baseline_count) == ("read", pytest.approx(1))
    assert call.baseline_ns == pytest.approx(10 * US)
    (off,) = report.system.off_cpu
    assert (off.baseline_count, off.baseline_ns) == pytest.approx((1, 6 * US))
    ((ns, off_ns),) = [
        (row.baseline_ns, row.baseline_off_cpu_ns) for row in report.system.host_work if row.call == "read"
    ]
    assert (ns, off_ns) == (pytest.approx(10 * US), pytest.approx(6 * US))
    (memory,) = report.system.memory
    assert (memory.baseline.allocations_per_step, memory.baseline.peak_bytes) == (1, 512)
    console = Console(file=StringIO(), width=120, record=True)
    render_show_terminal(report, console)
    (line,) = [one for one in console.export_text().splitlines() if one.startswith("  device")]
    assert line.split() == ["device", "1", "512", "B", "1", "512", "B", "512", "B", "0", "B"]
    page = render_show_html(report)
    assert 'data-name="OS calls"' in page and 'data-name="Time on no CPU"' in page


# Recorded programs


@pytest.fixture
def unpacked(tmp_path):
    def get(name: str):
        path = tmp_path / "capture.sqlite"
        with lzma.open(FIXTURES / name) as packed, path.open("wb") as out:
            shutil.copyfileobj(packed, out)
        return path

    return get


def label_starts(db) -> list[tuple[int, int]]:
    """(start, thread) of the labels of steps."""
    return db.execute(
        "SELECT n.start, n.globalTid FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
        " WHERE coalesce(n.text, s.value) LIKE '%_forward_step%' ORDER BY n.start"
    ).fetchall()


@pytest.mark.parametrize(("name", "reductions"), [("mpi_one", 1), ("mpi_three", 3)])
def test_mpi_of_a_recorded_program(unpacked, name, reductions):
    path = unpacked(f"system/{name}.sqlite.xz")
    reduction = reduce_file(path, Reading(threads=1, host_only=True))
    steps = len(reduction.periods)  # of two ranks
    found = {row[2]: row[3:] for row in calls(reduction)}
    assert {call: row[0] / steps for call, row in found.items()} == {
        MPI: reductions, "MPI_Barrier": 1, "MPI_Bcast": 1, "MPI_Irecv": 1, "MPI_Isend": 1, "MPI_Waitall": 1,
    }  # fmt: skip
    # 65536 doubles to each of two ranks; 1024 doubles to each of two by one of them
    assert found[MPI][3] / steps == reductions * 65536 * 8 * 2
    assert found["MPI_Bcast"][3] / steps == 1024 * 8 * 2 / 2 and found["MPI_Isend"][3] / steps == 800
    assert found["MPI_Waitall"][2] == found["MPI_Barrier"][2] == 0
    # the time, by a loop over the export's own rows: between the first and the last label of each thread
    with sqlite3.connect(path) as db:
        seen = {tid: [start for start, own in label_starts(db) if own == tid] for _, tid in label_starts(db)}
        expected = sum(
            end - start
            for start, end, tid in db.execute(
                "SELECT e.start, e.end, e.globalTid FROM MPI_COLLECTIVES_EVENTS e JOIN StringIds s ON s.id = e.textId"
                " WHERE s.value = ?",
                (MPI,),
            )
            if seen[tid][0] <= start < seen[tid][-1]
        )
    assert found[MPI][1] == expected


def test_nccl_of_two_gpus(unpacked):
    path = unpacked("captures/tp2_a1.sqlite.xz")
    reduction = reduce_file(path, Reading(threads=1))
    ((library, _, call, count, ns, sized, _),) = calls(reduction)
    assert (library, call, sized) == ("NCCL", "ncclAllReduce", 0)
    with sqlite3.connect(path) as db:
        starts = {
            tid: [start for start, own in label_starts(db) if own == tid] for _, tid in label_starts(db)
        }
        rows = db.execute(
            "SELECT n.start, n.end, n.globalTid FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId"
            " WHERE s.value = 'ncclAllReduce'"
        ).fetchall()
    within = [end - start for start, end, tid in rows if starts[tid][0] <= start < starts[tid][-1]]
    assert len(rows) == 128 and (count, ns) == (len(within), sum(within))
