"""The GIL: who waited for it, who held it around those waits, and for how long in all."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.grouping import Tally, stretches
from tracediff.accounting.intervals import EMPTY, Intervals, Ints, innermost, union
from tracediff.accounting.windows import Windows
from tracediff.formats.database import release_memory
from tracediff.trace.threads import Thread


@dataclass(frozen=True)
class Gil:
    """Waits of each thread, a partition; the holds of each process that matter to them; sums by stratum and thread."""

    waits: dict[int, Intervals]
    holders: dict[int, tuple[Intervals, Ints]]
    sums: pl.DataFrame  # stratum, tid, hold_ns, wait_ns

    def waits_of(self, tid: int) -> Intervals:
        """Where a thread waited."""
        return self.waits.get(tid, EMPTY)

    def holds_of(self, tid: int) -> Intervals:
        """The holds of one thread among them."""
        spans, holder = self.holders_of(tid >> 24 & 0xFFFFFF)
        return spans.take(holder == tid)

    def holders_of(self, pid: int) -> tuple[Intervals, Ints]:
        """Who held the GIL of a process around its waits: a partition, and the holding thread of each part."""
        return self.holders.get(pid, (EMPTY, EMPTY.start))


def read_gil(db: duckdb.DuckDBPyConnection, windows: Windows, threads: dict[int, Thread]) -> Gil:
    """Read the GIL's trace once, in stretches; table nvtx_row is dropped.

    There is a hold for every call that lets go of the GIL, so holds may outnumber everything else in a capture. Only
    those are kept that a wait meets, and the last one of each thread before each wait.
    """
    tids = np.array(sorted(threads), np.int64)
    held, waited = Tally(), Tally()  # by stratum and position in tids
    raw = _columns(db, "waiting")
    waits: dict[int, Intervals] = {}
    for number, tid in enumerate(tids.tolist()):
        mine = raw["tid"] == tid
        start, end = raw["start_ns"][mine], raw["end_ns"][mine]
        stratum, ns = windows.sums(threads[tid].pid, start, end - start)
        waited.add(stratum * len(tids) + number, ns)
        waits[tid] = union(start, end)
    del raw
    begins = {
        pid: np.sort(np.concatenate([waits[tid].start for tid in waits if threads[tid].pid == pid]))
        for pid in {thread.pid for thread in threads.values()}
    }
    spans = {
        pid: union(
            *(
                np.concatenate([getattr(waits[tid], side) for tid in waits if threads[tid].pid == pid])
                for side in ("start", "end")
            )
        )
        for pid in begins
    }
    rows = db.execute("SELECT count(*) FROM nvtx_row").fetchone()
    assert rows is not None
    kept: dict[int, list[tuple[Ints, Ints, Ints]]] = {pid: [] for pid in begins}
    for low, high in stretches(int(rows[0])):
        holds = _columns(db, f"NOT waiting AND row >= {low} AND row < {high}")
        for tid in np.unique(holds["tid"]).tolist():
            mine = holds["tid"] == tid
            start, end = _in_order(holds["start_ns"][mine], holds["end_ns"][mine])
            pid = threads[tid].pid
            stratum, ns = windows.sums(pid, start, end - start)
            held.add(stratum * len(tids) + int(np.searchsorted(tids, tid)), ns)
            keep = _near(start, end, spans[pid], begins[pid])
            kept[pid].append((start[keep], end[keep], np.full(len(keep), tid, np.int64)))
    db.execute("DROP VIEW gil")
    db.execute("DROP TABLE nvtx_row")
    release_memory(db)
    holders = {}
    for pid, parts in kept.items():
        if not parts:
            continue
        start, end, tid = (np.concatenate([part[column] for part in parts]) for column in range(3))
        order = np.lexsort((tid, -end, start))
        partition, owner = innermost(start[order], end[order])
        holders[pid] = partition, tid[order][owner]
    return Gil(waits, holders, _sums(held, waited, tids))


def _columns(db: duckdb.DuckDBPyConnection, where: str) -> dict[str, Ints]:
    rows = db.execute(f"SELECT start_ns, end_ns, tid FROM gil WHERE tid IS NOT NULL AND {where}").fetchnumpy()
    return {name: np.asarray(values, np.int64) for name, values in rows.items()}


def _in_order(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """In order of start: where several threads loaded the rows, they come in blocks out of order."""
    if (start[1:] >= start[:-1]).all():
        return start, end
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _near(start: Ints, end: Ints, waits: Intervals, begins: Ints) -> Ints:
    """Which holds of a thread, in order, a wait meets, and which is the last one to begin before each wait."""
    if not waits.size or not len(start):
        return np.empty(0, np.int64)
    keep = _met(start, end, waits)
    last = np.searchsorted(start, begins, side="left") - 1
    keep[last[last >= 0]] = True
    return np.flatnonzero(keep)


def _met(start: Ints, end: Ints, waits: Intervals) -> npt.NDArray[np.bool_]:
    """Which holds of a thread, in order of start, a wait meets."""
    if waits.size < len(start) and (end[1:] >= end[:-1]).all():
        # none within another, as they are: the few waits are looked up among the holds
        change = np.zeros(len(start) + 1, np.int64)
        np.add.at(change, np.searchsorted(end, waits.start, side="right"), 1)
        np.add.at(change, np.searchsorted(start, waits.end, side="left"), -1)
        return np.cumsum(change[:-1]) > 0
    met = np.maximum(np.searchsorted(waits.start, end, side="left") - 1, 0)
    return np.asarray((waits.start[met] < end) & (waits.end[met] > start))


def _sums(held: Tally, waited: Tally, tids: Ints) -> pl.DataFrame:
    frames = []
    for column, other, tally in (("hold_ns", "wait_ns", held), ("wait_ns", "hold_ns", waited)):
        code, _, ns = tally.rows()
        frame = {
            "stratum": code // len(tids),
            "tid": tids[code % len(tids)],
            column: ns,
            other: np.zeros_like(ns),
        }
        frames.append(pl.DataFrame(frame).select("stratum", "tid", "hold_ns", "wait_ns"))
    return pl.concat(frames)
