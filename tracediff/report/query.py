"""What `tracediff query` prints: rows of any query as text, CSV, JSON or Markdown, and docs/sql.md, the tables that it can be asked of."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tracediff.query import reference
from tracediff.report import tables, templates
from tracediff.report.amounts import NAME, TEXT
from tracediff.report.console import table_lines
from tracediff.report.escape import markdown_cell, markdown_prose, shorten, visible

_NULL = "NULL"
PLAN = ["explain_key", "explain_value"]  # columns of what EXPLAIN answers: a drawing of some lines
# What json.dumps leaves as it is and nobody sees.
_UNSEEN = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def print_rows(frame: pl.DataFrame, console: Console, *, width: int | None, full: bool = False) -> None:
    """Print rows in aligned columns, or one value a line where they do not fit into `width` columns.

    Texts are cut in their middle, in columns shorter than in lines, unless `full` or where they would read alike; numbers never are. `width` None: any.
    """
    heads = [visible(name) for name in frame.columns]
    numeric = [kind.is_numeric() for kind in frame.dtypes]
    columns = [_cells(column) for column in frame.iter_columns()]
    in_columns = [
        cells if full or is_number else _cut(cells, NAME)
        for cells, is_number in zip(columns, numeric, strict=True)
    ]
    shown = list(zip(*in_columns, strict=True))
    widths = [max(map(cell_len, column)) for column in zip(heads, *shown, strict=True)]
    if width is None or sum(widths) + 2 * (len(widths) - 1) <= width:
        _columns(heads, shown, widths, numeric, console)
    else:
        in_lines = columns if full else [_cut(cells, TEXT) for cells in columns]
        _records(heads, list(zip(*in_lines, strict=True)), console)


def _columns(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    numeric: Sequence[bool],
    console: Console,
) -> None:
    left = {number for number, right in enumerate(numeric) if not right}
    cells = [[Text(cell, "dim" if cell == _NULL else "") for cell in row] for row in rows]
    head, *lines = table_lines(console, heads, cells, left=left, header_style="bold")
    rule = Text("  ".join("-" * width for width in widths), style="dim")
    for line in (head, rule, *lines):
        console.print(line, soft_wrap=True)


def _records(heads: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    width = max(map(cell_len, heads), default=0)
    for number, row in enumerate(rows, 1):
        console.print(Text(f"row {number}", style="dim"), soft_wrap=True)
        for head, cell in zip(heads, row, strict=True):
            name = (f"  {head}{' ' * (width - cell_len(head))}  ", "bold")
            console.print(Text.assemble(name, (cell, "dim" if cell == _NULL else "")), soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # enough digits to tell what matters; CSV and JSON have them all
        return f"{value:.3f}" if 100 <= abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict):
        return visible(json.dumps(_plain(value), ensure_ascii=False))
    return visible(str(value))


def _cells(column: pl.Series) -> list[str]:
    """The cells of a column, numbers with as many decimals as the column needs."""
    values = column.to_list()
    if column.dtype.is_float() and all(
        one is None or (one.is_integer() and abs(one) < 1e15) for one in values
    ):
        return [_NULL if one is None else f"{one:.0f}" for one in values]
    return [_cell(one) for one in values]


def _cut(cells: list[str], longest: int) -> list[str]:
    """The cells of a column, cut, unless what differs would then read alike."""
    cut = [cell if cell_len(cell) <= longest else shorten(cell, longest) for cell in cells]
    return cut if len(set(cut)) == len(set(cells)) else cells


def csv(frame: pl.DataFrame) -> bytes:
    """Return rows as CSV: control characters by their escapes, and nothing a spreadsheet would take for a formula."""
    return tables.csv(_flat(frame))


def json_rows(frame: pl.DataFrame) -> bytes:
    """Return rows as a JSON array of objects, one a line; what JSON has no number for is null."""
    lines = [
        json.dumps(_plain(row), ensure_ascii=False, separators=(", ", ": "))
        for row in frame.iter_rows(named=True)
    ]
    text = "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n"
    text = text.replace("##", "#\\u0023")  # the same text, and no command to a runner of CI that prints it
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def markdown(frame: pl.DataFrame, note: str = "") -> bytes:
    """Return rows as a table of Markdown, texts as code; `note` follows it."""
    numeric = [kind.is_numeric() for kind in frame.dtypes]
    lines = [
        "| " + " | ".join(markdown_prose(name) for name in frame.columns) + " |",
        "|" + "|".join("-:" if is_number else "-" for is_number in numeric) + "|",
    ]
    for row in frame.iter_rows():
        cells = [
            ""
            if value is None
            else _cell(value)
            if isinstance(value, int | float)
            else markdown_cell(_cell(value))
            for value in row
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if note:
        lines += ["", markdown_prose(note)]
    return ("\n".join(lines) + "\n").encode()


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts and nested values as visible text; numbers, times and booleans as they are."""
    columns = []
    for column in frame.iter_columns():
        plain = (
            column.dtype.is_numeric() or column.dtype.is_temporal() or column.dtype in (pl.Boolean, pl.Null)
        )
        if plain:
            columns.append(column)
            continue
        texts = [None if value is None else _cell(value) for value in column.to_list()]
        columns.append(pl.Series(column.name, texts, dtype=pl.String))
    flat = pl.DataFrame(columns)
    return flat.rename({name: visible(name) for name in flat.columns})


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | str) else str(value)


# docs/sql.md: the tables that SQL can be asked of, from what their definitions say of themselves.


def render_reference() -> bytes:
    """Return the page."""
    kinds = (
        ("Recorded", [one for one in reference.tables() if not one.measured]),
        ("Measured", [one for one in reference.tables() if one.measured]),
        ("Both sides", reference.aligned()),
    )
    index = "".join(
        f"\n- {kind}: {', '.join(f'[`{one.name}`](#{one.name})' for one in some)}." for kind, some in kinds
    )
    sections = (_section(one) for one in (*reference.tables(), *reference.aligned()))
    return (templates.text("sql.md") + index + "\n" + "".join(sections)).encode()


def _section(table: reference.Table) -> str:
    """Its columns. Those of one type and one meaning share a line."""
    rows: list[tuple[list[str], str, str]] = []
    for one in table.columns:
        if one.name == "capture" and not table.aligned and table.name != "capture":
            continue  # of every table of one side, as the page says once
        alike = next((row for row in rows if row[1] == one.type and _belongs(one, row)), None)
        if alike:
            alike[0].append(one.name)
        else:
            rows.append(([one.name], one.type, one.text))
    lines = "\n".join(
        f"- {', '.join(f'`{name}`' for name in names)} {kind}{_escaped(text and f': {text}')}"
        for names, kind, text in rows
    )
    return f"\n## {table.name}\n{_marked(table)}{_escaped(table.text)}\n\n{lines}\n"


def _belongs(column: reference.Column, row: tuple[list[str], str, str]) -> bool:
    """Whether a column means what those of the row do, ends what they begin, or is their candidate's."""
    names, _, text = row
    if column.text == text:
        return True
    others = {name.replace("start", "end") for name in names}
    others |= {name.replace("baseline", "candidate") for name in names}
    return column.text in ("", "as of the baseline") and column.name in others


def _marked(table: reference.Table) -> str:
    return "*Measured.* " if table.measured else "*Both sides.* " if table.aligned else ""


def _escaped(text: str) -> str:
    return re.sub(r"([|\[\]<>*_])", r"\\\1", text)
