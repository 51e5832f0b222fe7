"""Text with latencies: CSV with a header, a number a line, an object a line."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from tracediff.errors import TracediffError
from tracediff.load.latencies_found import Found, bad_value, shown
from tracediff.load.latencies_json import parse, rows
from tracediff.load.latency_names import choose, is_latency

_MAX_COLUMNS = 512
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\Z|[-+]?(nan|inf|infinity)\Z", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+\Z")


def find(text: str, column: str | None, where: str) -> Found | None:
    """Return the latencies of a text, None where it is of no form that is known here.

    Raises `TracediffError`: latencies-column, latencies-bad-value, latencies-decimal-comma, latencies-empty.
    """
    lines = text.splitlines()
    kept = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not kept:
        raise TracediffError(
            "latencies-empty", f"{where}: there is no latency in it", fix="give a file with measurements"
        )
    if kept[0][1].lstrip().startswith(("{", "[")):
        return _json_lines(kept, column, where)
    delimiter = _delimiter(kept[0][1])
    if delimiter is None and is_number(kept[0][1].strip()):
        return _numbers([(number, line.strip()) for number, line in kept], "text", "", where)
    return _csv(kept, delimiter or ",", column, where)


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point; nan and inf are, so that they are refused by name."""
    return len(text) < 400 and _NUMBER.match(text) is not None


def _delimiter(line: str) -> str | None:
    return next((one for one in ("\t", ";", ",") if one in line), None)


def _json_lines(kept: Sequence[tuple[int, str]], column: str | None, where: str) -> Found | None:
    objects = []
    for number, line in kept:
        try:
            value = parse(line.encode())
        except ValueError:
            value = None
        if not isinstance(value, dict):
            if number == kept[0][0]:
                return None
            raise bad_value(where, f"line {number} is no JSON object: {shown(line.strip())}")
        objects.append(value)
    return rows(objects, column, where, "jsonl")


def _numbers(cells: Sequence[tuple[int, str]], form: str, name: str, where: str) -> Found:
    values = []
    for number, cell in cells:
        if not is_number(cell):
            if _DECIMAL_COMMA.match(cell):
                raise _comma(where, number, cell)
            raise bad_value(where, f"line {number} is {shown(cell) or 'empty'}: no number")
        values.append(float(cell))
    # lines that hold no value are left out, so the place of a value is counted among the values
    return Found(form, name, values)


def _comma(where: str, line: int, cell: str, *, or_columns: bool = False) -> TracediffError:
    """The error for a decimal comma; `or_columns`: the comma may as well stand between two columns."""
    other = ", or two columns and no header" if or_columns else ""
    names = (
        "; with two columns begin with a line of names, such as iteration,latency_ms" if or_columns else ""
    )
    return TracediffError(
        "latencies-decimal-comma",
        f"{where}: line {line} has a decimal comma{other}: {shown(cell)}",
        fix=f"write decimal points, as with LC_ALL=C{names}",
    )


def _csv(kept: Sequence[tuple[int, str]], delimiter: str, column: str | None, where: str) -> Found | None:
    try:
        table = list(
            csv.reader((line for _, line in kept), delimiter=delimiter, skipinitialspace=True, strict=True)
        )
    except csv.Error as error:
        raise bad_value(where, f"the CSV cannot be read: {error}") from error
    header = [cell.strip() for cell in table[0]]
    if all(is_number(cell) or _DECIMAL_COMMA.match(cell) for cell in header):
        if delimiter == "," and len(header) == 2:
            raise _comma(where, kept[0][0], kept[0][1].strip(), or_columns=True)
        if any(_DECIMAL_COMMA.match(cell) for cell in header):
            raise _comma(where, kept[0][0], next(cell for cell in header if _DECIMAL_COMMA.match(cell)))
        raise TracediffError(
            "latencies-column",
            f"{where}: {len(header)} numbers a line and no header",
            fix="begin with a line of names, such as iteration,latency_ms",
        )
    if len(header) > _MAX_COLUMNS or len(set(header)) < len(header):
        raise TracediffError(
            "latencies-column", f"{where}: too many columns, or two of one name", fix="one name a column"
        )
    body = table[1:]
    if not body:
        raise TracediffError(
            "latencies-empty", f"{where}: a header and no line below it", fix="give measurements"
        )
    numeric = [name for place, name in enumerate(header) if _holds_numbers(body, place)]
    if not numeric and not any(is_latency(name) for name in header):
        return None
    chosen = choose(numeric, column, where)
    place = header.index(chosen)
    numbers = (
        [number for number, _ in kept[1:]] if len(body) == len(kept) - 1 else list(range(2, len(body) + 2))
    )
    cells = []
    for number, row in zip(numbers, body, strict=True):
        if len(row) != len(header):
            raise bad_value(where, f"line {number} has {len(row)} columns, the header {len(header)}")
        cells.append((number, row[place].strip()))
    return _numbers(cells, "csv", chosen, where)


def _holds_numbers(body: Sequence[Sequence[str]], place: int) -> bool:
    """Whether half of a column or more are numbers: one that is none is then named, not passed over."""
    cells = [row[place].strip() for row in body[:1000] if place < len(row)]
    good = sum(is_number(cell) or _DECIMAL_COMMA.match(cell) is not None for cell in cells)
    return bool(cells) and 2 * good >= len(cells)
