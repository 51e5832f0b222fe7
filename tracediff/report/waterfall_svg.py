"""The waterfall as SVG to put inside a page: text stays text, and the colours follow the page."""

from __future__ import annotations

import html
import io
import re
from dataclasses import dataclass
from typing import Any

from tracediff.report import palette, units
from tracediff.report.waterfall import NOT_CAPTURED, OF_STEP, Bar, Waterfall, nice_ticks

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
