"""The result on a terminal: verdict first, then where the time went, why, and what to doubt.

Everything is a `Text` or a cell built from one: no markup is ever read from a name.
"""

from __future__ import annotations

from rich.console import Console

from tracediff.model import Result
from tracediff.model.common import SIDES
from tracediff.report import findings, first, phrases, remarks, sections, units, waterfall, words, workloads
from tracediff.report.console import (
    TONES,
    has_unicode,
    print_block_table,
    print_fitted,
    print_heading,
    print_line,
    print_more,
    print_numbered,
    print_section,
    print_titled,
    print_warnings,
)
from tracediff.report.escape import neutral
from tracediff.report.grammar import say

_STATUS = {"fail": "red", "warn": "yellow"}


def render_terminal(result: Result, console: Console, top: int = 5) -> None:
    """Print the result; `top` is how many findings and rows of a table are shown."""
    result = neutral(result)
    if result.kernel_answers:
        for one in sections.answered(result):
            print_titled(console, one)
            console.print()
        return
    _verdict(result, console)
    _waterfall(result, console)
    _findings(result, console, top)
    for section in sections.sections(result):
        if section.depth <= 1:
            print_section(console, section, top)
    _doubts(result, console)


def _verdict(result: Result, console: Console) -> None:
    verdict = words.verdict(result)
    style = f"bold {TONES[verdict.tone]}"
    sign = f"{verdict.sign} " if has_unicode(console) else ""
    what, *others = first.lines(result)
    print_line(console, (f"{sign}{what}", style), indent=0)
    for line in others:
        print_line(console, line, hang=2)
    console.print()
    print_block_table(console, sections.phases_in_text(result), top=2 * len(result.phases) + 1)
    print_line(console, (words.steps_note(result), "dim"))
    for text in (workloads.step_share(result), workloads.mix_note(result), *workloads.left_out(result)):
        if text:
            print_line(console, (text, "dim"))
    listed = {side: words.run_names(result, side) for side in SIDES}
    said = [_side(result, side, runs) for side, runs in listed.items()]
    for text in said if any(listed.values()) else [", ".join(said)]:
        print_line(console, (text, "dim"), hang=2)


def _side(result: Result, side: str, runs: list[str]) -> str:
    """A side by its label, and its runs where there are several."""
    label = getattr(result.inputs, side).label
    name = side if label == side else say("side_of", side=side, label=label)
    return say("runs_of", side=name, runs=", ".join(runs)) if runs else name


def _waterfall(result: Result, console: Console) -> None:
    figure = waterfall.build(result)
    print_heading(console, say("fall_title", step=figure.of_what))
    print_fitted(console, waterfall.text_table(figure, console.width - 2))
    print_line(console, (" ".join(waterfall.notes(figure)), "dim"))


def _findings(result: Result, console: Console, top: int) -> None:
    if not result.findings:
        return
    causes, small = words.listed(result)
    shown = causes[:top]
    scale = words.finding_scale(shown, result)
    print_heading(console, "Causes")
    for one in shown:
        print_numbered(console, findings.cause(result, one, scale), top)
    print_more(console, len(causes) - len(shown))
    if small:
        print_line(
            console, (say("smaller_ones", causes=units.counted(len(small), "small cause")), "dim"), hang=2
        )
    for text in phrases.remarks(result):
        print_line(console, (f"{phrases.REMARK}: ", "bold"), text, hang=2)


def _doubts(result: Result, console: Console) -> None:
    problems = words.problems(result)
    seen_once = [text for side, text in remarks.missing(result).items() if side != "either side"]
    missing = words.all_missing(result) + seen_once
    if problems:
        print_heading(console, "Differences between the captures")
        for status, text in problems:
            print_line(console, (f"{status}: ", _STATUS.get(status, "")), text)
    print_warnings(result.warnings, missing, console)
