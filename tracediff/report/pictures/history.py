"""Small multiples of a history: one measure over the points of one program, its levels and changes, a line for each segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tracediff.history.model import ChangeFound, History, Segment, SeriesRow
from tracediff.report import units
from tracediff.report.pictures.shapes import Drawing, Layout, fitting, path_of
from tracediff.report.waterfall import nice_ticks

LAYOUT = Layout("history-figure", 400.0)
_LEFT, _RIGHT, _TOP, _HIGH, _FOOT = 58.0, 8.0, 26.0, 96.0, 20.0
_DOTS = 400  # points, beyond which they are drawn as a line alone
_MOST_CHARTS = 60


_Scale = Callable[[Any], float]


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
    low, high = (max(low - room, 0.0) if low >= 0 else low - room), high + room
    step = (LAYOUT.width - _LEFT - _RIGHT) / max(len(points) - 1, 1)
    place = {at: number for number, at in enumerate(points)}

    def x(at: int) -> float:
        return _LEFT + step * place[at]

    def y(value: float) -> float:
        return _TOP + _HIGH * (1 - (value - low) / (high - low))

    out = Drawing(LAYOUT, name)
    out.write(0, 8, fitting(name, LAYOUT.width - 60), bold=True)
    unit = rows[0][1].unit if rows else "ns"
    scale = units.scale_for([high])
    out.write(LAYOUT.width, 8, "per step" if unit == "count" else units.symbol(scale), "end", "--muted")
    for tick in nice_ticks(low, high, 3):
        out.line(f"M{_LEFT} {y(tick):.1f}H{LAYOUT.width - _RIGHT}", "--rule")
        out.write(
            _LEFT - 6, y(tick), units.count(tick) if unit == "count" else scale.number(tick), "end", "--muted"
        )
    _draw_borders(out, segments, x)
    for segment, row in rows:
        _draw_series(out, segment, row, x, y)
    first, last = (history.points[at] for at in (points[0], points[-1]))
    foot = _TOP + _HIGH + 10
    out.write(_LEFT, foot, first.time[:10], "start", "--muted")
    out.write(LAYOUT.width - _RIGHT, foot, last.time[:10], "end", "--muted")
    out.height = _TOP + _HIGH + _FOOT
    changes = sum(one.measure == name for segment in segments for one in segment.changes)
    out.description = f"{name} over {len(values)} points, {changes} changes of level"
    return Chart(name, out, points, _LEFT, step)


def _draw_series(out: Drawing, segment: Segment, row: SeriesRow, x: _Scale, y: _Scale) -> None:
    dots = [(x(at), y(value)) for at, value in zip(row.points, row.values, strict=True)]
    if len(dots) > 1:
        out.line(path_of(dots), "--base-dot", 1.0, opacity=0.45 if len(dots) <= _DOTS else 0.8)
    if len(dots) <= _DOTS:
        out.line("".join(f"M{left:.1f} {top:.1f}h0" for left, top in dots), "--base-dot", 4.0, round=True)
    changes = sorted((one for one in segment.changes if one.measure == row.measure), key=lambda one: one.bad)
    for number, one in enumerate(changes):
        middle = _middle(one, x)
        after = _middle(changes[number + 1], x) if number + 1 < len(changes) else dots[-1][0]
        colour = "--slower" if one.delta > 0 else "--faster"
        out.line(f"M{middle:.1f} {_TOP - 6:.1f}V{_TOP + _HIGH:.1f}", colour, 1.5, dashed=True)
        if not number:
            out.line(f"M{dots[0][0]:.1f} {y(one.before):.1f}H{middle:.1f}", "--ink", 1.5)
        out.line(f"M{middle:.1f} {y(one.after):.1f}H{after:.1f}", "--ink", 1.5)
        side = "end" if middle > LAYOUT.width / 2 else "start"
        text = units.change(one.delta, one.before) or "new"
        out.write(middle + (-4 if side == "end" else 4), _TOP - 4, text, side, colour, bold=True)


def _middle(change: ChangeFound, x: _Scale) -> float:
    return (x(change.good) + x(change.bad)) / 2


def _draw_borders(out: Drawing, segments: Sequence[Segment], x: _Scale) -> None:
    """Where one segment follows another, unless they come in turn."""
    order = sorted((at, number) for number, segment in enumerate(segments) for at in segment.points)
    borders = [(a, b) for (a, one), (b, other) in pairwise(order) if one != other]
    for a, b in borders if len(borders) < 2 * len(segments) else []:
        out.line(f"M{(x(a) + x(b)) / 2:.1f} {_TOP:.1f}V{_TOP + _HIGH:.1f}", "--muted", 3.0, opacity=0.5)
