"""Latencies without a profiler as a section of a report: the verdict, the figures, and what to doubt."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tracediff.companions import render
from tracediff.companions.model import Latencies, LatencyRun, LatencySide
from tracediff.companions.render import table
from tracediff.errors import some
from tracediff.model import Check
from tracediff.report import grammar, units, values, words
from tracediff.report.amounts import LISTED, NAMED, PAGE
from tracediff.report.blocks import (
    Block,
    Cell,
    Figure,
    Items,
    Line,
    Link,
    Section,
    Table,
    aside,
    notes,
    part,
    terms,
)
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.report.pictures import distribution
from tracediff.report.pictures.style import HALF_NARROW, Later, Layout, Sheet

TITLE = "Latencies without a profiler"
LABELS = {"mean": "mean", "median": "median", "p90": "p90", "p99": "p99", "min": "minimum"}
TERMS = terms([
    *grammar.TERMS["latencies"].items(),
    *((word, meaning) for key, (word, meaning) in words.LEVELS.items() if key != "exact"),
])  # fmt: skip
_LAYOUTS = (Layout("wide-figure", 500.0), HALF_NARROW)
_DRAWN_TO = 0.995  # of the iterations: a single slow one would press all others together


class Run(msgspec.Struct, frozen=True):
    """A file of a side."""

    side: str
    run: LatencyRun


def section(found: Latencies) -> Section:
    """The verdict, the figures with their distribution, what to doubt, and the runs."""
    blocks: list[Block] = [
        render.headline(headline(found)),
        *([Items([[Link(doubts(found), "measured")]], "warn")] if doubtful(found) else []),
        *notes(f"{facts(found)}."),
        *(Line([f"Profiling, {line}."]) for line in traced(found)),
        *notes(found.note, found.step.power_note),
        table("latencies", found.rows, VALUES, "per iteration", look="data fixed"),
        Figure(Later(lambda layout: drawn(found, layout), *_LAYOUTS), ""),
        *([aside(say("tail_left_out"))] if tail_left_out(found) else []),
        *([] if min(found.step.runs.baseline, found.step.runs.candidate) > 1 else notes(say("within_runs"))),
        Section("measured", "Was it measured well?", _measured(found), depth=1),
        part("Runs", [_runs(found)]),
    ]
    gist = headline(found)
    return Section("latencies", TITLE, blocks, depth=1, gist=gist, menu="Latencies", printed=True)


def _measured(found: Latencies) -> list[Block]:
    bad = doubtful(found)
    far = [f"Far out in the {name}: {out}." for name, side in _sides(found) if (out := outliers(side))]
    gone = [
        say("run_left_out", run=run.name) for _, side in _sides(found) for run in side.runs if run.left_out
    ]
    sources = [f"{name.capitalize()}: {source(side)}." for name, side in _sides(found)]
    first: Block = Line([say("measured", checks=f"{len(found.checks)}")])
    if bad:
        first = Items([[_of_check(check)] for check in bad], "warn")
    every = table("checks of latencies", found.checks, {}, look="data", depth=2)
    folded = Section("", f"All {len(found.checks)} checks", [every], folded=True)
    return [first, *notes(*far, *gone, *sources), folded]


def doubts(found: Latencies) -> str:
    """Which checks did not pass."""
    bad = [check.name.replace("_", " ") for check in doubtful(found)]
    return say("unmeasured", bad=f"{len(bad)}", checks=f"{len(found.checks)}", names=", ".join(bad))


def _of_check(check: Check) -> str:
    slots = {"name": check.name.replace("_", " "), "baseline": check.baseline, "candidate": check.candidate}
    return say("latency_check", message=check.message, **slots)


def _runs(found: Latencies) -> Table:
    listed = [Run(f"{name}: {side.label}", run) for name, side in _sides(found) for run in side.runs[:PAGE]]
    more = sum(max(0, len(side.runs) - PAGE) for _, side in _sides(found))
    made = table("runs of latencies", listed, VALUES, limit=2 * PAGE, look="data sortable", depth=2)
    return replace(made, left=more)


def headline(found: Latencies) -> str:
    """The first sentence: the verdict, what changed, by how much, how sure."""
    reason = found.verdict_reason
    return f"{words.VERDICTS[found.verdict].word}: {reason[:1].lower()}{reason[1:]}"


def scale(found: Latencies) -> units.Scale:
    """Choose the one scale of all figures."""
    return units.scale_for([value for row in found.rows for value in (row.baseline_ns, row.candidate_ns)])


def facts(found: Latencies) -> str:
    """P where the verdict does not say it, runs, iterations and the noise floor of the mean."""
    step, parts = found.step, list[str]()
    if step.p_value is not None and found.verdict not in ("improved", "regressed"):
        parts.append(f"p {units.probability(step.p_value)}")
    runs, iterations = (units.pair(one.baseline, one.candidate) for one in (step.runs, step.steps))
    parts.append(say("latency_counts", runs=runs, iterations=iterations))
    if step.noise_floor_ns is not None:
        pattern = "floor_assumed" if step.noise_source == "assumed" else "floor_measured"
        parts.append(say(pattern, floor=scale(found).time(step.noise_floor_ns)))
    return "; ".join(parts)


def source(side: LatencySide) -> str:
    """Say which files a side is, and how they were read."""
    listed = some([shorten(run.name, 60) for run in side.runs], LISTED)
    return f"{listed} ({'; '.join(sorted({_read_as(run) for run in side.runs})[:NAMED])})"


def _read_as(run: LatencyRun) -> str:
    column = f", {shorten(run.column, 60)}" if run.column else ""
    return f"{run.format}{column}, in {run.unit} by {shorten(run.unit_from, 60)}"


def doubtful(found: Latencies) -> list[Check]:
    """The checks that did not pass."""
    return [check for check in found.checks if check.status != "ok"]


def outliers(side: LatencySide) -> str:
    """Name the iterations that are farthest out, of all runs."""
    found = [(one, run) for run in side.runs for one in run.largest]
    if not found:
        return ""
    found.sort(key=lambda pair: -pair[0].ns)
    s = units.scale_for([one.ns for one, _ in found])
    pattern = "iteration_of" if len(side.runs) > 1 else "iteration"
    return ", ".join(
        say(pattern, iteration=f"{one.iteration}", run=run.name, size=s.time(one.ns))
        for one, run in found[:5]
    )


def traced(found: Latencies) -> list[str]:
    """The iteration beside the traced step of each side."""
    out = []
    for one in found.traced:
        s = units.scale_for([one.unprofiled_ns, one.traced_ns])
        text = say(
            "latency_traced", side=one.side, alone=s.time(one.unprofiled_ns), traced=s.time(one.traced_ns)
        )
        if one.cost_ns is not None and one.share is not None:
            text += f": {s.delta(one.cost_ns)} ({100 * one.share:+.1f} %)"
        if one.ci_low_ns is not None and one.ci_high_ns is not None:
            text += f", 95 % CI {s.span(one.ci_low_ns, one.ci_high_ns)}"
        out.append(text)
    return out


def distributions(found: Latencies) -> distribution.Plot:
    """Which part of the iterations took at most so long, up to `_DRAWN_TO` of them."""
    curves: dict[str, distribution.Curve] = {}
    for name, side in _sides(found):
        steps = len(side.quantiles_ns) - 1
        shown = side.quantiles_ns[: int(_DRAWN_TO * steps) + 1]
        curves[name] = [(ns, place / steps) for place, ns in enumerate(shown)]
    s = scale(found)
    figures = [
        f"{LABELS[row.statistic]} {s.both(row.baseline_ns, row.candidate_ns)}"
        for row in found.rows
        if row.statistic in ("median", "p99")
    ]
    return distribution.Plot("Latencies", ", ".join(figures), curves)


def drawn(found: Latencies, layout: Layout) -> Sheet | None:
    """The distributions of both sides."""
    title, what = "Distribution of the latencies", "of the iterations took at most so long"
    return distribution.draw(title, [distributions(found)], layout, what)


def tail_left_out(found: Latencies) -> bool:
    """Whether the slowest iterations are not drawn."""
    curves = distributions(found).curves
    return any(side.quantiles_ns[-1] > curves[name][-1][0] for name, side in _sides(found))


def _sides(found: Latencies) -> tuple[tuple[str, LatencySide], tuple[str, LatencySide]]:
    return ("baseline", found.baseline), ("candidate", found.candidate)


VALUES: dict[str, values.Value] = {
    "file": lambda row, context: Cell(row.run.name, code=True),
    "statistic": lambda row, context: LABELS[row.statistic],
    "q_value": lambda row, context: "" if row.q_value is None else units.probability(row.q_value),
}
