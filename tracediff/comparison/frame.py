"""The compared steps, and sums over them: of runs and strata, in the blocks that the bootstrap draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats, Index, Ints
from tracediff.accounting.reduction import StepIndex
from tracediff.comparison.strata import Strata
from tracediff.errors import TracediffError
from tracediff.stats.bootstrap import RunSteps, Summed, block_edges

_SIDE_NAMES = ("baseline", "candidate", "A/A repeats")


class Values(NamedTuple):
    """What steps spend in cells: arrays of one length. A step and cell may turn up more than once."""

    step: Ints  # row of `Frame.steps`, -1: not compared
    cell: Index
    ns: Floats | Ints


@dataclass
class Frame:
    """The compared steps in a fixed order: for each side and run, group -> positions of its steps."""

    steps: pl.DataFrame  # side, run, part, period, group, rank
    runs: tuple[int, ...]  # runs of the baseline, the candidate and, where given, the A/A repeats
    weights: dict[int, float]

    def factors(self) -> pl.DataFrame:
        """side, run, group -> factor: what a step counts for in the standardised mean of its side."""
        steps = self.steps.group_by("side", "run", "group").agg(pl.len().alias("steps"))
        runs = steps.group_by("side", "group").agg(pl.len().alias("runs"))
        weights = pl.DataFrame(
            {"group": list(self.weights), "weight": list(self.weights.values())},
            schema={"group": pl.Int64, "weight": pl.Float64},
        )
        return steps.join(runs, on=["side", "group"]).join(weights, on="group").select(
            "side", "run", "group", factor=pl.col("weight") / (pl.col("steps") * pl.col("runs"))
        )  # fmt: skip

    def runs_of_rank(self, cell: pl.DataFrame, rank: int) -> tuple[list[float], list[float], float, float]:
        """Time a step on one rank, ns: of each run of the baseline and of the candidate, and their means.

        `cell`: side, run, rank, group, ns of one cell in compared steps. Standardised like all means, over the
        groups that the rank has.
        """
        keys = ["side", "run", "group"]
        steps = self.steps.filter(pl.col("rank") == rank).group_by(keys).agg(pl.len().alias("steps"))
        sums = cell.filter(pl.col("rank") == rank).group_by(keys, maintain_order=True).agg(pl.col("ns").sum())
        table = steps.join(sums, on=keys, how="left").sort(keys)
        runs: list[list[float]] = [[], []]
        for side in (0, 1):
            for run in range(self.runs[side]):
                mine = table.filter((pl.col("side") == side) & (pl.col("run") == run))
                if not len(mine):
                    continue  # the rank has no compared step in that run
                weights = np.array([self.weights[group] for group in mine["group"]])
                means = (mine["ns"].fill_null(0) / mine["steps"]).to_numpy()
                runs[side].append(float(weights @ means / weights.sum()))
        sides = [float(np.mean(one)) if one else 0.0 for one in runs]
        return runs[0], runs[1], sides[0], sides[1]

    @cached_property
    def index(self) -> StepIndex:
        """Where the compared steps are."""
        return StepIndex(self.steps)

    @cached_property
    def _blocks(self) -> tuple[Ints, dict[tuple[int, int, int], tuple[slice, int]]]:
        """Neighbouring steps of a run and group in blocks (see bootstrap.block_edges).

        The block of each step, and of each (side, run, group) its blocks and how many steps they have.
        """
        code = self.steps.select(pl.struct("side", "run", "group").rank("dense") - 1).to_series().to_numpy()
        order = np.argsort(code, kind="stable")  # steps of a run come in order of time
        block = np.empty(len(code), np.int64)
        found: dict[tuple[int, int, int], tuple[slice, int]] = {}
        first = 0
        for mine in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            edges = block_edges(len(mine), len(self.weights))
            block[mine] = first + np.repeat(np.arange(len(edges)), np.diff(edges, append=len(mine)))
            key = self.steps.select("side", "run", "group").row(int(mine[0]))
            found[key] = slice(first, first + len(edges)), len(mine)
            first += len(edges)
        return block, found

    def sums(self, values: Sequence[Values], cells: int) -> list[list[RunSteps]]:
        """What steps spend in cells -> for each run the sums of its blocks of steps, by group."""
        block, found = self._blocks
        size = max((where.stop for where, _ in found.values()), default=0)
        table = np.zeros(size * cells)
        for one in values:
            inside = one.step >= 0
            at = block[one.step[inside]] * cells + one.cell[inside]
            table += np.bincount(at, weights=one.ns[inside], minlength=size * cells)
        rows = table.reshape(size, cells)
        sides: list[list[RunSteps]] = [[] for _ in self.runs]
        for side, many in enumerate(self.runs):
            for run in range(many):
                mine = {key[2]: value for key, value in found.items() if key[:2] == (side, run)}
                sides[side].append(
                    RunSteps({group: Summed(rows[where], steps) for group, (where, steps) in mine.items()})
                )
        return sides


def values_of_steps(frame: Frame, steps: pl.DataFrame, column: str = "ns", cell: int = 0) -> Values:
    """A column of a table of steps (side, run, part, period, ...) as the values of one cell."""
    return Values(frame.index.rows(steps), np.full(len(steps), cell), steps[column].to_numpy())


def build_frame(steps: pl.DataFrame, strata: Strata, runs: tuple[int, ...]) -> Frame:
    """Fix the order of the compared steps: by run, rank, device and time."""
    located = (
        strata.locate(steps).filter(pl.col("group") >= 0).sort("side", "run", "rank", "device", "start_ns")
    )
    for side in range(len(runs)):
        for run in sorted(set(range(runs[side])) - set(located.filter(pl.col("side") == side)["run"])):
            raise TracediffError(
                "run-without-steps",
                f"run {run + 1} of the {_SIDE_NAMES[side]} has no step of a workload that is compared",
                fix="leave that run out, or capture a longer window",
            )
    return Frame(located.select("side", "run", "part", "period", "group", "rank"), runs, strata.weights)
