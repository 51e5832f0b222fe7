"""The device sweep: busy time of each period by kind, each op's share of it, and the idle gaps between ops.

At every instant with an op running: `compute` if a compute kernel runs, else `comm`, else `memcpy`. An instant
with k ops of the winning kind is shared 1/k to each, so op shares add up to the kind's total.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tracediff.accounting.intervals import EMPTY, Index, Intervals, outermost, union
from tracediff.arrays import Bools, Floats, Ints
from tracediff.trace.periods import COMM, Timeline, Unit


class Gaps(msgspec.Struct, frozen=True):
    """Idle chunks [start, end) of a device in order of time: arrays of one length. others: when other devices of its process work."""

    start: Ints
    end: Ints
    op: Index  # that ends it
    previous: Index  # that ran last before it
    period: Index
    others: Intervals

    @property
    def size(self) -> int:
        """How many gaps."""
        return len(self.start)

    def take(self, index: slice | npt.NDArray[np.intp]) -> Gaps:
        """The gaps at these positions."""
        columns = ("start", "end", "op", "previous", "period")
        return replace(self, **{name: getattr(self, name)[index] for name in columns})


class Sweep(msgspec.Struct, frozen=True):
    """Busy time and gaps of one unit.

    busy: (periods, 3) ns by kind. Piece arrays: an op cut at period bounds (most ops are one piece).
    """

    busy: Ints
    piece_op: Index
    piece_period: Index
    piece_share: Floats  # ns of the accounting that this piece stands for
    inside: slice  # the ops that start in a period; the others come before the first or after the last
    op_period: Index  # period in which each op of `inside` starts
    gaps: Gaps


def sweep(timeline: Timeline, unit: Unit) -> Sweep:
    """Sweep a unit's ops; sorts only where ops overlap, linear otherwise."""
    bounds, periods = unit.bounds, len(unit.bounds) - 1
    # ops come in order of start: look up the few bounds among them, not every op among the bounds
    edges = np.searchsorted(unit.start, bounds, side="left")
    inside = slice(int(edges[0]), int(edges[-1]))
    op_period = np.repeat(np.arange(periods, dtype=np.int32), np.diff(edges))
    return Sweep(
        *_pieces(unit, inside, op_period), inside, op_period, _gaps(unit, periods, _elsewhere(timeline, unit))
    )


def _pieces(unit: Unit, inside: slice, op_period: Index) -> tuple[Ints, Index, Index, Floats]:
    """busy, piece_op, piece_period and piece_share of `Sweep`."""
    periods = len(unit.bounds) - 1
    op, start, end, period = _cut_at_bounds(unit, inside, op_period)
    kind = unit.kind[op]
    alone = _alone(start, end)
    index = np.flatnonzero(~alone)
    busy = np.zeros((periods, 3), np.int64)
    shares = _shared(start[index], end[index], kind[index], period[index], busy) if len(index) else None
    share = np.subtract(end, start, out=np.empty(len(end)), casting="unsafe")
    share[index] = 0.0
    busy += _sums(period, kind, share, periods)
    if shares is not None:
        share[index] = shares
    return busy, op, period, share


def _alone(start: Ints, end: Ints) -> Bools:
    """Which pieces, in order of start, overlap no other one."""
    alone = outermost(start, end)
    alone[:-1] &= alone[1:].copy()
    return alone


def _sums(period: Index, kind: Index, ns: Ints | Floats, periods: int) -> Ints:
    """(periods, 3) sums; exact, since a capture is far shorter than the 2^53 ns that a float counts."""
    sums = np.bincount(period * np.int64(3) + kind, weights=ns, minlength=3 * periods)
    return sums.astype(np.int64).reshape(periods, 3)


def _cut_at_bounds(unit: Unit, inside: slice, op_period: Index) -> tuple[Index, Ints, Ints, Index]:
    """Ops inside the periods, those that cross a bound cut there: (op, start, end, period) by start."""
    bounds, periods = unit.bounds, len(unit.bounds) - 1
    start, end = unit.start[inside], unit.end[inside]
    beyond = end > bounds[1:][op_period]
    whole = ~beyond & (end > start)
    op = np.arange(inside.start, inside.stop, dtype=np.int32)
    crossing = np.concatenate(
        (np.flatnonzero(unit.end[: inside.start] > bounds[0]), np.flatnonzero(beyond) + inside.start)
    )
    period = op_period
    if not whole.all():
        op, start, end, period = op[whole], start[whole], end[whole], op_period[whole]
    if not len(crossing):
        return op, start, end, period
    first = np.maximum(np.searchsorted(bounds, unit.start[crossing], side="right") - 1, 0)
    last = np.minimum(np.searchsorted(bounds, unit.end[crossing], side="left") - 1, periods - 1)
    count = np.maximum(last - first + 1, 0)
    cut = np.repeat(crossing, count)
    within = np.arange(len(cut)) - np.repeat(np.cumsum(count) - count, count)
    of = np.repeat(first, count) + within
    start = np.concatenate((start, np.maximum(unit.start[cut], bounds[of])))
    order = np.argsort(start, kind="stable")
    return (
        np.concatenate((op, cut.astype(np.int32)))[order],
        start[order],
        np.concatenate((end, np.minimum(unit.end[cut], bounds[of + 1])))[order],
        np.concatenate((period, of.astype(np.int32)))[order],
    )


def _shared(start: Ints, end: Ints, kind: npt.NDArray[np.int8], period: Index, busy: Ints) -> Floats:
    """Overlapping pieces: adds their busy time to `busy`, returns each piece's share."""
    size = len(start)
    # ends before starts: at a period's bound the last boundary of an instant must be one of the new period
    instants = np.concatenate((end, start))
    order = np.argsort(instants, kind="stable")
    change = np.concatenate((-np.ones(size, np.int64), np.ones(size, np.int64)))[order]
    kinds = np.concatenate((kind, kind))[order]
    running = np.stack([np.cumsum(np.where(kinds == number, change, 0)) for number in range(3)])
    times = instants[order]
    length = np.diff(times, append=times[-1:])
    busy_now = running.sum(axis=0) > 0
    winner = np.argmax(running > 0, axis=0)
    segment_period = np.concatenate((period, period))[order]
    # A segment lies between two boundaries of one cluster, and clusters do not cross period bounds.
    busy += _sums(segment_period[busy_now], winner[busy_now], length[busy_now], len(busy))
    position = np.empty(2 * size, np.intp)
    position[order] = np.arange(2 * size)
    share = np.zeros(size)
    for number in range(3):
        active = busy_now & (winner == number)
        rate = np.where(active, length / np.maximum(running[number], 1), 0.0)
        total = np.concatenate(([0.0], np.cumsum(rate)))
        mine = kind == number
        share[mine] = total[position[:size][mine]] - total[position[size:][mine]]
    return share


def _elsewhere(timeline: Timeline, unit: Unit) -> Intervals:
    """When other devices of a unit's process work; a collective may wait for the unit itself."""
    others = [one for one in timeline.units if one.pid == unit.pid and one.device != unit.device]
    work = [(one.start[one.kind != COMM], one.end[one.kind != COMM]) for one in others]
    return union(*map(np.concatenate, zip(*work, strict=True))) if work else EMPTY


def _gaps(unit: Unit, periods: int, others: Intervals) -> Gaps:
    start, end = unit.start, unit.end
    reach = np.maximum.accumulate(end)
    idle = start[1:] > reach[:-1]
    after = np.flatnonzero(idle).astype(np.int32) + np.int32(1)
    begin = reach[:-1][idle]
    low, high = np.searchsorted(begin, unit.bounds[[0, -1]], side="left").tolist()
    after, begin = after[low:high], begin[low:high]
    edges = np.searchsorted(begin, unit.bounds, side="left")
    period = np.repeat(np.arange(periods, dtype=np.int32), np.diff(edges))
    # the op that ran last: almost always the one before, else the last one whose end was a new maximum
    previous = after - np.int32(1)
    if (end[previous] < begin).any():
        setter = np.maximum.accumulate(
            np.where(end >= reach, np.arange(len(end), dtype=np.int32), np.int32(0))
        )
        previous = setter[previous]
    return Gaps(begin, start[after], after, previous, period, others)
