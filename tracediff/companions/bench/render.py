"""The benchmark's own figures beside the trace, as a section of a report."""

from __future__ import annotations

from tracediff.companions.model import Kpi, KpiRow
from tracediff.companions.render import table
from tracediff.report import units, values
from tracediff.report.blocks import Block, Cell, Line, Section
from tracediff.report.grammar import say


def section(kpi: Kpi) -> Section:
    """What changed first, then every figure with the share that the step's change explains; those that it explains come first."""
    found: list[Block] = [Line([text]) for text in [first(kpi)] if text]
    found.append(
        Line([say("lead_benchmarks", baseline=kpi.source_baseline, candidate=kpi.source_candidate)], "lead")
    )
    if kpi.rows:
        found.append(table("benchmark figures", _ordered(kpi), VALUES, look="data sortable"))
    found += [Line([text], "note") for text in [kpi.note] if text]
    gist = units.counted(len(kpi.rows), "figure")
    return Section("kpi", "Benchmark figures", found, depth=1, gist=gist, menu="Benchmark", printed=True)


def first(kpi: Kpi) -> str:
    """The first figure in a sentence: what changed, by how much, why; empty where there is none."""
    if not kpi.rows:
        return ""
    row = _ordered(kpi)[0]
    slots = {
        "figure": _name(row),
        "before": _figure(row.baseline),
        "after": _figure(row.candidate),
        "change": _change(row),
    }
    if row.explained is None:
        return say("benchmark", **slots)
    if row.explained > _BEYOND:
        return say("benchmark_beyond", **slots)
    return say("benchmark_explained", share=units.share(row.explained), **slots)


_BEYOND = 1.15  # of the figure's change: the step changed by more


def gist(kpi: Kpi) -> str:
    """The first sentence in a line of a comment."""
    return f"Benchmark: {first(kpi) or kpi.note}"


def _ordered(kpi: Kpi) -> list[KpiRow]:
    return sorted(kpi.rows, key=lambda row: row.explained is None)


def _name(row: KpiRow) -> str:
    return f"{row.metric}, {row.unit}".removesuffix(", ")


def _change(row: KpiRow) -> str:
    """`+9.2 % worse`; `+9.2 %` of a figure that did not move; `+9.2 %, within noise` where reports of one side differ as much."""
    percent = units.percent(row.delta, row.baseline)
    if not row.delta:
        return percent
    if row.level == "within_noise":
        return f"{percent}, within noise"
    better = (row.delta > 0) == (row.better == "higher")
    return f"{percent} better" if better else f"{percent} worse"


def _delta(row: KpiRow) -> str:
    """`+1.25`; `+1.25 ± 0.30` with the half of its interval."""
    size = ("+" if row.delta > 0 else "") + _figure(row.delta)
    if row.ci_low is None or row.ci_high is None:
        return size
    return f"{size} ± {_figure((row.ci_high - row.ci_low) / 2)}"


def _figure(value: float) -> str:
    """Write a benchmark's figure with four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


VALUES: dict[str, values.Value] = {
    "figure": lambda row, context: _name(row),
    "before": lambda row, context: Cell(_figure(row.baseline), row.baseline),
    "after": lambda row, context: Cell(_figure(row.candidate), row.candidate),
    "delta": lambda row, context: Cell(_delta(row), row.delta),
    "change": lambda row, context: Cell(_change(row), row.delta),
}
