"""The tables of `tracediff query`: what they are called and what their columns mean, from the headers of sql/query/*.sql.

A header is a comment: a description, then a line a column (or several of one meaning): `--   name TYPE  comment`; a
line that is indented further goes on with the comment above it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tracediff.formats.database import sql

# In the order in which they are documented. Those of MEASURED cost a measurement of the export, as `compare` makes it.
EVENTS = {
    "op": "query/op",
    "kernel": "query/kernel",
    "launch": "query/launch",
    "api_call": "query/api_call",
    "range": "query/range",
    "gil": "query/gil",
    "gc": "query/gc",
    "thread": "query/thread",
    "process": "query/process",
    "device": "query/device",
    "step": "query/step",
    "capture": "query/capture",
}
MEASURED = {
    "period": "query/period",
    "idle": "query/idle",
    "idle_by_step": "query/idle_by_step",
    "kernel_by_step": "query/kernel_by_step",
    "range_by_step": "query/range_by_step",
    "api_by_step": "query/api_by_step",
    "gil_wait_by_step": "query/gil_wait_by_step",
}
TABLES = {**EVENTS, **MEASURED}

_COLUMN = re.compile(r"--   (?P<names>\w+(?:, \w+)*) +(?P<type>[A-Z]+(?:\[\])?)(?: +(?P<text>\S.*))?$")
_MORE = re.compile(r"-- {6,}(\S.*)$")


@dataclass(frozen=True)
class Column:
    """A column: its DuckDB type, and what it means with its unit; empty where the name says it all."""

    name: str
    type: str
    text: str


@dataclass(frozen=True)
class Table:
    """A table or view."""

    name: str
    text: str
    columns: tuple[Column, ...]
    measured: bool


@functools.cache
def tables() -> tuple[Table, ...]:
    """Every table, in the order of the documentation."""
    return tuple(_read(name, path) for name, path in TABLES.items())


def table(name: str) -> Table | None:
    """The table of that name, whatever the case of its letters."""
    return next((one for one in tables() if one.name == name.lower()), None)


def _read(name: str, path: str) -> Table:
    lines = [line for line in _header(sql(path)) if line != "--"]
    words, columns = [], []
    for line in lines:
        column, more = _COLUMN.match(line), _MORE.match(line)
        if column:
            text = column["text"] or ""
            columns += [Column(one, column["type"], text) for one in column["names"].split(", ")]
        elif columns and more:
            last = columns[-1]
            columns[-1] = Column(last.name, last.type, f"{last.text} {more[1]}")
        else:
            assert not columns, f"{path}: {line}"
            words.append(line.removeprefix("--").strip())
    text = " ".join(words)
    assert text.startswith(f"{name}: ") and columns, path
    return Table(name, _sentence(text.removeprefix(f"{name}: ")), tuple(columns), name in MEASURED)


def _header(text: str) -> list[str]:
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return lines[:end]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
