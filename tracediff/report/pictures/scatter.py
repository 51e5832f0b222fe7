"""Kernels: time per step on the candidate against that on the baseline; what lies on the diagonal did not change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.model import KernelRow, Result
from tracediff.report import names, units, words
from tracediff.report.pictures.shapes import Drawing, Layout, cut, typeset, wrapped
from tracediff.report.tables import kernels_by_phase

TITLE = "Kernels, candidate against baseline"
_SIDE, _LEFT, _EDGE = (
    288.0,
    74.0,
    18.0,
)  # px of the plot; room for its figures; band for what one side alone has
_NAMED, _MARKED = 6, 150  # named in words; drawn one by one
_DECADES = 5.0  # below the longest kernel: what is shorter is not drawn
_DOT = 6.0


@dataclass(frozen=True)
class Dot:
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


def draw(result: Result, layout: Layout) -> Drawing | None:
    """Lay out the plot and the list of what changed most; None without kernels."""
    of = kernels_by_phase(result)[0]
    every = dots(result.launched or of.rows)
    if not every:
        return None
    out = Drawing(layout, TITLE)
    high = 1.25 * max(max(one.baseline, one.candidate) for one in every)
    least = min(min(filter(None, (one.baseline, one.candidate))) for one in every)
    low = max(least / 1.25, high / 10**_DECADES)
    shown = [one for one in every if max(one.baseline, one.candidate) >= low]
    scale = units.scale_for([high])
    side = min(_SIDE, layout.width - _LEFT - _EDGE - 14)
    top = 26.0
    left, bottom = _LEFT + _EDGE, top + side
    px = side / math.log(high / low)

    def place(ns: float) -> float:
        return px * math.log(ns / low) if ns >= low else -_EDGE / 2 if not ns else 0.0

    out.write(
        0, 9, f"candidate, {scale.unit} {words.per_step(of.phase, unit=words.unit(result))}", colour="--muted"
    )
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    for power in powers:
        at, text = place(10.0**power), f"{10.0**power / scale.factor:,.6g}"
        out.line(f"M{left:g} {bottom - at:.1f}h{side:g}M{left + at:.1f} {top:g}v{side:g}", "--rule")
        out.write(_LEFT - 6, bottom - at, text, "end", "--muted")
        out.write(left + at, bottom + _EDGE + 12, text, "middle", "--muted")
    out.line(f"M{left:g} {bottom:g}l{side:g} {-side:g}", "--muted", dashed=True)
    out.line(f"M{left:g} {top:g}V{bottom + _EDGE:g}M{_LEFT:g} {bottom:g}H{left + side:g}", "--muted")
    out.write(left + side, bottom + _EDGE + 29, f"baseline, {scale.unit}", "end", "--muted")
    spots = [(left + place(one.baseline), bottom - place(one.candidate), one) for one in shown]
    _dots(out, spots)
    named = shown[: sum(one.sure for one in shown[:_NAMED])] or shown[:3]
    if not any(one.row.delta_ns for one in named):
        named = []
    _numbers(out, [spots[at][:2] for at in range(len(named))])
    beside = left + side + 36
    x, y = (0.0, bottom + _EDGE + 52) if layout.narrow else (beside, top + 4)
    end = _list(out, named, _called(named), x, y)
    end = _legend(out, shown, len(every) - len(shown), x, end + 8)
    out.height = round(max(end, bottom + _EDGE + 42), 1)
    deltas = units.scale_for([one.row.delta_ns for one in named])
    said = "; ".join(
        f"{text} {deltas.delta(one.row.delta_ns)}" for one, text in zip(named, _called(named), strict=True)
    )
    out.description = (
        f"{sum(one.sure for one in every)} of {len(every):,} kernels changed beyond noise. {said}".strip()
    )
    return out


def _called(found: Sequence[Dot]) -> list[str]:
    return names.kernels([one.row for one in found], width=100)


def _dots(out: Drawing, spots: Sequence[tuple[float, float, Dot]]) -> None:
    """What did not change lies below what did; dots in the same place are one."""
    for colour in ("--muted", "--faster", "--slower"):
        mine = dict.fromkeys((round(x), round(y)) for x, y, one in spots if one.colour == colour)
        path = "".join(f"M{x} {y}h0" for x, y in mine)
        out.line(path, colour, _DOT, round=True, opacity=0.35 if colour == "--muted" else 0.85)
    for (x, y, one), name in zip(spots[:_MARKED], _called([one for *_, one in spots[:_MARKED]]), strict=True):
        scale = units.scale_for([one.baseline, one.candidate])
        title = f"{name}: {scale.number(one.baseline)} -> {scale.time(one.candidate)}"
        out.rect(x - _DOT / 2, y - _DOT / 2, _DOT, _DOT, "none", title=title)


def _numbers(out: Drawing, places: Sequence[tuple[float, float]]) -> None:
    """A number at each named dot, where there is room; away from it with a line to it."""
    taken = list(places)
    for number, (x, y) in enumerate(places, start=1):
        spots = [
            (away, x + away * math.cos(turn), y + away * math.sin(turn))
            for away in (11.0, 22.0, 33.0, 44.0)
            for turn in (0.0, math.pi, 1.0, -1.0, math.pi - 1.0, math.pi + 1.0)
        ]
        free = (
            one
            for one in spots
            if not any(abs(one[1] - a) < 10 and abs(one[2] - b) < 11 for a, b in taken if (a, b) != (x, y))
        )
        away, at, level = next(free, spots[0])
        taken.append((at, level))
        if away > spots[0][0]:
            out.line(f"M{x:.1f} {y:.1f}L{at:.1f} {level:.1f}", "--muted", 0.8)
        out.line(f"M{at:.1f} {level:.1f}h0", "--paper", 13, round=True, opacity=0.8)
        out.write(at, level, str(number), "middle", bold=True)


def _list(out: Drawing, named: Sequence[Dot], called: Sequence[str], x: float, y: float) -> float:
    width = out.layout.width - x
    scale = units.scale_for([one.row.delta_ns for one in named])
    if not named:
        out.write(x, y + 9, "No kernel changed.", colour="--muted")
        return y + 19
    if not named[0].sure:
        out.write(x, y + 9, "No kernel changed beyond noise.", bold=True)
        y += 23
    for number, (one, name) in enumerate(zip(named, called, strict=True), start=1):
        times = units.scale_for([one.baseline, one.candidate])
        sizes = f"{times.number(one.baseline)} -> {times.time(one.candidate)}"
        sizes = "new" if not one.baseline else "gone" if not one.candidate else sizes
        out.write(x, y + 9, str(number), bold=True)
        change = scale.delta(one.row.delta_ns)
        out.write(x + 16, y + 9, change, colour=one.colour, bold=True)
        out.write(
            x + 24 + 8.2 * len(change),
            y + 9,
            f"{sizes}",
            colour="--muted",
        )
        y += 17
        for line in wrapped(typeset(cut(name, "", 2 * width)), width - 16):
            out.write(x + 16, y + 9, line)
            y += 17
        y += 4
    return y


def _legend(out: Drawing, shown: Sequence[Dot], short: int, x: float, y: float) -> float:
    there = {one.colour for one in shown}
    at = x
    for colour, word in (("--slower", "slower"), ("--faster", "faster"), ("--muted", "within noise")):
        if colour in there:
            out.line(
                f"M{at + 4:g} {y + 9:g}h0",
                colour,
                _DOT + 2,
                round=True,
                opacity=0.35 if colour == "--muted" else 0.85,
            )
            out.write(at + 13, y + 9, word, colour="--muted")
            at += 26 + 7.3 * len(word)
    y += 19
    how = "Above the diagonal: slower. In the margins: on one side only."
    how += f" {units.counted(short, 'shorter kernel')} not drawn." if short else ""
    for line in wrapped(how, out.layout.width - x, most=3):
        out.write(x, y + 9, line, colour="--muted")
        y += 17
    return y + 4
