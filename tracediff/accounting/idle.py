"""Every idle gap of a device, cut into pieces with a cause each.

The gap ends with an op; A is the call that launched it, T the thread of A.
    graph_internal   the op is a later node of its graph launch
    dependency       A had returned before the gap began: the op waited for something else
    launch_latency   after A returned
    before that      what T was doing: gc > gil_wait > launch_api > host_sync > host_api > host_work;
                     inside A itself a blocking or unusual call counts as launch_api, it was launching
    unattributed     the op has no launching call
Pieces of a gap tile it exactly. Gaps are cut a stretch at a time (see reduce_idle.py): the pieces of a long capture
do not fit into memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.grouping import Numbering, Samples, count_by, grouped, stretches, sum_by
from tracediff.accounting.hosts import NO_STATE, STATES, Hosts, HostThread
from tracediff.accounting.intervals import Index, Intervals, Ints, cut, split
from tracediff.accounting.os_trace import OsTrace
from tracediff.accounting.sweep import Gaps
from tracediff.trace.calls import Launches, distinct
from tracediff.trace.periods import Timeline, Unit
from tracediff.trace.ranges import Places
from tracediff.trace.threads import Thread

IDLE = ("launch_latency", "dependency", "graph_internal", *("launch_api", "host_sync", "host_api", "gc", "gil_wait"),
        "host_work", "unattributed")  # fmt: skip
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


@dataclass(frozen=True)
class IdlePieces:
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
            nothing = np.full(len(index), -1)
            parts.append(_whole(gaps, index, "unattributed", -1, nothing))
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
    late = ~internal & ~ahead & (call.end < end)
    walked = np.flatnonzero(~internal & ~ahead)
    latency = np.flatnonzero(late)
    return [
        _whole(gaps, index[internal], "graph_internal", host.tid, label[internal]),
        _whole(gaps, index[ahead], "dependency", host.tid, label[ahead]),
        _pieces(index[latency], call.end[latency], end[latency], "launch_latency", host.tid, label[latency]),
        *_walk(
            hosts, host, index[walked],
            Intervals(start[walked], np.minimum(call.end, end)[walked]), call.take(walked),
        ),
    ]  # fmt: skip


def _whole(gaps: Gaps, index: Index, cause: str, tid: int, label: Index) -> IdlePieces:
    return _pieces(index, gaps.start[index], gaps.end[index], cause, tid, label)


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
    other = ~waits
    return [
        IdlePieces(host.tid, gap[other], start[other], end[other], cause[other], label[other], api[other]),
        *_with_holders(
            IdlePieces(
                host.tid,
                gap[waits],
                start[waits],
                end[waits],
                cause[waits],
                label[waits],
                api[waits],
                under=under[waits],
            ),
            hosts,
        ),
    ]


def _with_holders(waits: IdlePieces, hosts: Hosts) -> list[IdlePieces]:
    """Cut waits for the GIL along its holders, and those along the holder's innermost range."""
    spans, holders = hosts.gil_holders(waits.tid >> 24 & 0xFFFFFF)
    held = cut(Intervals(waits.start, waits.end), spans)
    holder = np.where(held.part >= 0, holders[held.part], -1) if len(holders) else np.full(len(held.part), -1)
    nobody = holder < 0
    holder = handed_over(holder, held.query)
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
        out.append(
            _select(
                pieces,
                mine[by_range.query],
                start=by_range.start,
                end=by_range.end,
                holder=thread,
                holder_label=label,
            )
        )
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


def _select(pieces: IdlePieces, index: Index | slice, **changed: object) -> IdlePieces:
    """Some of the pieces, with other values in some fields."""
    kept = {
        name: value[index] if isinstance(value, np.ndarray) else value
        for name, value in pieces.__dict__.items()
        if name not in changed
    }
    return IdlePieces(**kept, **changed)  # type: ignore[arg-type]


# Numbers for what a piece of idle time is: cause, thread's role, place, holder of the GIL, whether in a copying call.

CELL = ("cause", "under", "thread", "place", "holder", "holder_place", "copy")
ENTRY = ("cause", "under", "thread", "place")

# A cell is coded in one number, from the right: place + 1 (25 bits), the thread's role + 1 (12), copy (1), cause (5;
# of a wait for the GIL: the number of causes + what it hides), the number of who held the GIL (20; 0 nobody).
_ROLE_AT, _COPY_AT, _CAUSE_AT, _HOLDER_AT = 25, 37, 38, 43
_PLACE_MASK, _ROLE_MASK, _CAUSE_MASK = (1 << 25) - 1, (1 << 12) - 1, (1 << 5) - 1
_ENTRY_MASK = (1 << _HOLDER_AT) - 1 - (1 << _COPY_AT)


@dataclass(frozen=True)
class Words:
    """The roles and places that the numbers in cells stand for."""

    roles: list[str]
    role_of: dict[int, int]  # thread -> position in roles
    places: Places
    hosts: Hosts

    @classmethod
    def of(cls, threads: dict[int, Thread], places: Places, hosts: Hosts) -> Words:
        """Number the roles of these threads."""
        roles = sorted({thread.role for thread in threads.values()})
        return cls(roles, {tid: roles.index(thread.role) for tid, thread in threads.items()}, places, hosts)

    def code(self, tid: int, label: Index, start: Ints) -> Ints:
        """Role and place of pieces of one thread, 0 without a thread; outside any range: between which ones."""
        code = self.places.ids(label) + 1
        code |= (self.role_of.get(tid, -1) + 1) << _ROLE_AT
        outside = np.flatnonzero(label < 0)
        if tid >= 0 and len(outside):
            ranges, labels = self.hosts.thread(tid).places
            code[outside] += self.places.outside(ranges.start, labels, start[outside]) + 1
        return code

    def spelled(self, code: Ints) -> tuple[pl.Series, pl.Series]:
        """Role and place of each code, '' where there is none; what else is in a cell's code is left alone."""
        roles, places = pl.Series(["", *self.roles]), pl.Series(["", *self.places.names])
        return roles.gather(code >> _ROLE_AT & _ROLE_MASK), places.gather(code & _PLACE_MASK)


class Cells:
    """The cells of an export, numbered as they turn up."""

    def __init__(self, words: Words, copy_calls: list[int]) -> None:
        """`copy_calls`: the CUDA functions that launch copies."""
        self._words = words
        self._copy_calls = copy_calls
        self._cells, self._entries, self._holders = Numbering(), Numbering(), Numbering()
        self._holders.numbers(np.array([-1]))  # 0: nobody, the piece is no wait for the GIL

    def numbers(self, pieces: IdlePieces) -> npt.NDArray[np.int32]:
        """The cell of each piece."""
        code = self._words.code(pieces.tid, pieces.label, pieces.start)
        if pieces.holder_label is None or pieces.under is None:
            code |= pieces.cause.astype(np.int64) << _CAUSE_AT
            launching = np.flatnonzero(pieces.cause == CODE["launch_api"])
            api = pieces.api[launching]
            for call in self._copy_calls:
                code[launching[api == call]] |= 1 << _COPY_AT
        else:
            holder = self._words.code(pieces.holder, pieces.holder_label, pieces.start)
            code |= (len(IDLE) + pieces.under.astype(np.int64)) << _CAUSE_AT
            code |= self._holders.numbers(holder).astype(np.int64) << _HOLDER_AT
        return self._cells.numbers(code)

    @property
    def size(self) -> int:
        """How many cells there are so far."""
        return len(self._cells.codes)

    def entries(self) -> npt.NDArray[np.int32]:
        """For each cell the number of its ENTRY: what it is but for the holder and copying."""
        return self._entries.numbers(self._codes() & _ENTRY_MASK)

    def causes(self) -> Ints:
        """For each cell the index of its cause in IDLE."""
        cause = self._codes() >> _CAUSE_AT & _CAUSE_MASK
        return np.where(cause >= len(IDLE), CODE["gil_wait"], cause)

    def table(self) -> pl.DataFrame:
        """CELL, a row a cell."""
        return self._spelled(self._codes())

    def in_order(self) -> tuple[pl.DataFrame, Index]:
        """CELL, each once and sorted by its words, and the row there of each cell."""
        table = self.table()
        words = table.unique().sort(CELL).with_row_index("number")
        number = table.join(words, on=CELL, how="left", maintain_order="left")["number"]
        return words.drop("number"), number.to_numpy()

    def entry_table(self) -> pl.DataFrame:
        """ENTRY, a row an entry."""
        return self._spelled(np.array(self._entries.codes, np.int64)).select(ENTRY)

    def _codes(self) -> Ints:
        return np.array(self._cells.codes, np.int64)

    def _spelled(self, code: Ints) -> pl.DataFrame:
        holder = np.maximum(np.array(self._holders.codes, np.int64)[code >> _HOLDER_AT], 0)
        cause = code >> _CAUSE_AT & _CAUSE_MASK
        waits = cause >= len(IDLE)
        causes = pl.Series(list(IDLE))
        thread, place = self._words.spelled(code)
        holder_thread, holder_place = self._words.spelled(holder)
        return pl.DataFrame(
            {
                "cause": causes.gather(np.where(waits, CODE["gil_wait"], cause)),
                "under": causes.gather(np.where(waits, cause - len(IDLE), cause)),
                "thread": thread,
                "place": place,
                "holder": holder_thread,
                "holder_place": holder_place,
                "copy": (code >> _COPY_AT & 1).astype(np.bool_),
            }
        )


# Tables of idle pieces: sums by cell, gaps by neighbours, the longest ones.

WORST = 20
_ENTRY_BITS = 20  # of a site's code
_ENTRIES_A_GAP = 4  # 1 where graphs are launched, 3.7 where each kernel is and the GIL is traced


class GapTables:
    """What is kept of the idle pieces of one unit."""

    def __init__(
        self, unit: Unit, gaps: Gaps, first_period: int, stratum: Ints, cells: Cells, worst: Ints
    ) -> None:
        """`first_period`: number of the unit's first period; `stratum`: of each period of the export; `worst`: see `worst_index`."""
        self._unit, self._gaps, self._first, self._cells = unit, gaps, first_period, cells
        self._stratum = stratum
        self._keys = int(unit.key.max(initial=0)) + 1
        self._sums: list[tuple[Ints, ...]] = []  # period, cell, ns, pieces
        self._neighbours = Numbering()  # stratum, ops before and after
        self._sites = Numbering()  # neighbours, entry
        self._entries = Samples(_ENTRIES_A_GAP * gaps.size)  # by site
        self._longest = _Longest()
        self._worst = worst
        self._worst_pieces = np.zeros((4, 0), np.int64)  # gap, cell, start, end

    def add(self, parts: list[IdlePieces], low: int, high: int) -> None:
        """Take in the pieces of the gaps [low, high)."""
        cell = np.concatenate([self._cells.numbers(part) for part in parts])
        gap, start, end, api = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("gap", "start", "end", "api")
        )
        ns, cells = end - start, self._cells.size
        period = self._gaps.period[low:high]
        first = int(period[0])
        code, position = grouped((period - first)[gap] * np.int64(cells) + cell)
        sums = sum_by(position, len(code), ns), count_by(position, len(code))
        self._sums.append((code // cells + first, code % cells, *sums))
        self._add_entries(gap, cell, ns, low, high)
        self._longest.add(cell, start, end, gap + low, api, cells)
        among = slice(*np.searchsorted(self._worst, [low, high]).tolist())
        if among.stop > among.start:
            found = np.flatnonzero(np.isin(gap, self._worst[among] - low))
            pieces = np.stack((gap[found] + low, cell[found], start[found], end[found]))
            self._worst_pieces = np.concatenate((self._worst_pieces, pieces), axis=1)

    def _add_entries(self, gap: Index, cell: Index, ns: Ints, low: int, high: int) -> None:
        """Pieces of one gap with one cause and place (a walk in and out of calls) are one entry of that gap."""
        gap, entry, whole = _merged(gap, self._cells.entries()[cell], ns, high - low)
        gaps, key = self._gaps.take(slice(low, high)), self._unit.key
        around = self._stratum[gaps.period + self._first] * self._keys + key[gaps.previous]
        around = self._neighbours.numbers(around * self._keys + key[gaps.op])
        site = self._sites.numbers(around[gap].astype(np.int64) << _ENTRY_BITS | entry)
        self._entries.add(site, whole)

    def sums(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Period (of the unit), cell -> ns, pieces."""
        if not self._sums:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing, nothing
        period, cell, ns, count = (
            np.concatenate([part[column] for part in self._sums]) for column in range(4)
        )
        # a period may have been met in two stretches
        code, position = grouped(period * self._cells.size + cell)
        sums = sum_by(position, len(code), ns), sum_by(position, len(code), count)
        return code // self._cells.size, code % self._cells.size, *sums

    def gaps(self, names: list[str]) -> pl.DataFrame:
        """stratum, cause, under, thread, place, previous, next -> count, ns, p50_ns, p99_ns."""
        code = np.array(self._sites.codes, np.int64)
        counts, sums, (p50, p99) = self._entries.take(len(code), (0.5, 0.99))
        around = np.array(self._neighbours.codes, np.int64)[code >> _ENTRY_BITS]
        op_name = pl.Series(names, dtype=pl.String)
        table = self._cells.entry_table()[code & ((1 << _ENTRY_BITS) - 1)].with_columns(
            stratum=pl.Series(around // self._keys // self._keys),
            previous=op_name.gather(around // self._keys % self._keys),
            next=op_name.gather(around % self._keys),
            count=pl.Series(counts),
            ns=pl.Series(sums),
            p50_ns=pl.Series(p50),
            p99_ns=pl.Series(p99),
        )
        by = ["stratum", *ENTRY, "previous", "next"]
        # kernels of one name with different grids are rows of their own
        return table.select(*by, "count", "ns", "p50_ns", "p99_ns").sort(*by, "ns", "count", "p50_ns")

    def longest(self, periods: pl.DataFrame, api_names: dict[int, tuple[str, str]]) -> pl.DataFrame:
        """For each cell the longest piece, a place to jump to, and the CUDA function it lies in ('' none)."""
        cell, start, end, gap, api = self._longest.rows()
        table = self._cells.table()[cell].drop("under")
        by = table.columns
        return (
            table.with_columns(
                start=pl.Series(start),
                end=pl.Series(end),
                period=pl.Series(self._gaps.period[gap].astype(np.int64) + self._first),
                api=pl.Series(
                    [api_names[one][0] if one >= 0 else "" for one in api.tolist()], dtype=pl.String
                ),
            )
            .sort(pl.col("end") - pl.col("start"), "start", descending=[True, False])
            .unique(by, keep="first", maintain_order=True)
            .join(
                periods.select("period", "number", "rank", "phase"),
                on="period",
                how="left",
                maintain_order="left",
            )
            .drop("period")
        )

    def worst(self, periods: pl.DataFrame, names: list[str]) -> pl.DataFrame:
        """The longest single gaps, each with its largest cause."""
        gap, cell, start, end = self._worst_pieces
        order = np.lexsort((start, start - end, gap))
        cells = cell[order][np.searchsorted(gap[order], self._worst)]
        gaps, key = self._gaps.take(self._worst), self._unit.key
        op_name = pl.Series(names, dtype=pl.String)
        return (
            self._cells.table()[cells]
            .with_columns(
                start=pl.Series(gaps.start),
                ns=pl.Series(gaps.end - gaps.start),
                period=pl.Series(gaps.period.astype(np.int64) + self._first),
                previous=op_name.gather(key[gaps.previous]),
                next=op_name.gather(key[gaps.op]),
            )
            .sort("ns", "start", descending=[True, False])
            .join(periods.select("period", "phase", "rank"), on="period", how="left", maintain_order="left")
            .select("start", "ns", "cause", "thread", "place", "previous", "next", "phase", "rank")
        )


def worst_index(gaps: Gaps) -> Ints:
    """Positions of the longest gaps, in order of time."""
    length = gaps.end - gaps.start
    least = np.partition(length, -WORST)[-WORST] if gaps.size > WORST else 0
    long = np.flatnonzero(length >= least)
    return np.sort(long[np.lexsort((gaps.start[long], -length[long]))][:WORST])


class _Longest:
    """The longest piece of each cell, the earliest of several; stretches come in order of time."""

    def __init__(self) -> None:
        self._rows = np.zeros((5, 0), np.int64)  # start, end, gap, api, 1 where there is one; a column a cell

    def add(self, cell: Index, start: Ints, end: Ints, gap: Index, api: Index, cells: int) -> None:
        """Take in pieces; `cells`: how many cells there are so far."""
        self._rows = np.pad(self._rows, ((0, 0), (0, cells - self._rows.shape[1])))
        ns, before = end - start, self._rows[1] - self._rows[0]
        longest = before.copy()
        np.maximum.at(longest, cell, ns)
        found = np.flatnonzero((ns == longest[cell]) & (ns > before[cell]))
        found = found[np.lexsort((start[found], cell[found]))]
        found = found[np.unique(cell[found], return_index=True)[1]]
        for row, values in zip(self._rows, (start, end, gap, api), strict=False):
            row[cell[found]] = values[found]
        self._rows[4, cell[found]] = 1

    def rows(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """cell, start, end, gap, api."""
        cell = np.flatnonzero(self._rows[4])
        start, end, gap, api = self._rows[:4, cell]
        return cell, start, end, gap, api


def _merged(gap: Index, entry: Index, ns: Ints, gaps: int) -> tuple[Index, Index, Ints]:
    """Pieces -> each gap and entry once, with the sum of ns. Most gaps are one piece: they are not sorted."""
    several = (count_by(gap, gaps) > 1)[gap]
    rest = np.flatnonzero(several)
    if not len(rest):
        return gap, entry, ns
    rest = rest[_by_two(gap[rest], entry[rest])]
    of, what = gap[rest], entry[rest]
    fresh = np.ones(len(rest), np.bool_)
    fresh[1:] = (of[1:] != of[:-1]) | (what[1:] != what[:-1])
    first = np.flatnonzero(fresh)
    alone = ~several
    return (
        np.concatenate((gap[alone], of[first])),
        np.concatenate((entry[alone], what[first])),
        np.concatenate((ns[alone], np.add.reduceat(ns[rest], first))),
    )


def _by_two(major: Index, minor: Index) -> npt.NDArray[np.intp]:
    """Order by major, then minor. Numbers of 16 bits are sorted in two passes without a comparison (radix sort)."""
    if max(major.max(), minor.max()) >= 1 << 16:
        return np.lexsort((minor, major))
    order = np.argsort(minor.astype(np.uint16), kind="stable")
    return order[np.argsort(major[order].astype(np.uint16), kind="stable")]


# Host work that kept a GPU idle, told apart by the calls that the thread was in and by whether it was on a CPU.

HOST_WORK = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "gil": pl.Boolean, "call": pl.String,
    "mpi": pl.Boolean, "off_cpu": pl.Boolean, "ns": pl.Int64,
}  # fmt: skip
_BY = ["stratum", "code", "gil", "call", "off_cpu"]


class HostWork:
    """Sums of host work by place, call and whether the thread was on a CPU: they tile the host work of each place.

    What is inside a call into MPI is that call's (`mpi`), also where MPI calls into the operating system.
    A wait for the GIL that would be host work without the GIL's trace is kept apart (`gil`).
    """

    def __init__(self, trace: OsTrace, words: Words) -> None:
        self._trace, self._words = trace, words
        self._threads: dict[int, tuple[Intervals, Ints, Intervals, Ints, Intervals]] = {}
        self._parts: list[pl.DataFrame] = []

    def add(self, parts: list[IdlePieces], stratum: Ints) -> None:
        """Take in the pieces of some gaps; `stratum`: of each gap."""
        for part in parts:
            direct = part.cause == CODE["host_work"]
            waits = np.zeros(len(direct), np.bool_) if part.under is None else part.under == CODE["host_work"]
            chosen = np.flatnonzero(direct | waits)
            if len(chosen) and part.tid >= 0:
                code = self._words.code(part.tid, part.label[chosen], part.start[chosen])
                pieces = Intervals(part.start[chosen], part.end[chosen])
                self._add(part.tid, pieces, stratum[part.gap[chosen]], code, waits[chosen] & ~direct[chosen])

    def _add(self, tid: int, pieces: Intervals, stratum: Ints, code: Ints, gil: Ints) -> None:
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
                    "stratum": stratum[piece], "code": code[piece], "gil": gil[piece], "call": call[switched.query],
                    "off_cpu": switched.part >= 0, "ns": switched.end - switched.start,
                }
            ).group_by(_BY).agg(pl.col("ns").sum())
        )  # fmt: skip

    def table(self) -> pl.DataFrame:
        """HOST_WORK, a row each combination. call: '' outside any."""
        if not self._parts:
            return pl.DataFrame(schema=HOST_WORK)
        sums = pl.concat(self._parts)
        thread, place = self._words.spelled(sums["code"].to_numpy())
        names = pl.Series(["", *self._trace.os.names, *self._trace.mpi.names], dtype=pl.String)
        named = sums.with_columns(
            thread=thread, place=place, call=names.gather(sums["call"].to_numpy() + 1),
            mpi=pl.col("call") >= len(self._trace.os.names),
        ).cast({"stratum": pl.Int64})  # fmt: skip
        by = [name for name in HOST_WORK if name != "ns"]
        return named.group_by(by).agg(pl.col("ns").sum()).select(*HOST_WORK).sort(by)


# Idle time of one export: gaps cut into pieces a stretch at a time, and summed.

# Gaps cut at a time: few enough for their pieces to stay in the processor's cache, and to be told apart by 16 bits.
_STRETCH = 1 << 15


@dataclass(frozen=True)
class IdleTables:
    """causes: ns of each period of each unit by IDLE. The frames are those of `Reduction`."""

    causes: list[Ints]
    cells: pl.DataFrame
    idle_ns: pl.DataFrame
    gaps: pl.DataFrame
    worst: pl.DataFrame
    moments: pl.DataFrame


def idle_tables(
    timeline: Timeline,
    gaps: list[Gaps],
    periods: pl.DataFrame,
    words: Words,
    hosts: Hosts,
    host_work: HostWork | None = None,
) -> IdleTables:
    """Attribute the gaps of the units. `periods`: the table of periods, still without the categories.

    `host_work` is handed every piece, where the operating system's calls or switches were recorded.
    """
    names = timeline.keys["name"].to_list()
    copies = [name for name, (api, _) in timeline.api_names.items() if re.match(r"cu(da)?Mem(cpy|set)", api)]
    stratum = periods["stratum"].to_numpy()
    cells = Cells(words, copies)
    launches, labels = timeline.launches, hosts.labels(timeline.launches)
    causes, idle, by_neighbours, worst, moments = [], [], [], [], []
    first = 0
    for unit, own in zip(timeline.units, gaps, strict=True):
        tables = GapTables(unit, own, first, stratum, cells, worst_index(own))
        for low, high in stretches(own.size, _STRETCH):
            some = own.take(slice(low, high))
            pieces = attribute(unit, some, launches, labels, hosts)
            tables.add(pieces, low, high)
            if host_work is not None:
                host_work.add(pieces, stratum[some.period + first])
        period, cell, ns, count = tables.sums()
        by_cause = period * len(IDLE) + cells.causes()[cell]
        causes.append(sum_by(by_cause, len(unit.step) * len(IDLE), ns).reshape(-1, len(IDLE)))
        idle.append((period + first, cell, ns, count))
        worst.append(tables.worst(periods, names))
        moments.append(tables.longest(periods, timeline.api_names))
        by_neighbours.append(tables.gaps(names))
        first += len(unit.step)
    table, number = cells.in_order()
    idle_ns = _by_cell(number, len(table), *(np.concatenate(column) for column in zip(*idle, strict=True)))
    return IdleTables(causes, table, idle_ns, pl.concat(by_neighbours), pl.concat(worst), pl.concat(moments))


def _by_cell(number: Index, cells: int, period: Ints, cell: Ints, ns: Ints, count: Ints) -> pl.DataFrame:
    """period, cell -> ns, count, in order of both. `number`: of each cell its place in the order of words."""
    code, position = grouped(period * max(cells, 1) + number[cell])
    size = len(code)
    return pl.DataFrame(
        {
            "period": (code // max(cells, 1)).astype(np.int32),
            "cell": (code % max(cells, 1)).astype(np.int32),
            "ns": sum_by(position, size, ns),
            "count": sum_by(position, size, count),
        }
    )
