"""Small multiples of a history: one measure over the points of one program, its levels and changes, a line for each segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from tracediff.history.model import History, Segment, SeriesRow
from tracediff.report import units
from tracediff.report.amounts import PAGE
from tracediff.report.pictures.style import (
    AXIS,
    DASHED,
    DOTS,
    LINE,
    PALE,
    PLOT,
    ROW,
    Later,
    Layout,
    Sheet,
    colour,
    fitting,
    label,
    marks,
    tick,
    typeset,
)

LAYOUT = Layout("history-figure", 400.0)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def charts(history: History, segments: Sequence[Segment]) -> tuple[list[Later], int]:
    """The charts of one program, and how many are left out."""
    points = sorted(at for one in segments for at in one.points)
    names = list(dict.fromkeys(name for one in segments for name in _wanted(one)))
    found = [Later(partial(_chart, history, segments, name, points), LAYOUT) for name in names[:PAGE]]
    return found, len(names[PAGE:])


def _wanted(segment: Segment) -> list[str]:
    """Steps and what was asked for; then what changed, and why."""
    names = [one.measure for one in segment.standings]
    for change in segment.changes:
        names += [change.measure, *(cause.measure for cause in change.causes[:3])]
    for drift in segment.drifts:
        names += [cause.measure for cause in drift.causes[:3]]
    return list(dict.fromkeys(names))


def _chart(
    history: History, segments: Sequence[Segment], name: str, points: list[int], layout: Layout
) -> Sheet:
    rows = [(segment, row) for segment in segments for row in segment.series if row.measure == name]
    values = [value for _, row in rows for value in row.values]
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = max(0.12 * (high - low), 0.005 * abs(high), 1e-9)
    least = max(low - room, 0.0) if low >= 0 else low - room
    right, bottom = layout.width - LINE / 2, ROW + PLOT / 2 + ROW
    last = max(len(points) - 1, 1)
    place = {at: number for number, at in enumerate(points)}
    out = Sheet(layout, name)
    out.write(0, 8, fitting(name, layout.width - 120), bold=True)
    counts = bool(rows) and rows[0][1].unit == "count"
    scale = units.scale_for([high + room])
    unit = ("per step" if counts else units.symbol(scale)) + ", axis cut" * (least > 0)
    out.write(layout.width, 8, unit, "right", "--muted")
    axes = out.axes(AXIS, ROW, right, bottom)
    axes.set(xlim=(0, last), ylim=(least, high + room))
    label(axes.yaxis, {at: units.count(at) if counts else tick(at, scale) for at in marks(least, high + room, 3)})  # fmt: skip
    _draw_borders(axes, segments, place)
    for segment, row in rows:
        _draw_series(axes, segment, row, place)
    for x, anchor, at in ((AXIS, "left", points[0]), (right, "right", points[-1])):
        out.write(x, bottom + 10, history.points[at].time[:10], anchor, "--muted")
    out.height = bottom + ROW
    changes = sum(one.measure == name for segment in segments for one in segment.changes)
    out.description = f"{name} over {len(values)} points, {changes} changes of level"
    return out


def _draw_series(axes: Axes, segment: Segment, row: SeriesRow, place: Mapping[int, int]) -> None:
    xs = [place[at] for at in row.points]
    few = len(xs) <= DOTS
    ink = colour("--base-dot")
    axes.plot(xs, row.values, color=ink, linewidth=1, alpha=PALE if few else 1.0)
    if few:
        axes.plot(xs, row.values, "o", color=ink, markersize=4)
    changes = sorted((one for one in segment.changes if one.measure == row.measure), key=lambda one: one.bad)
    middles = [*((place[one.good] + place[one.bad]) / 2 for one in changes), xs[-1]]
    foot, top = axes.get_ylim()
    for one, middle, after in zip(changes, middles, middles[1:], strict=False):
        ink = colour("--slower" if one.delta > 0 else "--faster")
        axes.vlines(middle, foot, top, ink, linewidth=1.5, linestyles=DASHED)
        if one is changes[0]:
            axes.hlines(one.before, xs[0], middle, colour("--ink"), linewidth=1.5)
        axes.hlines(one.after, middle, after, colour("--ink"), linewidth=1.5)
        side = "right" if middle > axes.get_xlim()[1] / 2 else "left"
        text = typeset(units.change(one.delta, one.before) or "new")
        axes.annotate(text, (middle, top), (-4 if side == "right" else 4, 2), textcoords="offset points", ha=side, color=ink, weight="bold")  # fmt: skip


def _draw_borders(axes: Axes, segments: Sequence[Segment], place: Mapping[int, int]) -> None:
    """Where one segment follows another, unless they come in turn."""
    order = sorted((at, number) for number, segment in enumerate(segments) for at in segment.points)
    borders = [(a, b) for (a, one), (b, other) in pairwise(order) if one != other]
    for a, b in borders if len(borders) < 2 * len(segments) else []:
        axes.axvline((place[a] + place[b]) / 2, color=colour("--muted"), linewidth=3, alpha=PALE)
