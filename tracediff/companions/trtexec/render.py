"""Two engines compared by trtexec, on a terminal: figures, then the layers that changed with a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from tracediff.companions.trtexec import words
from tracediff.companions.trtexec import words as trtexec_words
from tracediff.model import Trtexec
from tracediff.model.trtexec import TrtexecReport
from tracediff.report import templates
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, neutral, shorten
from tracediff.report.html import helpers as page_helpers
from tracediff.report.html import own_files
from tracediff.report.terminal import print_heading, print_line, print_warnings
from tracediff.report.words import VERDICTS

_TONES = {"bad": "red", "good": "green", "neutral": "cyan", "unsure": "yellow", "stop": "magenta"}
_TAILED = {"GPU compute time", "latency"}  # figures whose percentiles are printed
_COLOURS = {"slower": "red", "faster": "green"}


def render_trtexec_terminal(report: TrtexecReport, console: Console, top: int = 10) -> None:
    """Print the report of `tracediff trtexec`."""
    trtexec = neutral(report).trtexec
    verdict = VERDICTS[trtexec.verdict]
    print_line(
        console, (verdict.word, f"bold {_TONES[verdict.tone]}"), f"  {trtexec.verdict_reason}", indent=0
    )
    print_trtexec(trtexec, console, top)


def print_trtexec(trtexec: Trtexec, console: Console, top: int) -> None:
    """Print the section. The names are neutral already."""
    print_line(console, (words.side_line("baseline", trtexec.baseline), "dim"))
    print_line(console, (words.side_line("candidate", trtexec.candidate), "dim"))
    if trtexec.figures:
        print_heading(console, "trtexec: means a query")
        lines, styles = [("", "baseline", "candidate", "delta", "change", "")], ["dim"]
        tails = words.spread(trtexec)
        for one in words.means(trtexec):
            of = [tail for tail in tails if tail.label.startswith(f"{one.label}, ") and one.label in _TAILED]
            for line in (one, *of):
                label = line.label.replace(f"{one.label}, ", "  ")
                lines.append(
                    (label, line.before, line.after, line.difference, line.change, words.level(line))
                )
                styles.append(_COLOURS.get(line.tone, ""))
        _table(console, lines, styles)
    if trtexec.rows:
        _layers(trtexec, console, top)
    print_warnings(trtexec.warnings, (), console)


def _layers(trtexec: Trtexec, console: Console, top: int) -> None:
    print_heading(console, words.layers_line(trtexec))
    told = words.told(trtexec)
    for row in told[:top]:
        colour = (
            "" if not row.delta_ns or row.level == "within_noise" else "red" if row.delta_ns > 0 else "green"
        )
        print_line(console, (words.name(row, 110), "bold"))
        print_line(console, (row.sentence, colour), indent=5, hang=2)
        for change in row.changes:
            if change.what in ("tactic", "format"):
                before, after = (shorten(one, 90) for one in (change.before, change.after))
                print_line(console, (f"{change.what}: ", "dim"), f"{before} -> {after}", indent=5, hang=2)
        if meaning := words.meaning(row):
            print_line(console, (meaning, "dim"), indent=5, hang=2)
    if len(told) > top:
        print_line(
            console, (f"{len(told) - top} more: in the HTML report and the JSON, or with --top", "dim")
        )
    if not told:
        print_line(console, "No layer changed beyond noise, and none is another.")
    scale = words.scale(trtexec)
    for kind in ("type", "precision"):
        groups = words.groups(trtexec, kind)
        if not groups:
            continue
        print_heading(console, f"Layers by {kind} ({scale.unit} a query)")
        lines: list[tuple[str, ...]] = [("", "layers", "baseline", "candidate", "delta")]
        lines += [
            (
                words.group(one),
                f"{one.baseline_layers} -> {one.candidate_layers}",
                *(
                    words.NONE if ns is None else scale.number(ns)
                    for ns in (one.baseline_ns, one.candidate_ns)
                ),
                "" if one.delta_ns is None else scale.signed(one.delta_ns),
            )
            for one in groups[:top]
        ]
        _table(console, lines, ["dim"])


def _table(console: Console, lines: Sequence[tuple[str, ...]], styles: Sequence[str] = ()) -> None:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [
            f"{cell:<{w}}" if n == 0 else f"{cell:>{w}}"
            for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        style = styles[number] if number < len(styles) else ""
        console.print(Text(f"  {'  '.join(cells)}".rstrip(), style), soft_wrap=True)


# Two engines compared by trtexec, as Markdown.


def render_trtexec_markdown(report: TrtexecReport, top: int = 10) -> str:
    """Return the report of `tracediff trtexec`."""
    report = neutral(report)
    return (
        templates.markdown_environment()
        .get_template("trtexec.md.j2")
        .render(r=report, t=report.trtexec, top=top, **markdown_helpers())
    )


def markdown_helpers() -> dict[str, Any]:
    """Return what the templates may call."""
    return {"trt_words": trtexec_words, "cell": markdown_cell, "code": markdown_code, "plain": Markdown}


# Two engines compared by trtexec, as one HTML file that works offline, in the look of the other pages.


def render_trtexec_html(report: TrtexecReport) -> str:
    """Return the page."""
    report = neutral(report)
    return (
        templates.html_environment()
        .get_template("trtexec.html.j2")
        .render(
            r=report,
            comment=render_trtexec_markdown(report),
            verdict=VERDICTS[report.trtexec.verdict],
            trtexec=report.trtexec,
            trt_words=trtexec_words,
            **own_files(styles=["ncu.css"]),
            **page_helpers(),
        )
    )
