"""What a host thread was doing at every instant: its states by priority, its innermost range, who held the GIL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import duckdb
import numpy as np
import numpy.typing as npt

from tracediff.load.database import sql
from tracediff.measure.intervals import EMPTY, Intervals, Ints, innermost, layers, union

Index = npt.NDArray[np.intp]

# Priority of what a thread does where kinds overlap; the numbers index `STATES`.
STATES = ("gc", "gil_wait", "launch_api", "host_sync", "host_api")


@dataclass(frozen=True)
class ApiCalls:
    """Outermost CUDA calls of a thread, disjoint, in order."""

    span: Intervals
    name: Ints  # id in api_name


class HostThread:
    """Lazily read states of one thread."""

    def __init__(self, db: duckdb.DuckDBPyConnection, tid: int) -> None:
        self._db = db
        self.tid = tid
        self.pid = tid >> 24 & 0xFFFFFF

    def _read(self, query: str, *columns: str) -> list[Ints]:
        rows = self._db.execute(query, [self.tid]).fetchnumpy()
        return [np.asarray(rows[column]) for column in columns]

    @cached_property
    def _calls(self) -> tuple[Ints, Ints, Ints, npt.NDArray[np.str_]]:
        start, end, name, kind = self._read(
            # A copy from the device to pageable memory returns when the copy is done: the call waits for the GPU.
            sql("measure/thread_calls"),
            "start_ns", "end_ns", "name", "class",
        )  # fmt: skip
        return start.astype(np.int64), end.astype(np.int64), name.astype(np.int64), kind.astype(np.str_)

    @cached_property
    def api(self) -> ApiCalls:
        """The outermost calls, for naming."""
        start, end, name, _ = self._calls
        if not len(start):
            return ApiCalls(EMPTY, np.empty(0, np.int64))
        reach = np.maximum.accumulate(end)
        outer = np.concatenate(([True], start[1:] >= reach[:-1])) & (end > start)
        return ApiCalls(Intervals(start[outer], end[outer]), name[outer])

    @cached_property
    def gil_wait(self) -> Intervals:
        """Where the thread waited for the GIL."""
        return self._union("SELECT start_ns, end_ns FROM gil WHERE waiting AND tid = ?")

    @cached_property
    def gc(self) -> Intervals:
        """Where the thread ran a garbage collection."""
        return self._union("SELECT start_ns, end_ns FROM gc WHERE tid = ?")

    def _union(self, query: str) -> Intervals:
        start, end = self._read(query, "start_ns", "end_ns")
        return union(start.astype(np.int64), end.astype(np.int64))

    @cached_property
    def states(self) -> tuple[Intervals, Index]:
        """A partition of the thread's busy time and, for each part, the index into STATES."""
        return layers(self.gc, self.gil_wait, *self._by_class)

    @cached_property
    def states_without_gil(self) -> tuple[Intervals, Index]:
        """The same as if the GIL had not been traced."""
        return layers(self.gc, EMPTY, *self._by_class)

    @cached_property
    def _by_class(self) -> list[Intervals]:
        start, end, _, kind = self._calls
        return [union(start[kind == name], end[kind == name]) for name in ("launch", "sync", "other")]

    @cached_property
    def places(self) -> tuple[Intervals, Ints]:
        """A partition of the time inside push/pop ranges, and the label of the innermost one."""
        start, end, label = self._read(
            "SELECT start_ns, end_ns, label FROM range WHERE push_pop AND tid = ?"
            " ORDER BY start_ns, end_ns DESC, label",
            "start_ns", "end_ns", "label",
        )  # fmt: skip
        parts, owner = innermost(start.astype(np.int64), end.astype(np.int64))
        return parts, label.astype(np.int64)[owner]


class Hosts:
    """The threads of an export, read once each."""

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self._db = db
        self._threads: dict[int, HostThread] = {}
        self._holders: dict[int, tuple[Intervals, Ints]] = {}

    def thread(self, tid: int) -> HostThread:
        """A thread by its global id."""
        if tid not in self._threads:
            self._threads[tid] = HostThread(self._db, tid)
        return self._threads[tid]

    def gil_holders(self, pid: int) -> tuple[Intervals, Ints]:
        """Who held the GIL of a process: a partition, and the holding thread of each part."""
        if pid not in self._holders:
            rows = self._db.execute(
                "SELECT start_ns, end_ns, tid FROM gil WHERE NOT waiting AND (tid >> 24 & 16777215) = ?"
                " ORDER BY start_ns, end_ns DESC, tid",
                [pid],
            ).fetchnumpy()
            start = np.asarray(rows["start_ns"], np.int64)
            parts, owner = innermost(start, np.asarray(rows["end_ns"], np.int64))
            self._holders[pid] = parts, np.asarray(rows["tid"], np.int64)[owner]
        return self._holders[pid]
