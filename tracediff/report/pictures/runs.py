"""Every run on a line of dots: step times of a phase, and the time of a cause."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from tracediff.model import Finding, PhaseTimes, Result
from tracediff.model.show import Show
from tracediff.report.amounts import PAGE
from tracediff.report.causes import run_name
from tracediff.report.escape import shorten
from tracediff.report.pictures.style import (
    DOTS,
    FAINT,
    LINE,
    PALE,
    Later,
    Layout,
    Sheet,
    colour,
    measured,
    time_axis,
)
from tracediff.stats.rules import ENOUGH

_LABEL = 20  # letters of a run
_PHASE, _CAUSE = Layout("strip", 590.0), Layout("strip", 340.0)


class Run(msgspec.Struct, frozen=True):
    """One line: ns of every step, and their mean where it is to be marked."""

    side: str
    label: str
    mean: float | None
    values: Sequence[float]


def phase_strip(result: Result | Show, phase: PhaseTimes) -> tuple[Later, int]:
    """Plot the step times of a phase: a line of dots a run, with its mean; and how many values are left out."""
    runs = runs_of(result, phase)
    shown = [
        Run(one.side, one.label, one.mean, one.values[:: max(1, math.ceil(len(one.values) / DOTS))])
        for one in runs[:PAGE]
    ]
    left_out = sum(len(one.values) for one in runs) - sum(len(one.values) for one in shown)
    title = f"Step times of every run, phase {phase.phase}"
    return Later(lambda layout: draw(title, shown, layout), _PHASE), left_out


def runs_of(result: Result | Show, phase: PhaseTimes) -> list[Run]:
    """The steps of a phase that are known one by one, by run; baseline first."""
    runs: list[Run] = []
    for side, values in (("baseline", phase.baseline), ("candidate", phase.candidate)):
        if not values:
            continue
        own = [one for one in result.samples if one.side == side and one.phase == phase.phase]
        # a run without steps of the phase has no mean; with fewer samples than steps any run may be without
        sampled = sorted({one.run for one in own})
        numbers = sampled if len(sampled) == len(values.run_means_ns) else range(len(values.run_means_ns))
        for run, mean in zip(numbers, values.run_means_ns, strict=True):
            periods = [one.period_ns for one in own if one.run == run]
            runs.append(Run(side, _label(result, side, run), mean, periods))
    return runs


def run_strip(finding: Finding) -> Later | None:
    """Plot the time of a cause in every run: baseline above, candidate below; None where no side has several."""
    before, after = finding.evidence.runs_baseline_ns, finding.evidence.runs_candidate_ns
    if max(len(before), len(after)) < 2:
        return None
    runs = [Run("baseline", "baseline", None, before), Run("candidate", "candidate", None, after)]
    title = f"Every run of finding {finding.rank}"
    return Later(lambda layout: draw(title, runs, layout), _CAUSE)


def draw(title: str, runs: Sequence[Run], layout: Layout) -> Sheet:
    """Plot values on one axis, of many with the middle half of each run as a box."""
    out = Sheet(layout, title)
    left = 8 + max(measured(one.label) for one in runs)
    everything = [ns for one in runs for ns in (*one.values, *([one.mean] if one.mean else []))]
    places, y, last = [], 4 + LINE / 2, runs[0].side
    for one in runs:
        y += 6 * (one.side != last)
        places.append(y)
        out.write(left - 8, y, one.label, "right", "--muted")
        y, last = y + LINE, one.side
    bottom = y - LINE / 2
    out.height = bottom + 18
    axes = out.axes(left, 2, layout.width - 22, bottom)
    axes.set_ylim(bottom, 2)
    time_axis(axes, everything, layout.width - 22 - left)
    for side in dict.fromkeys(one.side for one in runs):
        ink = colour(f"--{side[:4]}-dot")
        own = [(one, place) for one, place in zip(runs, places, strict=True) if one.side == side]
        dots = [
            (ns, place + _beside(number, one)) for one, place in own for number, ns in enumerate(one.values)
        ]
        size = 4.4 if any(one.mean is not None for one, _ in own) else 6.4
        if dots:
            axes.plot(*zip(*dots, strict=True), "o", color=ink, markersize=size, alpha=PALE)
        for one, place in own:
            if len(one.values) >= ENOUGH:
                low, _, high = statistics.quantiles(one.values, n=4, method="inclusive")
                axes.barh(place, high - low, 12, low, color=ink, alpha=FAINT)
            if one.mean is not None:
                axes.vlines(one.mean, place - 7, place + 7, ink, linewidth=2.4)
    return out


def _beside(number: int, run: Run) -> float:
    """How far a dot lies from the line of its run, so that many can be told apart."""
    return (number * 7 % 11 - 5) * 0.75 if len(run.values) > 8 else 0.0


def _label(result: Result | Show, side: str, run: int) -> str:
    runs = result.input.runs if isinstance(result, Show) else getattr(result.inputs, side).runs
    name = runs[run].name if run < len(runs) else f"run {run + 1}"
    odd = [one for phase in result.phases for one in getattr(phase, "odd_runs", ()) if one.left_out]
    left_out = any((one.side, one.run) == (side, name) for one in odd)
    return shorten(run_name(name), _LABEL) + ", left out" * left_out
