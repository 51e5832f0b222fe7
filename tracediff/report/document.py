"""Documents as Markdown: sections that are shown whole. As a page by html.document, on a terminal by console.print_document."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model import Tool
from tracediff.report import templates
from tracediff.report.blocks import Block, Section

_ROWS = 500  # of a table; those who make a document cut it before


def markdown(sections: Sequence[Section], width: int = 160) -> str:
    """Write sections as Markdown, each under a heading of the first level. `width`: of a name."""
    template = templates.markdown_environment().get_template("document.md.j2")
    return template.render(sections=sections, most=_ROWS, width=width)


def report_markdown(
    tool: Tool,
    sections: Sequence[Section],
    most: int,
    width: int,
    note: str,
    folds: Sequence[tuple[str, Sequence[Block]]] = (),
) -> str:
    """Write a report as Markdown: sections whole, others folded, what to read besides.

    most: rows of a table that is folded; width: of a name.
    """
    template = templates.markdown_environment().get_template("report.md.j2")
    return template.render(
        tool=tool, sections=sections, folds=folds, rows=_ROWS, most=most, width=width, note=note
    )
