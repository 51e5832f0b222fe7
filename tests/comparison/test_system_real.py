"""OS calls, context switches and CUDA's memory of recorded programs, against plain loops over the export's own rows."""

from __future__ import annotations

import lzma
import re
import shutil
import sqlite3
from collections import Counter, defaultdict

import pytest

from tests.comparing import compare
from tests.tiny import FIXTURES
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side

FOLDER = FIXTURES / "system"
MiB = 1 << 20


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Name -> (reduction, connection to the export)."""
    found = {}

    def get(name: str):
        if name not in found:
            path = tmp_path_factory.mktemp("system") / f"{name}.sqlite"
            with lzma.open(FOLDER / f"{name}.sqlite.xz") as packed, path.open("wb") as out:
                shutil.copyfileobj(packed, out)
            found[name] = reduce_file(path, Reading(threads=1, host_only=True)), sqlite3.connect(path)
        return found[name]

    return get


def overlap(one: tuple[int, int], other: tuple[int, int]) -> int:
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def minus(whole: tuple[int, int], holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of an interval no hole covers."""
    parts, at = [], whole[0]
    for start, end in sorted(holes):
        if start > at:
            parts.append((at, min(start, whole[1])))
        at = max(at, end)
    return [part for part in [*parts, (at, whole[1])] if part[1] > part[0]]


def switches(db, tid: int) -> list[tuple[int, int]]:
    """Off-CPU intervals of a thread, read event by event."""
    out, left = [], None
    for time, came in db.execute(
        "SELECT start, isSchedIn FROM SCHED_EVENTS WHERE globalTid = ? ORDER BY start", (tid,)
    ):
        if not came:
            left = time
        elif left is not None:
            out.append((left, time))
            left = None
    return out


def texts(db, tid: int, pattern: str) -> list[tuple[int, int]]:
    rows = db.execute(
        "SELECT n.start, n.end, coalesce(n.text, s.value) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
        " WHERE n.globalTid = ? AND n.end IS NOT NULL",
        (tid,),
    )
    return [(start, end) for start, end, text in rows if text and re.match(pattern, text)]


def executor(db) -> int:
    return db.execute(
        "SELECT n.globalTid FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
        " WHERE coalesce(n.text, s.value) LIKE '%_forward_step%' LIMIT 1"
    ).fetchone()[0]


@pytest.mark.parametrize("name", ["os_plain", "os_sleep"])
def test_host_work_by_call_and_switch(opened, name):
    reduction, db = opened(name)
    tid = executor(db)
    calls = db.execute(
        "SELECT o.start, o.end, s.value FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId"
        " WHERE o.globalTid = ? AND o.end > o.start",
        (tid,),
    ).fetchall()
    off = switches(db, tid)
    busy = texts(db, tid, "Waiting for GIL|Python GC")
    wanted: Counter = Counter()
    for start, end in reduction.periods.select("start_ns", "end_ns").rows():
        holes = [one for one in busy if overlap(one, (start, end))]
        for part in minus((start, end), holes):
            wanted["all"] += part[1] - part[0]
            wanted["off_cpu"] += sum(overlap(part, one) for one in off)
            for begin, stop, call in calls:
                wanted[call] += overlap(part, (begin, stop))
    table = reduction.host_work.filter(~reduction.host_work["gil"])
    found: Counter = Counter()
    for row in table.iter_rows(named=True):
        found["all"] += row["ns"]
        found["off_cpu"] += row["ns"] if row["off_cpu"] else 0
        if row["call"]:
            found[row["call"]] += row["ns"]
    assert +wanted == +found
    assert found["all"] == reduction.periods["host_work"].sum() > 0
    assert found["clock_nanosleep"] > 0 and found["off_cpu"] > 0


@pytest.mark.parametrize("name", ["os_plain", "os_sleep"])
def test_calls_and_time_on_no_cpu_by_step(opened, name):
    reduction, db = opened(name)
    tid = executor(db)
    periods = reduction.periods.select("start_ns", "end_ns").rows()
    wanted: dict = defaultdict(lambda: [0, 0])
    for start, end, call in db.execute(
        "SELECT o.start, o.end, s.value FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId"
        " WHERE o.globalTid = ? AND o.end > o.start",
        (tid,),
    ):
        if any(low <= start < high for low, high in periods):
            wanted[call][0] += 1
            wanted[call][1] += end - start
    found = reduction.os_calls.filter(reduction.os_calls["thread"] == "executor").group_by("call")
    assert {call: [rows["count"].sum(), rows["ns"].sum()] for (call,), rows in found} == wanted
    off = [one for one in switches(db, tid) if any(low <= one[0] < high for low, high in periods)]
    mine = reduction.off_cpu.filter(reduction.off_cpu["thread"] == "executor")
    assert (mine["count"].sum(), mine["ns"].sum()) == (len(off), sum(end - start for start, end in off))


def test_the_planted_sleep_is_named(opened):
    sides = [Side(name, [Run(name, [opened(name)[0]])]) for name in ("os_plain", "os_sleep")]
    result = compare(*sides)
    first = result.findings[0]
    assert (first.cause, first.where.range, first.where.os_call) == (
        "host_work",
        "_schedule",
        "clock_nanosleep",
    )
    assert first.delta_ns > 2_000_000  # 2 ms were planted; a sleep ends late
    asleep = next(
        row for row in result.system.host_work if (row.range, row.call) == ("_schedule", "clock_nanosleep")
    )
    assert asleep.candidate_off_cpu_ns > 0.95 * asleep.candidate_ns  # a sleeping thread is on no CPU
    for side in ("baseline", "candidate"):
        total = sum(getattr(row, f"{side}_ns") for row in result.system.host_work)
        assert total == pytest.approx(getattr(result.accounting, side)["host_work"])


def windows(db, reduction) -> list[tuple[int, int]]:
    """From label to label, of the steps that are measured."""
    numbers = set(reduction.periods["number"])
    labels = sorted(
        (start, int(number[1]))
        for start, text in db.execute(
            "SELECT n.start, coalesce(n.text, s.value) FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId"
        )
        if text and (number := re.search(r"_forward_step (\d+):", text))
    )
    ends = [start for start, _ in labels[1:]]
    return [(start, end) for (start, number), end in zip(labels, ends, strict=False) if number in numbers]


@pytest.mark.parametrize("name", ["mem", "mem_alloc"])
def test_memory_by_step_and_its_peak(opened, name):
    reduction, db = opened(name)
    steps = windows(db, reduction)
    assert len(steps) == len(reduction.periods)
    level, peak, wanted = 0, 0, [0, 0, 0, 0]
    events = db.execute(
        "SELECT start, memoryOperationType, bytes FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind = 2 ORDER BY start"
    ).fetchall()
    for start, freed, size in events:
        level += -size if freed else size
        if any(low <= start < high for low, high in steps):
            wanted[2 * freed] += 1
            wanted[2 * freed + 1] += size
            peak = max(peak, level)
        elif start < steps[0][0]:
            peak = level  # what the first step begins with
    mine = reduction.memory.filter(reduction.memory["kind"] == "device")
    assert [mine[column].sum() for column in ("allocations", "bytes", "frees", "freed_bytes")] == wanted
    peaks = dict(reduction.memory_peaks.select("kind", "bytes").rows())
    assert peaks["device"] == peak
    assert set(peaks) == {"device", "device static", "pinned"}


def test_the_planted_allocation_is_named(opened):
    result = compare(*(Side(name, [Run(name, [opened(name)[0]])]) for name in ("mem", "mem_alloc")))
    first = result.findings[0]
    assert (first.cause, first.where.range) == ("host_api", "_prepare_inputs") and first.ci_low_ns > 0
    counted = {
        row.name: (row.baseline, row.candidate) for row in result.structure if row.kind == "allocations"
    }
    # of 28 generation steps one frees 3 times: also what the mixed step before it took
    assert counted == {"cudaMalloc": (0, 1), "cudaFree": (0, 30 / 28)}
    device = next(row for row in result.system.memory if row.kind == "device")
    assert device.baseline.allocations_per_step == 0
    # one in every step, and two more in the mixed one of 30
    assert device.candidate.allocations_per_step == pytest.approx(32 / 30)
    assert device.candidate.bytes_per_step >= 64 * MiB
    # 1.6 GB of the program, and what the step allocates; the base took three blocks of 2 MiB more at its start
    assert device.candidate.peak_bytes - device.candidate.steady_bytes >= 64 * MiB
    assert device.baseline.peak_bytes == device.baseline.steady_bytes
    (peak,) = [row for row in result.structure if row.kind == "memory"]
    assert (peak.baseline, peak.candidate) == (device.baseline.peak_bytes, device.candidate.peak_bytes)


def test_the_fixtures_are_small():
    assert all(path.stat().st_size < 300_000 for path in FOLDER.glob("*.xz"))
