"""Distributions: which part of the steps, or of the iterations, took at most so long; all sides in one plot."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tracediff.model import PhaseTimes, Result
from tracediff.model.show import Show
from tracediff.report import units
from tracediff.report.amounts import NAMED
from tracediff.report.pictures.style import (
    AXIS,
    DASHED,
    DOTS,
    LINE,
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
from tracediff.stats.rules import ENOUGH

TITLE = "Step times"
_COLOURS = {"baseline": "--base-dot", "candidate": "--cand-dot"}

Curve = Sequence[tuple[float, float]]  # ns, and the part that took at most so much, both ascending


class Plot(msgspec.Struct, frozen=True):
    """One plot: what it is of, its figures in words, and a curve a side."""

    title: str
    figures: str
    curves: dict[str, Curve]


def ecdf(values: Sequence[float]) -> Curve:
    """The empirical distribution function where it rises; of many values some, and the slowest ones."""
    ordered, many = sorted(values), len(values)
    step = max(many // DOTS, 1)
    kept = [at for at in range(many) if at % step == 0 or at >= many - ENOUGH]
    return [(ordered[at], (at + 1) / many) for at in kept]


def of_steps(report: Result | Show, layout: Layout) -> Sheet | None:
    """The step times of each phase, that of the verdict first; None where no phase has enough steps."""
    first = report.verdict_facts.phase if isinstance(report, Result) else ""
    sides = ("baseline", "candidate") if isinstance(report, Result) else ("baseline",)
    times: dict[tuple[str, str], list[float]] = {}
    for one in report.samples:
        times.setdefault((one.phase, one.side), []).append(one.period_ns)
    plots = [
        Plot(phase.phase, _figures(phase), {side: ecdf(times[phase.phase, side]) for side in sides})
        for phase in sorted(report.phases, key=lambda one: one.phase != first)
        if all((phase.phase, side) in times for side in sides)
    ]
    return draw(TITLE, plots[:NAMED], layout, "of the steps took at most so long") if plots else None


def _figures(phase: PhaseTimes) -> str:
    sides = [one for one in (phase.baseline, phase.candidate) if one]
    scale = units.scale_for([one.p99_ns for one in sides])
    median, high = (
        " -> ".join(scale.number(getattr(one, name)) for one in sides) for name in ("p50_ns", "p99_ns")
    )
    return f"median {median}, p99 {high} {scale.unit}"


def draw(title: str, plots: Sequence[Plot], layout: Layout, what: str) -> Sheet:
    """Lay out plots, two beside each other where there is room. `what`: the part is of what."""
    out = Sheet(layout, title)
    across = 2 if len(plots) > 1 and layout.width > 800 else 1
    width = (layout.width - LINE * (across - 1)) / across
    y = top = _legend(out, plots[0].curves, f"Part {what}")
    for number, plot in enumerate(plots):
        column = number % across
        bottom = _plot(out, plot, column * (width + LINE), top, width)
        y = max(y, bottom)
        if column == across - 1:
            top = y
    out.height = round(y, 1)
    out.description = "; ".join(f"{one.title}: {one.figures}" for one in plots)
    return out


def _legend(out: Sheet, curves: dict[str, Curve], text: str) -> float:
    x = 0.0
    for side in curves if len(curves) > 1 else ():
        out.line([x, x + 22], [9, 9], _COLOURS[side], 2.2, dashed=side == "candidate")
        out.write(x + 27, 9, side)
        x += 30 + 8.2 * len(side)
    below = len(text) > room(out.layout.width - x)
    out.write(0 if below else x, 27 if below else 9, text, ink="--muted")
    return 44.0 if below else 26.0


def _plot(out: Sheet, plot: Plot, x: float, y: float, width: float) -> float:
    head = y + 9
    out.write(x, head, plot.title, bold=True)
    for line in wrapped(typeset(plot.figures), width):
        head += 18
        out.write(x, head, line, ink="--muted")
    bottom = head + 16 + PLOT
    axes = out.axes(x + AXIS, head + 16, x + width - 24, bottom)
    axes.set_ylim(0, 1)
    shares = {percent / 100: f"{percent} %" for percent in (25, 50, 75, 100)}
    label(axes.yaxis, {0.0: ""} | shares)  # a foot of its own would touch the first time
    time_axis(axes, [ns for curve in plot.curves.values() for ns, _ in curve], width - AXIS - 24)
    for side, curve in plot.curves.items():
        times, parts = zip(*[(curve[0][0], 0.0), *curve], strict=True)
        dashes = DASHED if side == "candidate" else SOLID
        axes.plot(times, parts, color=colour(_COLOURS[side]), linewidth=2.2, linestyle=dashes)
    return bottom + 34
