"""Kernels compared by their counters, on a terminal: a sentence a kernel, then the figures of those that changed most."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from tracediff.companions.ncu import reasons as ncu_rules
from tracediff.companions.ncu import words
from tracediff.companions.ncu import words as ncu_words
from tracediff.model import Ncu, NcuRow
from tracediff.model.ncu import NcuReport
from tracediff.report import templates
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, neutral
from tracediff.report.html import helpers as page_helpers
from tracediff.report.html import own_files
from tracediff.report.tables import LIMIT
from tracediff.report.terminal import print_heading, print_line

_COLOURS = {"slower": "red", "faster": "green", "added": "yellow", "removed": "yellow"}
_DETAILED = 2  # rows whose figures are printed


def render_ncu_terminal(report: NcuReport, console: Console, top: int = 10) -> None:
    """Print the report of `tracediff ncu`."""
    ncu = neutral(report).ncu
    print_line(console, (words.summary(ncu), "bold"), indent=0)
    print_line(console, (words.file_line("baseline", ncu.baseline), "dim"))
    print_line(console, (words.file_line("candidate", ncu.candidate), "dim"))
    print_rows(ncu, console, top)
    shown = [row for row in ncu.rows if row.delta_ns is not None][:_DETAILED]
    for row in shown:
        _figures(row, console)
    if len(ncu.rows) > len(shown):
        print_line(console, ("figures of every kernel: --html, --json", "dim"))


def print_rows(ncu: Ncu, console: Console, top: int) -> None:
    """Print a sentence for each of the first rows, and what was not collected. The names are neutral already."""
    print_heading(console, "Kernels by hardware counters")
    for row in ncu.rows[:top]:
        print_line(console, (words.name(row, 100), "bold"))
        print_line(console, (row.sentence, _COLOURS.get(row.change, "")), indent=5, hang=2)
        if row.note:
            print_line(console, ("note: ", "dim"), row.note, indent=5, hang=2)
    if len(ncu.rows) > top:
        print_line(
            console, (f"{len(ncu.rows) - top} more: in the HTML report and the JSON, or with --top", "dim")
        )
    for warning in ncu.warnings[:LIMIT]:
        print_line(console, (f"{warning.slug}: ", "yellow"), warning.message)
    for line in words.lacks(ncu):
        print_line(console, (line, "yellow"))


def _figures(row: NcuRow, console: Console) -> None:
    print_heading(console, words.name(row, max(40, console.width - 2)))
    lines = [
        ("bound by", words.bound(row.baseline), words.bound(row.candidate), ""),
        ("occupancy limited by", words.limited(row.baseline), words.limited(row.candidate), ""),
    ]
    for _, figures in words.figures(row):
        lines += [
            (one.label, one.before, one.after, one.change) for one in figures if one.change != words.SAME
        ]
    for bar in words.stalls(row, 4):
        lines.append((f"stall: {bar.figure.label}", bar.figure.before, bar.figure.after, bar.figure.change))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for label, before, after, change in lines:
        line = f"  {label:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}  {change:>{widths[3]}}"
        console.print(Text(line.rstrip()), soft_wrap=True)
    if row.factors:
        print_line(console, (f"ratio of durations = {words.factors(row)}", "dim"))


# Kernels compared by their counters, as Markdown.

_DETAILED_ncu_markdown = 10  # kernels whose figures are unfolded


def render_ncu_markdown(report: NcuReport, top: int = 10) -> str:
    """Return the report of `tracediff ncu`."""
    report = neutral(report)
    return (
        templates.markdown_environment()
        .get_template("ncu.md.j2")
        .render(r=report, top=top, detailed=_DETAILED_ncu_markdown, **markdown_helpers())
    )


def markdown_helpers() -> dict[str, Any]:
    """Return what the templates may call."""
    return {"words": ncu_words, "cell": markdown_cell, "code": markdown_code, "plain": Markdown}


# Kernels compared by their counters, as one HTML file that works offline, in the look of the other pages.


def render_ncu_html(report: NcuReport) -> str:
    """Return the page."""
    report = neutral(report)
    return (
        templates.html_environment()
        .get_template("ncu.html.j2")
        .render(
            r=report,
            comment=render_ncu_markdown(report),
            best=_best(report.ncu),
            tone=_tone(report.ncu),
            kernel_rows=0,
            **section(report.ncu),
            rules=ncu_rules,
            **own_files(styles=["ncu.css"]),
            **page_helpers(),
        )
    )


def section(ncu: Ncu | None) -> dict[str, object]:
    """Return what `_ncu.html.j2` needs beside the helpers of every page."""
    return {"ncu": ncu, "ncu_words": ncu_words}


def _best(ncu: Ncu) -> NcuRow | None:
    return next((row for row in ncu.rows if row.change in ("faster", "slower")), None)


def _tone(ncu: Ncu) -> str:
    changes = {row.change for row in ncu.rows}
    both = {"faster", "slower"} <= changes
    return (
        "unsure" if both else "good" if "faster" in changes else "bad" if "slower" in changes else "neutral"
    )
