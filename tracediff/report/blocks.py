"""What a report is made of: sections of blocks. Renderers know these blocks and no section; sections know no renderer.

Names of a trace stay as they are in a block: each renderer escapes what it writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Literal, Protocol

import msgspec
from msgspec.structs import replace


class Code(str):
    """A name out of a trace, a file or a command."""

    __slots__ = ()


class Strong(str):
    """Prose that stands out."""

    __slots__ = ()


class Fill(str):
    """What the author of a document has to add."""

    __slots__ = ()


class Link(msgspec.Struct, frozen=True):
    """Text that leads to a place of the same page; page: of that one."""

    text: str
    to: str
    page: str = ""


Part = Literal["", "baseline", "candidate", "delta", "change"]
Tone = Literal["", "slower", "faster", "noise", "untested", "nil", "warn", "fail", "ok", "strong"]


class Cell(msgspec.Struct, frozen=True):
    """A cell, or a span with a tone. value: the figure behind the text, for sorting and copying. swatch: a category. of: level or status, a mark before the text.

    more: blocks that the cell opens to; sides: the two names of a text with an arrow, for where it is cut.
    """

    text: str = ""
    value: float | str | None = None
    tone: Tone = ""
    code: bool = False
    title: str = ""
    swatch: str = ""
    mark: str = ""
    small: str = ""
    link: str = ""
    bars: Sequence[float] = ()
    more: Sequence[Block] = ()
    sides: Sequence[str] = ()


EMPTY = Cell("\N{EN DASH}", tone="nil")
Span = str | Link | Cell  # a string may be one of its kinds above


class Line(msgspec.Struct, frozen=True):
    """A paragraph.

    look: first (of a document: it stands out), lead (what a section is), aside (what to know of it, on pages), note (the same in every
    format), missing (what was not captured), head (a small heading), size (facts beside each other), brief (in text formats, for the
    tables that they leave out), text.
    """

    kind: ClassVar[str] = "line"
    spans: Sequence[Span]
    look: Literal["first", "lead", "aside", "note", "missing", "head", "size", "brief", "text"] = "text"


class Items(msgspec.Struct, frozen=True):
    """A list of lines. look: facts (muted), warn (each a warning), boxes (each can be ticked off), sizes (each after its size), alerts, plain."""

    kind: ClassVar[str] = "items"
    items: Sequence[Sequence[Span]]
    look: Literal["plain", "facts", "warn", "boxes", "sizes", "alerts"] = "plain"


PARTS = {"": "", "baseline": "Baseline", "candidate": "Candidate", "delta": "Delta", "change": "Change"}


class Head(msgspec.Struct, frozen=True):
    """The head of a column; `{}` in its texts is the unit. group: what both sides of are; part: which of them it is.

    look: spare of a column that falls away first where there is little room, page of one that text formats do not have, said of a sentence,
    which a terminal has below its row.
    """

    text: str
    unit: str = ""
    group: str = ""
    part: Part = ""
    right: bool = False
    sorted: bool = False
    look: str = ""
    title: str = ""


class Row(msgspec.Struct, frozen=True):
    """A row. id: its anchor in a page; level: how sure it is, for a filter."""

    cells: Sequence[Cell]
    id: str = ""
    level: str = ""
    look: str = ""


class Table(msgspec.Struct, frozen=True):
    """A table. name: it is known by to scripts and readers of a page; field: of the JSON, where the `left` rows are that it leaves out.

    depth: as that of a section. look: data (sortable, filterable: what a page adds), plain, facts (names and values, without a head).
    """

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    heads: Sequence[Head]
    rows: Sequence[Row]
    unit: str = ""
    field: str = ""
    left: int = 0
    foot: Row | None = None
    look: str = "data sortable filterable"
    depth: int = 1

    @property
    def total(self) -> int:
        """Rows with those left out."""
        return len(self.rows) + self.left

    @property
    def over(self) -> list[tuple[str, int, str]]:
        """What stands over the heads, over how many, and in which unit; empty where no column has sides."""
        found: list[tuple[str, int, str]] = []
        for head in self.heads:
            if found and head.group == found[-1][0]:
                found[-1] = head.group, found[-1][1] + 1, found[-1][2]
            else:
                found.append((head.group, 1, head.unit))
        return found if any(text for text, _, _ in found) else []


class Listing(msgspec.Struct, frozen=True):
    """Text in fixed pitch that is copied as it is: SQL, a command."""

    kind: ClassVar[str] = "listing"
    text: str
    language: str = "text"


class HasHtml(Protocol):
    """What becomes markup, of which all text is escaped, where a page shows it."""

    def __html__(self) -> str:
        """Return it."""


class Figure(msgspec.Struct, frozen=True):
    """A drawing with what it shows. text: the same for who sees no pictures; file: where it lies beside a document. Text formats leave one without them out.

    look: wide, drawn (a picture that fills the page), half (of half a page).
    """

    kind: ClassVar[str] = "figure"
    svg: HasHtml | str
    caption: str
    text: str = ""
    file: str = ""
    look: str = "wide"


class Lanes(msgspec.Struct, frozen=True):
    """Steps of both sides event by event, which only a page draws, by its script. what: lanes of whole steps, or a crop; key: in its data.

    label: for who cannot see it; heads: a line a side; caption: what is below it.
    """

    kind: ClassVar[str] = "lanes"
    what: Literal["lanes", "crop"]
    key: str
    label: str
    heads: Sequence[Sequence[Span]]
    caption: str = ""


class Section(msgspec.Struct, frozen=True):
    """A section, or a whole document. depth: 0 is read at once, 1 is folded in a comment and printed on a terminal, 2 is on pages only. gist: what it holds, in a line.

    Sections inside are its parts. menu: its name in the contents of a page; printed: unfolded on paper; folded: only inside, opens on a click.
    look: cause, with its number.
    """

    kind: ClassVar[str] = "section"
    id: str
    title: str
    blocks: Sequence[Block]
    depth: int = 2
    gist: str = ""
    menu: str = ""
    printed: bool = False
    folded: bool = False
    columns: bool = False
    open: bool = False
    look: str = ""
    number: str = ""


Block = Line | Items | Table | Listing | Figure | Lanes | Section


def lead(text: str) -> Line:
    """What a section is."""
    return Line([text], "lead")


def aside(text: str) -> Line:
    """What to know of a section, on pages."""
    return Line([text], "aside")


def notes(*texts: str) -> list[Block]:
    """What is said in every format, a line each; empty ones are left out."""
    return [Line([text], "note") for text in texts if text]


def part(title: str, blocks: Sequence[Block], depth: int = 2, **more: Any) -> Section:
    """A part of a section."""
    return Section("", title, blocks, depth=depth, **more)


def grid(name: str, heads: Sequence[str], rows: Sequence[Sequence[Span]], right: Collection[int] = (), **settings: Any) -> Table:  # fmt: skip
    """A table of texts. right: columns of figures; settings: as those of `Table`."""
    listed = [Row([one if isinstance(one, Cell) else _cell(one) for one in row]) for row in rows]
    of = [Head(text, right=place in right) for place, text in enumerate(heads)]
    return Table(name, "", of, listed, **{"look": "plain", **settings})


def facts(
    name: str, found: Sequence[tuple[str | Cell, Sequence[Cell]]], *, depth: int = 3, look: str = "facts"
) -> Table:
    """Names, and what is known of each."""
    rows = [Row([term if isinstance(term, Cell) else Cell(term), *said]) for term, said in found]
    return Table(name, "", [Head("")] * 2, rows, look=look, depth=depth)


def terms(found: Iterable[tuple[str | Cell, str | Cell]]) -> Table:
    """Words, and what each means."""
    said = [(term, [text if isinstance(text, Cell) else Cell(text)]) for term, text in found]
    return facts("terms", said, look="terms")


def without(table: Table, look: str) -> Table:
    """The table without the columns of a look."""
    return columns(table, [place for place, head in enumerate(table.heads) if head.look != look])


def columns(table: Table, kept: Sequence[int]) -> Table:
    """The table with some of its columns."""

    def of(row: Row) -> Row:
        return replace(row, cells=[row.cells[at] for at in kept])

    foot = of(table.foot) if table.foot else None
    return replace(
        table, heads=[table.heads[at] for at in kept], rows=[of(row) for row in table.rows], foot=foot
    )


def _cell(span: str | Link) -> Cell:
    return (
        Cell(span.text, link=span.to) if isinstance(span, Link) else Cell(span, code=isinstance(span, Code))
    )


def span_kind(span: Span) -> str:
    """Name the kind of a span for a template: link, code, strong, fill or text."""
    kinds = {Link: "link", Code: "code", Strong: "strong", Fill: "fill", Cell: "cell"}
    return kinds.get(type(span), "text")


def printed(section: Section, depth: int) -> list[Block]:
    """What text formats show of a section and its parts, down to a depth: tables, and lines that say more than what the section is."""
    of_pages = ("lead", "aside", "missing", "head", *["brief"] * (depth > 1))
    found: list[Block] = []
    for one in section.blocks:
        if isinstance(one, Section) and one.look:
            found += [replace(one, blocks=printed(one, depth))] if one.depth <= depth else []
        elif isinstance(one, Section):
            found += printed(one, depth) if one.depth <= depth else []
        elif isinstance(one, Table):
            found += [one] if one.depth <= depth else []
        elif not isinstance(one, Figure | Lanes) and not (isinstance(one, Line) and one.look in of_pages):
            found.append(one)
    return found


def titled(section: Section, depth: int) -> tuple[str, Sequence[Block]]:
    """The same with its title: of a section of one table that of the table, which says more."""
    shown = printed(section, depth)
    return (shown[0].caption if len(shown) == 1 and isinstance(shown[0], Table) else section.title), shown


def flattened(table: Table, most: int) -> Table:
    """The first `most` rows of a table as text formats have them: both sides of a value are one cell, `264 -> 286`."""
    heads: list[Head] = []
    places: list[list[int]] = []  # of each column
    for place, head in enumerate(table.heads):
        if head.part == "candidate":
            places[-1].append(place)
        elif head.look != "twin":  # bars, which text has not
            text = head.group if head.part == "baseline" else head.text or PARTS[head.part]
            heads.append(Head(text.replace("{}", head.unit), right=head.right))
            places.append([place])
    shown = [*table.rows[:most], *([table.foot] if table.foot else [])]
    rows = [Row([_joined([row.cells[at] for at in each]) for each in places]) for row in shown]
    return replace(table, heads=heads, rows=rows, foot=None, left=table.total - len(table.rows[:most]))


def _joined(cells: Sequence[Cell]) -> Cell:
    if isinstance(cells[0].text, Fill | Strong):
        return cells[0]
    texts = [cell.text.replace("\N{EN DASH}", "-") + f" {cell.small}".rstrip() for cell in cells]
    return replace(cells[0], text=" -> ".join(dict.fromkeys(texts)), small="", more=())
