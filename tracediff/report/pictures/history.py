"""Small multiples of a history: one measure over the points of one program, its levels and changes, a line for each segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tracediff.history.model import ChangeFound, History, Segment, SeriesRow
from tracediff.report import units
from tracediff.report.drawing import Axis, Drawing, Layout, dots_of, fitting, path_of

LAYOUT = Layout("history-figure", 400.0)
_LEFT, _RIGHT, _TOP, _HIGH, _FOOT = 58.0, 8.0, 26.0, 96.0, 20.0
_DOTS = 400  # points, beyond which they are drawn as a line alone
_MOST_CHARTS = 60


_Place = Callable[[int], float]  # of a point


@dataclass(frozen=True)
class Chart:
    """A drawing, and which point lies where: `points` evenly from `left` on, `step` px apart."""

    measure: str
    drawing: Drawing
    points: list[int]
    left: float
    step: float


@dataclass(frozen=True)
class Group:
    """The charts of one program."""

    segments: list[Segment]
    charts: list[Chart]
    charts_left_out: int


def groups(history: History) -> list[Group]:
    """The programs, that of the newest point first."""
    programs: dict[object, list[Segment]] = {}
    for segment in history.segments:
        programs.setdefault(segment.program, []).append(segment)
    return [_group(history, segments) for segments in programs.values()]


def _group(history: History, segments: list[Segment]) -> Group:
    points = sorted(at for one in segments for at in one.points)
    names = list(dict.fromkeys(name for one in segments for name in _wanted(one)))
    charts = [_chart(history, segments, name, points) for name in names[:_MOST_CHARTS]]
    return Group(segments, charts, max(len(names) - _MOST_CHARTS, 0))


def _wanted(segment: Segment) -> list[str]:
    """Steps and what was asked for; then what changed, and why."""
    names = [one.measure for one in segment.standings]
    for change in segment.changes:
        names += [change.measure, *(cause.measure for cause in change.causes[:3])]
    for drift in segment.drifts:
        names += [cause.measure for cause in drift.causes[:3]]
    return list(dict.fromkeys(names))


def _chart(history: History, segments: Sequence[Segment], name: str, points: list[int]) -> Chart:
    rows = [(segment, row) for segment in segments for row in segment.series if row.measure == name]
    values = [value for _, row in rows for value in row.values]
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = max(0.12 * (high - low), 0.005 * abs(high), 1e-9)
    least = max(low - room, 0.0) if low >= 0 else low - room
    right, bottom = LAYOUT.width - _RIGHT, _TOP + _HIGH
    y = Axis(least, high + room, bottom, _TOP)
    step = (right - _LEFT) / max(len(points) - 1, 1)
    place = {at: _LEFT + step * number for number, at in enumerate(points)}
    out = Drawing(LAYOUT, name)
    out.write(0, 8, fitting(name, LAYOUT.width - 60), bold=True)
    counts = bool(rows) and rows[0][1].unit == "count"
    scale = units.scale_for([y.high])
    out.write(LAYOUT.width, 8, "per step" if counts else units.symbol(scale), "end", "--muted")
    for mark in y.ticks(3):
        out.level(y.at(mark), units.count(mark) if counts else scale.number(mark), _LEFT, right)
    _draw_borders(out, segments, place.__getitem__)
    for segment, row in rows:
        _draw_series(out, segment, row, place.__getitem__, y)
    for x, anchor, at in ((_LEFT, "start", points[0]), (right, "end", points[-1])):
        out.write(x, bottom + 10, history.points[at].time[:10], anchor, "--muted")
    out.height = bottom + _FOOT
    changes = sum(one.measure == name for segment in segments for one in segment.changes)
    out.description = f"{name} over {len(values)} points, {changes} changes of level"
    return Chart(name, out, points, _LEFT, step)


def _draw_series(out: Drawing, segment: Segment, row: SeriesRow, x: _Place, y: Axis) -> None:
    dots = [(x(at), y.at(value)) for at, value in zip(row.points, row.values, strict=True)]
    few = len(dots) <= _DOTS
    if len(dots) > 1:
        out.line(path_of(dots), "--base-dot", 1.0, opacity=0.45 if few else 0.8)
    if few:
        out.line(dots_of(dots), "--base-dot", 4.0, round=True)
    changes = sorted((one for one in segment.changes if one.measure == row.measure), key=lambda one: one.bad)
    middles = [*(_middle(one, x) for one in changes), dots[-1][0]]
    for one, middle, after in zip(changes, middles, middles[1:], strict=False):
        colour = "--slower" if one.delta > 0 else "--faster"
        out.line(f"M{middle:.1f} {_TOP - 6:.1f}V{_TOP + _HIGH:.1f}", colour, 1.5, dashed=True)
        if one is changes[0]:
            out.line(f"M{dots[0][0]:.1f} {y.at(one.before):.1f}H{middle:.1f}", "--ink", 1.5)
        out.line(f"M{middle:.1f} {y.at(one.after):.1f}H{after:.1f}", "--ink", 1.5)
        side = "end" if middle > LAYOUT.width / 2 else "start"
        text = units.change(one.delta, one.before) or "new"
        out.write(middle + (-4 if side == "end" else 4), _TOP - 4, text, side, colour, bold=True)


def _middle(change: ChangeFound, x: _Place) -> float:
    return (x(change.good) + x(change.bad)) / 2


def _draw_borders(out: Drawing, segments: Sequence[Segment], x: _Place) -> None:
    """Where one segment follows another, unless they come in turn."""
    order = sorted((at, number) for number, segment in enumerate(segments) for at in segment.points)
    borders = [(a, b) for (a, one), (b, other) in pairwise(order) if one != other]
    for a, b in borders if len(borders) < 2 * len(segments) else []:
        out.line(f"M{(x(a) + x(b)) / 2:.1f} {_TOP:.1f}V{_TOP + _HIGH:.1f}", "--muted", 3.0, opacity=0.5)
