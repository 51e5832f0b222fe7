"""The CUDA calls of an export by thread and time, and which of them launched which ops.

Launches are found by (process, correlation id). Calls and ops come almost in that order, so sorting and searching
them as arrays costs a tenth of a hash join in the database, and no copy of the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import numpy as np
import numpy.typing as npt

from tracediff.formats.database import columns_of, release_memory, sql

# Sorting the rows of an export, which are almost in order of time already.

Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.integer[Any]]  # narrow where there are many
_T = TypeVar("_T", bound=np.generic)


class Order:
    """Positions in which to read columns. They come in few long runs, so columns are copied block by block."""

    def __init__(self, index: Index) -> None:
        self.index = index
        breaks = np.flatnonzero(index[1:] != index[:-1] + 1) + 1
        self._blocks: list[slice] | None = None
        if len(index) and len(breaks) * 64 < len(index):
            low = np.concatenate(([0], breaks))
            length = np.diff(low, append=len(index))
            firsts = index[low]
            self._blocks = [
                slice(one, one + size) for one, size in zip(firsts.tolist(), length.tolist(), strict=True)
            ]

    def of(self, values: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """A column in this order."""
        if self._blocks is None:
            return values[self.index]
        if len(self._blocks) == 1:
            return values
        return np.concatenate([values[block] for block in self._blocks])


def distinct(values: npt.NDArray[np.integer[Any]]) -> list[int]:
    """The different values, in order. Of most captures one thread launches everything: that it is one is soon seen."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    return [int(one) for one in np.unique(values).tolist()]


def time_order(
    group: npt.NDArray[np.integer[Any]], start: Ints, *ties: Callable[[Index], npt.NDArray[np.integer[Any]]]
) -> Order:
    """Order by `group` (few of them), then `start`, then what `ties` give for the rows that they are asked for.

    A stable sort of one column takes advantage of rows that are almost in order; the other columns are looked at only
    where starts are equal.
    """
    index = _narrow(np.argsort(start, kind="stable"))
    if len(group) and group.min() != group.max():
        index = index[_narrow(np.argsort(group[index], kind="stable"))]
    order = Order(index)
    ordered = order.of(start)
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    del ordered
    grouped = order.of(group)
    same &= grouped[1:] == grouped[:-1]
    tied = np.zeros(len(index), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    rows = index[tied]  # runs of equal (group, start) stay where they are, each sorted within
    index[tied] = rows[np.lexsort((*(tie(rows) for tie in reversed(ties)), start[rows], group[rows]))]
    return Order(index)


def _narrow(index: Index) -> Index:
    """In 4 bytes each where they fit: for some 10 million rows, positions are a part of all the memory."""
    return index.astype(np.int32) if len(index) < 1 << 31 else index


LAUNCH, SYNC, OTHER = 0, 1, 2  # what a call does to its thread
_COPY = 3  # of sql/call.sql: a launch, but for what `_kinds` says


@dataclass(frozen=True)
class Launches:
    """Launching calls by dense id, arrays of one length.

    A runtime call and the driver call under it share a correlation id: the outermost stands for both.
    """

    start: Ints
    end: Ints
    tid: Ints
    api: npt.NDArray[np.int32]  # id in api_name
    shared: int = 0  # those with the correlation id of a later call as well, which began after they were over


@dataclass(frozen=True)
class Calls:
    """All CUDA calls in order of (thread, start, longest first, name): arrays of one length."""

    start: Ints
    end: Ints
    name: npt.NDArray[np.int32]  # id in api_name
    kind: npt.NDArray[np.int8]  # LAUNCH, SYNC or OTHER
    of_thread: dict[int, slice]  # global thread id -> its calls


def read_calls(
    db: duckdb.DuckDBPyConnection, op_corr: Ints, blocking: npt.NDArray[np.bool_]
) -> tuple[Calls, Launches, npt.NDArray[np.int32]]:
    """The calls, the launches among them, and for each op the id of its launch (-1 none); the table api_call is dropped.

    `op_corr`: process and correlation id of each op (see sql/op.sql); `blocking`: which ops are copies from the
    device to pageable memory.
    """
    rows = columns_of(db, "api_call", sql("trace/call"))
    db.execute("DROP TABLE api_call")  # the arrays stand for it from here on: in memory once
    release_memory(db)
    order = time_order(
        rows["thread"], rows["start_ns"], lambda tied: -rows["end_ns"][tied], lambda tied: rows["name"][tied]
    )
    for column in rows:  # one after the other: each as it came makes room for the next in order
        rows[column] = order.of(rows[column])
    del order
    thread, start, end, name, kind = (
        rows[column] for column in ("thread", "start_ns", "end_ns", "name", "class")
    )
    tids = np.array(
        [row[0] for row in db.execute("SELECT tid FROM thread ORDER BY tid").fetchall()], np.int64
    )
    bounds = np.searchsorted(thread, np.arange(len(tids) + 1)).tolist()
    of_thread = {int(tid): slice(bounds[number], bounds[number + 1]) for number, tid in enumerate(tids)}

    # Calls of one correlation id side by side, the earliest first (the order within a thread is kept).
    by_corr = time_order(np.zeros(len(start), np.int8), rows["corr"], start.__getitem__)
    ids = by_corr.of(rows.pop("corr"))
    fresh = np.ones(len(ids) + 1, np.bool_)
    fresh[1:-1] = ids[1:] != ids[:-1]
    first = np.flatnonzero(fresh)  # of each correlation id, and behind the last one
    ids = ids[first[:-1]]
    at = np.minimum(_places(ids, op_corr), max(len(ids) - 1, 0))
    known = ids[at] == op_corr if len(ids) else np.zeros(len(op_corr), np.bool_)
    owning = np.zeros(len(ids), np.bool_)
    owning[at[known]] = True
    waiting = np.zeros(len(ids), np.bool_)
    waiting[at[known & blocking]] = True
    del fresh, ids  # with as many calls as there are, each of these columns is a part of the peak
    number = np.cumsum(owning, dtype=np.int32)
    number -= 1
    op_launch = (
        np.where(known, number[at], np.int32(-1)) if len(number) else np.full(len(op_corr), -1, np.int32)
    )
    del number, at, known
    owners = np.flatnonzero(owning)
    outermost, last = by_corr.index[first[owners]], by_corr.index[first[owners + 1] - 1]
    tid = np.append(tids, -1)[thread[outermost]]  # thread -1 is the last
    apart = start[last] > end[outermost]
    launches = Launches(start[outermost], end[outermost], tid, name[outermost], int(apart.sum()))
    del owners, outermost, last, apart
    calls_of = np.diff(first)
    del first
    return (
        Calls(start, end, name, _kinds(kind, by_corr.index, calls_of, owning, waiting), of_thread),
        launches,
        op_launch,
    )


def _places(ids: Ints, wanted: Ints) -> Index:
    """Where each of `wanted` is among the sorted ids, or would be. Nodes of a graph share one: it is searched once."""
    fresh = np.ones(len(wanted), np.bool_)
    fresh[1:] = wanted[1:] != wanted[:-1]
    first = np.flatnonzero(fresh)
    return np.repeat(np.searchsorted(ids, wanted[first]), np.diff(first, append=len(wanted)))


def _kinds(
    kind: npt.NDArray[np.int8],
    by_corr: Index,
    calls_of: Index,
    owning: npt.NDArray[np.bool_],
    waiting: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int8]:
    """What each call does to its thread, by what it launched. `calls_of`, `owning`, `waiting`: of each correlation id."""
    own, wait = np.empty(len(kind), np.bool_), np.empty(len(kind), np.bool_)
    own[by_corr] = np.repeat(owning, calls_of)
    wait[by_corr] = np.repeat(waiting, calls_of)
    # A call that put work on a GPU launched it, whatever its name. A copy from the device to pageable memory
    # returns when the copy is done: it waits for the GPU. (A graph launch with such a copy among its nodes does not.)
    out = np.where((kind == OTHER) & own, np.int8(LAUNCH), kind)
    return np.where(kind == _COPY, np.where(wait, np.int8(SYNC), np.int8(LAUNCH)), out).astype(np.int8)
