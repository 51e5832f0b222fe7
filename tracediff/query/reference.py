"""What each table is called and what its columns mean: the comment that each of sql/*.sql begins with, and nothing else says it.

First a description, then a line a column (or several of one meaning): `--   name TYPE  comment`; a line that is indented further
goes on with the comment above it. `query --schema`, docs/sql.md and the hints of the guard come from here.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from pathlib import Path

import tracediff
from tracediff.formats.database import sql

# In the order in which they are documented. Those of MEASURED take a measurement of the export, as `compare` makes it.
EVENTS = (
    "op", "kernel", "launch", "api_call", "range", "gil", "gc", "thread", "process", "device", "step", "capture",
)  # fmt: skip
MEASURED = (
    "period", "idle", "idle_by_step", "kernel_by_step", "range_by_step", "api_by_step", "gil_wait_by_step",
)  # fmt: skip

# The files that define the accounting, in the order of running. The engine computes the same numbers with arrays, in a twentieth of
# the time; tests hold the two together.
DEFINITIONS = tuple(
    f"accounting/{path.stem}"
    for path in sorted((Path(tracediff.__file__).parent / "accounting" / "sql").glob("[0-9]*.sql"))
)

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
    """A table, or a view of others."""

    name: str
    text: str
    columns: tuple[Column, ...]
    sql: str

    @property
    def measured(self) -> bool:
        """Whether it takes a measurement of the export."""
        return self.name in MEASURED

    @property
    def stored(self) -> bool:
        """Whether its rows are those of each export; else it is a view of other tables."""
        return "{{capture}}" in self.sql


@functools.cache
def tables() -> tuple[Table, ...]:
    """Every table, in the order of the documentation."""
    return tuple(map(_read, (*EVENTS, *MEASURED)))


def table(name: str) -> Table | None:
    """The table of that name, whatever the case of its letters."""
    return next((one for one in tables() if one.name == name.lower()), None)


def _read(name: str) -> Table:
    text = sql(f"query/{name}")
    words: list[str] = []
    columns: list[Column] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if found := _COLUMN.match(line):
            columns += [Column(one, found["type"], found["text"] or "") for one in found["names"].split(", ")]
        elif columns and (more := _MORE.match(line)):
            columns[-1] = replace(columns[-1], text=f"{columns[-1].text} {more[1]}")
        else:
            words.append(line.removeprefix("--").strip())
    said = " ".join(words).strip().removeprefix(f"{name}: ")
    return Table(name, said[:1].upper() + said[1:], tuple(columns), text)


def definitions() -> list[tuple[str, str, str]]:
    """File, name and first line of the description of each table of `DEFINITIONS`."""
    return [
        (file.rpartition("/")[2], *found)
        for file in DEFINITIONS
        for found in re.findall(r"^-- (\w+): (.*)$", sql(file), re.MULTILINE)
    ]
