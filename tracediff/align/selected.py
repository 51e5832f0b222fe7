"""The ranks and steps of a timeline that are asked for. Periods stay whole, so that the accounting of those kept closes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from tracediff.align.timeline import Ints, Timeline, Unit
from tracediff.errors import TracediffError
from tracediff.load.selection import Selection


@dataclass(frozen=True)
class Kept:
    """How much of an export is measured: steps count once for each rank and device."""

    steps: int
    all_steps: int
    ranks: int
    all_ranks: int


def select(
    name: str, timeline: Timeline, steps: pl.DataFrame, selection: Selection
) -> tuple[Timeline, frozenset[int], Kept]:
    """Keep what is asked for: the timeline, the processes that are left out of it, and how much is kept.

    `steps`: pid, step, number of every step; a step without a number counts by its place in the process, from 1. Numbers of
    ranks stay what they are without a selection. Raises `TracediffError`: nothing-selected, step-numbers-repeat.
    """
    numbers = _numbers(steps) if selection.steps is not None else {}
    kept: list[Unit] = []
    for unit in timeline.units:
        if selection.has_rank(unit.rank):
            found = _cut(name, unit, numbers, selection)
            if found is not None:
                kept.append(found)
    if not kept:
        raise TracediffError(
            "nothing-selected", f"{name}: no whole step is selected", fix=_there(timeline.units, steps)
        )
    pids = {unit.pid for unit in kept}
    ranks = {unit.pid for unit in timeline.units}
    count = Kept(
        sum(len(unit.step) for unit in kept), sum(len(unit.step) for unit in timeline.units), len(pids), len(ranks)
    )  # fmt: skip
    return replace(timeline, units=kept), frozenset(ranks - pids), count


def _numbers(steps: pl.DataFrame) -> dict[int, Ints]:
    """Process -> the number of each of its steps, by `step`."""
    known = steps.sort("pid", "step").with_columns(pl.col("number").fill_null(pl.col("step") + 1))
    return {int(pid): own["number"].to_numpy() for (pid,), own in known.group_by("pid", maintain_order=True)}


def _cut(name: str, unit: Unit, numbers: dict[int, Ints], selection: Selection) -> Unit | None:
    if not selection.cuts_steps:
        return unit
    keep = np.ones(len(unit.step), np.bool_)
    if selection.steps is not None:
        number = numbers[unit.pid][unit.step]
        keep &= (number >= selection.steps[0]) & (number <= selection.steps[1])
    if selection.window is not None:
        keep &= (unit.bounds[:-1] >= selection.window[0]) & (unit.bounds[1:] <= selection.window[1])
    where = np.flatnonzero(keep)
    if not len(where):
        return None
    low, high = int(where[0]), int(where[-1]) + 1
    if high - low != len(where):
        raise TracediffError(
            "step-numbers-repeat",
            f"{name}: the steps of these numbers do not follow one another: the numbers of its labels begin again or jump back",
            fix="--window 1.5s-2.5s selects by time",
        )
    return replace(unit, bounds=unit.bounds[low : high + 1], step=unit.step[low:high])


def _there(units: list[Unit], steps: pl.DataFrame) -> str:
    """What could be selected."""
    numbers = _numbers(steps)
    found = np.concatenate([numbers[unit.pid][unit.step] for unit in units if unit.pid in numbers])
    low, high = min(int(unit.bounds[0]) for unit in units), max(int(unit.bounds[-1]) for unit in units)
    last = max(unit.rank for unit in units)
    told = f"its whole steps are {found.min()} to {found.max()}, " if len(found) else "its whole steps are "
    return f"{told}from {low / 1e9:.6f} s to {high / 1e9:.6f} s, of rank{'s 0 to ' + str(last) if last else ' 0'}"
