"""Latencies without a profiler, on a terminal: the verdict, the figures, and what to doubt."""

from __future__ import annotations

from dataclasses import astuple

from rich.console import Console
from rich.text import Text

from tracediff.companions.latencies import words as latencies_words
from tracediff.model import Latencies
from tracediff.model.latencies import LatencyReport
from tracediff.report import templates, words
from tracediff.report.escape import markdown_cell, markdown_code, neutral
from tracediff.report.html import helpers, own_files
from tracediff.report.terminal import TONES, has_unicode, print_heading, print_line


def render_latencies_terminal(report: LatencyReport, console: Console) -> None:
    """Print the report of `tracediff latencies`."""
    found = neutral(report).latencies
    _verdict(found, console, indent=0)
    _rest(found, console)


def print_latencies(found: Latencies, console: Console) -> None:
    """Print them as a part of a comparison of traces. The names are neutral already."""
    print_heading(console, "Latencies without a profiler")
    _verdict(found, console, indent=2)
    _rest(found, console)


def _verdict(found: Latencies, console: Console, indent: int) -> None:
    verdict = words.VERDICTS[found.verdict]
    sign = verdict.sign if has_unicode(console) else ""
    head = (f"{sign} {verdict.word}".strip(), f"bold {TONES[verdict.tone]}")
    print_line(console, head, f"  {found.verdict_reason}", indent=indent)
    print_line(console, (latencies_words.facts(found), "dim"))


def _rest(found: Latencies, console: Console) -> None:
    _table(found, console)
    for line in latencies_words.traced(found):
        print_line(console, ("profiling: ", "dim"), line)
    for text in (found.note, found.step.power_note, *latencies_words.notes(found)):
        if text:
            print_line(console, (text, "dim"))
    for name, side in (("baseline", found.baseline), ("candidate", found.candidate)):
        print_line(console, (f"{name}: {latencies_words.source(side)}", "dim"), hang=2)
    bad = [check for check in found.checks if check.status != "ok"]
    print_line(
        console,
        (f"{len(found.checks) - len(bad)} of {len(found.checks)} checks of the measurement passed", "dim"),
    )
    for check in bad:
        print_line(
            console, (f"{check.name.replace('_', ' ')}: ", "yellow"),
            f"baseline {check.baseline}, candidate {check.candidate}: {check.message}", hang=2,
        )  # fmt: skip
    for name, side in (("baseline", found.baseline), ("candidate", found.candidate)):
        if text := latencies_words.outliers(side):
            print_line(console, (f"far out in the {name}: {text}", "dim"), hang=2)


def _table(found: Latencies, console: Console) -> None:
    rows = latencies_words.lines(found)
    unit = latencies_words.scale(found).unit
    head = latencies_words.Line(
        unit, "baseline", "candidate", "delta", "change", latencies_words.interval_name(found), "level", "q"
    )
    table: list[tuple[str, ...]] = [astuple(row) for row in (head, *rows)]
    if not any(row.q for row in rows):
        table = [line[:-1] for line in table]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    console.print()
    for number, line in enumerate(table):
        cells = [
            f"{cell:<{width}}" if column in (0, 6) else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        console.print(Text(("  " + "  ".join(cells)).rstrip(), "" if number else "dim"), soft_wrap=True)
    console.print()


# Latencies without a profiler, as Markdown.


def render_latencies_markdown(report: LatencyReport) -> str:
    """Return the report of `tracediff latencies`."""
    report = neutral(report)
    return (
        templates.markdown_environment()
        .get_template("latencies.md.j2")
        .render(
            r=report, latencies_words=latencies_words, words=words, code=markdown_code, cell=markdown_cell,
        )
    )  # fmt: skip


# Latencies without a profiler, as one HTML file that works offline, in the look of the other pages.


def render_latencies_html(report: LatencyReport) -> str:
    """Return the page."""
    report = neutral(report)
    return (
        templates.html_environment()
        .get_template("latencies.html.j2")
        .render(
            r=report,
            comment=render_latencies_markdown(report),
            verdict=words.VERDICTS[report.latencies.verdict],
            **section(report.latencies),
            **own_files(styles=["latencies.css"]),
            **helpers(),
        )
    )


def section(latencies: Latencies | None) -> dict[str, object]:
    """Return what `_latencies.html.j2` needs beside the helpers of every page."""
    return {"latencies": latencies, "latencies_words": latencies_words}
