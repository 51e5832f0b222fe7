"""The step-time waterfall: a bar a category, each begins where the one above ended."""

from __future__ import annotations

from tracediff.model import Result
from tracediff.report import palette, units
from tracediff.report.pictures.shapes import Drawing, Layout
from tracediff.report.waterfall import OTHERS, Bar, Waterfall, build, nice_ticks

TITLE = "Step-time waterfall"
_ROW, _BAR, _TOP = 22.0, 13.0, 8.0
_ROOM = {
    False: (128.0, 140.0, 66.0),
    True: (114.0, 116.0, 54.0),
}  # narrow -> for labels, both columns of figures, the last of them


def of_result(result: Result, layout: Layout) -> Drawing | None:
    """Lay out the waterfall of a result."""
    return draw(build(result), layout)


def draw(waterfall: Waterfall, layout: Layout) -> Drawing:
    """Lay the shown rows out, top to bottom."""
    rows, scale = waterfall.drawn, waterfall.scale
    low, high = waterfall.axis()
    left, figures, last = _ROOM[layout.narrow]
    percent = layout.width
    right, value = percent - figures - 6, percent - last
    bottom = _TOP + _ROW * len(rows)
    out = Drawing(layout, TITLE, describe(waterfall), bottom + 26)

    def x(ns: float) -> float:
        return left + (max(ns, low) - low) * (right - left) / (high - low)

    for tick in nice_ticks(low, high, 2 if layout.narrow else 5):
        out.line(f"M{x(tick):.1f} {_TOP:g}V{bottom:g}", "--rule")
        text = units.Scale(scale.unit, scale.factor, _decimals(tick, scale)).number(tick)
        out.write(x(tick), bottom + 12, text, "middle", "--muted")
    unit = f"{scale.unit} per {waterfall.unit}"
    out.write(
        percent, bottom + 12, unit + (", axis cut" if low > 0 and not layout.narrow else ""), "end", "--muted"
    )
    for number, bar in enumerate(rows):
        middle = _TOP + _ROW * (number + 0.5)
        total = bar.kind in ("baseline", "candidate")
        if number + 1 < len(rows):
            out.line(f"M{x(bar.end_ns):.1f} {middle + _BAR / 2:g}v{_ROW - _BAR:g}", "--muted")
        out.write(0, middle, bar.label, bold=total)
        start, end = sorted((x(bar.start_ns), x(bar.end_ns)))
        opacity = 0.5 if bar.level == "within_noise" else 1.0
        out.rect(start, middle - _BAR / 2, max(end - start, 1.2), _BAR, _colour(bar), opacity)
        if total and low > 0:  # the bar does not begin at zero
            for cut in (left + 9, left + 14):
                out.line(f"M{cut:g} {middle + _BAR / 2 + 1:g}h2l3 {-_BAR - 2:g}h-2z", "--paper", 0)
        shown = scale.number(bar.end_ns) if total else scale.signed(bar.delta_ns)
        out.write(value, middle, shown, "end", bold=total)
        if bar.kind == "baseline":  # its own place in the column is empty
            out.write(percent, middle, waterfall.of, "end", "--muted")
        if not total:
            change = units.delta(scale, bar.delta_ns, waterfall.bars[0].end_ns, bar.level)
            out.write(percent, middle, change.percent, "end", "--muted")
    return out


def describe(waterfall: Waterfall) -> str:
    """Say the figure in words, for who cannot see it."""
    scale = waterfall.scale
    parts = [f"baseline {scale.time(waterfall.bars[0].end_ns)}"]
    for bar in waterfall.shown[1:-1]:
        parts.append(f"{bar.label} {scale.delta(bar.delta_ns) if bar.captured else bar.note}")
    return "; ".join([*parts, f"candidate {scale.time(waterfall.bars[-1].end_ns)}"])


def _colour(bar: Bar) -> str:
    """A variable of the palette."""
    if bar.kind in ("baseline", "candidate"):
        return "--total"
    if bar.key == OTHERS:
        return "--muted"
    return "--host-speed" if bar.kind == "host_speed" else palette.variable(bar.key)


def _decimals(ns: float, scale: units.Scale) -> int:
    value = ns / scale.factor
    return next((n for n in range(4) if abs(round(value, n) - value) < 1e-9 * max(1.0, abs(value))), 3)
