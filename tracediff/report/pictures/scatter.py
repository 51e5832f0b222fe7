"""Kernels: time per step on the candidate against that on the baseline; what lies on the diagonal did not change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tracediff.model import KernelRow, Result
from tracediff.report import names, units, words
from tracediff.report.amounts import NAMED
from tracediff.report.kernels import kernels_by_phase
from tracediff.report.pictures.style import (
    AXIS,
    DASHED,
    DOTS,
    LINE,
    PALE,
    PLOT,
    ROW,
    SIZE,
    Layout,
    Sheet,
    areas,
    box,
    colour,
    cut,
    label,
    tick,
)

TITLE = "Kernels, candidate against baseline"

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Spot = tuple[float, float]


class Dot(msgspec.Struct, frozen=True):
    """A row of the kernel table, ns per step of both sides; 0: the side does not have it."""

    row: KernelRow
    baseline: float
    candidate: float

    @property
    def sure(self) -> bool:
        """Whether it changed beyond noise."""
        return self.row.level != "within_noise" and bool(self.row.delta_ns)

    @property
    def colour(self) -> str:
        """Of its change; grey within noise."""
        if not self.sure:
            return "--muted"
        return "--slower" if self.row.delta_ns > 0 else "--faster"


def dots(rows: Sequence[KernelRow]) -> list[Dot]:
    """Every row that has time, the surest and largest change first."""
    found = [
        Dot(
            row,
            row.baseline.ns_per_step if row.baseline else 0.0,
            row.candidate.ns_per_step if row.candidate else 0.0,
        )
        for row in rows
    ]
    return sorted(
        (one for one in found if max(one.baseline, one.candidate) > 0),
        key=lambda one: (not one.sure, -abs(one.row.delta_ns)),
    )


def draw(result: Result, layout: Layout) -> Sheet | None:
    """Lay out the plot and the list of what changed most; None without kernels."""
    of = kernels_by_phase(result)[0]
    every = dots(result.launched or of.rows)
    if not every:
        return None
    out = Sheet(layout, TITLE)
    high = 1.25 * max(max(one.baseline, one.candidate) for one in every)
    least = min(min(filter(None, (one.baseline, one.candidate))) for one in every)
    low = max(least / 1.25, min(1.0, high / 10))  # less than a ns per step is not drawn
    shown = [one for one in every if max(one.baseline, one.candidate) >= low]
    scale = units.scale_for([high])
    side, top, left = min(2 * PLOT, layout.width - AXIS - LINE), ROW, AXIS
    right, bottom = left + side, top + side
    unit = f"{scale.unit} {words.per_step(of.phase, unit=words.unit(result))}"
    out.write(0, 9, f"candidate, {unit}", ink="--muted")
    out.write(right, bottom + 29, f"baseline, {scale.unit}", "right", "--muted")
    axes = out.axes(left, top, right, bottom)
    axes.set(xscale="log", yscale="log")
    factor = (high / low) ** (ROW / (side - ROW))  # of the margin for what one side alone has
    axes.set(xlim=(low / factor, high), ylim=(low / factor, high))
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.minorticks_off()
        label(axis, {10.0**power: tick(10.0**power, scale) for power in powers})
    axes.plot([low, high], [low, high], color=colour("--muted"), linewidth=1, linestyle=DASHED)
    axes.axvline(low, color=colour("--muted"), linewidth=1)
    axes.axhline(low, color=colour("--muted"), linewidth=1)
    alone = low / math.sqrt(factor)
    spots = [(one.baseline or alone, one.candidate or alone) for one in shown]
    _dots(axes, spots, shown, near=0.0 if layout.narrow else math.log(high * factor / low) * SIZE / 2 / side)
    named = shown[: sum(one.sure for one in shown[:NAMED])] or shown[:NAMED]
    if not any(one.row.delta_ns for one in named):
        named = []
    per_power = side / math.log(high * factor / low)
    places = [(left + per_power * math.log(x * factor / low), bottom - per_power * math.log(y * factor / low)) for x, y in spots[: len(named)]]  # fmt: skip
    out.number({number: (x, y - SIZE) for number, (x, y) in enumerate(places, start=1)})
    beside = (0.0, bottom + 52) if layout.narrow else (right + 36, top + 4)
    called = _called(named)
    end = _list(out, named, called, *beside)
    end = _legend(out, shown, len(every) - len(shown), beside[0], end + 8)
    out.height = round(max(end, bottom + 42), 1)
    deltas = units.scale_for([one.row.delta_ns for one in named])
    said = "; ".join(
        f"{text} {deltas.delta(one.row.delta_ns)}" for one, text in zip(named, called, strict=True)
    )
    sure = sum(one.sure for one in every)
    out.description = f"{sure} of {len(every):,} kernels changed beyond noise. {said}".strip()
    return out


def _called(found: Sequence[Dot]) -> list[str]:
    return [name.text(100) for name in names.kernels([one.row for one in found], 100)]


def _dots(axes: Axes, spots: Sequence[_Spot], shown: Sequence[Dot], *, near: float) -> None:
    """What did not change lies below what did. near: how far from a dot it is pointed at, as the log of a factor; 0: it is not."""
    for ink in ("--muted", "--faster", "--slower"):
        mine = [spot for spot, one in zip(spots, shown, strict=True) if one.colour == ink]
        if mine:
            xs, ys = zip(*mine, strict=True)
            axes.plot(xs, ys, "o", color=colour(ink), markersize=SIZE / 2, alpha=PALE)
    if near:
        marked, factor = shown[:DOTS], math.exp(near)
        boxes = [box(x / factor, x * factor, y / factor, y * factor) for x, y in spots[:DOTS]]
        titles = [f"{name}: {_times(one)}" for one, name in zip(marked, _called(marked), strict=True)]
        areas(axes, boxes, titles=titles, links=[""] * len(boxes))


def _times(one: Dot) -> str:
    return units.scale_for([one.baseline, one.candidate]).both(one.baseline, one.candidate)


def _list(out: Sheet, named: Sequence[Dot], called: Sequence[str], x: float, y: float) -> float:
    if not named:
        return out.paragraph(x, y, "No kernel changed.", "--muted") + 2
    if not named[0].sure:
        out.write(x, y + 9, "No kernel changed beyond noise.", bold=True)
        y += 23
    scale = units.scale_for([one.row.delta_ns for one in named])
    for number, (one, name) in enumerate(zip(named, called, strict=True), start=1):
        sizes = "new" if not one.baseline else "gone" if not one.candidate else _times(one)
        change = scale.delta(one.row.delta_ns)
        out.write(x, y + 9, str(number), bold=True)
        out.write(x + 16, y + 9, change, ink=one.colour, bold=True)
        out.write(x + 24 + 8.2 * len(change), y + 9, sizes, ink="--muted")
        y = out.paragraph(x + 16, y + LINE, cut(name, "", 2 * (out.layout.width - x))) + 4
    return y


def _legend(out: Sheet, shown: Sequence[Dot], short: int, x: float, y: float) -> float:
    there = {one.colour for one in shown}
    colours = {"--slower": "slower", "--faster": "faster", "--muted": "may be noise"}
    _, y = out.legend(((key, PALE, word, False) for key, word in colours.items() if key in there), x, y)
    how = "Above the diagonal: slower. In the margins: on one side only."
    how += f" {units.counted(short, 'shorter kernel')} not drawn." if short else ""
    return out.paragraph(x, y + 19, how, "--muted", most=3) + 4
