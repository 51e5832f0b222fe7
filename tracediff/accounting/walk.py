"""The walk along host threads: what a thread did at every instant, who held the GIL, and why the GPU was idle for it.

A gap of a device ends with an op; A is the call that launched it, T the thread of A. The gap is cut into pieces with a cause each:
    graph_internal   the op is a later node of its graph launch
    dependency       A had returned before the gap began: the op waited for something else
    launch_latency   after A returned; where other devices of the process work for most of that, it is a dependency: on them
    before that      what T was doing: gc > gil_wait > launch_api > host_sync > host_api > host_work;
                     inside A itself a blocking or unusual call counts as launch_api, it was launching
    unattributed     the op has no launching call
Pieces of a gap tile it exactly. They are made of arrays, for in SQL the walk takes ten times as long, and a block of gaps at a time, for
states and pieces of a long capture do not fit into memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property

import duckdb
import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import asdict

from tracediff.accounting.intervals import (
    EMPTY,
    Index,
    Intervals,
    Pieces,
    Tally,
    chunks,
    covered,
    cut,
    innermost,
    layers,
    outermost,
    overlay,
    picked,
    split,
    subtract,
    union,
    window,
)
from tracediff.accounting.sweep import Gaps
from tracediff.arrays import Bools, Ints
from tracediff.formats.database import create_table, release_memory, run_sql
from tracediff.model.causes import IDLE
from tracediff.trace.periods import Unit
from tracediff.trace.threads import LAUNCH, OTHER, SYNC, Calls, Launches, Places, Thread, distinct

# Host windows of the measured steps: in which stratum something on the host happened.


class Windows(msgspec.Struct, frozen=True):
    """For each process its windows in order: starts, ends (ns), periods. Windows do not overlap.

    A window's period is that of the step on the first device of its rank (row of `Reduction.periods`).
    """

    of_pid: dict[int, tuple[Ints, Ints, Ints]]
    ranks: frozenset[int]  # the processes that have steps of their own
    strata: Ints = msgspec.field(default_factory=lambda: np.empty(0, np.int64))  # of each period

    def stratum(self, pid: int, instant: Ints) -> Ints:
        """The stratum of the window of this process that each instant lies in, -1 outside all."""
        if pid not in self.of_pid:
            return np.full(len(instant), -1, np.int64)
        start, end, period = self.of_pid[pid]
        if not len(start):
            return np.full(len(instant), -1, np.int64)
        at = np.searchsorted(start, instant, side="right") - 1
        inside = at >= 0
        inside &= instant < end[at]  # -1, the last one, is left out above
        return np.where(inside, self.strata[period[at]], -1)

    def period(self, pid: int, instant: Ints) -> npt.NDArray[np.int32]:
        """The period of the window that each instant lies in, -1 outside all; instants in order: each window is looked up once."""
        if pid not in self.of_pid:
            return np.full(len(instant), -1, np.int32)
        start, end, period = self.of_pid[pid]
        edges = np.searchsorted(instant, np.stack((start, end), axis=1).reshape(-1))
        # before the first window, in it, between it and the second, ...
        many = np.diff(edges, prepend=0, append=len(instant))
        which = np.full(len(many), -1, np.int32)
        which[1::2] = period
        return np.repeat(which, many)

    def make_tables(self, db: duckdb.DuckDBPyConnection, threads: dict[int, Thread]) -> None:
        """Tables host_window (pid, start_ns, end_ns, stratum, period) and thread_role (tid, pid, role), and the macros over them."""
        many = [len(start) for start, *_ in self.of_pid.values()]
        pids = np.repeat(list(self.of_pid), many).astype(np.int64)
        start, end, period = (np.concatenate(one) for one in zip(*self.of_pid.values(), strict=True))
        window = {"start_ns": start, "end_ns": end, "stratum": self.strata[period], "period": period}
        create_table(db, "host_window", {"pid": pids, **window})
        found = list(threads.values())
        create_table(db, "thread_role", {
            "tid": np.array([one.tid for one in found], np.int64), "pid": np.array([one.pid for one in found], np.int64),
            "role": pl.Series([one.role for one in found], dtype=pl.String),
        })  # fmt: skip
        run_sql(db, "accounting/host_window")

    def code(self, pid: int, instant: Ints, key: Ints | int, keys: int) -> Ints:
        """Stratum and a key below `keys` in one number, stratum * keys + key; -1 outside the windows."""
        stratum = self.stratum(pid, instant)
        return np.where(stratum >= 0, stratum * keys + key, -1)


def active_windows(windows: Windows, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, thread -> windows: the steps in which threads of a role worked, once for each rank that has the role.

    A thread that serves several ranks or devices, or that only the first rank has, works in fewer windows than the
    stratum has steps. A role outside the ranks' processes serves them all.
    """
    carriers: dict[str, set[int]] = {}
    for thread in threads.values():
        carriers.setdefault(thread.role, set()).add(thread.pid)
    rows: list[tuple[int, str, int]] = []
    for role, pids in sorted(carriers.items()):
        pids = {pid for pid in pids if len(windows.of_pid[pid][0])}
        if not pids:
            continue
        counted = sorted(pids & windows.ranks) or sorted(pids)[:1]
        strata = Counter(one for pid in counted for one in windows.strata[windows.of_pid[pid][2]].tolist())
        rows += [(stratum, role, count) for stratum, count in sorted(strata.items())]
    return pl.DataFrame(
        rows, schema={"stratum": pl.Int64, "thread": pl.String, "windows": pl.Int64}, orient="row"
    )


def host_windows(
    periods: pl.DataFrame, first_pid: int, threads: dict[int, Thread], left_out: Collection[int] = ()
) -> Windows:
    """Host windows of the measured steps, their strata not yet known; a process without steps shares those of `first_pid`, a rank left out has none."""
    own = (
        periods.filter(pl.col("device") == pl.col("device").min().over("pid"))
        .select("pid", "window_start", "window_end", "period")
        .unique(["pid", "window_start"], maintain_order=True)
        .sort("pid", "window_start")
    )
    of_pid: dict[int, tuple[Ints, Ints, Ints]] = {}
    for pid in own["pid"].unique().to_list():
        mine = own.filter(pl.col("pid") == pid)
        start, end, period = (mine[name].to_numpy() for name in own.columns[1:])
        of_pid[pid] = start, end, period
    shared = {thread.pid: of_pid[first_pid] for thread in threads.values() if thread.pid not in of_pid}
    nothing = (np.empty(0, np.int64),) * 3
    return Windows({**shared, **dict.fromkeys(left_out, nothing), **of_pid}, frozenset(of_pid))


# The GIL: who waited for it, who held it around those waits, and for how long in all.


class Gil(msgspec.Struct, frozen=True):
    """Waits of each thread, a partition; the holds of each process that matter to them; sums by stratum and thread."""

    waits: dict[int, Intervals]
    holders: dict[int, tuple[Intervals, Ints]]
    sums: pl.DataFrame  # stratum, tid, hold_ns, wait_ns


def read_gil(
    db: duckdb.DuckDBPyConnection, windows: Windows, threads: dict[int, Thread], launchers: Collection[int]
) -> Gil:
    """Read the GIL's trace once, in chunks; table nvtx_row is dropped.

    There is a hold for every call that lets go of the GIL, so holds may outnumber everything else in a capture. Of
    threads that launch only those are kept that a wait meets, and the last one before each wait.
    """
    unranged = {one.pid for one in threads.values()} - {one.pid for one in threads.values() if one.places}
    tids = np.array(sorted(threads), np.int64)
    held, waited = Tally(), Tally()  # by stratum and position in tids
    raw = _columns(db, "waiting")
    waits: dict[int, Intervals] = {}
    for number, tid in enumerate(tids.tolist()):
        mine = raw["tid"] == tid
        start, end = raw["start_ns"][mine], raw["end_ns"][mine]
        waited.add(windows.code(threads[tid].pid, start, number, len(tids)), end - start)
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
    for low, high in chunks(int(rows[0])):
        holds = _columns(db, f"NOT waiting AND row >= {low} AND row < {high}")
        for tid in np.unique(holds["tid"]).tolist():
            mine = holds["tid"] == tid
            start, end = _in_order(holds["start_ns"][mine], holds["end_ns"][mine])
            pid = threads[tid].pid
            held.add(windows.code(pid, start, int(np.searchsorted(tids, tid)), len(tids)), end - start)
            # of a process without ranges they are all that says when it worked; for others a launching thread may wait
            keep = np.arange(len(start))
            if pid not in unranged and tid in launchers:
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
    met = np.maximum(np.searchsorted(waits.start, end, side="left") - 1, 0)
    keep = np.asarray((waits.start[met] < end) & (waits.end[met] > start))
    last = np.searchsorted(start, begins, side="left") - 1
    keep[last[last >= 0]] = True
    return np.flatnonzero(keep)


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


# What a thread did: its calls, garbage collections, waits for the GIL, and its innermost range.

# Priority of what a thread does where kinds overlap; the numbers index `STATES`.
STATES = ("gc", "gil_wait", "launch_api", "host_sync", "host_api")
NO_STATE = len(STATES)
_GC, _GIL_WAIT, _CALL = 0, 1, 2  # _CALL + LAUNCH, SYNC or OTHER


class Doing(msgspec.Struct, frozen=True):
    """What a thread did in a chunk of time, cut wherever anything changes.

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
    def _outermost(self) -> tuple[Ints, Ints] | None:
        """Positions and starts of the calls that began when all before were over; None where no call overlaps another."""
        start, end = self._calls
        outer = (end > start) & outermost(start, end)
        return None if outer.all() else (np.flatnonzero(outer), start[outer])

    @cached_property
    def calls(self) -> Intervals:
        """Where the thread was in a CUDA call: a partition."""
        return union(*self._calls)

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
            under = np.where(collection >= 0, _GC, picked(_CALL + kinds, call, NO_STATE))
        else:
            states, number = layers(gc, *_by_kind(*nested))
            number = np.where(number > 0, _CALL + number - 1, _GC)
            bounds, (call, part, wait, layer) = overlay(calls, ranges, waits, states)
            under = picked(number, layer, NO_STATE)
        return Doing(
            bounds,
            np.where(wait >= 0, _GIL_WAIT, under).astype(np.int8),
            under.astype(np.int8),
            picked(names, call, -1).astype(np.int32),
            picked(label, part, -1).astype(np.int32),
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
        outermost, begins = self._outermost
        low = max(int(np.searchsorted(begins, start, side="right")) - 1, 0)
        high = int(np.searchsorted(begins, end, side="left"))
        # inner calls lie before the next edge
        edges = np.append(outermost[low : high + 1], len(self._calls.start))
        outer, following = outermost[low:high], int(edges[max(high - low, 0)])
        if len(outer) and self._calls.end[outer[0] : int(edges[1])].max() <= start:
            outer = outer[1:]  # it and what began in it were over
        within = slice(int(outer[0]), following) if len(outer) else slice(0, 0)
        nested = self._calls.take(within), self._kinds[within]
        return self._calls.take(outer), self._names[outer], self._kinds[outer], nested


def _by_kind(calls: Intervals, kinds: npt.NDArray[np.int8]) -> list[Intervals]:
    return [union(calls.start[kinds == kind], calls.end[kinds == kind]) for kind in (LAUNCH, SYNC, OTHER)]


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
            self._threads[tid] = HostThread(self._db, tid, self._calls, self._gil.waits.get(tid, EMPTY))
        return self._threads[tid]

    def holds(self, tid: int) -> Intervals:
        """Where a thread held the GIL; of one that launches, around the waits of its process."""
        if tid not in self._holds:
            spans, holder = self.gil_holders(tid >> 24 & 0xFFFFFF)
            self._holds[tid] = spans.take(holder == tid)
        return self._holds[tid]

    def labels(self, launches: Launches) -> Ints:
        """The innermost range in which each launching call began, -1 outside all."""
        out = np.full(len(launches.start), -1, np.int64)
        for tid in distinct(launches.tid):
            mine = launches.tid == tid
            out[mine] = self.thread(tid).label_at(launches.start[mine])
        return out

    def waited_for(self, waits: Intervals, pid: int) -> tuple[Pieces, Ints, Bools]:
        """Waits for the GIL of a process cut along its holders: the holder of each piece, -1 none; where it only handed over."""
        spans, holders = self.gil_holders(pid)
        pieces = cut(waits, spans)
        holder = picked(holders, pieces.part).astype(np.int64)
        return pieces, handed_over(holder, pieces.query), holder < 0

    def gil_holders(self, pid: int) -> tuple[Intervals, Ints]:
        """Who held the GIL of a process around its waits: a partition, and the holding thread of each part."""
        return self._gil.holders.get(pid, (EMPTY, EMPTY.start))


# Why the GPU was idle.

CODE = {name: number for number, name in enumerate(IDLE)}
_OF_STATE = np.array([CODE[name] for name in STATES] + [CODE["host_work"]], np.int8)
assert len(_OF_STATE) - 1 == NO_STATE
# Inside the launching call itself, what blocks or is unusual is launching as well.
_OF_STATE_IN_LAUNCH = np.where(
    np.isin(_OF_STATE, (CODE["host_sync"], CODE["host_api"])), CODE["launch_api"], _OF_STATE
)
# The same where a wait for the GIL is looked at without the GIL's trace: all of the call but a collection in it.
_UNDER_IN_LAUNCH = np.where(CODE["gc"] == _OF_STATE, CODE["gc"], CODE["launch_api"])
_IN_CALLS = np.isin(np.arange(len(IDLE)), [CODE[name] for name in ("launch_api", "host_sync", "host_api")])


class IdlePieces(msgspec.Struct, frozen=True):
    """Parts of gaps that end with launches of one thread: arrays of one length, in no order. -1 stands for none."""

    tid: int  # launching thread
    gap: Index  # position in the gaps
    start: Ints
    end: Ints
    cause: Index  # index into IDLE
    label: Index  # innermost range of the launching thread
    api: Index  # CUDA function, for pieces inside one
    holder: int = -1  # thread that held the GIL, for gil_wait
    holder_label: Index | None = None  # its innermost range, for gil_wait
    under: Index | None = None  # for gil_wait: the cause it would have without a GIL trace


def attribute(unit: Unit, gaps: Gaps, launches: Launches, labels: Ints, hosts: Hosts) -> list[IdlePieces]:
    """Cut gaps of a unit into pieces by cause. `labels`: the range in which each launch began (`Hosts.labels`)."""
    launch = unit.launch[gaps.op]
    tid = np.where(launch >= 0, launches.tid[launch], -1) if len(launches.tid) else np.full(gaps.size, -1)
    parts = []
    for thread in distinct(tid):
        index = np.flatnonzero(tid == thread)
        if thread < 0:
            start, end = gaps.start[index], gaps.end[index]
            parts.append(_pieces(index, start, end, "unattributed", -1, np.full(len(index), -1)))
        else:
            parts += _of_thread(unit, gaps, index, launches, labels, hosts, hosts.thread(thread))
    return parts


def _of_thread(
    unit: Unit, gaps: Gaps, index: Index, launches: Launches, labels: Ints, hosts: Hosts, host: HostThread
) -> list[IdlePieces]:
    """The pieces of those gaps whose ending op was launched by one thread."""
    op, start, end = gaps.op[index], gaps.start[index], gaps.end[index]
    launch = unit.launch[op]
    call = Intervals(launches.start[launch], launches.end[launch])
    label = labels[launch]  # what ran by itself is named by the range of the launch
    internal = unit.later_node[op]
    ahead = ~internal & (call.end <= start)
    walked = np.flatnonzero(~internal & ~ahead)
    late = walked[(call.end < end)[walked]]
    latency = Intervals(call.end[late], end[late])
    theirs = 2 * covered(latency, gaps.others) > latency.end - latency.start
    waits = (
        (late[~theirs], latency.take(~theirs), "launch_latency"),
        (late[theirs], latency.take(theirs), "dependency"),
    )
    return [
        _pieces(index[internal], start[internal], end[internal], "graph_internal", host.tid, label[internal]),
        _pieces(index[ahead], start[ahead], end[ahead], "dependency", host.tid, label[ahead]),
        *(_pieces(index[at], *piece, cause, host.tid, label[at]) for at, piece, cause in waits),
        *_walk(
            hosts, host, index[walked],
            Intervals(start[walked], np.minimum(call.end, end)[walked]), call.take(walked),
        ),
    ]  # fmt: skip


def _pieces(index: Index, start: Ints, end: Ints, cause: str, tid: int, label: Index) -> IdlePieces:
    return IdlePieces(
        tid, index, start, end, np.full(len(index), CODE[cause], np.int8), label, np.full(len(index), -1)
    )


def _walk(hosts: Hosts, host: HostThread, index: Index, walk: Intervals, call: Intervals) -> list[IdlePieces]:
    """The part of each gap before the launching call returned, by what the thread was doing."""
    if not walk.size:
        return []
    doing = host.during(int(walk.start[0]), int(walk.end.max()))
    query, slot, start, end = split(walk, doing.bounds)
    own = (start >= call.start[query]) & (end <= call.end[query])
    state = doing.state[slot]
    cause = np.where(own, _OF_STATE_IN_LAUNCH[state], _OF_STATE[state])
    api = np.where(_IN_CALLS[cause], doing.api[slot], -1)
    gap, label = index[query], doing.label[slot]
    waits = cause == CODE["gil_wait"]
    if not waits.any():
        return [IdlePieces(host.tid, gap, start, end, cause, label, api)]
    under = np.where(own, _UNDER_IN_LAUNCH[doing.under[slot]], _OF_STATE[doing.under[slot]])
    pieces = IdlePieces(host.tid, gap, start, end, cause, label, api, under=under)
    return [_select(pieces, ~waits, under=None), *_with_holders(_select(pieces, waits), hosts)]


def _with_holders(waits: IdlePieces, hosts: Hosts) -> list[IdlePieces]:
    """Cut waits for the GIL along its holders, and those along the holder's innermost range."""
    held, holder, nobody = hosts.waited_for(Intervals(waits.start, waits.end), waits.tid >> 24 & 0xFFFFFF)
    pieces = _select(waits, held.query, start=held.start, end=held.end, holder_label=np.full(len(holder), -1))
    out = []
    for thread in distinct(holder):
        mine = np.flatnonzero(nobody & (holder == thread))
        out.append(_held_before(_select(pieces, mine, holder=thread), hosts))
        if thread < 0:
            continue
        mine = np.flatnonzero(~nobody & (holder == thread))
        by_range = cut(Intervals(held.start[mine], held.end[mine]), hosts.thread(thread).places[0])
        label = hosts.thread(thread).label_at(by_range.start)
        changed = {"start": by_range.start, "end": by_range.end, "holder": thread, "holder_label": label}
        out.append(_select(pieces, mine[by_range.query], **changed))
    return out


def _held_before(handed: IdlePieces, hosts: Hosts) -> IdlePieces:
    """Stretches of handing over: the range is the one in which the holder let go (or, before any hold, took it)."""
    if handed.holder < 0 or not len(handed.gap):
        return handed
    holds = hosts.holds(handed.holder)
    before = np.searchsorted(holds.end, handed.start, side="right") - 1
    let_go = np.where(before >= 0, holds.end[np.maximum(before, 0)] - 1, handed.end)
    return _select(handed, slice(None), holder_label=hosts.thread(handed.holder).label_at(let_go))


def handed_over(holder: Ints, wait: Index) -> Ints:
    """Stretches of a wait in which nobody held the GIL belong to who held it last: handing it over takes time.

    `holder`: thread or -1, `wait`: which wait each piece is of; pieces of a wait in order of time. A wait that
    begins before any hold belongs to the first holder in it.
    """
    position = np.arange(len(holder))
    last = np.maximum.accumulate(np.where(holder >= 0, position, -1))
    same = (last >= 0) & (wait[np.maximum(last, 0)] == wait)
    filled = np.where(same, holder[np.maximum(last, 0)], -1)
    ahead = np.minimum.accumulate(np.where(holder >= 0, position, len(holder))[::-1])[::-1]
    following = np.minimum(ahead, max(len(holder) - 1, 0))
    later = (filled < 0) & (ahead < len(holder)) & (wait[following] == wait)
    return np.where(later, holder[following], filled)


def _select(pieces: IdlePieces, index: Index | Bools | slice, **changed: object) -> IdlePieces:
    """Some of the pieces, with other values in some fields."""
    kept = {
        name: value[index] if isinstance(value, np.ndarray) else value
        for name, value in asdict(pieces).items()
        if name not in changed
    }
    return IdlePieces(**kept, **changed)  # type: ignore[arg-type]


# What pieces of idle time are named by: role and place.


def places_of(places: Places, hosts: Hosts, tid: int, label: Index, start: Ints) -> Ints:
    """The place of each label of a thread, -1 of no thread; of no label: between which ranges `start` (ns) is."""
    found = places.ids(label)
    outside = np.flatnonzero(label < 0)
    if tid >= 0 and len(outside):
        ranges, labels = hosts.thread(tid).places
        found[outside] = places.outside(ranges.start, labels, start[outside])
    return found


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
        return places_of(self._places, self._hosts, tid, label, start) + 1

    def tables(self) -> dict[str, list[str]]:
        """Name of a table -> the texts of its numbers."""
        return {"role_name": ["", *self._roles], "place_name": ["", *self._places.names]}
