"""Where two steps diverge: how far the candidate lags behind along the ops that both have."""

from __future__ import annotations

from tracediff.model import Result
from tracediff.model.pictures import Divergence, DivergenceCause, DivergentStep
from tracediff.report import names, palette, units
from tracediff.report.amounts import NAMED
from tracediff.report.causes import place_name
from tracediff.report.grammar import say
from tracediff.report.pictures.style import (
    AXIS,
    FAINT,
    PLOT,
    ROW,
    Change,
    Layout,
    Sheet,
    areas,
    colour,
    label,
    marks,
    tick,
)
from tracediff.stats.rules import LITTLE
from tracediff.trace.threads import OUTSIDE

TITLES = {"typical": "Where the typical step diverges", "worst": "Where the longest step diverges"}


def shown(result: Result) -> Divergence | None:
    """The steps to show: of the phase that the first sentence is of, else of the workload with the most time."""
    phase = result.headline.phase
    own = (one for one in result.divergences if phase and result.strata[one.stratum].phase == phase)
    return next(own, next(iter(result.divergences), None))


def draw(result: Result, layout: Layout) -> Sheet | None:
    """Lay out where two steps diverge; None where that is not known."""
    one = shown(result)
    if one is None:
        return None
    out = Sheet(layout, TITLES[one.kind])
    lags = [point.delta_ns for point in one.points]
    ops = [point.op for point in one.points]
    low, high = float(min(0, *lags)), float(max(0, *lags))
    room = 0.08 * max(high - low, 1_000.0)
    bottom, right = ROW + PLOT, layout.width - 6
    scale = units.scale_for([low - room, high + room])
    out.write(0, 9, _ends(one, scale), bold=True)
    axes = out.axes(AXIS, ROW, right, bottom)
    last = max(ops[-1], 1)
    edge = last * ROW / (right - AXIS - 2 * ROW)  # room for jumps at the first op and the last one
    axes.set(xlim=(-edge, last + edge), ylim=(low - room, high + room))
    label(axes.yaxis, {at: _signed(at, scale) for at in marks(*axes.get_ylim(), 4)})
    label(axes.xaxis, {at: f"{at:,.0f}" for at in marks(0, last, 3 if layout.narrow else 6)})
    axes.xaxis.grid(visible=False)
    for ink, bound in (("--slower", max), ("--faster", min)):
        if any(bound(ns, 0) for ns in lags):
            shape = [
                (float(ops[0]), 0.0),
                *((at, bound(ns, 0)) for at, ns in zip(ops, lags, strict=True)),
                (ops[-1], 0.0),
            ]
            areas(axes, [shape], [(ink, FAINT)])
    axes.axhline(0, color=colour("--muted"), linewidth=1)
    axes.plot(ops, lags, color=colour("--ink"), linewidth=1.6)
    most = max((abs(cause.delta_ns) for cause in one.causes), default=0)
    causes = [cause for cause in one.causes[:NAMED] if abs(cause.delta_ns) >= LITTLE * most]
    px = (right - AXIS) / (last + 2 * edge)
    marked = {
        number: AXIS + (cause.op + edge) * px for number, cause in enumerate(causes, 1) if _mostly(cause)
    }
    for x in marked.values():
        out.line([x, x], [ROW, bottom], "--muted", dashed=True)
    out.number({number: (x, bottom + 24) for number, x in marked.items()})
    said = f"op, of {one.matched:,} in both steps. Above 0: the candidate is behind."
    y = out.paragraph(AXIS, bottom + 40, said, "--muted") + 9
    out.height = round(out.changes((_row(result, cause, scale) for cause in causes), y), 1)
    named = "; ".join(f"{cause_words(result, cause)} {scale.delta(cause.delta_ns)}" for cause in causes)
    out.description = f"{_ends(one, scale)}. {named or 'No cause'}"
    return out


def _signed(ns: float, scale: units.Scale) -> str:
    sign = "+" if ns > 0 else "-"
    return f"{sign}{tick(abs(ns), scale)} {scale.unit}" if ns else "0"


def _mostly(cause: DivergenceCause) -> bool:
    """Whether one place has most of a cause: it has a mark."""
    return 2 * abs(cause.jump_delta_ns) >= abs(cause.delta_ns)


def _row(result: Result, cause: DivergenceCause, scale: units.Scale) -> Change:
    where = f" (in {cause.places:,} places)"
    if _mostly(cause):
        where = "" if cause.places == 1 else f" (mostly before op {cause.op:,})"
    colour = "--slower" if cause.delta_ns > 0 else "--faster"
    return Change(cause_words(result, cause), scale.delta(cause.delta_ns), colour, where)


def _ends(one: Divergence, scale: units.Scale) -> str:
    lag = one.candidate.period_ns - one.baseline.period_ns
    if not lag:
        return "Both steps take equally long"
    return say("ends_later" if lag > 0 else "ends_earlier", size=scale.time(abs(lag)))


def step_words(step: DivergentStep) -> str:
    """Which step it is."""
    return step.run if step.number is None else f"step {step.number} of {step.run}"


def cause_words(result: Result, cause: DivergenceCause) -> str:
    """A cause in words: `host work in _schedule`, `compute: silu_kernel`."""
    label = palette.category(cause.cause).name
    if 0 <= cause.kernel < len(result.kernels):
        return f"{label}: {names.kernel(result.kernels[cause.kernel], width=100)}"
    place = cause.place.partition(f" {OUTSIDE}")[0]
    if cause.cause == "gil_wait":
        return f"{label} {place}"
    return f"{label}: {place_name(place)}" if place else label
