"""Tables of idle time: its pieces named by role and place, then summed in SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.intervals import Index, Ints, chunks, sum_by
from tracediff.accounting.sweep import Gaps
from tracediff.accounting.walk import CODE, Hosts, IdlePieces, attribute
from tracediff.formats.database import create_table, frame, insert, run_sql, sql
from tracediff.model.causes import IDLE
from tracediff.trace.periods import Timeline
from tracediff.trace.threads import Places, Thread


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


# Idle time of one export: gaps cut into pieces, a block at a time, into tables that SQL sums.

_BLOCK = 1 << 15  # gaps cut at a time: few enough for their pieces to stay in the processor's cache


def idle_tables(
    db: duckdb.DuckDBPyConnection,
    timeline: Timeline,
    gaps: list[Gaps],
    periods: pl.DataFrame,
    names: Names,
    hosts: Hosts,
    labels: Ints,
    each: Callable[[list[IdlePieces], Ints], None] | None = None,
) -> tuple[Ints, dict[str, pl.DataFrame]]:
    """Attribute the gaps of the units: ns of each period by IDLE; and cells, idle_ns, gaps, worst and moments of `Reduction`.

    `periods`: the table of periods, still without the categories; `labels`: of each launch.
    `each` is handed the pieces of some gaps and the stratum of each of those gaps.
    """
    copies = [name for name, (api, _) in timeline.api_names.items() if re.match(r"cu(da)?Mem(cpy|set)", api)]
    stratum = periods["stratum"].to_numpy()
    run_sql(db, "accounting/idle_tables")
    pieces = _Rows(db, "idle_piece")
    first_period = first_gap = 0
    for number, (unit, own) in enumerate(zip(timeline.units, gaps, strict=True)):
        period = own.period + np.int32(first_period)
        insert(db, "idle_gap", {
            "gap": np.arange(first_gap, first_gap + own.size), "unit": np.full(own.size, number), "period": period,
            "start_ns": own.start, "end_ns": own.end, "previous": unit.key[own.previous], "next": unit.key[own.op],
            "crossed": unit.stream[own.previous] != unit.stream[own.op],
        })  # fmt: skip
        for low, high in chunks(own.size, _BLOCK):
            parts = attribute(unit, own.take(slice(low, high)), timeline.launches, labels, hosts)
            for part in parts:
                pieces.add(_piece_rows(part, names, copies, period[low:high], first_gap + low))
            if each is not None:
                each(parts, stratum[period[low:high]])
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
    causes = sum_by(code, len(periods) * len(IDLE), idle_ns["ns"].to_numpy()).reshape(-1, len(IDLE))
    worst, moments = (
        table.join(periods.select("period", *columns), on="period", how="left", maintain_order="left").drop("period")
        for table, columns in ((worst, ("phase", "rank")), (moments, ("number", "rank", "phase")))
    )  # fmt: skip
    return causes, {
        "cells": cells.drop("cell"),
        "idle_ns": idle_ns.cast({"period": pl.Int32, "cell": pl.Int32}),
        "gaps": by_neighbours,
        "worst": worst,
        "moments": moments,
    }


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
