"""Where the steps of a table are in another one: by arrays, for joins of millions of rows are slow."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from tracediff.measure.intervals import Ints

STEP = ("side", "run", "part", "period")  # what names a step


class StepIndex:
    """The rows of a table with the columns of STEP, each step once."""

    def __init__(self, steps: pl.DataFrame) -> None:
        self._steps = steps

    @cached_property
    def _places(self) -> tuple[tuple[int, int, int], Ints, Ints, Ints]:
        """Sides, runs and parts; of each (side, run, part) its first place, and how many; of each place the row or -1."""
        side, run, part, period = (self._steps[name].to_numpy().astype(np.int64) for name in STEP)
        sides, runs, parts = (int(one.max(initial=0)) + 1 for one in (side, run, part))
        export = (side * runs + run) * parts + part
        many = np.zeros(sides * runs * parts, np.int64)
        np.maximum.at(many, export, period + 1)
        first = np.cumsum(many) - many
        row = np.full(int(many.sum()), -1, np.int64)
        row[first[export] + period] = np.arange(len(period))
        return (sides, runs, parts), first, many, row

    def rows(self, table: pl.DataFrame) -> Ints:
        """For each row of a table with the columns of STEP: the row of that step here, -1 where it is not."""
        (sides, runs, parts), first, many, row = self._places
        if not len(row):
            return np.full(len(table), -1, np.int64)
        side, run, part, period = (table[name].to_numpy() for name in STEP)
        export = (side * runs + run) * parts + part
        known = (side < sides) & (run < runs) & (part < parts)
        if not known.all():
            export = np.where(known, export, 0)
        known &= period < many[export]
        if not known.all():
            return np.where(known, row[np.where(known, first[export] + period, 0)], -1)
        return np.asarray(row[first[export] + period], np.int64)
