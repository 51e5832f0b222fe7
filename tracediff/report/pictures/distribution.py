"""The distribution of latencies: which part of the iterations of each side took at most so long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracediff.report.pictures.style import (
    AXIS,
    DASHED,
    PLOT,
    SOLID,
    Layout,
    Sheet,
    colour,
    label,
    room,
    time_axis,
    typeset,
    wrapped,
)

TITLE, _HOW = "Distribution of the latencies", "Part of the iterations took at most so long"
_INK = {"baseline": "--base-dot", "candidate": "--cand-dot"}
_DASHES = {"baseline": SOLID, "candidate": DASHED}

Curve = Sequence[tuple[float, float]]  # ns, and the part that took at most so much, both ascending


def draw(curves: Mapping[str, Curve], figures: str, layout: Layout) -> Sheet:
    """Lay out a curve a side. figures: the same in words."""
    out = Sheet(layout, TITLE)
    y = _legend(out)
    for line in wrapped(typeset(figures), layout.width):
        out.write(0, y + 9, line, ink="--muted")
        y += 18
    bottom, right = y + 16 + PLOT, layout.width - 24
    axes = out.axes(AXIS, y + 16, right, bottom)
    axes.set_ylim(0, 1)
    label(axes.yaxis, {percent / 100: f"{percent} %" for percent in (0, 25, 50, 75, 100)})
    time_axis(axes, [ns for curve in curves.values() for ns, _ in curve], right - AXIS)
    for side, curve in curves.items():
        times, parts = zip(*[(curve[0][0], 0.0), *curve], strict=True)
        axes.plot(times, parts, color=colour(_INK[side]), linewidth=2.2, linestyle=_DASHES[side])
    out.height, out.description = round(bottom + 34, 1), figures
    return out


def _legend(out: Sheet) -> float:
    """Both sides, and how to read a curve, below them where there is no room; return where it ends."""
    x = 0.0
    for side, ink in _INK.items():
        out.line([x, x + 22], [9, 9], ink, 2.2, dashed=side == "candidate")
        out.write(x + 27, 9, side)
        x += 30 + 8.2 * len(side)
    below = len(_HOW) > room(out.layout.width - x)
    out.write(0 if below else x, 27 if below else 9, _HOW, ink="--muted")
    return 44.0 if below else 26.0
