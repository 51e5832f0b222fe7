"""The device sweep: busy time of each period by kind, each op's share of it, and the idle gaps between ops.

At every instant with an op running: `compute` if a compute kernel runs, else `comm`, else `memcpy`. An instant
with k ops of the winning kind is shared 1/k to each, so op shares add up to the kind's total.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracediff.align.timeline import Unit
from tracediff.measure.intervals import Floats, Ints

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Sweep:
    """Busy time and gaps of one unit.

    busy: (periods, 3) ns by kind. Piece arrays: an op cut at period bounds (most ops are one piece).
    Gap arrays: [start, end) with nothing running, the op that ends it and the one that ran last before it.
    """

    busy: Ints
    piece_op: Index
    piece_period: Index
    piece_share: Floats  # ns of the accounting that this piece stands for
    op_period: Index  # period in which each op starts, -1 outside all
    gap_start: Ints
    gap_end: Ints
    gap_op: Index
    gap_previous: Index
    gap_period: Index


def sweep(unit: Unit) -> Sweep:
    """Sweep a unit's ops; sorts only where ops overlap, linear otherwise."""
    bounds, periods = unit.bounds, len(unit.bounds) - 1
    op_period = np.searchsorted(bounds, unit.start, side="right") - 1
    op_period = np.where(op_period >= periods, -1, op_period)
    op, start, end, period = _cut_at_bounds(unit, periods)
    share = (end - start).astype(np.float64)
    kind = unit.kind[op]
    busy = np.zeros((periods, 3), np.int64)
    reach = np.maximum.accumulate(end) if len(end) else end
    fresh = np.concatenate(([True], start[1:] >= reach[:-1])) if len(end) else np.empty(0, bool)
    cluster = np.cumsum(fresh) - 1
    crowded = np.bincount(cluster)[cluster] > 1 if len(end) else fresh
    lone = ~crowded
    np.add.at(busy, (period[lone], kind[lone]), (end - start)[lone])
    if crowded.any():
        index = np.flatnonzero(crowded)
        share[index] = _shared(start[index], end[index], kind[index], period[index], busy)
    return Sweep(busy, op, period, share, op_period, *_gaps(unit, periods))


def _cut_at_bounds(unit: Unit, periods: int) -> tuple[Index, Ints, Ints, Index]:
    """Ops inside the periods, those that cross a bound cut there: (op, start, end, period) by start."""
    bounds = unit.bounds
    first = np.searchsorted(bounds, unit.start, side="right") - 1
    last = np.maximum(np.searchsorted(bounds, unit.end, side="left") - 1, first)
    count = np.minimum(last, periods - 1) - np.maximum(first, 0) + 1
    count = np.where((unit.end > unit.start) & (count > 0), count, 0)
    op = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(op)) - np.repeat(np.cumsum(count) - count, count)
    period = np.maximum(first, 0)[op] + within
    start = np.maximum(unit.start[op], bounds[period])
    end = np.minimum(unit.end[op], bounds[period + 1])
    if within.any():  # a cut made a piece begin later than ops after it
        order = np.argsort(start, kind="stable")
        op, start, end, period = op[order], start[order], end[order], period[order]
    return op, start, end, period


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
    np.add.at(busy, (segment_period[busy_now], winner[busy_now]), length[busy_now])
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


def _gaps(unit: Unit, periods: int) -> tuple[Ints, Ints, Index, Index, Index]:
    start, end = unit.start, unit.end
    reach = np.maximum.accumulate(end)
    # the op that set the reach: the last one whose end is a new maximum
    setter = np.maximum.accumulate(np.where(end >= reach, np.arange(len(end)), 0))
    after = np.flatnonzero(start[1:] > reach[:-1]) + 1
    begin, stop = reach[after - 1], start[after]
    period = np.searchsorted(unit.bounds, begin, side="right") - 1
    keep = (period >= 0) & (period < periods)
    return begin[keep], stop[keep], after[keep], setter[after - 1][keep], period[keep]
