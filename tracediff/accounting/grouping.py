"""Sums by integer codes, in numpy: for tables too large to be grouped by words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracediff.accounting.intervals import Floats, Index, Ints

# A dense table of sums may have so many places for each row: beyond that, sorting is cheaper than clearing memory.
_PLACES_A_ROW = 4
_PLACES = 1 << 16  # however few the rows are


def grouped(code: Ints) -> tuple[Ints, Index]:
    """Distinct codes (0 or more) in order, and the position of each row's code among them."""
    if not len(code):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    places = int(code.max()) + 1
    if places > _PLACES_A_ROW * len(code) + _PLACES:
        distinct, inverse = np.unique(code, return_inverse=True)
        return distinct, inverse.reshape(-1)
    seen = np.zeros(places, np.bool_)
    seen[code] = True
    number = np.cumsum(seen, dtype=np.int32) - 1
    return np.flatnonzero(seen), number[code]


def count_by(position: Index, groups: int) -> Ints:
    """How many rows each group has."""
    out = np.zeros(groups, np.int64)
    for low, high in _stretches_of(position, groups):
        out += np.bincount(position[low:high], minlength=groups)
    return out


def sum_by(position: Index, groups: int, values: Index) -> Ints:
    """Sum of an integer column by group; exact, since floats count to 2^53 ns, a hundred days."""
    out = np.zeros(groups, np.int64)
    for low, high in _stretches_of(position, groups):
        sums = np.bincount(position[low:high], weights=values[low:high], minlength=groups)
        out += sums.astype(np.int64)
    return out


def _stretches_of(position: Index, groups: int) -> list[tuple[int, int]]:
    """`bincount` widens both columns to 8 bytes: of all rows at once that is more memory than anything else takes."""
    return stretches(len(position), max(groups, 1 << 20))


def float_sum_by(position: Index, groups: int, values: Floats) -> Floats:
    """Sum of a float column by group, in the order of the rows."""
    return np.bincount(position, weights=values, minlength=groups).astype(np.float64)  # ints where empty


def quantiles(group: Index, values: Index, counts: Ints, at: tuple[float, ...]) -> list[Floats]:
    """Quantiles of the values of each group, linear between neighbours; `counts`: how many values each group has."""
    return _quantiles(_by_group(group, values), counts, at)


def _quantiles(ordered: Ints, counts: Ints, at: tuple[float, ...]) -> list[Floats]:
    """The same of values in order of group and size."""
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


def _by_group(group: Index, values: Index) -> Ints:
    """The values in order of their group and size. Both in one number, where it holds them, take the least memory."""
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    if most - least >= 1 << 32 or int(group.max(initial=0)) >= 1 << 31:
        return values[np.lexsort((values, group))].astype(np.int64)
    both = group.astype(np.int64)
    both <<= 32
    both += values
    both -= least
    both.sort()
    both &= (1 << 32) - 1
    both += least
    return both


class Samples:
    """Lengths in ns by group, very many of them: 8 bytes each, and put in order where they lie."""

    _BITS = 32  # of a length; group and length are one number

    def __init__(self, expected: int) -> None:
        """`expected`: how many; memory for them is taken when they come."""
        self._packed = np.empty(expected, np.int64)
        self._size = 0
        self._long: list[tuple[Index, Ints]] = []  # those of more bits: longer than four seconds

    def add(self, group: Index, ns: Ints) -> None:
        """Add lengths of 0 or more to groups of 31 bits."""
        if int(ns.max(initial=0)) >= 1 << self._BITS:
            long = ns >= 1 << self._BITS
            self._long.append((group[long], ns[long]))
            group, ns = group[~long], ns[~long]
        stop = self._size + len(ns)
        if stop > len(self._packed):
            grown = np.empty(2 * stop, np.int64)
            grown[: self._size] = self._packed[: self._size]
            self._packed = grown
        part = self._packed[self._size : stop]
        part[:] = group
        part <<= self._BITS
        part |= ns
        self._size = stop

    def take(self, groups: int, at: tuple[float, ...]) -> tuple[Ints, Ints, list[Floats]]:
        """Count, sum and quantiles of each group; nothing is left here."""
        packed, long = self._packed[: self._size], self._long
        self._packed, self._size, self._long = np.empty(0, np.int64), 0, []
        lengths = (1 << self._BITS) - 1
        if long:
            group = np.concatenate((packed >> self._BITS, *(part[0] for part in long)))
            ns = np.concatenate((packed & lengths, *(part[1] for part in long)))
            counts = count_by(group, groups)
            return counts, sum_by(group, groups, ns), quantiles(group, ns, counts, at)
        packed.sort()
        edges = np.searchsorted(packed, np.arange(groups + 1) << self._BITS)
        packed &= lengths
        counts, sums = np.diff(edges), np.zeros(groups, np.int64)
        some = np.flatnonzero(counts)
        if len(some):
            sums[some] = np.add.reduceat(packed, edges[some])
        return counts, sums, _quantiles(packed, counts, at)


class Tally:
    """Counts and sums of ns by a code, added to in stretches."""

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


# `Numbering` looks codes up by their hash: 2^14 places fit into a processor's cache.
_SLOT_BITS = 14
# 2^64 / golden ratio: of what is multiplied by it, the upper bits spread (Fibonacci hashing)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NO_CODE = np.iinfo(np.int64).min


class Numbering:
    """Dense numbers for codes in the order in which they first appear."""

    def __init__(self) -> None:
        self._codes = np.empty(0, np.int64)  # sorted
        self._numbers = np.empty(0, np.int32)
        # code and number by hash, of several with one hash the last: a tenth of the time of a binary search
        self._slot_code = np.full(1 << _SLOT_BITS, _NO_CODE)
        self._slot_number = np.zeros(1 << _SLOT_BITS, np.int32)
        self.codes: list[int] = []  # by number

    def numbers(self, code: Ints) -> npt.NDArray[np.int32]:
        """The number of each code; codes not seen before get the next ones."""
        slot = _slots(code)
        number = self._slot_number[slot]
        missed = np.flatnonzero(self._slot_code[slot] != code)
        if len(missed):
            number[missed] = self._searched(code[missed])
        return number

    def _searched(self, code: Ints) -> npt.NDArray[np.int32]:
        at = self._find(code)
        fresh = self._codes[at] != code if len(self._codes) else np.ones(len(code), np.bool_)
        if fresh.any():
            found = np.unique(code[fresh])
            numbers = np.arange(len(self.codes), len(self.codes) + len(found), dtype=np.int32)
            self.codes += found.tolist()
            slot = _slots(found)
            self._slot_code[slot], self._slot_number[slot] = found, numbers
            merged = np.concatenate((self._codes, found))
            order = np.argsort(merged, kind="stable")
            self._codes, self._numbers = merged[order], np.concatenate((self._numbers, numbers))[order]
            at = self._find(code)
        return self._numbers[at]

    def _find(self, code: Ints) -> Index:
        return np.minimum(np.searchsorted(self._codes, code), max(len(self._codes) - 1, 0))


def _slots(code: Ints) -> Index:
    return (code.view(np.uint64) * _SPREAD >> np.uint64(64 - _SLOT_BITS)).view(np.int64)


def stretches(rows: int, length: int = 1 << 20) -> list[tuple[int, int]]:
    """[low, high) of stretches of a table, to go through it in little memory."""
    return [(low, min(low + length, rows)) for low in range(0, rows, length)]
