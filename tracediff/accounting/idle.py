"""Tables of idle time: its pieces named by role and place, then summed in SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.grouping import stretches, sum_by
from tracediff.accounting.intervals import Index, Intervals, Ints, cut
from tracediff.accounting.os_trace import OsTrace
from tracediff.accounting.sweep import Gaps
from tracediff.accounting.walk import CODE, Hosts, IdlePieces, attribute
from tracediff.formats.database import create_table, frame, insert, run_sql, sql
from tracediff.model.causes import IDLE
from tracediff.trace.periods import Timeline
from tracediff.trace.ranges import Places
from tracediff.trace.threads import Thread


class Names:
    """Roles of threads and places of ranges as numbers, for tables that are summed before they are spelled out. 0: none."""

    def __init__(self, threads: dict[int, Thread], places: Places, hosts: Hosts) -> None:
        self._roles = sorted({thread.role for thread in threads.values()})
        self._role_of = {tid: self._roles.index(thread.role) + 1 for tid, thread in threads.items()}
        self._places, self._hosts = places, hosts

    def role(self, tid: int) -> int:
        """The number of a thread's role."""
        return self._role_of.get(tid, 0)

    def places(self, tid: int, label: Index, start: Ints) -> Ints:
        """The place of each piece of a thread; outside any range: between which ones."""
        place = self._places.ids(label) + 1
        outside = np.flatnonzero(label < 0)
        if tid >= 0 and len(outside):
            ranges, labels = self._hosts.thread(tid).places
            place[outside] = self._places.outside(ranges.start, labels, start[outside]) + 1
        return place

    def tables(self) -> dict[str, list[str]]:
        """Name of a table -> the texts of its numbers."""
        return {"role_name": ["", *self._roles], "place_name": ["", *self._places.names]}


# Host work that kept a GPU idle, told apart by the calls that the thread was in and by whether it was on a CPU.

HOST_WORK = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "gil": pl.Boolean, "call": pl.String,
    "mpi": pl.Boolean, "off_cpu": pl.Boolean, "ns": pl.Int64,
}  # fmt: skip
_BY = ["stratum", "thread", "place", "gil", "call", "off_cpu"]


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
        call = np.where(called.part >= 0, names[called.part], -1) if len(names) else called.part
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
            ).group_by(_BY).agg(pl.col("ns").sum())
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


# Idle time of one export: gaps cut into pieces, a block at a time, into tables that SQL sums.

_BLOCK = 1 << 15  # gaps cut at a time: few enough for their pieces to stay in the processor's cache


@dataclass(frozen=True)
class IdleTables:
    """causes: ns of each period by IDLE. The frames are those of `Reduction`."""

    causes: Ints
    cells: pl.DataFrame
    idle_ns: pl.DataFrame
    gaps: pl.DataFrame
    worst: pl.DataFrame
    moments: pl.DataFrame


def idle_tables(
    db: duckdb.DuckDBPyConnection,
    timeline: Timeline,
    gaps: list[Gaps],
    periods: pl.DataFrame,
    names: Names,
    hosts: Hosts,
    host_work: HostWork | None = None,
) -> IdleTables:
    """Attribute the gaps of the units. `periods`: the table of periods, still without the categories.

    `host_work` is handed every piece, where the operating system's calls or switches were recorded.
    """
    copies = [name for name, (api, _) in timeline.api_names.items() if re.match(r"cu(da)?Mem(cpy|set)", api)]
    stratum = periods["stratum"].to_numpy()
    labels = hosts.labels(timeline.launches)
    run_sql(db, "accounting/idle_tables")
    pieces = _Rows(db, "idle_piece")
    first_period = first_gap = 0
    for number, (unit, own) in enumerate(zip(timeline.units, gaps, strict=True)):
        period = own.period + np.int32(first_period)
        insert(db, "idle_gap", {
            "gap": np.arange(first_gap, first_gap + own.size), "unit": np.full(own.size, number), "period": period,
            "start_ns": own.start, "end_ns": own.end, "previous": unit.key[own.previous], "next": unit.key[own.op],
        })  # fmt: skip
        for low, high in stretches(own.size, _BLOCK):
            parts = attribute(unit, own.take(slice(low, high)), timeline.launches, labels, hosts)
            for part in parts:
                pieces.add(_piece_rows(part, names, copies, period[low:high], first_gap + low))
            if host_work is not None:
                host_work.add(parts, stratum[period[low:high]])
        first_period += len(unit.step)
        first_gap += own.size
    pieces.flush()
    texts = {"cause_name": list(IDLE), "op_name": timeline.keys["name"].to_list(), **names.tables()}
    for name, words in texts.items():
        create_table(db, name, {"number": np.arange(len(words)), "text": np.array(words, object)})
    create_table(db, "period_shape", {"period": np.arange(len(stratum)), "stratum": stratum})
    run_sql(db, "accounting/idle_cell")
    cells, idle_ns, by_neighbours, worst, moments = (
        frame(db, sql(f"accounting/idle_{name}")) for name in ("cells", "ns", "gaps", "worst", "moments")
    )
    for name in ("idle_gap", "idle_piece", "idle_cell", "period_shape", *texts):
        db.execute(f"DROP TABLE {name}")
    cause = np.array([CODE[name] for name in cells["cause"]], np.int64)[idle_ns["cell"]]
    code = idle_ns["period"].to_numpy() * len(IDLE) + cause
    of_step = periods.select("period", "number", "rank", "phase")
    return IdleTables(
        sum_by(code, len(periods) * len(IDLE), idle_ns["ns"].to_numpy()).reshape(-1, len(IDLE)),
        cells.drop("cell"),
        idle_ns.cast({"period": pl.Int32, "cell": pl.Int32}),
        by_neighbours,
        worst.join(
            of_step.select("period", "phase", "rank"), on="period", how="left", maintain_order="left"
        ).drop("period"),
        moments.join(of_step, on="period", how="left", maintain_order="left").drop("period"),
    )


class _Rows:
    """Rows of a table, handed over many at a time, for each time costs milliseconds."""

    def __init__(self, db: duckdb.DuckDBPyConnection, table: str) -> None:
        self._db, self._table = db, table
        self._parts: list[dict[str, npt.NDArray[Any]]] = []
        self._size = 0

    def add(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        """Add rows: columns of one length."""
        self._parts.append(columns)
        self._size += len(next(iter(columns.values())))
        if self._size >= 1 << 18:
            self.flush()

    def flush(self) -> None:
        """Hand over what was added."""
        if self._size:
            names = list(self._parts[0])
            insert(
                self._db,
                self._table,
                {name: np.concatenate([part[name] for part in self._parts]) for name in names},
            )
        self._parts, self._size = [], 0


def _piece_rows(
    pieces: IdlePieces, names: Names, copies: list[int], period: Index, first_gap: int
) -> dict[str, npt.NDArray[Any]]:
    """Columns of the table idle_piece. `period`: of each gap of the block; `copies`: the CUDA functions that copy."""
    size = len(pieces.gap)
    under, holder, holder_place = pieces.cause, 0, np.zeros(size, np.int32)
    if pieces.under is not None and pieces.holder_label is not None:
        under = pieces.under
        if pieces.holder >= 0:
            holder = names.role(pieces.holder)
            holder_place = names.places(pieces.holder, pieces.holder_label, pieces.start).astype(np.int32)
    copy = pieces.cause == CODE["launch_api"]
    if copy.any():
        copy &= np.isin(pieces.api, copies)
    return {
        "gap": (pieces.gap + first_gap).astype(np.int32), "period": period[pieces.gap], "start_ns": pieces.start,
        "end_ns": pieces.end, "cause": pieces.cause.astype(np.uint8), "under": under.astype(np.uint8),
        "thread": np.full(size, names.role(pieces.tid), np.uint16),
        "place": names.places(pieces.tid, pieces.label, pieces.start).astype(np.int32),
        "holder": np.full(size, holder, np.uint16), "holder_place": holder_place, "copy": copy,
        "api": pieces.api.astype(np.int32),
    }  # fmt: skip
