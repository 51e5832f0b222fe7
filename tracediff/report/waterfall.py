"""The step-time waterfall as data: baseline, one delta a category, candidate; adds up to the nanosecond."""

from __future__ import annotations

import html
import io
import math
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from tracediff.model import Evidence, Result
from tracediff.report import palette, units, words

NOT_CAPTURED = "not captured"
# Where the time of a category goes when that kind of trace is missing: the thread's own work.
_FALLBACK = "host_work"
_OPTIONAL = {"gc": "gc", "gil_wait": "gil"}  # category that can be absent -> its kind of trace


@dataclass(frozen=True)
class Bar:
    """One row. `start_ns` and `end_ns` are running totals: a delta starts where the row above ended."""

    kind: Literal["baseline", "category", "residual", "candidate"]
    key: str
    label: str
    start_ns: int
    end_ns: int
    captured: bool = True  # False: no delta, because a side (or both) did not capture it
    note: str = ""
    level: Evidence | None = None

    @property
    def delta_ns(self) -> int:
        """What the row adds; for a total, the total itself."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Waterfall:
    """All rows in order, and the unit they share."""

    bars: list[Bar]
    scale: units.Scale

    @property
    def shown(self) -> list[Bar]:
        """The rows worth a line: totals, changes, and what was not captured."""
        return [bar for bar in self.bars if bar.kind != "category" or bar.delta_ns or not bar.captured]

    @property
    def unchanged(self) -> list[Bar]:
        """The categories left out of `shown` because their delta is zero."""
        return [bar for bar in self.bars if bar.kind == "category" and bar.captured and not bar.delta_ns]

    def axis(self) -> tuple[float, float]:
        """Choose the window of step time to show: from zero, unless the changes would be too small to see."""
        totals = [self.bars[0].end_ns, self.bars[-1].end_ns]
        points = totals + [point for bar in self.bars[1:-1] for point in (bar.start_ns, bar.end_ns)]
        low, high = min(points), max(max(points), 1)
        if low <= 0 or high == low or high - low > 0.3 * high:
            return min(0.0, float(low)), float(high)
        width = max(float(high - low), 0.02 * high)
        step = 10 ** math.floor(math.log10(width))
        start = math.floor((low - 0.35 * width) / step) * step
        return (float(start), float(high)) if start > 0 else (0.0, float(high))


def build(result: Result) -> Waterfall:
    """Build the waterfall of a result.

    A category is shown with the accounting's own delta. One that only one side captured, and for which the
    accounting gives no delta, cannot be compared: its time joins host work, where the other side's went. What
    the categories do not explain, which should be nothing, is a row.
    """
    accounting = result.accounting
    baseline, candidate, given = accounting.baseline, accounting.candidate, accounting.delta
    deltas: dict[str, float] = dict(given)
    notes: dict[str, str] = {}
    for key in palette.order(baseline.keys() | candidate.keys()):
        if key in baseline and key in candidate:
            deltas.setdefault(key, candidate[key] - baseline[key])
        elif key in baseline or key in candidate:
            side, other = ("baseline", "candidate") if key in baseline else ("candidate", "baseline")
            notes[key] = f"not captured on the {other}: its time there, if any, is in other categories"
            if key not in given:
                extra = candidate.get(key, 0.0) - baseline.get(key, 0.0)
                deltas[_FALLBACK] = deltas.get(_FALLBACK, 0.0) + extra
                label = palette.category(key).label
                notes[key] = f"captured on the {side} only: counted in {palette.category(_FALLBACK).label}"
                notes[_FALLBACK] = f"includes {label}, which only the {side} captured"
        elif key in _OPTIONAL:
            side = words.sides_without(result, _OPTIONAL[key])
            notes[key] = f"not captured on the {side}" if side in ("baseline", "candidate") else NOT_CAPTURED
    return _stack(result, deltas, notes)


def _stack(result: Result, deltas: dict[str, float], notes: dict[str, str]) -> Waterfall:
    start, end = result.step.baseline_ns, result.step.candidate_ns
    bars = [Bar("baseline", "baseline", "baseline", 0, round(start))]
    running = start
    for key in palette.order(deltas.keys() | notes.keys()):
        if key not in deltas and key not in notes:
            continue
        running, before = running + deltas.get(key, 0.0), round(running)
        label, level = palette.category(key).label, result.accounting.level.get(key)
        note = notes.get(key, "")
        bars.append(Bar("category", key, label, before, round(running), key in deltas, note, level))
    if abs(end - running) > max(0.5, 1e-9 * abs(end)):
        bars.append(Bar("residual", "unattributed", "not accounted for", round(running), round(end)))
    elif round(running) != round(end):  # a half that fell the other way: one nanosecond, kept on the last row
        bars[-1] = replace(bars[-1], end_ns=round(end))
    bars.append(Bar("candidate", "candidate", "candidate", 0, round(end)))
    return Waterfall(bars, units.scale_for([start, end, *deltas.values()]))


OF_STEP = "of step"  # heads the percentages: of the baseline's step time, not of the row's own


@dataclass(frozen=True)
class TextLine:
    """One row as text: the bar is `offset` blanks and `length` cells of the figure's width."""

    bar: Bar
    label: str
    value: str
    percent: str
    offset: int
    length: int
    thin: bool  # less than half a cell: a mark for the place, not a size


def text_lines(waterfall: Waterfall, width: int) -> list[TextLine]:
    """Lay the shown rows out on `width` character cells; a change too small for a cell still gets one."""
    low, high = waterfall.axis()
    per_ns = width / (high - low)
    base = waterfall.bars[0].end_ns
    lines = []
    for bar in waterfall.shown:
        total = bar.kind in ("baseline", "candidate")
        left, right = sorted((max(bar.start_ns, low), max(bar.end_ns, low)))
        offset = min(int((left - low) * per_ns), width - 1)
        length = max(1, min(round((right - low) * per_ns), width) - offset)
        thin = not total and (right - left) * per_ns < 0.5
        value = waterfall.scale.time(bar.end_ns) if total else waterfall.scale.delta(bar.delta_ns)
        percent = "" if total else str(units.delta(waterfall.scale, bar.delta_ns, base, bar.level).percent)
        if not bar.captured:
            value, percent, length = "not captured" if bar.note == NOT_CAPTURED else "one side only", "", 0
        lines.append(TextLine(bar, bar.label, value, percent, offset, length, thin))
    return lines


def text_figure(waterfall: Waterfall, width: int = 36) -> str:
    """Draw the waterfall as plain text."""
    lines = text_lines(waterfall, width)
    names = max(len(line.label) for line in lines)
    values = max(len(line.value) for line in lines)
    percents = max(len(OF_STEP), *(len(line.percent) for line in lines))
    rows = [f"{'':<{names}}  {'a step':>{values}}  {OF_STEP:>{percents}}"]
    for line in lines:
        mark = "\u2588" if line.bar.kind in ("baseline", "candidate") else "\u258f" if line.thin else "\u2593"
        figure = " " * line.offset + mark * line.length
        texts = f"{line.label:<{names}}  {line.value:>{values}}  {line.percent:>{percents}}"
        rows.append(f"{texts}  {figure}".rstrip())
    start = waterfall.axis()[0]
    if start > 0:
        rows.append(f"(bars start at {waterfall.scale.time(start)}, not at zero)")
    return "\n".join(rows)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Choose round values between the ends, about as many as wanted."""
    if high <= low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


# The waterfall as SVG to put inside a page: text stays text, and the colours follow the page.

_ROW, _TOP, _BOTTOM = 21.0, 8.0, 26.0
_BAR, _SIZE, _SMALL = 13.0, 10.5, 9.0


@dataclass(frozen=True)
class Layout:
    """Widths in points of the SVG: labels, the plot, then two columns of figures by their right ends."""

    name: str
    width: float
    plot: tuple[float, float]
    value: float
    percent: float
    ticks: int


WIDE = Layout("wide-figure", 640.0, (106.0, 500.0), 580.0, 640.0, 5)
NARROW = Layout(
    "narrow-figure", 344.0, (92.0, 236.0), 294.0, 344.0, 2
)  # for a telephone: the letters keep their size


def render_svg(waterfall: Waterfall, layout: Layout = WIDE) -> str:
    """Draw the shown rows, top to bottom, as an `<svg>` element with a title and a description."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = waterfall.shown
    height = _TOP + _ROW * len(rows) + _BOTTOM
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the reader's own configuration says
        matplotlib.rcParams["svg.hashsalt"] = "tracediff"
        matplotlib.rcParams["svg.fonttype"] = "none"
        matplotlib.rcParams["font.family"] = ["DejaVu Sans"]  # ships with matplotlib: the same everywhere
        figure = Figure(figsize=(layout.width / 72, height / 72), frameon=False)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0, layout.width)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        _Drawing(axes, waterfall, layout).draw(rows)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _for_page(out.getvalue(), describe(waterfall), layout)


def describe(waterfall: Waterfall) -> str:
    """Say the figure in words, for who cannot see it."""
    scale = waterfall.scale
    parts = [f"baseline {scale.time(waterfall.bars[0].end_ns)}"]
    for bar in waterfall.shown[1:-1]:
        parts.append(f"{bar.label} {scale.delta(bar.delta_ns) if bar.captured else bar.note}")
    return "; ".join([*parts, f"candidate {scale.time(waterfall.bars[-1].end_ns)}"])


class _Drawing:
    """One figure; `axes` has the points of the SVG as its coordinates, y downwards."""

    def __init__(self, axes: Any, waterfall: Waterfall, layout: Layout) -> None:
        self.axes = axes
        self.layout = layout
        self.waterfall = waterfall
        self.low, self.high = waterfall.axis()
        self.per_ns = (self.layout.plot[1] - self.layout.plot[0]) / (self.high - self.low)

    def x(self, ns: float) -> float:
        return self.layout.plot[0] + (max(ns, self.low) - self.low) * self.per_ns

    def draw(self, rows: list[Bar]) -> None:
        bottom = _TOP + _ROW * len(rows)
        self._axis(bottom)
        for number, bar in enumerate(rows):
            middle = _TOP + _ROW * (number + 0.5)
            if number + 1 < len(rows):
                x = self.x(bar.end_ns)
                self._line((x, x), (middle + _BAR / 2, middle + _ROW - _BAR / 2), palette.MUTED_LIGHT, 0.7, 2)
            self._row(bar, middle)

    def _axis(self, bottom: float) -> None:
        scale = self.waterfall.scale
        for tick in nice_ticks(self.low, self.high, self.layout.ticks):
            self._line((self.x(tick),) * 2, (_TOP, bottom), palette.RULE_LIGHT, 0.7, 0)
            text = units.Scale(scale.unit, scale.factor, _decimals(tick, scale)).number(tick)
            self._text(self.x(tick), bottom + 10, text, "center", palette.MUTED_LIGHT, _SMALL)
        note = f"{units.symbol(scale)} a step" + (", axis cut" if self.low > 0 else "")
        self._text(self.layout.percent, bottom + 10, note, "right", palette.MUTED_LIGHT, _SMALL)

    def _row(self, bar: Bar, middle: float) -> None:
        total = bar.kind in ("baseline", "candidate")
        weight = "bold" if total else "normal"
        colour = palette.TOTAL_LIGHT if total else palette.category(bar.key).light
        self._text(0, middle, bar.label, "left", palette.INK_LIGHT, _SIZE, weight)
        if not bar.captured:
            text = NOT_CAPTURED if bar.note == NOT_CAPTURED else "captured on one side only"
            self._text(self.layout.percent, middle, text, "right", palette.MUTED_LIGHT, _SIZE)
            return
        left, right = sorted((self.x(bar.start_ns), self.x(bar.end_ns)))
        faint = 0.5 if bar.level == "within_noise" else None
        self._rectangle(left, middle - _BAR / 2, max(right - left, 1.2), colour, faint)
        if total and self.low > 0:
            self._cut(middle)
        scale = self.waterfall.scale
        value = scale.number(bar.end_ns) if total else scale.signed(bar.delta_ns)
        self._text(
            self.layout.value, middle, value.replace("-", "\u2212"), "right", palette.INK_LIGHT, _SIZE, weight
        )
        if bar.kind == "baseline":  # its own place in the column is empty
            self._text(self.layout.percent, middle, OF_STEP, "right", palette.MUTED_LIGHT, _SMALL)
        if not total:
            percent = units.delta(scale, bar.delta_ns, self.waterfall.bars[0].end_ns, bar.level).percent
            text = percent.replace("-", "\u2212").replace(" %", "\u202f%")
            self._text(self.layout.percent, middle, text, "right", palette.MUTED_LIGHT, _SIZE)

    def _cut(self, middle: float) -> None:
        """Cut a total's bar near its start: it does not begin at zero."""
        from matplotlib.patches import Polygon

        top, bottom = middle - _BAR / 2 - 1, middle + _BAR / 2 + 1
        for x in (self.layout.plot[0] + 9, self.layout.plot[0] + 14):
            corners = [(x, bottom), (x + 2, bottom), (x + 5, top), (x + 3, top)]
            patch = Polygon(corners, closed=True, facecolor=palette.PAPER_LIGHT, linewidth=0, zorder=4)
            self.axes.add_patch(patch).set_clip_on(False)

    def _rectangle(self, x: float, y: float, width: float, colour: str, alpha: float | None) -> None:
        from matplotlib.patches import Rectangle

        patch = Rectangle((x, y), width, _BAR, facecolor=colour, linewidth=0, alpha=alpha, zorder=3)
        self.axes.add_patch(patch).set_clip_on(False)

    def _line(
        self, x: tuple[float, float], y: tuple[float, float], colour: str, width: float, order: int
    ) -> None:
        from matplotlib.lines import Line2D

        self.axes.add_line(Line2D(x, y, color=colour, linewidth=width, zorder=order)).set_clip_on(False)

    def _text(
        self, x: float, y: float, text: str, align: str, colour: str, size: float, weight: str = "normal"
    ) -> None:
        self.axes.text(
            x, y, text, ha=align, va="center_baseline", color=colour, fontsize=size, fontweight=weight,
            parse_math=False, zorder=5,
        )  # fmt: skip


def _decimals(ns: float, scale: units.Scale) -> int:
    value = ns / scale.factor
    return next((n for n in range(4) if abs(round(value, n) - value) < 1e-9 * max(1.0, abs(value))), 3)


def _for_page(svg: str, description: str, layout: Layout) -> str:
    """Keep the drawing and nothing else: no prolog, no namespaces, no style that would reach the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r'\s(?:xmlns(?::xlink)?|version)="[^"]*"', "", body)
    body = re.sub(r'(<svg)[^>]*?(viewBox="[^"]*")[^>]*>', r"\1 \2>", body, count=1)
    for colour, variable in palette.BY_COLOUR.items():
        body = body.replace(colour, f"var({variable})")
    body = body.replace("'DejaVu Sans'", "var(--sans)")
    body = re.sub(r'\stransform="rotate\(-?0 [^"]*"', "", body)
    body = re.sub(r'\sid="[^"]*"', "", body)  # nothing refers to them, and a page has its own
    head = f"<title>Step-time waterfall</title><desc>{html.escape(description)}</desc>"
    opening = body.index(">") + 1
    tag = body[: opening - 1].replace("<svg", f'<svg class="waterfall {layout.name}" role="img"')
    return f"{tag}>\n{head}{body[opening:]}".rstrip() + "\n"
