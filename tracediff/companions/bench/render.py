"""The benchmark's own figures beside the trace: rows of cells, on a terminal, and in a post-mortem."""

from __future__ import annotations

from rich.console import Console

from tracediff.companions.model import Kpi, KpiRow
from tracediff.report import units
from tracediff.report.console import print_heading, print_line, print_table
from tracediff.report.document import Block, Number, Paragraph, Span, Table
from tracediff.report.escape import shorten

STYLE = ""
_HEAD = ["", "baseline", "candidate", "delta", "change", "by step"]


def print_section(kpi: Kpi, console: Console, top: int) -> None:
    """Print the first `2 * top` figures, each with the share that the step's change explains, and the note on all.

    On a narrow terminal a figure has a line of its own.
    """
    print_heading(console, "Benchmark figures")
    found = rows(kpi)
    if found:
        print_line(console, headline(kpi))
    if found:
        print_table(console, _HEAD, [[shorten(text, 40) for text in row] for row in found[: 2 * top]])
    if kpi.note:
        print_line(console, kpi.note)
    if len(found) > 2 * top:
        print_line(console, (f"{len(found) - 2 * top} more in the HTML report and the JSON", "dim"))


def headline(kpi: Kpi) -> str:
    """The first figure in a sentence: what changed, by how much, why; the note where there is none."""
    found = rows(kpi)
    if not found:
        return kpi.note
    name, before, after, _, change, explained = found[0]
    why = f"; the step time explains {explained} of it" if explained else ""
    return f"{name}: {before} -> {after} ({change}){why}."


def gist(kpi: Kpi) -> str:
    """The first sentence in a line of a comment."""
    return f"Benchmark: {headline(kpi)}"


def rows(kpi: Kpi) -> list[list[str]]:
    """Figure and unit, baseline, candidate, delta, change, share that the step explains; figures that it explains come first."""
    return [
        [
            _name(row), _figure(row.baseline), _figure(row.candidate),
            ("+" if row.delta > 0 else "") + _figure(row.delta),
            f"{units.percent(row.delta, row.baseline)} {_better(row)}", _explained(row),
        ]
        for row in sorted(kpi.rows, key=lambda row: row.explained is None)
    ]  # fmt: skip


def document(kpi: Kpi) -> list[Block]:
    """The table and the note in a post-mortem."""
    found: list[list[Span]] = [
        [
            _name(row), Number(f"{row.baseline:,.6g}"), Number(f"{row.candidate:,.6g}"),
            Number(units.percent(row.delta, row.baseline)), _better(row), Number(_explained(row)),
        ]
        for row in kpi.rows
    ]  # fmt: skip
    header = ["Figure", "Baseline", "Candidate", "Change", "", "Explained by the step time"]
    return [
        *([Table(header, found)] if found else []),
        *([Paragraph([kpi.note])] if kpi.note else []),
    ]


def _name(row: KpiRow) -> str:
    return row.metric + (f", {row.unit}" if row.unit else "")


def _better(row: KpiRow) -> str:
    return "" if not row.delta else "better" if (row.delta > 0) == (row.better == "higher") else "worse"


def _explained(row: KpiRow) -> str:
    return "" if row.explained is None else units.share(row.explained)


def _figure(value: float) -> str:
    """Write a benchmark's figure with four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
