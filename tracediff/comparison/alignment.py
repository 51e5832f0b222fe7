"""Baseline and candidate side by side: the views of sql/aligned_*.sql, in one DuckDB over the small tables of reductions.

A view is what `compare` reports and what `tracediff query` offers. Each is one file: it sums the rows of a side per step, with the
weights of steps that Python computed, and joins the sides by what is the same on both: the place of a range, the role of a thread, a
function, a kernel. `side` is 0 for the baseline and 1 for the candidate; one side alone is a baseline.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import polars as pl
from msgspec.structs import replace

from tracediff.formats.database import create_table, sql
from tracediff.kernels.matching import Match, Matching, PhaseOps, normalise, pair_kernels

_SHARED = ("kernel_match", "aligned_kernel", "aligned_call", "aligned_range")  # other views are made of these
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


# Kernels: which op stands for which is Python's, for it takes the alignment of sequences; how sure a row is follows from its pairs.


def match_kernels(baseline: Mapping[str, PhaseOps], candidate: Mapping[str, PhaseOps]) -> Matching:
    """Match the ops of both sides (phase -> its ops), in tiers: see kernels/matching.py and sql/kernel_match.sql."""
    found = pair_kernels(baseline, candidate)
    tiers = Alignment({"kernel_pair": lambda: kernel_pairs(found.rows)}).rows("kernel_match")
    rows = [
        replace(row, match=tier["match"], confidence=tier["confidence"])
        for row, tier in zip(found.rows, tiers, strict=True)
    ]
    return replace(found, rows=rows)


_PAIR = {
    "row": pl.Int64, "pair": pl.Int64, "side": pl.Int64, "number": pl.Int64, "name": pl.String, "grid": pl.String, "block": pl.String,
    "template": pl.String,
}  # fmt: skip


def kernel_pairs(rows: Sequence[Match]) -> pl.DataFrame:
    """The pairs of some rows: row, pair, side, number -> name, grid, block and template of one op."""
    found = []
    for number, row in enumerate(rows):
        # where the names are the same, the templates are: most rows need none
        same = {op.name for op in row.baseline} == {op.name for op in row.candidate}
        for at, pair in enumerate(row.pairs):
            for side, ops in enumerate(pair):
                for nth, op in enumerate(ops):
                    template = op.name if same else normalise(op.name)
                    found.append((number, at, side, nth, op.name, op.grid, op.block, template))
    return pl.DataFrame(found, schema=_PAIR, orient="row")
