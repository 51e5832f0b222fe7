"""Small figures as data: stacked categories, step times of every run, values of a finding in every run.

Positions are in the units of the figure's own viewBox; the templates draw them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.model import PhaseTimes, Result
from tracediff.model.common import ABSENT
from tracediff.model.show import Show
from tracediff.report import palette, units
from tracediff.report.causes import CauseWords
from tracediff.report.waterfall import nice_ticks

_MOST_DOTS = 240  # of one run in one figure
_MOST_RUNS = 40  # rows of one figure
_LEAST_FOR_A_BOX = 8  # values of a run
_TICK = 44  # units that a tick's number needs
_LEAST_NS = 1.0  # what is left of a sum that should be zero has no decade
_LOG_FROM = 12  # a range wider than this factor gets a logarithmic axis


@dataclass(frozen=True)
class Segment:
    """One category of a stacked bar."""

    category: CauseWords
    ns: float
    start: float  # share of the longer bar, 0 to 1
    width: float


@dataclass(frozen=True)
class Stack:
    """One side's categories end to end."""

    side: str
    total_ns: float
    segments: list[Segment]


def stacks(result: Result) -> list[Stack]:
    """Lay both sides' categories end to end on one scale."""
    sides = [("baseline", result.accounting.baseline), ("candidate", result.accounting.candidate)]
    longest = max([math.fsum(values.values()) for _, values in sides] + [1.0])
    out = []
    for side, values in sides:
        at, segments = 0.0, []
        for key in palette.order(set(values)):
            if values.get(key, 0.0) > 0:
                width = values[key] / longest
                segments.append(Segment(palette.category(key), values[key], at, width))
                at += width
        out.append(Stack(side, math.fsum(values.values()), segments))
    return out


@dataclass(frozen=True)
class Axis:
    """A mapping of times to positions, with its ticks as (position, text)."""

    low: float
    high: float
    left: float
    width: float
    log: bool
    ticks: list[tuple[float, str]]
    unit: str  # as typography has it

    def x(self, ns: float) -> float:
        """Return the position of a time."""
        return round(self.left + self.width * _place(ns, self.low, self.high, self.log), 2)


def _place(ns: float, low: float, high: float, log: bool) -> float:
    if high <= low:
        return 0.5
    if log:
        return math.log(max(ns, low) / low) / math.log(high / low)
    return (ns - low) / (high - low)


def axis(values: Sequence[float], left: float, width: float, log_from: float = _LOG_FROM) -> Axis:
    """Choose an axis that holds all values: logarithmic where they spread over more than a decade, or a factor of `log_from`."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    log = low >= _LEAST_NS and high / low > log_from
    if log:
        low, high = low / 1.1, high * 1.1
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        if high / low > 1_000:
            marks = [10.0**power for power in powers]
        marks = [mark for mark in marks if low <= mark <= high]
        if len(marks) * _TICK > width:  # powers of ten, as many as have room
            marks = [mark for mark in marks if math.isclose(math.log10(mark) % 1, 0.0, abs_tol=1e-9)]
            marks = marks[:: math.ceil(len(marks) * _TICK / width)]
    else:
        room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = low - room, high + room
        marks = nice_ticks(low, high)
    scale = units.scale_for(values)
    empty = Axis(low, high, left, width, log, [], units.symbol(scale))
    ticks = [(empty.x(mark), f"{mark / scale.factor:,.6g}") for mark in marks if low <= mark <= high]
    return Axis(low, high, left, width, log, ticks, units.symbol(scale))


@dataclass(frozen=True)
class StripRow:
    """One run's values."""

    side: str
    label: str
    y: float
    mean: float | None
    dots: list[tuple[float, float]]
    box: tuple[float, float] | None = None  # middle half of the values: where it begins, and its width


@dataclass(frozen=True)
class Strip:
    """All runs' values on one axis."""

    axis: Axis
    rows: list[StripRow]
    height: float
    left_out: int


def phase_strip(result: Result | Show, phase: PhaseTimes, width: float = 900.0) -> Strip | None:
    """Plot the step times of a phase: a line of dots a run, with its mean; None where there is nothing."""
    groups: list[tuple[str, str, float, list[int]]] = []
    for side, values in (("baseline", phase.baseline), ("candidate", phase.candidate)):
        if not values:
            continue
        # a run without steps of the phase has no mean; with fewer samples than steps any run may be without
        own = sorted({one.run for one in result.samples if one.side == side and one.phase == phase.phase})
        runs = own if len(own) == len(values.run_means_ns) else range(len(values.run_means_ns))
        for run, mean in zip(runs, values.run_means_ns, strict=True):
            periods = [
                sample.period_ns
                for sample in result.samples
                if sample.side == side and sample.run == run and sample.phase == phase.phase
            ]
            groups.append((side, _run_label(result, side, run), mean, periods))
    return strip_of(groups, width)


def strip_of(groups: list[tuple[str, str, float, list[int]]], width: float = 900.0) -> Strip | None:
    """Plot runs of step times: side, label, mean and the steps of each, ns."""
    left, row_height, top = 150.0, 15.0, 4.0
    if not groups:
        return None
    shown = groups[:_MOST_RUNS]
    left_out = sum(len(periods) for *_, periods in groups[_MOST_RUNS:])
    everything = [mean for _, _, mean, _ in shown] + [float(p) for *_, periods in shown for p in periods]
    scale = axis(everything, left, width - left - 12)
    rows, y, last = [], top, ""
    for side, label, mean, periods in shown:
        y += 6.0 if last and last != side else 0.0
        stride = max(1, math.ceil(len(periods) / _MOST_DOTS))
        left_out += len(periods) - len(periods[::stride])
        middle = y + row_height / 2
        spread = 0.75 if len(periods) > 8 else 0.0
        dots = [
            (scale.x(period), round(middle + ((number * 7) % 11 - 5) * spread, 2))
            for number, period in enumerate(periods[::stride])
        ]
        rows.append(StripRow(side, label, middle, scale.x(mean), dots, _box(scale, periods)))
        y, last = y + row_height, side
    return Strip(scale, rows, y + 22.0, left_out)


def _box(scale: Axis, values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < _LEAST_FOR_A_BOX:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return scale.x(low), round(scale.x(high) - scale.x(low), 2)


def _run_label(result: Result | Show, side: str, run: int) -> str:
    if isinstance(result, Show):
        runs = result.input.runs
    else:
        runs = (result.inputs.baseline if side == "baseline" else result.inputs.candidate).runs
    return runs[run].name if run < len(runs) else f"run {run + 1}"


def run_strip(before: Sequence[float], after: Sequence[float], width: float = 340.0) -> Strip | None:
    """Plot one value a run: baseline above, candidate below; None where there is nothing."""
    if not before and not after:
        return None
    scale = axis([*before, *after], 62.0, width - 74.0)
    rows = [
        StripRow(side, side, y, None, [(scale.x(value), y) for value in values])
        for side, values, y in (("baseline", before, 9.0), ("candidate", after, 25.0))
    ]
    return Strip(scale, rows, 50.0, 0)


# The GIL matrix: who waits for whom, summed over the holder's ranges.

_MOST = 8  # threads a way: those with the most time
_DARKEST = 0.55  # share of the colour where the wait is the longest; the figures stay readable on it


@dataclass(frozen=True)
class Cell:
    """One waiting and one holding thread, ns per step; None: that side did not capture it."""

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


def gil_grid(result: Result | Show) -> Grid:
    """Sum the pairs of the result by thread; the longest first."""
    sums: dict[tuple[str, str], list[float | None]] = {}
    for row in result.gil.matrix:
        cell = sums.setdefault((row.waiter, row.holder), [None, None])
        for side, value in enumerate((row.baseline_ns, row.candidate_ns)):
            if value is not None and value is not ABSENT:
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
