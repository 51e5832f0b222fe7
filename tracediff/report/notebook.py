"""A report as a notebook shows it: a piece of HTML without scripts, whose styles touch nothing else on the page.

Everything that comes out of a trace is escaped; the waterfall is an image inside the piece.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from markupsafe import Markup
from msgspec.structs import replace

from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report import findings, first, pictures, sections, show, waterfall, words
from tracediff.report.amounts import LISTED, NAMED, PAGE
from tracediff.report.blocks import Block, Figure, Line, Section, flattened
from tracediff.report.escape import neutral
from tracediff.report.page import helpers
from tracediff.report.templates import html_environment


def comparison_html(result: Result) -> str:
    """The first sentences, phases, waterfall and causes of a comparison."""
    result = neutral(result)
    verdict = words.verdict(result)
    what, *others = first.lines(result)
    causes, small = words.listed(result)
    phases = replace(flattened(sections.phases_in_text(result), PAGE), look="plain")
    parts: list[Block] = [*(Line([text]) for text in others), phases, _fall(result)]
    if causes:
        parts.append(Section("", "Causes", [findings.in_lines(result, causes[:NAMED])]))
    if more := len(causes[NAMED:]) + len(small):
        parts.append(Line([f"{more} more: .findings"]))
    return _render([Section("", what, parts)], verdict.tone)


def _fall(result: Result) -> Figure:
    drawn = pictures.files(result, ["waterfall"])["waterfall.svg"]
    address = f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
    text = waterfall.text_figure(waterfall.build(result))
    return Figure(Markup('<img src="{}" alt="{}">').format(address, text), "")


def show_html(report: Show) -> str:
    """The step of one capture and its waits; of single steps that were asked for, each with what differs."""
    report = neutral(report)
    return _render(show.asked(report, LISTED) or [show.opening(report, LISTED)], "neutral")


def _render(documents: Sequence[Section], tone: str) -> str:
    known = {**helpers(), "full": False, "documents": documents, "tone": tone}
    return html_environment().get_template("notebook.html.j2").render(known)
