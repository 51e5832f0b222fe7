"""The page of a comparison: the first screen, and its sections."""

from __future__ import annotations

from tracediff.model import Result
from tracediff.report import (
    drawn,
    findings,
    first,
    lanes,
    pictures,
    sections,
    units,
    waterfall,
    words,
    workloads,
)
from tracediff.report.amounts import NAMED, TEXT
from tracediff.report.blocks import Block, Cell, Figure, Items, Line, Link, Section
from tracediff.report.escape import neutral, shorten
from tracediff.report.grammar import say
from tracediff.report.markdown import render_markdown
from tracediff.report.page import Page, render


def render_html(result: Result) -> str:
    """Return the page."""
    result = neutral(result)
    inputs, verdict = result.inputs, words.verdict(result)
    what, *others = first.lines(result)
    typical = words.sentence(words.typical(result)) + "."
    page = Page(
        title=f"{what} {inputs.baseline.label} against {inputs.candidate.label}",
        heading=what,
        tone=verdict.tone,
        sign=verdict.sign,
        sides=[("baseline", inputs.baseline.label), ("candidate", inputs.candidate.label)],
        said=[_explained(text, result) for text in others],
        measured=[
            sections.phases(result),
            Line([" ".join([typical, workloads.mix_note(result), *workloads.compared(result)])], "note"),
            *_problems(result),
        ],
        columns=[_fall(result), findings.first(result)],
        sections=[
            *sections.asked(result),
            findings.section(result),
            *drawn.sections(result),
            *sections.sections(result),
        ],
        lanes=lanes.data(result),
        folds=True,
        keys="two" if lanes.drawn(result) else "",
        format=f", result format {result.format_version}",
        skip="findings",
        tool=result.tool,
        comment=render_markdown(result),
    )
    return render(page, ["lanes.js"])


def _explained(text: str, result: Result) -> Line:
    """A line of the first screen; what differs by count and what a repeat would show begin with a term that the page explains."""
    terms = {result.headline.counts: "By count"}
    if result.verdict_facts.basis != "checks":
        terms[result.verdict_reason] = "A repeat"
    term = terms.get(text)
    return Line([Cell(term, title=sections.EXPLAINED[term]), text.removeprefix(term)] if term else [text])


def _fall(result: Result) -> Section:
    figure = waterfall.build(result)
    notes = Line([" ".join([*waterfall.notes(figure), say("fall")])], "note")
    return Section(
        "", say("fall_title", step=figure.of_what), [Figure(pictures.of_fall(figure), "", look="half"), notes]
    )


def _problems(result: Result) -> list[Block]:
    found = words.problems(result)
    items: list[list[str | Cell | Link]] = [
        [Cell(status, mark=f"st st-{status}"), f": {shorten(text, TEXT)}"] for status, text in found[:NAMED]
    ]
    if more := found[NAMED:]:
        items.append(
            [Link(say("more_problems", count=units.counted(len(more), "more difference")), "comparability")]
        )
    return [Items(items, "alerts")] if items else []
