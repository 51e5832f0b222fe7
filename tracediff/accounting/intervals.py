"""Arithmetic in numpy: sets of half-open integer intervals [start, end), linear after sorting; and sums by integer codes.

A *partition* is a pair of int64 arrays (starts, ends), sorted and disjoint: starts[i] < ends[i] <= starts[i+1].
All sweeps of the accounting are built from the few functions here; tests compare each with a plain loop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracediff.arrays import Bools, Floats, Ints

Index = npt.NDArray[np.integer]  # of any width: large arrays are kept narrow
_EMPTY: Ints = np.empty(0, np.int64)
_LAST = np.iinfo(np.int64).max


class Intervals(NamedTuple):
    """Two arrays of the same length: starts and ends, ns."""

    start: Ints
    end: Ints

    @property
    def size(self) -> int:
        """How many intervals."""
        return len(self.start)

    def total(self) -> int:
        """Sum of lengths, ns."""
        return int((self.end - self.start).sum())

    def take(self, index: Index | Bools | slice) -> Intervals:
        """The intervals at these positions."""
        return Intervals(self.start[index], self.end[index])


EMPTY = Intervals(_EMPTY, _EMPTY)


class Pieces(NamedTuple):
    """Query intervals cut along a partition: piece i lies in query `query[i]` and part `part[i]`, or -1 outside all."""

    query: npt.NDArray[np.intp]
    part: npt.NDArray[np.intp]
    start: Ints
    end: Ints


def union(start: Ints, end: Ints) -> Intervals:
    """Any intervals -> the partition that covers the same instants; empty intervals vanish.

    [1,3) [2,5) [5,6) [8,9) -> [1,6) [8,9)
    """
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return Intervals(start[first], reach[last])


def outermost(start: Ints, end: Ints) -> Bools:
    """Which intervals, in order of start, begin when all before them are over: of nested ones those that no other is around."""
    outer = np.ones(len(start), np.bool_)
    outer[1:] = start[1:] >= np.maximum.accumulate(end)[:-1]
    return outer


def cut(query: Intervals, partition: Intervals) -> Pieces:
    """Cut each query interval along a partition; uncovered parts come out with part -1.

    Queries may overlap each other. The pieces of a query tile it exactly, in order of time; the pieces come
    grouped by query. Cost: queries + pieces + parts between the first and the last query, one binary search a query.

    query [0,10), parts [2,4) [6,20) -> [0,2)/-1 [2,4)/0 [4,6)/-1 [6,10)/1
    """
    # queries of a chunk of a long capture meet few of its parts
    near = window(partition, int(query.start.min(initial=_LAST)), int(query.end.max(initial=-_LAST)))
    if near.start == near.stop:
        keep = np.flatnonzero(query.end > query.start)
        return Pieces(keep, np.full(len(keep), -1, np.intp), query.start[keep], query.end[keep])
    # A slot with an odd number of boundaries before it is part (number // 2), an even one is uncovered.
    owner, slot, start, end = split(query, _bounds(partition.take(near)))
    return Pieces(owner, np.where(slot % 2 == 1, slot // 2 + near.start, -1), start, end)


def split(query: Intervals, bounds: Ints) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Ints, Ints]:
    """Cut each query interval at every one of the sorted `bounds` inside it: (query, slot, start, end) of each piece.

    Slot i lies between bounds[i - 1] and bounds[i]; slot 0 before all of them, slot len(bounds) after.
    """
    first = np.searchsorted(bounds, query.start, side="right")
    last = np.searchsorted(bounds, query.end, side="left")
    counts = np.where(query.end > query.start, last - first + 1, 0)
    owner = np.repeat(np.arange(query.size), counts)
    begin = np.cumsum(counts) - counts  # position of each query's first piece
    slot = np.arange(len(owner)) + (first - begin)[owner]
    padded = np.concatenate((bounds[:1], bounds, bounds[-1:])) if len(bounds) else np.zeros(2, np.int64)
    # all pieces run from bound to bound, except at the ends of their query
    start, end = padded[slot], padded[slot + 1]
    some = counts > 0
    start[begin[some]] = query.start[some]
    end[(begin + counts - 1)[some]] = query.end[some]
    keep = end > start  # bounds may be equal
    if keep.all():
        return owner, slot, start, end
    return owner[keep], slot[keep], start[keep], end[keep]


def _bounds(partition: Intervals) -> Ints:
    """The boundaries of a partition in order: start0, end0, start1, end1, ..."""
    bounds = np.empty(2 * partition.size, np.int64)
    bounds[0::2], bounds[1::2] = partition.start, partition.end
    return bounds


def overlay(*partitions: Intervals) -> tuple[Ints, list[npt.NDArray[np.intp]]]:
    """All boundaries of several partitions in order, and for each partition its part in every slot (see `split`), or -1.

    [1,5), [3,9) -> bounds 1 3 5 9; parts of the first: -1 0 0 -1 -1; of the second: -1 -1 0 0 -1
    """
    each = [_bounds(partition) for partition in partitions]
    together = np.concatenate(each)
    order = np.argsort(together, kind="stable")  # sorted runs: this merges them
    of = np.repeat(np.arange(len(each), dtype=np.int8), [len(bounds) for bounds in each])[order]
    parts = []
    for number, bounds in enumerate(each):
        if not len(bounds):
            parts.append(np.full(len(order) + 1, -1))
            continue
        # boundaries of this partition before each slot
        before = np.concatenate(([0], np.cumsum(of == number)))
        parts.append(np.where(before % 2 == 1, before // 2, -1))
    return together[order], parts


def window(partition: Intervals, start: int, end: int) -> slice:
    """Which parts of a partition touch [start, end)."""
    low = int(np.searchsorted(partition.end, start, side="right"))
    return slice(low, max(low, int(np.searchsorted(partition.start, end, side="left"))))


def picked(values: Index, part: Index, otherwise: int = -1) -> Index:
    """The value of each piece's part, `otherwise` outside all."""
    return np.where(part >= 0, values[part], otherwise) if len(values) else np.full(len(part), otherwise)


def subtract(partition: Intervals, minus: Intervals) -> Intervals:
    """What of `partition` is not covered by the partition `minus`."""
    pieces = cut(partition, minus)
    outside = pieces.part == -1
    return Intervals(pieces.start[outside], pieces.end[outside])


def covered(query: Intervals, partition: Intervals) -> Ints:
    """How many ns of each query interval the partition covers (read off a running total at both ends)."""
    if not partition.size:
        return np.zeros(query.size, np.int64)
    total = np.concatenate(([0], np.cumsum(partition.end - partition.start)))

    def before(instant: Ints) -> Ints:
        index = np.searchsorted(partition.start, instant, side="right")
        inside = np.where(index > 0, np.maximum(partition.end[np.maximum(index - 1, 0)] - instant, 0), 0)
        return np.asarray(total[index] - inside, np.int64)

    return before(query.end) - before(query.start)


def layers(*classes: Intervals) -> tuple[Intervals, npt.NDArray[np.intp]]:
    """Flatten overlapping classes by priority, the first the highest: a partition and the class of each part."""
    taken = EMPTY
    starts, ends, names = [], [], []
    for number, intervals in enumerate(classes):
        own = subtract(intervals, taken)
        starts.append(own.start)
        ends.append(own.end)
        names.append(np.full(own.size, number, np.intp))
        taken = union(np.concatenate((taken.start, own.start)), np.concatenate((taken.end, own.end)))
    start, end, name = np.concatenate(starts), np.concatenate(ends), np.concatenate(names)
    order = np.argsort(start, kind="stable")
    return Intervals(start[order], end[order]), name[order]


def innermost(start: Ints, end: Ints, max_depth: int = 4096) -> tuple[Intervals, npt.NDArray[np.intp]]:
    """Nested ranges of one thread -> a partition of the covered time and, for each part, the innermost range's index.

    Where ranges overlap without nesting (damaged input, or two NVTX domains that interleave), the one that began last
    is the innermost until it ends. Nested input is swept level by level, never range by range.
    """
    # outer ranges first where starts are equal
    order = np.lexsort((np.arange(len(start)), -end, start))
    order = order[end[order] > start[order]]
    if not len(order):
        return EMPTY, _EMPTY.astype(np.intp)
    depth = _depths(start[order], end[order])
    deepest = int(depth.max())
    if deepest > max_depth or not _nested(start[order], end[order], depth, deepest):
        return _last_begun(start, end, order)
    covered_by_inner = EMPTY
    parts: list[tuple[Intervals, npt.NDArray[np.intp]]] = []
    for level in range(deepest, -1, -1):
        index = order[depth == level]
        own = Intervals(start[index], end[index])
        pieces = cut(own, covered_by_inner)
        free = pieces.part == -1
        parts.append((Intervals(pieces.start[free], pieces.end[free]), index[pieces.query[free]]))
        covered_by_inner = union(
            np.concatenate((covered_by_inner.start, own.start)),
            np.concatenate((covered_by_inner.end, own.end)),
        )
    begin = np.concatenate([part.start for part, _ in parts])
    finish = np.concatenate([part.end for part, _ in parts])
    owner = np.concatenate([index for _, index in parts])
    position = np.argsort(begin, kind="stable")
    return Intervals(begin[position], finish[position]), owner[position]


def _nested(start: Ints, end: Ints, depth: npt.NDArray[np.intp], deepest: int) -> bool:
    """Whether every range lies inside the last one begun a level above it, and ranges of a level are disjoint."""
    outer_start = outer_end = _EMPTY
    for level in range(deepest + 1):
        mine = depth == level
        begin, stop = start[mine], end[mine]
        if (stop[:-1] > begin[1:]).any():
            return False
        if level:
            parent = np.searchsorted(outer_start, begin, side="right") - 1
            if not len(outer_start) or (parent < 0).any() or (stop > outer_end[parent]).any():
                return False
        outer_start, outer_end = begin, stop
    return True


def _last_begun(
    start: Ints, end: Ints, order: npt.NDArray[np.intp]
) -> tuple[Intervals, npt.NDArray[np.intp]]:
    """`innermost` of ranges that do not nest: one pass over them, with the open ones at hand, the last begun on top."""
    begins, ends = start[order].tolist(), end[order].tolist()
    parts: list[tuple[int, int, int]] = []
    open_ranges: list[int] = []
    now = begins[0]
    for position, until in enumerate([*begins, max(ends)]):
        while open_ranges and now < until:
            stop = min(ends[open_ranges[-1]], until)
            if stop > now:
                parts.append((now, stop, open_ranges[-1]))
                now = stop
            else:
                open_ranges.pop()
        open_ranges.append(position)
        now = until
    table = np.array(parts, np.int64)
    return Intervals(table[:, 0], table[:, 1]), order[table[:, 2]]


def _depths(start: Ints, end: Ints) -> npt.NDArray[np.intp]:
    """Nesting level of ranges sorted by (start, -end): how many ranges that began before are still open."""
    # For ranges sorted by start: open at start[i] = (began before i) - (ended at or before start[i]).
    ended = np.searchsorted(np.sort(end), start, side="right")
    return np.asarray(np.arange(len(start)) - ended, np.intp)


# Sums by integer codes, in numpy: for tables too large to be grouped by words.


def _looked_up(rows: int) -> int:
    """Up to how many codes are looked up in a table of all of them."""
    return (1 << 18) + 4 * rows


def grouped(code: Ints) -> tuple[Ints, Index]:
    """Distinct codes (0 or more) in order, and the position of each row's code among them."""
    codes = int(code.max(initial=0)) + 1
    if codes > _looked_up(len(code)):
        distinct, inverse = np.unique(code, return_inverse=True)
        return distinct, inverse.reshape(-1)
    there = np.zeros(codes, np.bool_)
    there[code] = True
    distinct = np.flatnonzero(there)
    place = np.empty(codes, np.intp)
    place[distinct] = np.arange(len(distinct))
    return distinct.astype(code.dtype, copy=False), place[code]


def picked_at(*columns: Index) -> tuple[Ints, Index]:
    """A row of each distinct combination of columns of numbers (0 or more), in order of these; and which of them each row is."""
    code, codes = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        wide = int(column.max(initial=0)) + 1
        if codes > 1 and codes * wide > _looked_up(len(code)):
            distinct, place = grouped(code)
            code, codes = place.astype(np.int64, copy=False), len(distinct)
        code, codes = code * wide + column, codes * wide
    distinct, group = grouped(code)
    found = np.empty(len(distinct), np.int64)
    found[group] = np.arange(len(group))
    return found, group


def count_by(position: Index, groups: int) -> Ints:
    """How many rows each group has."""
    return np.bincount(position, minlength=groups)


def sum_by(position: Index, groups: int, values: Index) -> Ints:
    """Sum of an integer column by group; exact, since floats count to 2^53 ns, a hundred days."""
    return np.bincount(position, weights=values, minlength=groups).astype(np.int64)


def float_sum_by(position: Index, groups: int, values: Floats) -> Floats:
    """Sum of a float column by group, in the order of the rows."""
    return np.bincount(position, weights=values, minlength=groups).astype(np.float64)  # ints where empty


def quantiles(group: Index, values: Index, counts: Ints, at: tuple[float, ...]) -> list[Floats]:
    """Quantiles of the values of each group, linear between neighbours; `counts`: how many values each group has."""
    ordered = values[np.lexsort((values, group))].astype(np.int64)
    some = np.flatnonzero(counts)
    first, last = (np.cumsum(counts) - counts)[some], counts[some] - 1
    out = []
    for q in at:
        rank = q * last
        below = rank.astype(np.int64)
        low, high = ordered[first + below], ordered[first + np.minimum(below + 1, last)]
        found = np.zeros(len(counts))
        found[some] = low + (high - low) * (rank - below)
        out.append(found)
    return out


class Tally:
    """Counts and sums of ns by a code, added to in chunks."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Ints]] = []

    def add(self, code: Ints, ns: Ints) -> None:
        """Add events; those with a negative code do not count."""
        inside = code >= 0
        if not inside.all():
            code, ns = code[inside], ns[inside]
        distinct, position = grouped(code)
        size = len(distinct)
        self._parts.append((distinct, count_by(position, size), sum_by(position, size, ns)))

    def rows(self) -> tuple[Ints, Ints, Ints]:
        """(code, count, ns) of every code that was added."""
        if not self._parts:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        code, count, ns = (np.concatenate([part[column] for part in self._parts]) for column in range(3))
        distinct, position = grouped(code)
        return distinct, sum_by(position, len(distinct), count), sum_by(position, len(distinct), ns)


def chunks(rows: int, length: int = 1 << 20) -> list[tuple[int, int]]:
    """[low, high) of chunks of a table, to go through it in little memory."""
    return [(low, min(low + length, rows)) for low in range(0, rows, length)]
