"""What companions share in their reports: tables of companions/columns.txt, and the reports of their own commands.

A section of a companion begins with its first sentence, which is the headline of such a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tracediff.companions.model import LatencyReport, NcuReport, TrtexecReport
from tracediff.model import Note
from tracediff.report import beside, blocks, templates, values, words
from tracediff.report.blocks import Block, Cell, Code, Items, Line, Section, Strong, Table
from tracediff.report.console import TONES, has_unicode, print_line, print_section, spoken
from tracediff.report.escape import neutral
from tracediff.report.html import helpers, own_files
from tracediff.report.rows import PAGE

if TYPE_CHECKING:
    from rich.console import Console

Report: TypeAlias = NcuReport | TrtexecReport | LatencyReport
LISTED = values.listed(Path(__file__).with_name("columns.txt"))
_WIDTH = 120  # of a name in Markdown


def table(
    name: str, rows: Sequence[Any], known: Mapping[str, values.Value], per: str = "", **settings: Any
) -> Table:
    """A table of a companion, its first rows. known: values that are no fields of its rows; per: what times are per."""
    limit = settings.pop("limit", PAGE)
    return values.table(LISTED[name], rows, values.Context(None, True, known, per=per), limit, **settings)


def headline(text: str) -> Line:
    """The first sentence of a section."""
    return Line([Strong(text)], "first")


def notes(*texts: str) -> list[Block]:
    """What is said in every format, a line each; empty ones are left out."""
    return [Line([text], "note") for text in texts if text]


def warnings(found: Sequence[Note], more: Sequence[str] = ()) -> list[Block]:
    """What was odd in the files."""
    items = [[Code(one.slug), f": {one.message}"] for one in found[:PAGE]] + [[text] for text in more]
    return [Items(items, "warn")] if items else []


def part(title: str, found: Sequence[Block], depth: int = 2, **more: Any) -> Section:
    """A part of a section."""
    return Section("", title, found, depth=depth, **more)


def marked(text: str, look: str) -> Cell:
    """A cell that stands out as a difference does: slower, faster, noise."""
    return Cell(text, tone=look)  # type: ignore[arg-type]


# The report of a companion's own command.


def _opened(report: Report) -> tuple[Any, str, str, Section]:
    """The section of the report, made neutral; the sign of its verdict and its first sentence; its blocks without that."""
    found = getattr(neutral(report), report.kind)
    section = beside.renderer(found).section(found)
    first, *rest = section.blocks
    verdict = getattr(found, "verdict", None)
    sign = f"{words.VERDICTS[verdict].sign} " if verdict else ""
    return found, sign, spoken(first.spans), replace(section, blocks=rest)


def render_terminal(report: Report, console: Console, top: int = 10) -> None:
    """Print the report; `top`: rows of a table."""
    found, sign, text, section = _opened(report)
    tone = TONES[beside.renderer(found).tone(found)]
    print_line(console, (f"{sign if has_unicode(console) else ''}{text}", f"bold {tone}"), indent=0)
    print_section(console, section, 1, top)


def render_markdown(report: Report, top: int = 10) -> str:
    """The report as Markdown; `top`: rows of a table."""
    _, sign, text, section = _opened(report)
    template = templates.markdown_environment().get_template("companion.md.j2")
    shown = blocks.printed(section, 1)
    return template.render(r=report, title=sign + text, shown=shown, top=top, width=_WIDTH)


def render_html(report: Report) -> str:
    """The report as a page."""
    found, sign, text, section = _opened(report)
    renderer = beside.renderer(found)
    template = templates.html_environment().get_template("companion.html.j2")
    return template.render(
        r=report, title=sign + text, section=section, tone=renderer.tone(found), sides=renderer.sides(found),
        terms=blocks.Section("reading", "How to read this", [renderer.TERMS]), comment=render_markdown(report), **own_files(), **helpers(),
    )  # fmt: skip
