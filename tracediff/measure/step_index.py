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
    def _places(self) -> tuple[Ints, Ints, Ints]:
        """Of (side, run, part) the first place and how many there are; of each place the row, -1 none."""
        side, run, part, period = (self._steps[name].to_numpy().astype(np.int64) for name in STEP)
        shape = tuple(int(one.max(initial=0)) + 1 for one in (side, run, part))
        export = np.ravel_multi_index((side, run, part), shape)
        many = np.zeros(shape, np.int64).reshape(-1)
        np.maximum.at(many, export, period + 1)
        first = np.cumsum(many) - many
        row = np.full(int(many.sum()), -1, np.int64)
        row[first[export] + period] = np.arange(len(period))
        return first.reshape(shape), many.reshape(shape), row

    def rows(self, table: pl.DataFrame) -> Ints:
        """For each row of a table with the columns of STEP: the row of that step here, -1 where it is not."""
        first, many, row = self._places
        if not len(row):
            return np.full(len(table), -1, np.int64)
        side, run, part, period = (table[name].to_numpy() for name in STEP)
        known = (side < many.shape[0]) & (run < many.shape[1]) & (part < many.shape[2])
        at = (np.where(known, side, 0), np.where(known, run, 0), np.where(known, part, 0))
        known &= period < many[at]
        return np.where(known, row[np.where(known, first[at] + period, 0)], -1)
