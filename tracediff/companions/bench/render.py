"""The benchmark's own figures beside the trace, as a section of a report."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.companions.model import Kpi, KpiRow
from tracediff.companions.render import table
from tracediff.report import units, values, words
from tracediff.report.blocks import Block, Cell, Line, Section, lead, notes
from tracediff.report.grammar import say


def section(kpi: Kpi) -> Section:
    """What changed first, then every figure with the share that the step's change explains; those that the sentence names come first."""
    found: list[Block] = [Line([text]) for text in [first(kpi)] if text]
    found.append(lead(say("lead_benchmarks", baseline=kpi.source_baseline, candidate=kpi.source_candidate)))
    if kpi.rows:
        found.append(table("benchmark figures", _ordered(kpi), VALUES, look="data sortable"))
    found += notes(kpi.note)
    gist = units.counted(len(kpi.rows), "figure")
    return Section("kpi", "Benchmark figures", found, depth=1, gist=gist, menu="Benchmark", printed=True)


def first(kpi: Kpi) -> str:
    """What users notice in a sentence: what changed, by how much, whether it would repeat; then what of it the step explains. Empty without figures."""
    known = {row.metric: row for row in kpi.rows}
    named = [known[name] for name in kpi.named if name in known] or _ordered(kpi)[:1]
    if not named:
        return ""
    word = "Mixed" if kpi.verdict == "mixed" else words.VERDICTS[kpi.verdict].word
    said, before = list[str](), None
    for row in named:
        title, tail = _title(row)
        figure = say(
            "benchmark_figure", figure=tail.strip() if title == before else f"{title}{tail}", before=_figure(row.baseline),
            after=_figure(row.candidate), unit=row.unit, change=_change(row),
        )  # fmt: skip
        if title == before:  # named once
            said[-1] += f", {figure}"
        else:
            said.append(figure)
        before = title
    lone = any(row.level is None and row.delta for row in named)
    text = say("benchmark_lone" if lone else "benchmark", verdict=word, figures="; ".join(said))
    return " ".join([text, *_explained(named)])


_BEYOND = 1.15  # of the figure's change: the step changed by more


def _explained(named: Sequence[KpiRow]) -> list[str]:
    row = next((row for row in named if row.explained is not None), None)
    if row is None or row.explained is None:
        return []
    pattern = "benchmark_beyond" if row.explained > _BEYOND else "benchmark_explained"
    if row.explained < 0:
        pattern = "benchmark_against"
    return [say(pattern, share=units.share(row.explained), figure="".join(_title(row)))]


_TITLES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "request latency", "output_throughput": "output throughput",
           "request_throughput": "request throughput", "total_throughput": "total throughput", "host_step_time": "host step time", "device_step_time": "device step time"}  # fmt: skip


def _title(row: KpiRow) -> tuple[str, str]:
    """`TTFT` and ` p99`: what a figure is of, and which statistic where it is no mean."""
    found = next((name for name in _TITLES if row.metric.startswith(f"{name}_")), None)
    if found is None:
        return row.metric, ""
    tail = row.metric.removeprefix(f"{found}_").removesuffix(row.unit.replace("/", "_")).strip("_")
    tail = tail.removesuffix("mean").strip("_")
    return _TITLES[found], f" {tail.replace('_', ' ')}" if tail else ""


def gist(kpi: Kpi) -> str:
    """The first sentence in a line of a comment."""
    text = first(kpi)
    return f"Benchmark {text[:1].lower()}{text[1:]}" if text else f"Benchmark: {kpi.note}"


def _ordered(kpi: Kpi) -> list[KpiRow]:
    """The figures of the sentence first, then those that moved."""
    return sorted(
        kpi.rows, key=lambda row: (row.metric not in kpi.named, not row.delta, row.explained is None)
    )


def _named(row: KpiRow) -> str:
    """`TTFT mean, ms`: a figure as the sentence calls it, with its statistic and unit."""
    mean = " mean" if "_mean" in row.metric else ""
    return f"{''.join(_title(row))}{mean}, {row.unit}".removesuffix(", ")


def _change(row: KpiRow) -> str:
    """`9.2 % worse`; `0.0 %` of a figure that did not move; `+9.2 %, within noise` where reports of one side differ as much."""
    percent = units.percent(row.delta, row.baseline)
    if not row.delta:
        return percent
    if row.level == "within_noise":
        return f"{percent}, within noise"
    better = (row.delta > 0) == (row.better == "higher")
    size = percent.lstrip("+-")
    return f"{size} better" if better else f"{size} worse"


def _delta(row: KpiRow) -> str:
    """`+1.25`; `+1.25 ± 0.30` with the half of its interval."""
    size = ("+" if row.delta > 0 else "") + _figure(row.delta)
    if row.ci_low is None or row.ci_high is None:
        return size
    return f"{size} ± {_figure((row.ci_high - row.ci_low) / 2)}"


def _figure(value: float) -> str:
    """Write a benchmark's figure with four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"


VALUES: dict[str, values.Value] = {
    "figure": lambda row, context: _named(row),
    "before": lambda row, context: Cell(_figure(row.baseline), row.baseline),
    "after": lambda row, context: Cell(_figure(row.candidate), row.candidate),
    "delta": lambda row, context: Cell(_delta(row), row.delta),
    "change": lambda row, context: Cell(_change(row), row.delta),
}
