"""What the operating system, libraries of communication and CUDA's memory did in the steps; empty where not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import duckdb
import numpy as np
import polars as pl

from tracediff.accounting.intervals import (
    EMPTY,
    Intervals,
    Tally,
    covered,
    cut,
    float_sum_by,
    outermost,
    picked,
    union,
)
from tracediff.accounting.walk import CODE, IdlePieces, Names, Windows
from tracediff.arrays import Bools, Floats, Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame, sql
from tracediff.trace.periods import MEMCPY, Unit
from tracediff.trace.threads import Thread

OS_CALLS = {
    "stratum": pl.Int64, "thread": pl.String, "call": pl.String, "count": pl.Int64, "ns": pl.Int64,
}  # fmt: skip
COMM_CALLS = {
    "stratum": pl.Int64, "library": pl.String, "thread": pl.String, "call": pl.String, "count": pl.Int64,
    "ns": pl.Int64, "sized": pl.Int64, "bytes": pl.Int64,
}  # fmt: skip
OFF_CPU = {"stratum": pl.Int64, "thread": pl.String, "count": pl.Int64, "ns": pl.Int64}
MEMORY = {
    "stratum": pl.Int64, "kind": pl.String, "allocations": pl.Int64, "bytes": pl.Int64, "frees": pl.Int64,
    "freed_bytes": pl.Int64,
}  # fmt: skip
PEAKS = {"kind": pl.String, "bytes": pl.Int64, "least": pl.Int64}


# What was recorded of threads.


class Calls:
    """The outermost calls of one kind, read thread by thread; none where they were not recorded.

    `table`: tid, start_ns, end_ns, name; `texts`: the table that spells names, with its columns for them.
    """

    def __init__(
        self, capture: Capture, kind: str, table: str, texts: tuple[str, str, str] = ("string", "id", "value")
    ) -> None:
        self._db: duckdb.DuckDBPyConnection = capture.db
        self.captured = capture.coverage[kind] == "captured"
        self._table, self._texts = table, texts

    @cached_property
    def _named(self) -> dict[int, str]:
        if not self.captured:
            return {}
        texts, key, value = self._texts
        rows = self._db.execute(
            f"SELECT {key}, coalesce({value}, '?') FROM {texts} SEMI JOIN {self._table}"
            f" ON {self._table}.name = {texts}.{key} ORDER BY {key}"
        )
        return {int(number): str(name) for number, name in rows.fetchall()}

    @cached_property
    def names(self) -> list[str]:
        """The names of the calls, each once and in order; `?` for a call without one."""
        return sorted({*self._named.values(), "?"})

    def of(self, tid: int) -> tuple[Intervals, Ints]:
        """The outermost calls of a thread, a partition, and of each its place in `names`."""
        nothing = np.empty(0, np.int64)
        if not self.captured:
            return EMPTY, nothing
        start, end, name = _read(
            self._db,
            f"SELECT start_ns, end_ns, coalesce(name, -1)::BIGINT AS name FROM {self._table} WHERE tid = ?"
            " ORDER BY start_ns, end_ns DESC, name",
            tid, "start_ns", "end_ns", "name",
        )  # fmt: skip
        outer = outermost(start, end)
        number = {key: self.names.index(text) for key, text in self._named.items()}
        unnamed = self.names.index("?")
        kinds, inverse = np.unique(name[outer], return_inverse=True)
        numbers = np.array([number.get(int(kind), unnamed) for kind in kinds], np.int64)
        return Intervals(start[outer], end[outer]), numbers[inverse.reshape(-1)]

    def make_view(self, name: str) -> None:
        """A view of all calls: tid, start_ns, end_ns, name, call (its text, ? without one), bytes (NULL unknown)."""
        texts, key, value = self._texts
        size = "NULL::BIGINT AS bytes" if self._table == "os_call" else "c.bytes"
        self._db.execute(
            f"CREATE OR REPLACE VIEW {name} AS SELECT c.tid, c.start_ns, c.end_ns, c.name, {size}, coalesce(t.{value}, '?') AS call"
            f" FROM {self._table} AS c LEFT JOIN {texts} AS t ON t.{key} = c.name"
        )


class OsTrace:
    """OS calls, context switches and calls of communication of an export; empty where they were not recorded."""

    def __init__(self, capture: Capture) -> None:
        self._db: duckdb.DuckDBPyConnection = capture.db
        self.os = Calls(capture, "os_calls", "os_call")
        self.mpi = Calls(capture, "mpi", "mpi_call")
        self.nccl = Calls(capture, "nccl", "nccl_call", ("range_text", "label", "text"))
        self.switches = capture.coverage["context_switches"] == "captured"

    @property
    def any(self) -> bool:
        """Whether anything was recorded that host work is cut along."""
        return self.os.captured or self.mpi.captured or self.switches

    def off_cpu_of(self, tid: int) -> Intervals:
        """When a thread was on no CPU: a partition."""
        if not self.switches:
            return EMPTY
        query = "SELECT start_ns, end_ns FROM off_cpu WHERE tid = ?"
        return union(*_read(self._db, query, tid, "start_ns", "end_ns"))


def _read(db: duckdb.DuckDBPyConnection, query: str, tid: int, *columns: str) -> list[Ints]:
    rows = db.execute(query, [tid]).fetchnumpy()
    return [np.asarray(rows[column], np.int64) for column in columns]


# Host work that kept a GPU idle, told apart by the calls that the thread was in and by whether it was on a CPU.

HOST_WORK = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "gil": pl.Boolean, "call": pl.String,
    "mpi": pl.Boolean, "off_cpu": pl.Boolean, "ns": pl.Int64,
}  # fmt: skip
_HOST_WORK_BY = ["stratum", "thread", "place", "gil", "call", "off_cpu"]


class HostWork:
    """Sums of host work by place, call and whether the thread was on a CPU: they tile the host work of each place.

    What is inside a call into MPI is that call's (`mpi`), also where MPI calls into the operating system.
    A wait for the GIL that would be host work without the GIL's trace is kept apart (`gil`).
    """

    def __init__(self, trace: OsTrace, names: Names) -> None:
        self._trace, self._names = trace, names
        self._threads: dict[int, tuple[Intervals, Ints, Intervals, Ints, Intervals]] = {}
        self._parts: list[pl.DataFrame] = []

    def add(self, parts: list[IdlePieces], stratum: Ints) -> None:
        """Take in the pieces of some gaps; `stratum`: of each gap."""
        for part in parts:
            direct = part.cause == CODE["host_work"]
            waits = np.zeros(len(direct), np.bool_) if part.under is None else part.under == CODE["host_work"]
            chosen = np.flatnonzero(direct | waits)
            if len(chosen) and part.tid >= 0:
                place = self._names.places(part.tid, part.label[chosen], part.start[chosen])
                pieces = Intervals(part.start[chosen], part.end[chosen])
                self._add(part.tid, pieces, stratum[part.gap[chosen]], place, waits[chosen] & ~direct[chosen])

    def _add(self, tid: int, pieces: Intervals, stratum: Ints, place: Ints, gil: Ints) -> None:
        if tid not in self._threads:
            trace = self._trace
            self._threads[tid] = (*trace.mpi.of(tid), *trace.os.of(tid), trace.off_cpu_of(tid))
        mpi, mpi_names, calls, names, off_cpu = self._threads[tid]
        within = cut(pieces, mpi)
        called = cut(Intervals(within.start, within.end), calls)
        part = within.part[called.query]  # the MPI call is outside: the OS calls in it are part of it
        call = picked(names, called.part)
        if len(mpi_names):
            call = np.where(part >= 0, len(self._trace.os.names) + mpi_names[part], call)
        switched = cut(Intervals(called.start, called.end), off_cpu)
        piece = within.query[called.query[switched.query]]
        self._parts.append(
            pl.DataFrame(
                {
                    "stratum": stratum[piece], "thread": np.full(len(piece), self._names.role(tid)), "place": place[piece], "gil": gil[piece], "call": call[switched.query],
                    "off_cpu": switched.part >= 0, "ns": switched.end - switched.start,
                }
            ).group_by(_HOST_WORK_BY).agg(pl.col("ns").sum())
        )  # fmt: skip

    def table(self) -> pl.DataFrame:
        """HOST_WORK, a row each combination. call: '' outside any."""
        if not self._parts:
            return pl.DataFrame(schema=HOST_WORK)
        sums = pl.concat(self._parts)
        spelled = [pl.Series(texts) for texts in self._names.tables().values()]
        thread, place = (
            texts.gather(sums[name]) for texts, name in zip(spelled, ("thread", "place"), strict=True)
        )
        names = pl.Series(["", *self._trace.os.names, *self._trace.mpi.names], dtype=pl.String)
        named = sums.with_columns(
            thread=thread, place=place, call=names.gather(sums["call"].to_numpy() + 1),
            mpi=pl.col("call") >= len(self._trace.os.names),
        ).cast({"stratum": pl.Int64})  # fmt: skip
        by = [name for name in HOST_WORK if name != "ns"]
        return named.group_by(by).agg(pl.col("ns").sum()).select(*HOST_WORK).sort(by)


# The tables.


def system_tables(
    capture: Capture, trace: OsTrace, windows: Windows, threads: dict[int, Thread], host_work: HostWork | None
) -> dict[str, pl.DataFrame]:
    """os_calls, comm_calls, off_cpu, host_work, memory and memory_peaks of `Reduction`."""
    memory, peaks = _memory(capture, windows)
    return {
        "os_calls": _calls(capture.db, trace.os).select(*OS_CALLS),
        "comm_calls": pl.concat(
            _calls(capture.db, calls).with_columns(library=pl.lit(library)).select(*COMM_CALLS)
            for library, calls in (("MPI", trace.mpi), ("NCCL", trace.nccl))
        ),
        "off_cpu": _off_cpu(trace, windows, threads),
        "host_work": pl.DataFrame(schema=HOST_WORK) if host_work is None else host_work.table(),
        "memory": memory,
        "memory_peaks": peaks,
    }


def _calls(db: duckdb.DuckDBPyConnection, calls: Calls) -> pl.DataFrame:
    """stratum, thread, call, count, ns, sized, bytes: of outermost calls, in the step in which each began."""
    if not calls.captured:
        return pl.DataFrame(schema={name: kind for name, kind in COMM_CALLS.items() if name != "library"})
    calls.make_view("library_call")
    return frame(db, sql("accounting/host_calls"))


def _off_cpu(trace: OsTrace, windows: Windows, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, thread -> count, ns: of chunks on no CPU, in the step in which each began."""
    rows = [pl.DataFrame(schema=OFF_CPU)]
    for tid, thread in threads.items() if trace.switches else ():
        off = trace.off_cpu_of(tid)
        tally = Tally()
        tally.add(windows.stratum(thread.pid, off.start), off.end - off.start)
        stratum, count, ns = tally.rows()
        rows.append(
            pl.DataFrame(
                {"stratum": stratum, "thread": [thread.role] * len(stratum), "count": count, "ns": ns},
                schema=OFF_CPU,
            )
        )
    by = ["stratum", "thread"]
    return pl.concat(rows).group_by(by).agg(pl.col("count", "ns").sum()).sort(by)


def _memory(capture: Capture, windows: Windows) -> tuple[pl.DataFrame, pl.DataFrame]:
    """MEMORY: allocations and frees by the step in which they fell. PEAKS: the most and the least that was allocated at once in any step.

    The level of a process on a device is known from the events before the recording, which nsys writes as well.
    """
    sums, peaks = [pl.DataFrame(schema=MEMORY)], [pl.DataFrame(schema=PEAKS)]
    if capture.coverage["gpu_memory"] == "captured":
        events = frame(
            capture.db,
            "SELECT start_ns, pid, device, kind, freed, bytes FROM memory_event"
            " ORDER BY pid, device, kind, start_ns, freed, bytes",
        )
        for (pid, _, kind), mine in events.group_by("pid", "device", "kind", maintain_order=True):
            start, size = mine["start_ns"].to_numpy(), mine["bytes"].to_numpy()
            freed = mine["freed"].to_numpy()
            stratum = windows.stratum(int(str(pid)), start)
            here = pl.DataFrame(
                {
                    "stratum": stratum, "kind": [str(kind)] * len(stratum), "allocations": (~freed).astype(np.int64),
                    "bytes": np.where(freed, 0, size), "frees": freed.astype(np.int64),
                    "freed_bytes": np.where(freed, size, 0),
                },
                schema=MEMORY,
            )  # fmt: skip
            sums.append(here.filter(pl.col("stratum") >= 0))
            level = np.cumsum(np.where(freed, -size, size))
            if len(levels := _levels(windows, int(str(pid)), start, level, stratum >= 0)):
                held = {"kind": [str(kind)], "bytes": [int(levels.max())], "least": [int(levels.min())]}
                peaks.append(pl.DataFrame(held, schema=PEAKS))
    by = ["stratum", "kind"]
    values = pl.col("allocations", "bytes", "frees", "freed_bytes").sum()
    return (
        pl.concat(sums).group_by(by).agg(values).sort(by),
        pl.concat(peaks).group_by("kind").agg(pl.col("bytes", "least").max()).sort("kind"),
    )


def _levels(windows: Windows, pid: int, start: Ints, level: Ints, inside: Bools) -> Ints:
    """The levels within the steps of a process: where a step begins, and after each event in it; empty without steps."""
    begins = windows.of_pid[pid][0] if pid in windows.of_pid else start[:0]
    before = np.searchsorted(start, begins, side="right") - 1
    found = np.concatenate([np.where(before >= 0, level[before], 0), level[inside]])
    return np.maximum(found, 0) if len(begins) else found[:0]


# Tables of what nsys sampled of the GPUs in the steps; empty where it was not.
#
# Sources. Columns: the schema in NVIDIA's user guide (GPU_METRICS: "Event timestamp (ns)", "Counter data value"; TARGET_INFO_GPU_METRICS:
# metric ids are "not assumed to be stable"). The low byte of typeId as the GPU, and percent values: NVIDIA's recipe gpu_metric_util_map of
# 2023.3 (`typeId & 0xFF AS gpu`). Which device of a process a GPU is: TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid). Whether a sample stands
# for the time before or after it is not documented. That recipe takes the time after it, and so it is on an H200 under nsys 2025.3
# (tests/comparison/test_metrics_real.py); the rule below holds either way.


METRICS = {
    "stratum": pl.Int64, "rank": pl.Int64, "device": pl.Int64, "metric": pl.String, "unit": pl.String,
    "state": pl.String, "samples": pl.Int64, "sum": pl.Float64, "refused": pl.Int64,
}  # fmt: skip
SAMPLING = {
    "rank": pl.Int64, "device": pl.Int64, "gpu": pl.Int64, "interval_ns": pl.Int64, "unread": pl.Int64,
}  # fmt: skip
STATES = ("busy", "idle", "mixed")
# The time from the sample before to the sample after is two intervals: with 95 % of both, each is busy for at least 90 %.
SURE = 0.95
_TORN = 3  # intervals without a sample: what lies around such a hole is known of neither side
_MOST = 256  # metrics that are read of a GPU; sets of nsys have some 40


def metric_tables(capture: Capture, units: Sequence[Unit], periods: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """gpu_metrics and gpu_sampling of `Reduction`.

    A sample counts in the period that its instant lies in. busy: from the sample before to the sample after, kernels ran on the GPU for at
    least `SURE` of the time; idle: nothing ran, copies neither, but for the rest; mixed: neither, or a sample beside it is missing.
    """
    metrics, sampling = [pl.DataFrame(schema=METRICS)], [pl.DataFrame(schema=SAMPLING)]
    if capture.coverage["gpu_metrics"] == "captured":
        gpus = _gpus(capture, units)
        for gpu in sorted(set(gpus) - {None}, key=lambda one: one or 0):
            assert gpu is not None
            mine = [unit for unit, its in zip(units, gpus, strict=True) if its == gpu]
            found = _of_gpu(capture, gpu, mine, periods)
            metrics += found[0]
            sampling.append(found[1])
        unknown = [unit for unit, its in zip(units, gpus, strict=True) if its is None]
        sampling.append(_sampling(unknown, None, 0, 0))
    return {"gpu_metrics": pl.concat(metrics), "gpu_sampling": pl.concat(sampling).sort("rank", "device")}


def _gpus(capture: Capture, units: Sequence[Unit]) -> list[int | None]:
    """The sampled GPU of each unit; None where the export does not say which it is.

    Numbers of devices are a process's own (CUDA_VISIBLE_DEVICES), so they are no GPU's unless a table says so. A machine
    with one GPU needs none.
    """
    sampled = {int(gpu) for (gpu,) in capture.db.execute("SELECT DISTINCT gpu FROM gpu_sample").fetchall()}
    said = {
        (int(pid), int(device)): int(gpu)
        for pid, device, gpu in capture.db.execute("SELECT pid, device, gpu FROM gpu_of").fetchall()
    }
    only = next(iter(sampled)) if len(sampled) == 1 and capture.count("device") == 1 else None
    if len({unit.device for unit in units}) > 1:
        only = None
    found = [said.get((unit.pid, unit.device), only) for unit in units]
    return [gpu if gpu in sampled else None for gpu in found]


def _of_gpu(
    capture: Capture, gpu: int, units: Sequence[Unit], periods: pl.DataFrame
) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    rows = capture.db.execute(
        "SELECT DISTINCT time_ns FROM gpu_sample WHERE gpu = ? ORDER BY time_ns", [gpu]
    ).fetchnumpy()
    time = np.asarray(rows["time_ns"], np.int64)
    interval = int(np.median(np.diff(time))) if len(time) > 1 else 0
    state = _states(time, interval, units)
    names = capture.db.execute(
        "SELECT metric, unit FROM gpu_sample WHERE gpu = ? GROUP BY ALL ORDER BY metric, unit LIMIT ?",
        [gpu, _MOST],
    ).fetchall()
    row = capture.db.execute(
        "SELECT count(DISTINCT metric) FROM gpu_metric WHERE gpu = ? AND unit IS NULL", [gpu]
    ).fetchone()
    strata = [_strata(unit, periods, time) for unit in units]
    tables = []
    for metric, unit_of in names:
        found = capture.db.execute(
            "SELECT time_ns, avg(value) AS value, count(*) FILTER (value IS NULL) AS refused FROM gpu_sample"
            " WHERE gpu = ? AND metric = ? GROUP BY time_ns ORDER BY time_ns",
            [gpu, metric],
        ).fetchnumpy()
        at = np.searchsorted(time, np.asarray(found["time_ns"], np.int64))
        value = np.ma.filled(np.ma.asarray(found["value"], np.float64), np.nan)
        refused = np.asarray(found["refused"], np.int64)
        for unit, stratum in zip(units, strata, strict=True):
            tables.append(_sums(unit, metric, unit_of, stratum[at], state[at], value, refused))
    return tables, _sampling(units, gpu, interval, int(row[0]) if row else 0)


def _states(time: Ints, interval: int, units: Sequence[Unit]) -> Ints:
    """Of each instant its place in `STATES`."""
    state = np.full(len(time), STATES.index("mixed"), np.int64)
    if len(time) < 3:
        return state
    around = Intervals(time[:-2], time[2:])
    length = around.end - around.start
    start, end = (np.concatenate([getattr(unit, name) for unit in units]) for name in ("start", "end"))
    kernel = np.concatenate([unit.kind for unit in units]) != MEMCPY
    whole = np.maximum(np.diff(time)[:-1], np.diff(time)[1:]) <= _TORN * interval
    inner = state[1:-1]
    inner[whole & (covered(around, union(start[kernel], end[kernel])) >= SURE * length)] = STATES.index(
        "busy"
    )
    inner[whole & (covered(around, union(start, end)) <= (1 - SURE) * length)] = STATES.index("idle")
    return state


def _strata(unit: Unit, periods: pl.DataFrame, time: Ints) -> Ints:
    """The stratum of the period that each instant lies in, -1 outside all."""
    mine = periods.filter((pl.col("rank") == unit.rank) & (pl.col("device") == unit.device)).sort("start_ns")
    start, end, stratum = (mine[name].to_numpy() for name in ("start_ns", "end_ns", "stratum"))
    at = np.searchsorted(start, time, side="right") - 1
    return np.where((at >= 0) & (time < end[at]), stratum[at], -1)


def _sums(
    unit: Unit, metric: str, of: str, stratum: Ints, state: Ints, value: Floats, refused: Ints
) -> pl.DataFrame:
    inside = stratum >= 0
    code, position = np.unique(stratum[inside] * len(STATES) + state[inside], return_inverse=True)
    position = position.reshape(-1)
    known = ~np.isnan(value[inside])
    count = len(code)
    return pl.DataFrame(
        {
            "stratum": code // len(STATES), "rank": [unit.rank] * count, "device": [unit.device] * count,
            "metric": [metric] * count, "unit": [of] * count,
            "state": [STATES[one] for one in (code % len(STATES)).tolist()],
            "samples": np.bincount(position, known, count).astype(np.int64),
            "sum": float_sum_by(position, count, np.where(known, value[inside], 0.0)),
            "refused": np.bincount(position, refused[inside], count).astype(np.int64),
        },
        schema=METRICS,
    )  # fmt: skip


def _sampling(units: Sequence[Unit], gpu: int | None, interval: int, unread: int) -> pl.DataFrame:
    return pl.DataFrame(
        [(unit.rank, unit.device, gpu, interval, unread) for unit in units], schema=SAMPLING, orient="row"
    )
