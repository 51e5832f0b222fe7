"""What companions share in their reports: tables of companions/columns.txt, and the reports of their own commands.

A section of a companion begins with its first sentence, which is the headline of such a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from tracediff.companions.model import (
    LatencyReport,
    LatencySide,
    NcuReport,
    NcuSide,
    TrtexecReport,
    TrtexecSide,
)
from tracediff.model import Note
from tracediff.report import beside, blocks, document, values, words
from tracediff.report.amounts import PAGE
from tracediff.report.blocks import Block, Code, Items, Line, Section, Strong, Table
from tracediff.report.console import TONES, has_unicode, print_line, print_section, spoken
from tracediff.report.escape import neutral
from tracediff.report.markdown import said_by
from tracediff.report.page import Page, render

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


def warnings(found: Sequence[Note], more: Sequence[str] = ()) -> list[Block]:
    """What was odd in the files."""
    items = [[Code(one.slug), f": {one.message}"] for one in found[:PAGE]] + [[text] for text in more]
    return [Items(items, "warn")] if items else []


# The report of a companion's own command.


def _opened(report: Report) -> tuple[str, str, str, Section]:
    """The tone of the report, the sign of its verdict, its first sentence; its section without that. Made neutral."""
    found = getattr(neutral(report), report.kind)
    section = beside.renderer(found).section(found)
    first, *rest = section.blocks
    verdict = words.VERDICTS[found.verdict] if hasattr(found, "verdict") else None
    tone, sign = (verdict.tone, f"{verdict.sign} ") if verdict else (beside.renderer(found).tone(found), "")
    return tone, sign, spoken(first.spans), replace(section, blocks=rest)


def render_terminal(report: Report, console: Console, top: int = 10) -> None:
    """Print the report; `top`: rows of a table."""
    tone, sign, text, section = _opened(report)
    said = sign + text if has_unicode(console) else text
    print_line(console, (said, f"bold {TONES[tone]}"), indent=0)
    print_section(console, section, top)


def render_markdown(report: Report, top: int = 10) -> str:
    """The report as Markdown; `top`: rows of a table."""
    _, sign, text, section = _opened(report)
    whole = Section("", sign + text, blocks.printed(section, 1))
    return document.markdown(
        [whole], level=2, rows=top, width=_WIDTH, note=said_by(report.tool, "every_row_of_it")
    )


def render_html(report: Report) -> str:
    """The report as a page."""
    tone, sign, text, section = _opened(report)
    found = getattr(neutral(report), report.kind)
    terms = Section("reading", "How to read this", [beside.renderer(found).TERMS], menu="How to read")
    sides = [(name, _called(getattr(found, name))) for name in ("baseline", "candidate")]
    page = Page(
        title=sign + text, heading=sign + text, tone=tone, sides=sides, sections=[section, terms], tool=report.tool,
        comment=render_markdown(report), skip=section.id,
    )  # fmt: skip
    return render(page)


def _called(side: LatencySide | TrtexecSide | NcuSide) -> str:
    return side.file if isinstance(side, NcuSide) else side.label
