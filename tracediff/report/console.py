"""What all reports on a terminal are printed with. Everything is a `Text` or a cell built from one: no markup is ever read from a name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from tracediff.model import Note
from tracediff.report import blocks, names
from tracediff.report.amounts import LIMIT, NAME

TONES = {"bad": "red", "good": "green", "neutral": "cyan", "unsure": "yellow", "stop": "magenta"}
_COLOURS = {"slower": "red", "faster": "green", "noise": "dim", "nil": "dim", "warn": "yellow"}
_TIED = "\ue000"  # stands for the space between a number and its unit while a paragraph is wrapped
_UNIT = re.compile(r"(?<=[\d)]) (?=(?:%|[num]?s)(?!\w))")
_ASCII = str.maketrans(
    {"±": "+/-", "\u2026": "...", "\u2588": "#", "\u2593": "=", "\u2591": "-", "\u258f": "|", "\u2571": "/"}
)


def has_unicode(console: Console) -> bool:
    """Whether the terminal can show more than ASCII."""
    return console.encoding.lower().replace("-", "").startswith("utf")


def _plain(text: str, console: Console) -> str:
    """The text with this program's own signs in ASCII where the terminal has no more."""
    return text if has_unicode(console) else text.translate(_ASCII)


def print_heading(console: Console, text: str) -> None:
    """Print a heading after an empty line."""
    console.print()
    console.print(Text(text, style="bold"))


def print_line(console: Console, *parts: str | tuple[str, str], indent: int = 2, hang: int = 0) -> None:
    """Print one paragraph, wrapped; lines after the first are indented by `hang` more."""
    text = Text.assemble(
        *(
            _plain(one, console) if isinstance(one, str) else (_plain(one[0], console), one[1])
            for one in parts
        )
    )
    text.plain = _UNIT.sub(_TIED, text.plain)
    for number, row in enumerate(text.wrap(console, max(20, console.width - indent - hang))):
        row.rstrip()
        row.plain = row.plain.replace(_TIED, " ")
        console.print(Text(" " * (indent + (hang if number else 0))) + row, soft_wrap=True)


def print_warnings(warnings: Sequence[Note], missing: Sequence[str], console: Console) -> None:
    """Print the warnings, the first ones, and what was not captured."""
    if warnings:
        print_heading(console, "Warnings")
    for warning in warnings[:LIMIT]:
        print_line(console, (f"{warning.slug}: ", "yellow"), warning.message)
    if missing:
        print_heading(console, "Not in the captures")
    for text in missing:
        print_line(console, text)


def print_fitted(console: Console, table: blocks.Table, said: Sequence[str] = ()) -> None:
    """Print a table whose first column is cut so that rows fit; on a narrow terminal it is on a line of its own. said: a sentence below each row."""
    left = {column for column, head in enumerate(table.heads) if not head.right}
    others = [
        [Text(_plain(cell.text, console), _COLOURS.get(cell.tone, "")) for cell in row.cells[1:]]
        for row in table.rows
    ]
    heads = [head.text for head in table.heads]
    rest = table_lines(console, heads[1:], others, left={column - 1 for column in left})
    room = console.width - 2
    beside = room - 2 - max(map(len, rest))
    room = room if said or beside < NAME else max(20, beside)
    firsts = (row.cells[0] for row in table.rows)
    names_of = [Text(_plain(names.cut(one.sides or (one.text,), room), console)) for one in firsts]
    rows = [[name, *cells] for name, cells in zip(names_of, others, strict=True)]
    lines = table_lines(console, heads, rows, left={0, *left})
    apart = max(map(len, lines)) + 2 > console.width
    first = [Text(heads[0], "dim"), *names_of]
    for name, line, text in zip_longest(first, rest if apart else lines, ["", *said]):
        if apart and name:
            console.print(Text("  ") + name, soft_wrap=True)
        console.print(Text("    " if apart else "  ") + line, soft_wrap=True)
        if text:
            print_line(console, text, indent=5, hang=2)


def print_section(console: Console, section: blocks.Section, top: int) -> None:
    """Print what a terminal shows of a section: the first rows of its tables, and lines."""
    shown = blocks.printed(section, 1)
    if section.title and shown and not isinstance(shown[0], blocks.Table):
        print_heading(console, section.title)
    for one in shown:
        _print_block(
            console, one, top, titled=one is shown[0] or getattr(one, "caption", "") != section.title
        )


def print_numbered(console: Console, of: blocks.Section, top: int) -> None:
    """Print a section under its number, what text formats show of it below its title."""
    print_line(console, (f"{of.number}. {of.title}", "bold"), hang=3)
    for one in blocks.printed(of, 1):
        _print_block(console, one, top, indent=5)


def print_document(console: Console, of: blocks.Section) -> None:
    """Print a document whole, but for its title and its pictures; of a part without a title what follows its first block stands below that."""
    for at, one in enumerate(of.blocks):
        if isinstance(one, blocks.Section):
            if one.title:
                print_heading(console, one.title)
            print_document(console, one)
        else:
            _print_block(console, one, LIMIT, indent=2 if of.title or not at else 6)


def print_titled(console: Console, of: blocks.Section) -> None:
    """Print a document under its title, which says what there is to say first."""
    print_line(console, (of.title, "bold"), indent=0)
    print_document(console, of)


def _print_block(
    console: Console, one: blocks.Block, top: int, *, titled: bool = True, indent: int = 2
) -> None:
    if isinstance(one, blocks.Table):
        print_block_table(console, one, top, titled=titled)
    elif isinstance(one, blocks.Items):
        for item in one.items:
            print_line(console, *_styled(item, "dim" if one.look == "facts" else ""), indent=indent, hang=2)
    elif isinstance(one, blocks.Line):
        style = {"note": "dim", "brief": "dim", "first": "bold"}.get(one.look, "")
        first = one.look == "first"
        spans = one.spans if one.look != "size" else [part for each in one.spans for part in ("; ", each)][1:]
        print_line(
            console,
            *_styled(spans, style),
            indent=0 if first else indent,
            hang=0 if first or indent > 2 else 2,
        )


def _styled(spans: Sequence[blocks.Span], style: str) -> list[tuple[str, str]]:
    def of(span: blocks.Span) -> str:
        if isinstance(span, blocks.Cell):
            return _COLOURS.get(span.tone, style)
        return f"bold {style}".strip() if isinstance(span, blocks.Strong) else style

    return [(spoken([one]), of(one)) for one in spans]


def spoken(spans: Sequence[blocks.Span]) -> str:
    """A line as plain text."""
    return "".join(span if isinstance(span, str) else span.text for span in spans)


def print_block_table(console: Console, table: blocks.Table, top: int, *, titled: bool = True) -> None:
    """Print the first rows of a table under its title; spare columns, then the last ones, fall away where the terminal is too narrow for them."""
    figures = blocks.without(table, "said")
    found = blocks.flattened(figures, top)
    if _width(console, found, 0) > console.width:
        found = blocks.flattened(blocks.without(figures, "spare"), top)
    while len(found.heads) > 2 and _width(console, found, 1) > console.width:
        found = blocks.columns(found, range(len(found.heads) - 1))
    if titled and table.caption:
        print_heading(console, table.caption)
    sentences = [at for at, head in enumerate(table.heads) if head.look == "said"]
    print_fitted(
        console, found, [" ".join(row.cells[at].text for at in sentences) for row in table.rows[:top]]
    )
    print_more(console, found.left, top=False)


def _width(console: Console, table: blocks.Table, first: int) -> int:
    """Columns of the terminal that a table needs from its `first` column on."""
    heads = [head.text for head in table.heads[first:]]
    texts = [[cell.text for cell in row.cells[first:]] for row in table.rows]
    return 2 + 2 * first + max(map(len, table_lines(console, heads, texts)), default=0)


def print_more(console: Console, left: int, *, top: bool = True) -> None:
    """Say how many rows are not shown, and where they are. top: whether --top shows them."""
    if left > 0:
        where = ", or with --top" if top else ""
        print_line(console, (f"{left} more: in the HTML report and the JSON{where}", "dim"))


def table_lines(
    console: Console,
    header: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    left: Collection[int] = (0,),
    header_style: str = "dim",
) -> list[Text]:
    """A line for the header and for each row. left: columns that are not aligned to the right."""
    cells = [[Text(head, header_style) for head in header]]
    cells += [
        [cell.copy() if isinstance(cell, Text) else Text(_plain(cell, console)) for cell in row]
        for row in rows
    ]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            cell.align("left" if number in left else "right", width)
        line = Text("  ").join(row)
        line.rstrip()
        lines.append(line)
    return lines
