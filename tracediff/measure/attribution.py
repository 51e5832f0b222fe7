"""Every idle gap of a device, cut into pieces with a cause each.

The gap ends with an op; A is the call that launched it, T the thread of A.
    graph_internal   the op is a later node of its graph launch
    dependency       A had returned before the gap began: the op waited for something else
    launch_latency   after A returned
    before that      what T was doing: gc > gil_wait > launch_api > host_sync > host_api > host_work;
                     inside A itself a blocking or unusual call counts as launch_api, it was launching
    unattributed     the op has no launching call
Pieces of a gap tile it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracediff.align.timeline import Launches, Unit
from tracediff.measure.hosts import STATES, Hosts, HostThread
from tracediff.measure.intervals import Intervals, Ints, Pieces, cut
from tracediff.measure.sweep import Index, Sweep

IDLE = ("launch_latency", "dependency", "graph_internal", *("launch_api", "host_sync", "host_api", "gc", "gil_wait"),
        "host_work", "unattributed")  # fmt: skip
CODE = {name: number for number, name in enumerate(IDLE)}
_OF_STATE = np.array([CODE[name] for name in STATES] + [CODE["host_work"]], np.int64)


@dataclass(frozen=True)
class IdlePieces:
    """Arrays of one length: the parts of all gaps of a unit. -1 stands for none."""

    gap: Index  # position in the sweep's gap arrays
    start: Ints
    end: Ints
    cause: Ints  # index into IDLE
    tid: Ints  # launching thread
    label: Ints  # innermost range of the launching thread
    api: Ints  # CUDA function, for pieces inside one
    holder: Ints  # thread that held the GIL, for gil_wait
    holder_label: Ints  # its innermost range
    under: Ints  # for gil_wait: the cause it would have without a GIL trace


def attribute(unit: Unit, swept: Sweep, launches: Launches, hosts: Hosts) -> IdlePieces:
    """Cut the gaps of a unit into pieces by cause."""
    op = swept.gap_op
    launch = unit.launch[op]
    known = launch >= 0
    call_start = (
        np.where(known, launches.start[np.maximum(launch, 0)], 0)
        if len(launches.start)
        else np.zeros_like(op)
    )
    call_end = (
        np.where(known, launches.end[np.maximum(launch, 0)], 0) if len(launches.start) else np.zeros_like(op)
    )
    tid = (
        np.where(known, launches.tid[np.maximum(launch, 0)], -1)
        if len(launches.start)
        else np.full(len(op), -1)
    )
    internal = known & unit.graph[op] & (unit.start[op] > _first_start(unit, len(launches.start))[launch])
    ahead = known & ~internal & (call_end <= swept.gap_start)
    walked = known & ~internal & ~ahead
    parts = [
        _whole(swept, np.flatnonzero(~known), "unattributed", tid),
        _whole(swept, np.flatnonzero(internal), "graph_internal", tid),
        _whole(swept, np.flatnonzero(ahead), "dependency", tid),
    ]
    late = np.flatnonzero(walked & (call_end < swept.gap_end))
    parts.append(_pieces(late, call_end[late], swept.gap_end[late], "launch_latency", tid[late]))
    for thread in np.unique(tid[walked]):
        index = np.flatnonzero(walked & (tid == thread))
        host = hosts.thread(int(thread))
        walk = Intervals(swept.gap_start[index], np.minimum(call_end[index], swept.gap_end[index]))
        parts.append(_walk(host, index, walk, call_start[index], call_end[index]))
    joined = IdlePieces(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in IdlePieces.__annotations__)
    )
    return _with_holders(_with_places(joined, call_start, hosts), call_start, call_end, hosts)


def _first_start(unit: Unit, launches: int) -> Ints:
    """Start of the first op of each launch (ops come in order of start: the last write of a reversed pass wins)."""
    first = np.zeros(max(launches, 1), np.int64)
    first[unit.launch[::-1]] = unit.start[::-1]
    return first


def _whole(swept: Sweep, index: Index, cause: str, tid: Ints) -> IdlePieces:
    return _pieces(index, swept.gap_start[index], swept.gap_end[index], cause, tid[index])


def _pieces(index: Index, start: Ints, end: Ints, cause: str, tid: Ints) -> IdlePieces:
    none = np.full(len(index), -1, np.int64)
    return IdlePieces(index, start, end, np.full(len(index), CODE[cause]), tid, none, none, none, none, none)


def _walk(host: HostThread, index: Index, walk: Intervals, call_start: Ints, call_end: Ints) -> IdlePieces:
    """The part of each gap before the launching call returned, by what the thread was doing."""
    states, state = host.states
    by_state = cut(walk, states)
    code = (
        np.where(by_state.part >= 0, state[by_state.part], len(STATES))
        if len(state)
        else np.full(len(by_state.part), len(STATES))
    )
    # Cut once more along the thread's outermost calls, to name them and to know the launching call itself.
    by_call = cut(Intervals(by_state.start, by_state.end), host.api.span)
    query = by_state.query[by_call.query]
    cause = _OF_STATE[code][by_call.query]
    own = (by_call.start >= call_start[query]) & (by_call.end <= call_end[query])
    waiting_in_own = own & np.isin(cause, (CODE["host_sync"], CODE["host_api"]))
    cause = np.where(waiting_in_own, CODE["launch_api"], cause)
    named = (by_call.part >= 0) & np.isin(
        cause, [CODE[name] for name in ("launch_api", "host_sync", "host_api")]
    )
    api = np.where(named, host.api.name[by_call.part], -1) if len(host.api.name) else np.full(len(cause), -1)
    none = np.full(len(cause), -1, np.int64)
    return IdlePieces(
        index[query],
        by_call.start,
        by_call.end,
        cause,
        np.full(len(cause), host.tid),
        none,
        api,
        none,
        none,
        none,
    )


def _with_places(pieces: IdlePieces, call_start: Ints, hosts: Hosts) -> IdlePieces:
    """Name each piece by the launching thread's innermost range; what ran by itself, by the range of the launch."""
    out = [_select(pieces, np.flatnonzero(pieces.tid < 0))]
    remote = np.isin(
        pieces.cause, [CODE[name] for name in ("launch_latency", "dependency", "graph_internal")]
    )
    for thread in np.unique(pieces.tid[pieces.tid >= 0]):
        ranges, label = hosts.thread(int(thread)).places
        mine = pieces.tid == thread
        index = np.flatnonzero(mine & ~remote)
        own = _select(pieces, index)
        out.append(_cut_pieces(own, cut(Intervals(own.start, own.end), ranges), label, "label"))
        index = np.flatnonzero(mine & remote)
        away = _select(pieces, index)
        at = np.searchsorted(ranges.start, call_start[away.gap], side="right") - 1
        inside = (
            (at >= 0) & (call_start[away.gap] < ranges.end[np.maximum(at, 0)])
            if len(label)
            else np.zeros(len(index), bool)
        )
        found = np.where(inside, label[np.maximum(at, 0)], -1) if len(label) else np.full(len(index), -1)
        out.append(IdlePieces(**{**away.__dict__, "label": found}))
    return _joined(out)


def _with_holders(pieces: IdlePieces, call_start: Ints, call_end: Ints, hosts: Hosts) -> IdlePieces:
    """Cut waits for the GIL along its holders, and those along the holder's innermost range."""
    waiting = pieces.cause == CODE["gil_wait"]
    out = [_select(pieces, np.flatnonzero(~waiting))]
    waits = _select(pieces, np.flatnonzero(waiting))
    waits = _with_under(waits, call_start, call_end, hosts)
    for pid in np.unique(waits.tid >> 24 & 0xFFFFFF):
        mine = _select(waits, np.flatnonzero((waits.tid >> 24 & 0xFFFFFF) == pid))
        spans, holder = hosts.gil_holders(int(pid))
        by_hold = cut(Intervals(mine.start, mine.end), spans)
        held = _cut_pieces(mine, by_hold, holder, "holder")
        nobody = held.holder < 0
        held = IdlePieces(**{**held.__dict__, "holder": handed_over(held.holder, by_hold.query)})
        out += [_held_before(part, hosts) for part in _by_holder(_select(held, np.flatnonzero(nobody)))]
        held = _select(held, np.flatnonzero(~nobody))
        for part in _by_holder(held):
            ranges, label = hosts.thread(int(part.holder[0])).places
            out.append(_cut_pieces(part, cut(Intervals(part.start, part.end), ranges), label, "holder_label"))
    return _joined(out)


def _by_holder(pieces: IdlePieces) -> list[IdlePieces]:
    return [_select(pieces, np.flatnonzero(pieces.holder == thread)) for thread in np.unique(pieces.holder)]


def _held_before(handed: IdlePieces, hosts: Hosts) -> IdlePieces:
    """Stretches of handing over: the range is the one in which the holder let go (or, before any hold, took it)."""
    if handed.holder[0] < 0:
        return handed
    thread = int(handed.holder[0])
    spans, holder = hosts.gil_holders(thread >> 24 & 0xFFFFFF)
    holds = spans.take(holder == thread)
    ranges, label = hosts.thread(thread).places
    before = np.searchsorted(holds.end, handed.start, side="right") - 1
    let_go = np.where(before >= 0, holds.end[np.maximum(before, 0)] - 1, handed.end)
    at = np.searchsorted(ranges.start, let_go, side="right") - 1
    if not len(label):
        return handed
    inside = (at >= 0) & (let_go < ranges.end[np.maximum(at, 0)])
    return IdlePieces(**{**handed.__dict__, "holder_label": np.where(inside, label[np.maximum(at, 0)], -1)})


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


def _with_under(waits: IdlePieces, call_start: Ints, call_end: Ints, hosts: Hosts) -> IdlePieces:
    """What each wait for the GIL would be called had the GIL not been traced: for a side that was not."""
    out = [_select(waits, np.empty(0, np.intp))]
    for thread in np.unique(waits.tid):
        mine = _select(waits, np.flatnonzero(waits.tid == thread))
        states, state = hosts.thread(int(thread)).states_without_gil
        pieces = cut(Intervals(mine.start, mine.end), states)
        code = (
            np.where(pieces.part >= 0, state[pieces.part], len(STATES))
            if len(state)
            else np.full(len(pieces.part), len(STATES))
        )
        cause = _OF_STATE[code]
        gap = mine.gap[pieces.query]
        own = (pieces.start >= call_start[gap]) & (pieces.end <= call_end[gap])
        cause = np.where(own & (cause != CODE["gc"]), CODE["launch_api"], cause)
        cutted = {name: values[pieces.query] for name, values in mine.__dict__.items()}
        out.append(IdlePieces(**{**cutted, "start": pieces.start, "end": pieces.end, "under": cause}))
    return _joined(out)


def _cut_pieces(pieces: IdlePieces, by: Pieces, names: Ints, field: str) -> IdlePieces:
    cutted = {name: values[by.query] for name, values in pieces.__dict__.items()}
    found = np.where(by.part >= 0, names[by.part], -1) if len(names) else np.full(len(by.part), -1, np.int64)
    return IdlePieces(**{**cutted, "start": by.start, "end": by.end, field: found})


def _select(pieces: IdlePieces, index: Index) -> IdlePieces:
    return IdlePieces(**{name: values[index] for name, values in pieces.__dict__.items()})


def _joined(parts: list[IdlePieces]) -> IdlePieces:
    names = list(IdlePieces.__annotations__)
    merged = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.lexsort((merged["start"], merged["gap"]))
    return IdlePieces(**{name: values[order] for name, values in merged.items()})
