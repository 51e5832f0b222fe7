"""The idle time of all runs, by the numbers of one list of words: there may be millions of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.measure.sides import Side, parts_of, tagged

WORDS = ("cause", "thread", "place", "holder", "holder_place", "copy")


@dataclass(frozen=True)
class IdleRows:
    """rows: side, run, part, period, cell -> ns, count. words: a row a cell: WORDS, in their order."""

    rows: pl.DataFrame
    words: pl.DataFrame

    def of_sides(self, sides: int) -> IdleRows:
        """Those of the first sides."""
        return IdleRows(self.rows.filter(pl.col("side") < sides), self.words)

    def spelled(self, which: pl.Expr, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """The rows whose words fulfil a condition, with these words."""
        rows = self.rows if rows is None else rows
        chosen = self.words.select(which).to_series().to_numpy()
        mine = rows.filter(pl.Series(chosen[rows["cell"].to_numpy()], dtype=pl.Boolean))
        return pl.concat([mine, self.words[mine["cell"]]], how="horizontal")

    def threads(self) -> set[str]:
        """The threads that any of the rows is of."""
        return set(self.words[self.rows["cell"].unique()]["thread"].unique())


def idle_rows(sides: Sequence[Side], *, with_gil: bool) -> IdleRows:
    """The idle time of all runs.

    Without `with_gil` (one side was captured without it) waits for the GIL are counted as what they would be called had
    the GIL not been traced, on both sides.
    """
    parts = parts_of(sides)
    named = []
    for *_, part in parts:
        cells = part.cells
        if not with_gil:
            cells = cells.with_columns(cause=pl.col("under"), holder=pl.lit(""), holder_place=pl.lit(""))
        named.append(cells.select(WORDS))
    words = pl.concat(named).unique().sort(WORDS)
    numbered = words.with_row_index("number")
    frames = []
    for (side, run, number, part), cells in zip(parts, named, strict=True):
        place = cells.join(numbered, on=WORDS, how="left", maintain_order="left")["number"].to_numpy()
        cell = place.astype(np.int32)[part.idle_ns["cell"].to_numpy()]
        frames.append(
            tagged(part.idle_ns.with_columns(cell=pl.Series(cell, dtype=pl.Int32)), side, run, number)
        )
    return IdleRows(pl.concat(frames), words)
