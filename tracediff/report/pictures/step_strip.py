"""The step strip: every step in order, both sides, a column as high as the step was long and coloured by what its time was."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tracediff.model import Result
from tracediff.model.common import ABSENT
from tracediff.model.pictures import StepStrip, StripColumn
from tracediff.model.show import Show
from tracediff.report import palette, units, words
from tracediff.report.pictures.style import (
    AXIS,
    DOTS,
    LINE,
    LOG_FROM,
    PALE,
    PLOT,
    ROW,
    Layout,
    Sheet,
    areas,
    box,
    colour,
    label,
    marks,
    rules,
    tick,
)

TITLE = "Every step in order"
_HIGH, _MARK = PLOT / 2, ROW / 2  # of a side; of what shows that a step has a timeline
_WIDEST = 3 * ROW  # of a step


class Heights(msgspec.Struct, frozen=True):
    """How high a step of so many ns is drawn, 0 to 1: evenly from `low`, or by powers."""

    low: float
    high: float
    log: bool = False

    def at(self, ns: float) -> float:
        """The height of a step."""
        if self.log:
            return math.log(max(ns, self.low) / self.low) / math.log(self.high / self.low)
        return (ns - self.low) / (self.high - self.low)


def heights(columns: Sequence[StripColumn]) -> Heights:
    """One scale for both sides: from zero, or logarithmic where steps differ much."""
    low, high = max(min(one.median_ns for one in columns), 1), max(one.ns for one in columns)
    if high <= LOG_FROM * low:
        return Heights(0.0, high)
    return Heights(low / 2.5, high, log=True)


def named(report: Result | Show) -> str:
    """The category of the first cause beyond noise, '' without one."""
    found = words.listed(report)[0][:1] if isinstance(report, Result) else []
    return next((one.cause if one.cause in palette.BY_KEY else "compute" for one in found), "")


def merged(columns: Sequence[StripColumn]) -> list[StripColumn]:
    """The same in few columns: the longest of neighbours of one run stands for them."""
    many = -(-len(columns) // DOTS)
    out: list[StripColumn] = []
    for _, own in itertools.groupby(columns, key=lambda one: one.run):
        run = list(own)
        for part in (run[at : at + many] for at in range(0, len(run), many)):
            longest = max(part, key=lambda one: one.ns)
            timeline = next((one.timeline for one in part if one.timeline is not None), None)
            middle = sorted(one.median_ns for one in part)[(len(part) - 1) // 2]
            steps = sum(one.steps for one in part)
            out.append(replace(longest, steps=steps, median_ns=middle, timeline=timeline))
    return out


def sides_of(strip: StepStrip) -> list[tuple[str, list[StripColumn]]]:
    """The columns of every side."""
    both = [("baseline", strip.baseline), ("candidate", strip.candidate)]
    return both[:1] if strip.candidate is ABSENT else both


def draw(report: Result | Show, layout: Layout) -> Sheet | None:
    """Lay out the sides above each other, the category of the first cause at the foot; None where there are no steps."""
    strip = report.step_strip
    if strip is None or not all(columns for _, columns in sides_of(strip)):
        return None
    first = named(report)
    if first in strip.categories:
        strip = _with_first(strip, first)
    else:
        first = ""
    sides = [(side, merged(columns) if layout.narrow else columns) for side, columns in sides_of(strip)]
    of_ns = heights([one for _, columns in sides for one in columns])
    scale = units.prose([of_ns.high])
    runs = [len({one.run for one in columns}) for _, columns in sides]
    longest = max(len(columns) + many - 1 for (_, columns), many in zip(sides, runs, strict=True))
    places = max(longest, (layout.width - AXIS) / _WIDEST)
    unit = words.unit(report)
    out = Sheet(layout, TITLE)
    y, marked = 0.0, False
    for (side, columns), many in zip(sides, runs, strict=True):
        if len(sides) > 1:
            out.write(0, y + 9, side, bold=True)
        out.write(82 if len(sides) > 1 else 0, y + 9, _steps(columns, many, unit), ink="--muted")
        drawn = any(one.timeline is not None for one in columns)
        _draw_side(out, strip, columns, (of_ns, scale, places), y + 26, first)
        y += 26 + _HIGH + (16 if drawn else 8)
        marked |= drawn
    y = _legend(out, strip, of_ns, y + 2, first, marked=marked)
    out.height = round(y, 1)
    out.description = describe(strip, scale, unit)
    return out


def _with_first(strip: StepStrip, first: str) -> StepStrip:
    """The same with one category before the others."""
    order = sorted(range(len(strip.categories)), key=lambda at: strip.categories[at] != first)

    def sorted_columns(columns: list[StripColumn]) -> list[StripColumn]:
        return [replace(one, parts=[one.parts[at] for at in order]) for one in columns]

    return replace(
        strip,
        categories=[strip.categories[at] for at in order],
        baseline=sorted_columns(strip.baseline),
        candidate=sorted_columns(strip.candidate),
    )


def _steps(columns: Sequence[StripColumn], runs: int, unit: str = "step") -> str:
    many = sum(one.steps for one in columns)
    text = units.counted(many, unit)
    if runs > 1:
        text += f" of {runs} runs"
    width = max(one.steps for one in columns)
    return f"{text}, {width} a column" if width > 1 else text


def _draw_side(
    out: Sheet,
    strip: StepStrip,
    columns: Sequence[StripColumn],
    axis: tuple[Heights, units.Scale, float],
    top: float,
    first: str,
) -> None:
    """The columns of one side. `axis`: with the number of places for them."""
    of_ns, scale, places = axis
    bottom = top + _HIGH
    axes = out.axes(AXIS, top, out.layout.width, bottom + _MARK)
    axes.set(xlim=(0, places), ylim=(-_MARK / _HIGH, 1))
    found = marks(of_ns.low, of_ns.high, 6 if of_ns.log else 4, log=of_ns.log)
    texts = {of_ns.at(ns): f"{tick(ns, scale)} {scale.unit}" for ns in found}
    texts = {at: text for at, text in texts.items() if 0.02 < at < 1 - LINE / _HIGH}
    label(axes.yaxis, texts | {1.0: scale.time(of_ns.high)})
    px = places / (out.layout.width - AXIS)  # in places
    left = lefts(columns)
    layers = _layers(strip, columns, of_ns)
    areas(
        axes,
        [outline(left, tops) for _, tops in layers],
        [(palette.variable(name), PALE if first and name != first else 1.0) for name, _ in layers],
        on="--paper",
    )
    if px * LINE < 4:  # columns are wide enough to lie apart
        rules(axes, [at + 1 for at in left], colour("--paper"), 1.0)
    axes.axhline(0, color=colour("--muted"), linewidth=1)
    starts = [
        at - 0.5
        for at, one, before in zip(left[1:], columns[1:], columns, strict=False)
        if one.run != before.run
    ]
    rules(axes, starts, colour("--muted"), 1.0, dashed=True)
    many = [(at, of_ns.at(one.median_ns)) for at, one in zip(left, columns, strict=True) if one.steps > 1]
    for ink, width in (("--paper", 2.6), ("--ink", 1.2)):
        lines = [(x, y) for at, y in many for x in (at, at + 1, math.nan)]
        axes.plot(*zip(*lines, strict=True), color=colour(ink), linewidth=width) if lines else None
    drawn = [(at, one) for at, one in zip(left, columns, strict=True) if one.timeline is not None]
    low = -_MARK / _HIGH
    middles = [at + 0.5 for at, _ in drawn]
    triangles = [[(x, low / 4), (x + 4 * px, low), (x - 4 * px, low)] for x in middles]
    areas(axes, triangles, [("--ink", 1.0)] * len(drawn))
    if out.layout.narrow:
        return
    areas(axes, [box(at, at + 1, 0, 1) for at in left], titles=[_title(strip, one, scale) for one in columns], links=[""] * len(left))  # fmt: skip
    half = max(0.5, LINE / 2 * px)
    areas(
        axes,
        [box(at + 0.5 - half, at + 0.5 + half, low, 1) for at, _ in drawn],
        titles=[_title(strip, one, scale) for _, one in drawn],
        links=[f"#timeline-{one.timeline}" for _, one in drawn],
    )


def lefts(columns: Sequence[StripColumn]) -> list[int]:
    """The place of each column, an empty one between runs."""
    runs = list(dict.fromkeys(one.run for one in columns))
    return [at + runs.index(one.run) for at, one in enumerate(columns)]


def outline(left: Sequence[int], tops: Sequence[float]) -> list[tuple[float, float]]:
    """The outline of columns a place wide, from the foot up."""
    shape = [(float(left[0]), 0.0)]
    for at, top in zip(left, tops, strict=True):
        if at > shape[-1][0]:
            shape += [(shape[-1][0], 0.0), (at, 0.0)]
        if shape[-1] == (at, top) and top:
            shape.pop()
        else:
            shape.append((at, top))
        shape.append((at + 1, top))
    return [*shape, (shape[-1][0], 0.0)]


def _layers(
    strip: StepStrip, columns: Sequence[StripColumn], of_ns: Heights
) -> list[tuple[str, Sequence[float]]]:
    """Areas to be painted over each other: from the foot of all columns to the top of a category, the last category first."""
    parts = np.array([one.parts for one in columns], float)
    high = np.array([of_ns.at(one.ns) / max(one.ns, 1) for one in columns])
    tops = np.round(_HIGH * 2 * np.cumsum(parts, 1) * high[:, None]) / (2 * _HIGH)  # half a px
    under = np.hstack([np.zeros((len(columns), 1)), tops[:, :-1]])
    seen = (tops != under).any(0)  # nothing could be seen of the others
    return [(strip.categories[at], tops[:, at].tolist()) for at in range(len(seen) - 1, -1, -1) if seen[at]]


def _title(strip: StepStrip, column: StripColumn, scale: units.Scale) -> str:
    most = max(zip(column.parts, strip.categories, strict=True))
    text = "step" if column.number is None else f"step {column.number}"
    if column.phase != "step":
        text += f" ({column.phase})"
    text += f": {scale.time(column.ns)}, {palette.category(most[1]).label} {scale.time(most[0])}"
    if column.steps > 1:
        text += f"; median of {column.steps}: {scale.time(column.median_ns)}"
    return text


def _legend(out: Sheet, strip: StepStrip, of_ns: Heights, y: float, first: str, *, marked: bool) -> float:
    """The categories that make up some of any column, then how to read it."""
    every = [one for _, columns in sides_of(strip) for one in columns]
    totals = [
        (name, sum(one.parts[at] / max(one.ns, 1) for one in every))
        for at, name in enumerate(strip.categories)
    ]
    whole = sum(total for _, total in totals) or 1.0
    shown = [name for name, total in totals if total >= 0.01 * whole or name == first]
    _, y = out.legend(
        (
            (palette.variable(name), PALE if first and name != first else 1.0, palette.category(name).label, name == first)
            for name in shown
        ),
        0, y,
    )  # fmt: skip
    how = ["Height: step time, log; colours: shares of it." if of_ns.log else "Height: step time."]
    if first:
        how.append("The first cause is at the foot.")
    if (most := max(one.steps for one in every)) > 1:
        how.append(f"Column: longest of {most} steps, line: median.")
    if marked:
        how.append("\u25b2 has a timeline.")
    return out.paragraph(0, y + 20, " ".join(how), "--muted", most=4)


def describe(strip: StepStrip, scale: units.Scale, unit: str = "step") -> str:
    """The picture in words."""
    said = []
    for side, columns in sides_of(strip):
        longest = max(columns, key=lambda one: one.ns)
        which = "" if longest.number is None else f", step {longest.number}"
        said.append(
            f"{f'{side}: ' * (len(sides_of(strip)) > 1)}{_steps(columns, 1, unit)}, the longest {scale.time(longest.ns)}{which}"
        )
    return "; ".join(said)
