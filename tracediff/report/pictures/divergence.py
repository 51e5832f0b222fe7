"""Where two steps diverge: how far the candidate lags behind along the ops that both have."""

from __future__ import annotations

from collections.abc import Callable

from tracediff.model import Result
from tracediff.model.pictures import Divergence, DivergenceCause, DivergentStep
from tracediff.report import names, palette, units
from tracediff.report.causes import OUTSIDE
from tracediff.report.pictures.shapes import Drawing, Layout, cut, path_of, spread, wrapped
from tracediff.report.waterfall import nice_ticks

TITLES = {"typical": "Where the typical step diverges", "worst": "Where the longest step diverges"}
_HIGH, _NAMED = 170.0, 3
_AXIS = 78.0  # room for the figures of the axis
_EDGE = 24.0  # room before the first op and after the last one, where jumps are often
_LEAST = 0.1  # of the largest cause: what is smaller is not named


def shown(result: Result) -> Divergence | None:
    """The steps to show: of the phase that the first sentence is of, else of the workload with the most time."""
    phase = result.headline.phase
    own = (one for one in result.divergences if phase and result.strata[one.stratum].phase == phase)
    return next(own, next(iter(result.divergences), None))


def draw(result: Result, layout: Layout) -> Drawing | None:
    """Lay out where two steps diverge; None where that is not known."""
    one = shown(result)
    if one is None:
        return None
    out = Drawing(layout, TITLES[one.kind])
    lags = [point.delta_ns for point in one.points]
    low, high = float(min(0, *lags)), float(max(0, *lags))
    room = 0.08 * max(high - low, 1_000.0)
    low, high = low - room, high + room
    scale = units.scale_for([low, high])
    last = max(one.points[-1].op, 1)
    top, right = 24.0, layout.width
    begin, end = _AXIS + _EDGE, right - _EDGE

    def x(op: float) -> float:
        return begin + (end - begin) * op / last

    def y(ns: float) -> float:
        return top + _HIGH * (high - ns) / (high - low)

    out.write(0, 9, _ends(one, scale), bold=True)
    for mark in nice_ticks(low, high, 4):
        out.line(f"M{_AXIS} {y(mark):.1f}H{right:g}", "--muted" if mark == 0 else "--rule")
        out.write(_AXIS - 6, y(mark), scale_mark(mark, scale), "end", "--muted")
    for colour, bound in (("--slower", max), ("--faster", min)):
        if any(bound(lag, 0) for lag in lags):
            points = [(x(point.op), y(bound(point.delta_ns, 0))) for point in one.points]
            out.line(path_of([*points, (x(last), y(0)), (x(0), y(0))]) + "z", colour, 0, opacity=0.25)
    out.line(path_of([(x(point.op), y(point.delta_ns)) for point in one.points]), "--ink", 1.6)
    most = max((abs(cause.delta_ns) for cause in one.causes), default=0)
    causes = [cause for cause in one.causes[:_NAMED] if abs(cause.delta_ns) >= _LEAST * most]
    _marks(out, causes, x, top)
    for mark in nice_ticks(0, last, 3 if layout.narrow else 6):
        out.write(x(mark), top + _HIGH + 31, f"{mark:,.0f}", "middle", "--muted")
    bottom = top + _HIGH + 49
    said = f"op, of {one.matched:,} in both steps. Above 0: the candidate is behind."
    for line in wrapped(said, layout.width - _AXIS):
        out.write(_AXIS, bottom, line, colour="--muted")
        bottom += 17
    out.height = round(_list(out, result, causes, scale, bottom), 1)
    named = "; ".join(f"{cause_words(result, cause)} {scale.delta(cause.delta_ns)}" for cause in causes)
    out.description = f"{_ends(one, scale)}. {named or 'No cause'}"
    return out


def scale_mark(ns: float, scale: units.Scale) -> str:
    """A time on the axis, with its sign."""
    sign = "+" if ns > 0 else "-"
    return f"{sign}{abs(ns) / scale.factor:,.6g} {scale.unit}" if ns else "0"


def _ends(one: Divergence, scale: units.Scale) -> str:
    lag = one.candidate.period_ns - one.baseline.period_ns
    if not lag:
        return "Both steps take equally long"
    return f"The candidate ends {scale.time(abs(lag))} {'later' if lag > 0 else 'earlier'}"


def step_words(step: DivergentStep) -> str:
    """Which step it is."""
    return step.run if step.number is None else f"step {step.number} of {step.run}"


def _marks(out: Drawing, causes: list[DivergenceCause], x: Callable[[float], float], top: float) -> None:
    """A number under the largest jump of each cause."""
    wanted = [x(cause.op) for cause in causes]
    places = spread(wanted, 12, _AXIS, out.layout.width - 5)
    for number, (at, place) in enumerate(zip(wanted, places, strict=True), start=1):
        out.line(f"M{at:.1f} {top}V{top + _HIGH}L{place:.1f} {top + _HIGH + 5}", "--muted", dashed=True)
        out.write(place, top + _HIGH + 13, str(number), "middle", bold=True)


def _list(out: Drawing, result: Result, causes: list[DivergenceCause], scale: units.Scale, y: float) -> float:
    for number, cause in enumerate(causes, start=1):
        colour = "--slower" if cause.delta_ns > 0 else "--faster"
        change = scale.delta(cause.delta_ns)
        where = "" if cause.places == 1 else f" (in {cause.places:,} places)"
        if cause.places > 1 and 2 * abs(cause.jump_delta_ns) >= abs(cause.delta_ns):
            where = f" (mostly before op {cause.op:,})"
        text = cause_words(result, cause) + where
        out.write(0, y + 9, str(number), bold=True)
        if out.layout.narrow:
            for line in wrapped(text, out.layout.width - 16):
                out.write(16, y + 9, line)
                y += 17
            out.write(16, y + 9, change, colour=colour)
            y += 21
        else:
            out.write(110, y + 9, change, "end", colour, bold=True)
            out.write(122, y + 9, cut(cause_words(result, cause), where, out.layout.width - 122))
            y += 19
    return y + 4


def cause_words(result: Result, cause: DivergenceCause) -> str:
    """A cause in words: `host work in _schedule`, `compute: silu_kernel`."""
    label = palette.category(cause.cause).name
    if 0 <= cause.kernel < len(result.kernels):
        return f"{label}: {names.kernel(result.kernels[cause.kernel], width=100)}"
    place = cause.place
    if cause.cause == "gil_wait":
        return f"{label} {place.partition(f' in {OUTSIDE}')[0]}"
    place = place.removeprefix(f"{OUTSIDE}, ")
    return f"{label}: {place}" if place else label
