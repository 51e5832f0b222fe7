"""What a host thread was doing at every instant: its states by priority, its innermost range, who held the GIL.

The states of a stretch of time are put together when they are asked for (`HostThread.during`): a long capture has
more of them than fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import duckdb
import numpy as np
import numpy.typing as npt

from tracediff.accounting.gil import Gil
from tracediff.accounting.grouping import stretches
from tracediff.accounting.intervals import (
    Index,
    Intervals,
    Ints,
    innermost,
    layers,
    overlay,
    subtract,
    union,
    window,
)
from tracediff.trace.calls import LAUNCH, OTHER, SYNC, Calls, Launches, distinct

# Priority of what a thread does where kinds overlap; the numbers index `STATES`.
STATES = ("gc", "gil_wait", "launch_api", "host_sync", "host_api")
NO_STATE = len(STATES)
_NEVER = np.iinfo(np.int64).min
_GC, _GIL_WAIT, _CALL = 0, 1, 2  # _CALL + LAUNCH, SYNC or OTHER


@dataclass(frozen=True)
class Doing:
    """What a thread did in a stretch of time, cut wherever anything changes.

    Arrays of the slots between `bounds` (see `intervals.split`).
    """

    bounds: Ints
    state: npt.NDArray[np.int8]  # index into STATES, NO_STATE outside all
    under: npt.NDArray[np.int8]  # the same as if the GIL had not been traced
    api: npt.NDArray[np.int32]  # function of the outermost call, -1 outside
    label: npt.NDArray[np.int32]  # innermost range, -1 outside


class HostThread:
    """One thread: its calls, and its other events, read when first asked for."""

    def __init__(self, db: duckdb.DuckDBPyConnection, tid: int, calls: Calls, gil_wait: Intervals) -> None:
        mine = calls.of_thread.get(tid, slice(0, 0))
        self._db = db
        self.tid = tid
        self.gil_wait = gil_wait  # where the thread waited for the GIL: a partition
        self._calls = Intervals(calls.start[mine], calls.end[mine])
        self._names, self._kinds = calls.name[mine], calls.kind[mine]

    def _read(self, query: str, *columns: str) -> list[Ints]:
        rows = self._db.execute(query, [self.tid]).fetchnumpy()
        return [np.asarray(rows[column], np.int64) for column in columns]

    @cached_property
    def _outermost(self) -> npt.NDArray[np.bool_] | None:
        """Which calls began when all before them were over; None where no call overlaps another.

        A byte a call: of a long capture, the positions of these calls, and when what began in them ended, would be as much again as
        the calls.
        """
        start, end = self._calls
        outer = end > start
        reach = _NEVER
        for low, high in stretches(len(start)):
            over = np.maximum.accumulate(end[low:high])
            np.maximum(over, reach, out=over)
            outer[low] &= start[low] >= reach
            outer[low + 1 : high] &= start[low + 1 : high] >= over[:-1]
            reach = int(over[-1])
        return None if outer.all() else outer

    @cached_property
    def gc(self) -> Intervals:
        """Where the thread ran a garbage collection."""
        return union(*self._read("SELECT start_ns, end_ns FROM gc WHERE tid = ?", "start_ns", "end_ns"))

    @cached_property
    def places(self) -> tuple[Intervals, Ints]:
        """A partition of the time inside push/pop ranges, and the label of the innermost one."""
        start, end, label = self._read(
            "SELECT start_ns, end_ns, label FROM range WHERE push_pop AND tid = ?"
            " ORDER BY start_ns, end_ns DESC, label",
            "start_ns", "end_ns", "label",
        )  # fmt: skip
        parts, owner = innermost(start, end)
        return parts, label[owner]

    def label_at(self, instant: Ints) -> Ints:
        """The innermost range at each instant, -1 outside all."""
        ranges, label = self.places
        if not len(label):
            return np.full(len(instant), -1, np.int64)
        at = np.maximum(np.searchsorted(ranges.start, instant, side="right") - 1, 0)
        return np.where((ranges.start[at] <= instant) & (instant < ranges.end[at]), label[at], -1)

    def during(self, start: int, end: int) -> Doing:
        """What the thread did in [start, end)."""
        calls, names, kinds, nested = self._calls_during(start, end)
        inside = window(self.places[0], start, end)
        ranges, label = self.places[0].take(inside), self.places[1][inside]
        gc = self.gc.take(window(self.gc, start, end))
        waits = subtract(self.gil_wait.take(window(self.gil_wait, start, end)), gc)
        if nested is None:  # the calls themselves are the states
            bounds, (call, part, wait, collection) = overlay(calls, ranges, waits, gc)
            under = np.where(collection >= 0, _GC, _pick(_CALL + kinds, call, NO_STATE))
        else:
            states, number = layers(gc, *_by_kind(*nested))
            number = np.where(number > 0, _CALL + number - 1, _GC)
            bounds, (call, part, wait, layer) = overlay(calls, ranges, waits, states)
            under = _pick(number, layer, NO_STATE)
        return Doing(
            bounds,
            np.where(wait >= 0, _GIL_WAIT, under).astype(np.int8),
            under.astype(np.int8),
            _pick(names, call, -1).astype(np.int32),
            _pick(label, part, -1).astype(np.int32),
        )

    def outer_calls(
        self, start: int, end: int
    ) -> tuple[Intervals, npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """Outermost calls that touch [start, end): when, which function, and LAUNCH, SYNC or OTHER."""
        calls, names, kinds, _ = self._calls_during(start, end)
        return calls, names, kinds

    def _calls_during(
        self, start: int, end: int
    ) -> tuple[
        Intervals, npt.NDArray[np.int32], npt.NDArray[np.int8], tuple[Intervals, npt.NDArray[np.int8]] | None
    ]:
        """Outermost calls that touch [start, end) with names and kinds; where calls nest, all of them and their kinds."""
        if self._outermost is None:
            here = window(self._calls, start, end)
            return self._calls.take(here), self._names[here], self._kinds[here], None
        outer, following = self._outer_during(self._outermost, start, end)
        # inner calls lie between their outermost call and the next one
        within = slice(int(outer[0]), following) if len(outer) else slice(0, 0)
        nested = self._calls.take(within), self._kinds[within]
        return self._calls.take(outer), self._names[outer], self._kinds[outer], nested

    def _outer_during(
        self, outermost: npt.NDArray[np.bool_], start: int, end: int
    ) -> tuple[npt.NDArray[np.intp], int]:
        """Positions of the outermost calls that touch [start, end), themselves or with what began in them; and of the next one."""
        begins = self._calls.start
        stop = int(np.searchsorted(begins, end, side="left"))
        low = min(int(np.searchsorted(begins, start, side="right")), stop)
        first, following = _last_before(outermost, low), _first_from(outermost, stop)
        outer = np.flatnonzero(outermost[first:stop]) + first
        if first < low:  # began before: only the last one of these may still be going on
            inner = slice(first, outer[1] if len(outer) > 1 else following)
            if self._calls.end[inner].max() <= start:
                outer = outer[1:]
        return outer, following


def _last_before(which: npt.NDArray[np.bool_], stop: int) -> int:
    """The last position before `stop` that is true, `stop` where there is none."""
    reach, low = 64, stop
    while low > 0:
        low, high = max(stop - reach, 0), low
        found = np.flatnonzero(which[low:high])
        if len(found):
            return low + int(found[-1])
        reach *= 4
    return stop


def _first_from(which: npt.NDArray[np.bool_], low: int) -> int:
    """The first position from `low` on that is true, the length where there is none."""
    if low == len(which):
        return low
    found = low + int(which[low:].argmax())  # stops at the first
    return found if which[found] else len(which)


def _by_kind(calls: Intervals, kinds: npt.NDArray[np.int8]) -> list[Intervals]:
    return [union(calls.start[kinds == kind], calls.end[kinds == kind]) for kind in (LAUNCH, SYNC, OTHER)]


def _pick(values: Index, part: Index, otherwise: int) -> Index:
    """The value of each slot's part, `otherwise` where it has none."""
    return np.where(part >= 0, values[part], otherwise) if len(values) else np.full(len(part), otherwise)


class Hosts:
    """The threads of an export, read once each."""

    def __init__(self, db: duckdb.DuckDBPyConnection, calls: Calls, gil: Gil) -> None:
        self._db = db
        self._calls = calls
        self._gil = gil
        self._threads: dict[int, HostThread] = {}
        self._holds: dict[int, Intervals] = {}

    def thread(self, tid: int) -> HostThread:
        """A thread by its global id."""
        if tid not in self._threads:
            self._threads[tid] = HostThread(self._db, tid, self._calls, self._gil.waits_of(tid))
        return self._threads[tid]

    def holds(self, tid: int) -> Intervals:
        """Where a thread held the GIL, around the waits of its process."""
        if tid not in self._holds:
            self._holds[tid] = self._gil.holds_of(tid)
        return self._holds[tid]

    def labels(self, launches: Launches) -> Ints:
        """The innermost range in which each launching call began, -1 outside all."""
        out = np.full(len(launches.start), -1, np.int64)
        for tid in distinct(launches.tid):
            mine = launches.tid == tid
            out[mine] = self.thread(tid).label_at(launches.start[mine])
        return out

    def gil_holders(self, pid: int) -> tuple[Intervals, Ints]:
        """Who held the GIL of a process around its waits: a partition, and the holding thread of each part."""
        return self._gil.holders_of(pid)
