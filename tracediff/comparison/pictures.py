"""What the picture of every step is drawn from: every whole step of both sides in order, with what its time was, in few columns whatever their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduction import STEP
from tracediff.comparison.cells import Layout
from tracediff.comparison.frame import Frame
from tracediff.comparison.shown import ROWS
from tracediff.model import CATEGORIES
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.model.pictures import StepStrip, StripColumn
from tracediff.steps.timelines import Selected, most_changed

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
    units = most_changed(steps, _UNIT, sides)
    if not units:
        return None
    rank, device = units[0]
    left_out = len({one for one, _ in units}) - 1
    own = steps.filter(rank=rank, device=device).sort("side", "run", "part", "start_ns")
    known = [name for name in CATEGORIES if own[name].sum()]
    of_sides = [own.filter(pl.col("side") == side) for side in range(sides)]
    width = _width(*(one.group_by("run").len()["len"].to_list() for one in of_sides))
    columns = [
        [
            column
            for run in one.partition_by("run", maintain_order=True)
            for column in _columns(run, width, known, shown)
        ]
        for one in of_sides
    ]
    return StepStrip(rank, device, left_out, known, columns[0], columns[1] if sides > 1 else ABSENT)


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


def _width(*sides: list[int]) -> int:
    """How many steps share a column, so that the runs of each side have no more than `ROWS` columns."""
    width = max(max(-(-sum(runs) // ROWS) for runs in sides), 1)
    while any(sum(-(-steps // width) for steps in runs) > max(ROWS, len(runs)) for runs in sides):
        width += 1
    return width


def _columns(
    steps: pl.DataFrame, width: int, categories: list[str], shown: dict[Place, int]
) -> Iterator[StripColumn]:
    """The columns of the steps of a run, of `width` steps each."""
    ns, start = (steps[name].to_numpy() for name in ("ns", "start_ns"))
    places = steps.select(STEP).rows()
    firsts = range(0, len(steps), width)
    longest = [first + int(np.argmax(ns[first : first + width])) for first in firsts]
    for first, row in zip(firsts, steps[longest].iter_rows(named=True), strict=True):
        mine = slice(first, first + width)
        length: Ints = ns[mine]
        yield StripColumn(
            run=row["run"],
            start_ns=int(start[first]),
            end_ns=int(start[mine][-1] + length[-1]),
            steps=len(length),
            number=row["number"],
            phase=row["phase"],
            ns=row["ns"],
            parts=[int(row[name]) for name in categories],
            median_ns=int(np.sort(length)[(len(length) - 1) // 2]),
            timeline=next((shown[one] for one in places[mine] if one in shown), None),
        )
