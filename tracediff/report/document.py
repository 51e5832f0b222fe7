"""Documents and tables as blocks: described once, written as Markdown here, as a page by a template, on a terminal by console.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tracediff.report import blocks
from tracediff.report.blocks import Code, Fill, Strong
from tracediff.report.escape import (
    Markdown,
    markdown_block,
    markdown_cell,
    markdown_code,
    markdown_figure,
    markdown_prose,
)


class Number(str):
    """A figure: right-aligned in a table."""

    __slots__ = ()


Span = str  # or one of its kinds above
Text = Sequence[Span]


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    kind: ClassVar[str] = "heading"
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    kind: ClassVar[str] = "paragraph"
    spans: Text


@dataclass(frozen=True)
class Items:
    """A list; with `boxes` each item can be ticked off."""

    kind: ClassVar[str] = "items"
    items: Sequence[Text]
    boxes: bool = False


@dataclass(frozen=True)
class Table:
    """A table; a column is right-aligned where one of its cells is a `Number`.

    left: rows that are not shown, and the JSON has under `field`. notes: sentences on its rows.
    """

    kind: ClassVar[str] = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[Span]]
    title: str = ""
    left: int = 0
    field: str = ""
    notes: Sequence[str] = ()
    right: list[bool] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        columns = range(len(self.header))
        right = [any(isinstance(row[column], Number) for row in self.rows) for column in columns]
        object.__setattr__(self, "right", right)


def plain(table: blocks.Table, most: int) -> Table:
    """The first rows of a table, as text formats have them."""
    of = blocks.flat(table, most)
    rows = [
        [
            Number(cell.text) if right else Code(cell.text) if cell.code else cell.text
            for cell, right in zip(row, of.right, strict=True)
        ]
        for row in of.rows
    ]
    return Table(of.heads, rows, table.caption, of.left, table.field)


def of_section(section: blocks.Section, most: int) -> list[Block]:
    """What text formats show of a section, under its title."""
    found: list[Block] = [Heading(2, section.title)]
    for one in blocks.printed(section, 1):
        if isinstance(one, blocks.Table):
            found.append(plain(one, most))
        elif isinstance(one, blocks.Line):
            found.append(Paragraph([span for span in one.spans if isinstance(span, str)]))
    return found


@dataclass(frozen=True)
class Listing:
    """Text in fixed pitch: a query, a figure of characters."""

    kind: ClassVar[str] = "listing"
    text: str
    language: str = "text"


@dataclass(frozen=True)
class Figure:
    """The step-time waterfall; `text` is the same for who sees no pictures."""

    kind: ClassVar[str] = "waterfall"
    text: str


Block = Heading | Paragraph | Items | Table | Listing | Figure


def style(span: Span) -> str:
    """Name the kind of a span for a template: code, strong, fill, number or text."""
    kinds = {Code: "code", Strong: "strong", Fill: "fill", Number: "number"}
    return kinds.get(type(span), "text")


def markdown(blocks: Sequence[Block], width: int = 160, image: str = "") -> Markdown:
    """Write blocks as Markdown. `width`: of a name; `image`: Markdown of the waterfall's drawing."""
    return Markdown("\n\n".join(_block(one, width, image) for one in blocks))


def _block(block: Block, width: int, image: str) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {markdown_prose(block.text)}"
    if isinstance(block, Paragraph):
        return _spans(block.spans, width)
    if isinstance(block, Items):
        mark = "- [ ] " if block.boxes else "- "
        return "\n".join(mark + _spans(item, width) for item in block.items)
    if isinstance(block, Table):
        lines = [
            _line(map(markdown_prose, block.header)),
            f"|{'|'.join('-:' if right else '-' for right in block.right)}|",
        ]
        lines += [_line(_span(span, width, cell=True) for span in row) for row in block.rows]
        text = "\n".join(lines)
        if block.left:
            text += f"\n\n{block.left} more are in the JSON (`{block.field}`)."
        return "\n\n".join([text, *map(markdown_prose, block.notes)])
    if isinstance(block, Listing):
        return markdown_block(block.text, block.language)
    return f"{image}\n\n{markdown_block(block.text)}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _spans(spans: Text, width: int) -> str:
    return "".join(_span(span, width) for span in spans)


def _span(span: Span, width: int, *, cell: bool = False) -> str:
    """One span; escaping drops blanks at the ends of prose, which part it from its neighbours."""
    if isinstance(span, Code):
        return markdown_cell(span, width) if cell else markdown_code(span, width)
    if isinstance(span, Markdown):
        return span
    if isinstance(span, Number):
        return markdown_figure(span)
    text = markdown_prose(span)
    if isinstance(span, Fill):
        return f"_to fill: {text}_" if text else "_to fill_"
    if isinstance(span, Strong):
        text = Markdown(f"**{text}**")
    return (" " if span[:1] == " " else "") + text + (" " if span[-1:] == " " and span.strip() else "")
