"""Every whole step of both sides in order, with what its time was: few columns, whatever the number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduction import STEP
from tracediff.comparison.cells import Layout
from tracediff.comparison.frame import Frame
from tracediff.model import CATEGORIES
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.model.pictures import StepStrip, StripColumn
from tracediff.steps.timelines import Selected

COLUMNS = 400  # a side
_UNIT = ["rank", "device"]

Place = tuple[int, int, int, int]  # of a step: STEP


def step_strip(
    frame: Frame, layout: Layout, drawn: Sequence[Selected] = (), *, sides: int = 2
) -> StepStrip | None:
    """The strip of the rank whose idle time changed most, or of the one side's that is idle longest.

    None where no rank has steps on every side. `drawn`: the steps of the timelines.
    """
    steps = _with_categories(frame, layout).filter(pl.col("side") < sides)
    shown = {
        (side, step.run, step.part, step.period): number
        for number, one in reversed(list(enumerate(drawn)))
        for side, step in enumerate(one.steps)
        if step is not None
    }
    unit, left_out = _unit(steps, sides)
    if unit is None:
        return None
    own = steps.filter((pl.col("rank") == unit[0]) & (pl.col("device") == unit[1])).sort(
        "side", "run", "start_ns"
    )
    known = [name for name in CATEGORIES if own[name].sum()]
    of_sides = [own.filter(pl.col("side") == side) for side in range(sides)]
    width = _width(*(one.group_by("run").len()["len"].to_list() for one in of_sides))
    columns = [_columns(one, known, width, shown) for one in of_sides]
    return StepStrip(*unit, left_out, known, columns[0], columns[1] if sides > 1 else ABSENT)


def _with_categories(frame: Frame, layout: Layout) -> pl.DataFrame:
    """Every whole step with its ns by category."""
    rows, size = layout.idle_rows, len(frame.steps)
    names = [name for name in CATEGORIES if name not in BUSY]
    number = {name: at for at, name in enumerate(names)}
    of_cell = np.array([number.get(kind, 0) for kind in layout.kinds])
    at = rows["step"].to_numpy() * len(names) + of_cell[rows["cell"].to_numpy()]
    sums = np.zeros(size * len(names), np.int64)
    np.add.at(sums, at, rows["ns"].to_numpy())
    idle = sums.reshape(size, len(names))
    return frame.steps.with_columns([pl.Series(name, idle[:, place]) for name, place in number.items()])


def _unit(steps: pl.DataFrame, sides: int) -> tuple[tuple[int, int] | None, int]:
    """The rank and device to show: the idle time of its steps changed most, or of one side is longest; and how many ranks are not shown."""
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
    both = {
        unit: abs(values[-1] - sum(values[:-1])) for unit, values in found.items() if len(values) == sides
    }
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
