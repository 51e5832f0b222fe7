"""Sums by integer codes, in numpy: for tables too large to be grouped by words."""

from __future__ import annotations

import numpy as np

from tracediff.accounting.intervals import Floats, Index, Ints


def grouped(code: Ints) -> tuple[Ints, Index]:
    """Distinct codes (0 or more) in order, and the position of each row's code among them."""
    distinct, inverse = np.unique(code, return_inverse=True)
    return distinct, inverse.reshape(-1)


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
