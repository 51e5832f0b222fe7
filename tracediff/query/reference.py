"""What each table is called and what its columns mean: the comment that each of sql/*.sql and comparison/sql/aligned_*.sql begins with.

First a description, then a line a column (or several of one meaning): `--   name TYPE  comment`; a line that is indented further
goes on with the comment above it. `query --schema`, docs/sql.md and the hints of the guard come from here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tracediff.formats.database import sql

# In the order in which they are documented. Those of MEASURED take a measurement of the export, as `compare` makes it.
EVENTS = (
    "op", "kernel", "launch", "gap", "api_call", "range", "gil", "gc", "thread", "process", "device", "step", "capture",
)  # fmt: skip
MEASURED = (
    "period", "idle", "idle_by_step", "kernel_by_step", "range_by_step", "api_by_step", "gil_wait_by_step",
)  # fmt: skip
# Both sides side by side, as `compare` puts them: with two captures, and without the name of a side.
ALIGNED = (
    "aligned_kernel", "aligned_copy", "aligned_call", "aligned_launch", "aligned_transition", "aligned_structure", "aligned_range",
    "aligned_idle", "aligned_gap", "aligned_gil", "aligned_gil_pair", "aligned_gc", "aligned_thread", "aligned_step", "aligned_rank", "aligned_group",
    "aligned_os_call", "aligned_off_cpu", "aligned_comm_call", "aligned_host_work", "aligned_memory", "aligned_payload",
)  # fmt: skip

_COLUMN = re.compile(r"--   (?P<names>\w+(?:, \w+)*) +(?P<type>[A-Z]+(?:\[\])?)(?: +(?P<text>\S.*))?$")
_MORE = re.compile(r"-- {6,}(\S.*)$")


class Column(msgspec.Struct, frozen=True):
    """A column: its DuckDB type, and what it means with its unit; empty where the name says it all."""

    name: str
    type: str
    text: str


class Table(msgspec.Struct, frozen=True):
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
    def aligned(self) -> bool:
        """Whether it puts both sides side by side."""
        return self.name in ALIGNED

    @property
    def stored(self) -> bool:
        """Whether its rows are those of each export; else it is a view of other tables."""
        return "{{capture}}" in self.sql


@functools.cache
def tables() -> tuple[Table, ...]:
    """Every table of a side, in the order of the documentation."""
    return tuple(_read(name, "query") for name in (*EVENTS, *MEASURED))


@functools.cache
def aligned() -> tuple[Table, ...]:
    """Every table of both sides."""
    return tuple(_read(name, "comparison") for name in ALIGNED)


def table(name: str) -> Table | None:
    """The table of that name, whatever the case of its letters."""
    return next((one for one in (*tables(), *aligned()) if one.name == name.lower()), None)


def names(text: str, tables: Iterable[str]) -> bool:
    """Whether SQL may name one of some tables."""
    return re.search(rf"\b({'|'.join(tables)})\b", text, re.IGNORECASE) is not None


def _read(name: str, package: str) -> Table:
    text = sql(f"{package}/{name}")
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
