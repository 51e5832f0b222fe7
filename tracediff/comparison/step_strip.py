"""Every whole step of both sides in order, with what its time was: few columns, whatever the number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduction import STEP
from tracediff.comparison.cells import Measured
from tracediff.model import CATEGORIES
from tracediff.model.causes import BUSY
from tracediff.model.pictures import StepStrip, StripColumn
from tracediff.steps.timelines import Selected

COLUMNS = 240  # a side
_UNIT = ["rank", "device"]

Place = tuple[int, int, int, int]  # of a step: STEP


def step_strip(measured: Measured, drawn: Sequence[Selected] = ()) -> StepStrip | None:
    """The strip of the rank whose idle time changed most; None where no rank has steps on both sides. `drawn`: of the timelines."""
    steps = _with_categories(measured)
    shown = {
        (side, step.run, step.part, step.period): number
        for number, one in reversed(list(enumerate(drawn)))
        for side, step in enumerate(one.steps)
        if step is not None
    }
    unit, left_out = _unit(steps)
    if unit is None:
        return None
    own = steps.filter((pl.col("rank") == unit[0]) & (pl.col("device") == unit[1])).sort(
        "side", "run", "start_ns"
    )
    known = [name for name in CATEGORIES if own[name].sum()]
    many = own.group_by("side", "run").len()
    width = _width(
        many.filter(pl.col("side") == 0)["len"].to_list(), many.filter(pl.col("side") == 1)["len"].to_list()
    )
    sides = [_columns(own.filter(pl.col("side") == side), known, width, shown) for side in (0, 1)]
    return StepStrip(*unit, left_out, known, *sides)


def _with_categories(measured: Measured) -> pl.DataFrame:
    """Every whole step of the two sides with its ns by category."""
    frame, layout = measured.frame, measured.layout
    rows, size = layout.idle_rows, len(frame.steps)
    names = [name for name in CATEGORIES if name not in BUSY]
    number = {name: at for at, name in enumerate(names)}
    of_cell = np.array([number.get(kind, 0) for kind in layout.kinds])
    at = rows["step"].to_numpy() * len(names) + of_cell[rows["cell"].to_numpy()]
    sums = np.zeros(size * len(names), np.int64)
    np.add.at(sums, at, rows["ns"].to_numpy())
    idle = sums.reshape(size, len(names))
    columns = [pl.Series(name, idle[:, place]) for name, place in number.items()]
    return frame.steps.with_columns(columns).filter(pl.col("side") < 2)


def _unit(steps: pl.DataFrame) -> tuple[tuple[int, int] | None, int]:
    """The rank and device to show: the own work and idle time of its steps changed most; and how many ranks are not shown."""
    idle = pl.col("ns") - pl.sum_horizontal(BUSY)
    means = (
        steps.with_columns(idle=idle)
        .group_by(*_UNIT, "side", maintain_order=True)
        .agg(pl.col("idle").mean())
        .sort(*_UNIT, "side")
    )
    found: dict[tuple[int, int], list[float]] = {}
    for rank, device, _, value in means.iter_rows():
        found.setdefault((rank, device), []).append(value)
    both = {unit: abs(values[1] - values[0]) for unit, values in found.items() if len(values) == 2}
    if not both:
        return None, 0
    return min(both, key=lambda unit: (-both[unit], unit)), len({rank for rank, _ in both}) - 1


def _width(*sides: list[int]) -> int:
    """How many steps share a column, so that the runs of each side have no more than COLUMNS columns."""
    width = max(max(-(-sum(runs) // COLUMNS) for runs in sides), 1)
    while any(sum(-(-steps // width) for steps in runs) > max(COLUMNS, len(runs)) for runs in sides):
        width += 1
    return width


def _columns(
    steps: pl.DataFrame, categories: list[str], width: int, shown: dict[Place, int]
) -> list[StripColumn]:
    return [
        _column(chunk, categories, shown)
        for run in steps.partition_by("run", maintain_order=True)
        for chunk in run.iter_slices(width)
    ]


def _column(steps: pl.DataFrame, categories: list[str], shown: dict[Place, int]) -> StripColumn:
    ns: Ints = steps["ns"].to_numpy()
    longest: dict[str, Any] = steps.row(int(np.argmax(ns)), named=True)
    return StripColumn(
        run=longest["run"],
        start_ns=int(steps["start_ns"][0]),
        end_ns=int(steps["start_ns"][-1] + ns[-1]),
        steps=len(steps),
        number=longest["number"],
        phase=longest["phase"],
        ns=longest["ns"],
        parts=[int(longest[name]) for name in categories],
        median_ns=int(np.sort(ns)[(len(ns) - 1) // 2]),
        timeline=next((shown[one] for one in steps.select(STEP).iter_rows() if one in shown), None),
    )
