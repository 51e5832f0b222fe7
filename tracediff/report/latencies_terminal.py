"""Latencies without a profiler, on a terminal: the verdict, the figures, and what to doubt."""

from __future__ import annotations

from dataclasses import astuple

from rich.console import Console
from rich.text import Text

from tracediff.model import Latencies
from tracediff.model.latencies import LatencyReport
from tracediff.report import latencies_words, words
from tracediff.report.escape import neutral
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
