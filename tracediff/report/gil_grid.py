"""The GIL matrix: who waits for whom, summed over the holder's ranges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracediff.model import Result
from tracediff.report import units

_MOST = 8  # threads a way: those with the most time
_DARKEST = 0.55  # share of the colour where the wait is the longest; the figures stay readable on it


@dataclass(frozen=True)
class Cell:
    """One waiting and one holding thread, ns a step; None: that side did not capture it."""

    baseline: float | None
    candidate: float | None
    heat: float


@dataclass(frozen=True)
class Grid:
    """Waiting threads down, holding threads across."""

    waiters: list[str]
    holders: list[str]
    rows: list[tuple[str, list[Cell | None]]]
    scale: units.Scale


def gil_grid(result: Result) -> Grid:
    """Sum the pairs of the result by thread; the longest first."""
    rows = result.gil.matrix
    return grid_of([(row.waiter, row.holder, row.baseline_ns, row.candidate_ns) for row in rows])


def grid_of(pairs: Iterable[tuple[str, str, float | None, float | None]]) -> Grid:
    """Sum waiter, holder, ns of the baseline (or of the one side that there is), ns of the candidate."""
    sums: dict[tuple[str, str], list[float | None]] = {}
    for waiter, holder, *times in pairs:
        cell = sums.setdefault((waiter, holder), [None, None])
        for side, value in enumerate(times):
            if value is not None:
                cell[side] = (cell[side] or 0.0) + value
    size = {pair: max(value or 0.0 for value in cell) for pair, cell in sums.items()}
    waiters = _largest({pair[0] for pair in sums}, size, 0)
    holders = _largest({pair[1] for pair in sums}, size, 1)
    longest = max(size.values(), default=0.0) or 1.0
    rows: list[tuple[str, list[Cell | None]]] = []
    for waiter in waiters:
        cells: list[Cell | None] = []
        for holder in holders:
            pair = (waiter, holder)
            if pair not in sums:
                cells.append(None)
                continue
            baseline, candidate = sums[pair]
            cells.append(Cell(baseline, candidate, _DARKEST * size[pair] / longest))
        rows.append((waiter, cells))
    return Grid(waiters, holders, rows, units.scale_for(size.values()))


def _largest(names: set[str], size: dict[tuple[str, str], float], part: int) -> list[str]:
    total = {name: sum(ns for pair, ns in size.items() if pair[part] == name) for name in names}
    return sorted(names, key=lambda name: (-total[name], name))[:_MOST]
