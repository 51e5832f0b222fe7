"""The step-time waterfall as a picture: each bar begins where the one above ended."""

from __future__ import annotations

from tracediff.report import palette, units
from tracediff.report.pictures.style import PALE, ROW, SIZE, Layout, Sheet, colour, label, marks, tick
from tracediff.report.waterfall import NOISE, OTHERS, Bar, Waterfall

TITLE = "Step-time waterfall"
# narrow -> room for labels, both columns of figures, the last of them
_ROOM = {False: (128.0, 150.0, 76.0), True: (112.0, 138.0, 78.0)}


def draw(waterfall: Waterfall, layout: Layout) -> Sheet:
    """Lay the drawn rows out, top to bottom, with their figures."""
    rows, scale = waterfall.drawn, waterfall.scale
    left, figures, last = _ROOM[layout.narrow]
    percent = layout.width
    low, high = waterfall.axis()
    top = ROW  # of the bars: the heads of the columns are above
    bottom = top + ROW * len(rows)
    out = Sheet(layout, TITLE)
    out.description, out.height = describe(waterfall), bottom + 26
    axes = out.axes(left, top, percent - figures - 6, bottom)
    axes.set(xlim=(low, high), ylim=(len(rows) - 0.5, -0.5))
    found = [at for at in marks(low, high, 2 if layout.narrow else 5) if at - low > (high - low) / 8]
    label(axes.xaxis, {at: tick(at, scale) for at in (low, *found[-1 if layout.narrow else 0 :])})
    starts, ends = ([max(ns, low) for ns in one] for one in zip(*((bar.start_ns, bar.end_ns) for bar in rows), strict=True))  # fmt: skip
    least = 1.2 * (high - low) / (percent - figures - 6 - left)  # a line for what is too small to see
    axes.barh(
        range(len(rows)),
        [max(abs(end - start), least) for start, end in zip(starts, ends, strict=True)],
        SIZE / ROW,
        [min(one) for one in zip(starts, ends, strict=True)],
        color=[(colour(_ink(bar)), PALE if bar.level == NOISE else 1.0) for bar in rows],
    )
    feet = [one + SIZE / ROW / 2 for one in range(len(rows) - 1)]
    tops = [foot + 1 - SIZE / ROW for foot in feet]
    axes.vlines(ends[:-1], feet, tops, colour("--muted"), linewidth=1)
    unit = f"{units.symbol(scale)} per {waterfall.unit}"
    for right, head in ((percent - last, unit), (percent, waterfall.of)):
        out.write(right, ROW / 2, head, "right", "--muted")
    out.write(0, bottom + 14, unit, ink="--muted")
    for number, bar in enumerate(rows):
        middle = top + ROW * (number + 0.5)
        out.write(0, middle, bar.label, bold=bar.total)
        if bar.total and low > 0:  # the bar does not begin at zero
            for at in (left + 10, left + 15):
                out.line([at, at + 3], [middle + SIZE / 2 + 1, middle - SIZE / 2 - 1], "--paper", 2.5)
        shown = scale.number(bar.end_ns) if bar.total else scale.signed(bar.delta_ns)
        out.write(percent - last, middle, shown, "right", bold=bar.total)
        if not bar.total:
            change = units.percent(bar.delta_ns, rows[0].end_ns, bar.level)
            out.write(percent, middle, change, "right", "--muted")
    return out


def describe(waterfall: Waterfall) -> str:
    """Say the figure in words, for who cannot see it."""
    scale = waterfall.scale
    parts = [f"baseline {scale.time(waterfall.bars[0].end_ns)}"]
    for bar in waterfall.shown[1:-1]:
        said = scale.delta(bar.delta_ns) if bar.captured else bar.note
        parts.append(f"{bar.label} {said}")
    return "; ".join([*parts, f"candidate {scale.time(waterfall.bars[-1].end_ns)}"])


def _ink(bar: Bar) -> str:
    if bar.total:
        return "--total"
    return "--muted" if bar.key == OTHERS else palette.variable(bar.key)
