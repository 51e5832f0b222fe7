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

from dataclasses import dataclass

import numpy as np

from tracediff.align.calls import Launches
from tracediff.align.order import distinct
from tracediff.align.timeline import Unit
from tracediff.measure.hosts import NO_STATE, STATES, Hosts, HostThread
from tracediff.measure.intervals import Index, Intervals, Ints, cut, split
from tracediff.measure.sweep import Gaps

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
