"""Documents in every format: of a kind of report that is one, its module of the same name writes `document`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracediff.report import page, templates
from tracediff.report.amounts import LIMIT
from tracediff.report.blocks import Block, Section
from tracediff.report.console import print_document
from tracediff.report.escape import neutral

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.history.model import History
    from tracediff.model.bisect import Bisect
    from tracediff.model.result import WhatIf

    Report = WhatIf | Bisect | History


def document(report: Report) -> Section:
    """The document of a report, without control characters."""
    module = importlib.import_module(f"tracediff.report.{report.kind.replace('-', '_')}")
    written: Section = module.document(neutral(report))
    return written


def render_markdown(report: Report) -> str:
    """Return it as Markdown."""
    return markdown([document(report)])


def render_html(report: Report) -> str:
    """Return it as a page."""
    return page.document([document(report)])


def render_terminal(report: Report, console: Console) -> None:
    """Print it."""
    print_document(console, document(report))


def markdown(
    sections: Sequence[Section] = (),
    *,
    blocks: Sequence[Block] = (),
    folds: Sequence[tuple[str, Sequence[Block]]] = (),
    note: str = "",
    level: int = 1,
    rows: int = LIMIT,
    most: int = LIMIT,
    width: int = 160,
) -> str:
    """Write sections whole, each under a heading of a level, then blocks, what is folded, and what to read besides.

    rows: of a table; most: of one that is folded; width: of a name.
    """
    template = templates.markdown_environment().get_template("document.md.j2")
    return template.render(
        sections=sections,
        blocks=blocks,
        folds=folds,
        note=note,
        level=level,
        rows=rows,
        most=most,
        width=width,
    )
