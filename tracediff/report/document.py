"""A document as blocks, written once as Markdown and once as HTML by a template each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


class Code(str):
    """A name out of a trace, a file or a command."""

    __slots__ = ()


class Strong(str):
    """Prose that stands out."""

    __slots__ = ()


class Fill(str):
    """What the author of the document has to add."""

    __slots__ = ()


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
    """A table; a column is right-aligned where its first cell is a `Number`."""

    kind: ClassVar[str] = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[Span]]
    right: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        columns = range(len(self.header))
        right = [any(isinstance(row[column], Number) for row in self.rows) for column in columns]
        object.__setattr__(self, "right", right)


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
