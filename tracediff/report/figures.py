"""Small figures of the page: stacked categories, every run on a line, who waits for whom."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tracediff.model import Finding, PhaseTimes, Result
from tracediff.model.common import ABSENT
from tracediff.model.show import Show
from tracediff.report import palette, units
from tracediff.report.causes import CauseWords
from tracediff.report.drawing import Drawing, Layout, axis_of, dots_of, draw_times
from tracediff.report.escape import shorten

_MOST_DOTS = 240  # of one run in one figure
_MOST_RUNS = 40  # rows of one figure
_LEAST_FOR_A_BOX = 8  # values of a run
_ROW = 15.0  # of a run


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


# Strips: the values of every run on one axis, a line of dots a run.


@dataclass(frozen=True)
class Strip:
    """A drawing, and how many values it leaves out."""

    drawing: Drawing
    left_out: int = 0

    @property
    def svg(self) -> Markup:
        """For the page."""
        return Markup(self.drawing.svg())


_Run = tuple[str, str, float | None, Sequence[float]]  # side, label, mean, values


def phase_strip(result: Result | Show, phase: PhaseTimes) -> Strip | None:
    """Plot the step times of a phase: a line of dots a run, with its mean; None where there is nothing."""
    groups: list[_Run] = []
    for side, values in (("baseline", phase.baseline), ("candidate", phase.candidate)):
        if not values:
            continue
        own = [one for one in result.samples if one.side == side and one.phase == phase.phase]
        # a run without steps of the phase has no mean; with fewer samples than steps any run may be without
        sampled = sorted({one.run for one in own})
        runs = sampled if len(sampled) == len(values.run_means_ns) else range(len(values.run_means_ns))
        for run, mean in zip(runs, values.run_means_ns, strict=True):
            periods = [one.period_ns for one in own if one.run == run]
            groups.append((side, _run_label(result, side, run), mean, periods))
    if not groups:
        return None
    shown = [
        (side, label, mean, values[:: max(1, math.ceil(len(values) / _MOST_DOTS))])
        for side, label, mean, values in groups[:_MOST_RUNS]
    ]
    left_out = sum(len(values) for *_, values in groups) - sum(len(values) for *_, values in shown)
    title = f"Step times of every run, phase {phase.phase}"
    return Strip(_draw(title, shown, Layout("strip", 590.0), 150.0), left_out)


def run_strip(finding: Finding) -> Strip | None:
    """Plot the time of a cause in every run: baseline above, candidate below; None where there is nothing."""
    before, after = finding.evidence.runs_baseline_ns, finding.evidence.runs_candidate_ns
    if not before and not after:
        return None
    groups: list[_Run] = [("baseline", "baseline", None, before), ("candidate", "candidate", None, after)]
    return Strip(_draw(f"Every run of finding {finding.rank}", groups, Layout("strip", 340.0), 62.0))


def _draw(title: str, groups: Sequence[_Run], layout: Layout, left: float) -> Drawing:
    """Plot values on one axis, of many with the middle half of each run as a box."""
    out = Drawing(layout, title)
    everything = [one for _, _, mean, values in groups for one in (*values, *([mean] if mean else []))]
    x = axis_of(everything, left, layout.width - 12)
    sides = dict.fromkeys(side for side, *_ in groups)
    out.height = 4 + _ROW * len(groups) + 6 * (len(sides) - 1) + 22
    draw_times(out, x, units.scale_for(everything), out.height - 20, top=2)
    y, last = 4 + _ROW / 2, groups[0][0]
    for side, label, mean, values in groups:
        y += 6 * (side != last)
        colour = f"--{side[:4]}-dot"
        if len(values) >= _LEAST_FOR_A_BOX:
            low, _, high = statistics.quantiles(values, n=4, method="inclusive")
            out.rect(x.at(low), y - 6, x.at(high) - x.at(low), 12, colour, 0.16)
        out.write(left - 8, y, shorten(label, 24), "end", "--muted")
        spread = 0.75 if len(values) > 8 else 0.0
        dots = [(x.at(one), y + (number * 7 % 11 - 5) * spread) for number, one in enumerate(values)]
        if mean is None:
            out.line(dots_of(dots), colour, 6.4, round=True, opacity=0.8)
        else:
            out.line(dots_of(dots), colour, 4.4, round=True, opacity=0.55)
            out.line(f"M{x.at(mean):g} {y - 7:g}v14", colour, 2.4)
        y, last = y + _ROW, side
    return out


def _run_label(result: Result | Show, side: str, run: int) -> str:
    runs = result.input.runs if isinstance(result, Show) else getattr(result.inputs, side).runs
    return runs[run].name if run < len(runs) else f"run {run + 1}"


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
    longest = max(size.values(), default=0.0) or 1.0
    cells = {
        pair: Cell(baseline, candidate, _DARKEST * size[pair] / longest)
        for pair, (baseline, candidate) in sums.items()
    }
    waiters, holders = (_largest(size, part) for part in (0, 1))
    rows = [(waiter, [cells.get((waiter, holder)) for holder in holders]) for waiter in waiters]
    return Grid(waiters, holders, rows, units.scale_for(size.values()))


def _largest(size: dict[tuple[str, str], float], part: int) -> list[str]:
    total: dict[str, float] = {}
    for pair, ns in size.items():
        total[pair[part]] = total.get(pair[part], 0.0) + ns
    return sorted(total, key=lambda name: (-total[name], name))[:_MOST]
