"""Baseline and candidate side by side: the views of sql/aligned_*.sql, in one DuckDB over the small tables of reductions.

A view is what `compare` reports and what `tracediff query` offers. Each is one file: it sums the rows of a side per step, with the
weights of steps that Python computed, and joins the sides by what is the same on both: the place of a range, the role of a thread, a
function, a kernel. `side` is 0 for the baseline and 1 for the candidate; one side alone is a baseline.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import polars as pl

from tracediff.formats.database import create_table, sql

_SHARED = ("aligned_kernel", "aligned_call", "aligned_range")  # other views are made of these
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,  # of small tables a second one costs more than it saves; sums have the same bits every time
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all: each alignment has a connection with temporary tables of its own."""
    return duckdb.connect(":memory:", config=_CONFIG)


class Alignment:
    """The views over some tables, each of which is made when a view first asks for it."""

    def __init__(self, tables: Mapping[str, Callable[[], pl.DataFrame]]) -> None:
        self._tables = dict(tables)
        self._db = _database().cursor()
        self._db.execute(sql("comparison/per_step"))
        self._made: set[str] = set()

    def frame(self, view: str) -> pl.DataFrame:
        """The rows of a view, in its order."""
        return pl.DataFrame(self._db.sql(self._text(view)))

    def rows(self, view: str) -> list[dict[str, Any]]:
        """The rows of a view, in its order, by the names of the columns."""
        found = self._db.execute(self._text(view))
        names = [one[0] for one in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def _text(self, view: str) -> str:
        if view in _SHARED:
            self._make(view)
            return f"FROM {view}"
        text = sql(f"comparison/{view}")
        self._need(text)
        return text

    def _need(self, text: str) -> None:
        """Make the tables that a query names."""
        for name in dict.fromkeys(re.findall(r"(?:FROM|JOIN) (\w+)", text)):
            if name in self._tables or name in _SHARED:
                self._make(name)

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        self._made.add(name)
        if name not in self._tables:
            text = sql(f"comparison/{name}")
            self._need(text)
            self._db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {text}")
            return
        create_table(self._db, name, self._tables[name](), temporary=True)
