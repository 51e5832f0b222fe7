"""Sorting the rows of an export, which are almost in order of time already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.integer[Any]]  # narrow where there are many
_T = TypeVar("_T", bound=np.generic)


class Order:
    """Positions in which to read columns. They come in few long runs, so columns are copied block by block."""

    def __init__(self, index: Index) -> None:
        self.index = index
        breaks = np.flatnonzero(index[1:] != index[:-1] + 1) + 1
        self._blocks: list[slice] | None = None
        if len(index) and len(breaks) * 64 < len(index):
            low = np.concatenate(([0], breaks))
            length = np.diff(low, append=len(index))
            firsts = index[low]
            self._blocks = [
                slice(one, one + size) for one, size in zip(firsts.tolist(), length.tolist(), strict=True)
            ]

    def of(self, values: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """A column in this order."""
        if self._blocks is None:
            return values[self.index]
        if len(self._blocks) == 1:
            return values
        return np.concatenate([values[block] for block in self._blocks])


def distinct(values: npt.NDArray[np.integer[Any]]) -> list[int]:
    """The different values, in order. Of most captures one thread launches everything: that it is one is soon seen."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    return [int(one) for one in np.unique(values).tolist()]


def time_order(
    group: npt.NDArray[np.integer[Any]], start: Ints, *ties: Callable[[Index], npt.NDArray[np.integer[Any]]]
) -> Order:
    """Order by `group` (few of them), then `start`, then what `ties` give for the rows that they are asked for.

    A stable sort of one column takes advantage of rows that are almost in order; the other columns are looked at only
    where starts are equal.
    """
    index = _narrow(np.argsort(start, kind="stable"))
    if len(group) and group.min() != group.max():
        index = index[_narrow(np.argsort(group[index], kind="stable"))]
    order = Order(index)
    ordered = order.of(start)
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return order
    del ordered
    grouped = order.of(group)
    same &= grouped[1:] == grouped[:-1]
    tied = np.zeros(len(index), np.bool_)
    tied[1:] |= same
    tied[:-1] |= same
    rows = index[tied]  # runs of equal (group, start) stay where they are, each sorted within
    index[tied] = rows[np.lexsort((*(tie(rows) for tie in reversed(ties)), start[rows], group[rows]))]
    return Order(index)


def _narrow(index: Index) -> Index:
    """In 4 bytes each where they fit: for some 10 million rows, positions are a part of all the memory."""
    return index.astype(np.int32) if len(index) < 1 << 31 else index
