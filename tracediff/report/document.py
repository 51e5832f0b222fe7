"""Documents as Markdown. As a page by page.document, on a terminal by console.print_document."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.report import templates
from tracediff.report.amounts import LIMIT
from tracediff.report.blocks import Block, Section


def markdown(
    sections: Sequence[Section] = (),
    *,
    blocks: Sequence[Block] = (),
    folds: Sequence[tuple[str, Sequence[Block]]] = (),
    note: str = "",
    level: int = 1,
    most: int = LIMIT,
    width: int = 160,
) -> str:
    """Write sections whole, each under a heading of a level, then blocks, what is folded, and what to read besides.

    most: rows of a table that is folded; width: of a name.
    """
    template = templates.markdown_environment().get_template("document.md.j2")
    return template.render(
        sections=sections,
        blocks=blocks,
        folds=folds,
        note=note,
        level=level,
        rows=LIMIT,
        most=most,
        width=width,
    )
