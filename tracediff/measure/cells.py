"""Cells: the places where time goes, measured at every whole step, and their statistics between the sides.

A cell is a category, a (cause, place) of idle time, or a row of the kernel table. Values are ns a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from tracediff.align.strata import Strata
from tracediff.errors import TracediffError
from tracediff.measure.assumed_noise import assumed_half_width
from tracediff.measure.bootstrap import RunSteps, Summed, block_edges, bootstrap_ci, run_values, side_means
from tracediff.measure.intervals import Floats, Index, Ints
from tracediff.measure.statistics import benjamini_hochberg, run_level_interval, run_level_p, run_sd
from tracediff.measure.step_index import StepIndex
from tracediff.model import Evidence

ALPHA = 0.05
_SIDE_NAMES = ("baseline", "candidate", "A/A repeats")
MIN_CONFIRM = 3  # runs a side below which nothing is confirmed
TRIM_RUNS = 5  # runs a side from which trimmed means stand against one outlying run


@dataclass(frozen=True)
class Estimates:
    """Statistics of many cells, arrays over cells, ns a step; p and q are nan where they cannot be said."""

    baseline: Floats
    candidate: Floats
    low: Floats
    high: Floats
    p: Floats
    baseline_runs: Floats  # (runs, cells)
    candidate_runs: Floats
    noise: Floats  # half-width of run-to-run noise: from repeats, else assumed
    noise_source: str
    kinds: list[str]  # accounting category of each cell, for the assumed noise
    repeats: list[Floats]  # (runs, cells) that the noise was taken from; empty where it is assumed

    @property
    def delta(self) -> Floats:
        """Candidate - baseline."""
        return self.candidate - self.baseline

    def take(self, index: list[int]) -> Estimates:
        """Some of the cells, in this order."""
        columns = np.asarray(index, np.intp)
        return Estimates(
            self.baseline[columns],
            self.candidate[columns],
            self.low[columns],
            self.high[columns],
            self.p[columns],
            self.baseline_runs[:, columns],
            self.candidate_runs[:, columns],
            self.noise[columns],
            self.noise_source,
            [self.kinds[one] for one in index],
            [runs[:, columns] for runs in self.repeats],
        )


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


def estimate(frame: Frame, values: Sequence[Values], kinds: list[str], *, seed: int = 0) -> Estimates:
    """Means, interval, p and noise of each cell."""
    cells = len(kinds)
    one, other, *repeats = frame.sums(values, cells)
    baseline, candidate = side_means(one, frame.weights), side_means(other, frame.weights)
    low, high = bootstrap_ci(one, other, frame.weights, seed=seed) if cells else (baseline, candidate)
    runs_b, runs_c = run_values(one, frame.weights), run_values(other, frame.weights)
    p = run_level_p(runs_b, runs_c) if min(len(one), len(other)) >= 2 else np.full(cells, np.nan)
    given = [run_values(runs, frame.weights) for runs in repeats]
    noise, source = _noise(runs_b, runs_c, baseline, candidate, kinds, given)
    sources = [runs for runs in (given or [runs_b, runs_c]) if len(runs) >= 2]
    return Estimates(baseline, candidate, low, high, p, runs_b, runs_c, noise, source, kinds, sources)


def _noise(
    runs_b: Floats, runs_c: Floats, baseline: Floats, candidate: Floats, kinds: list[str], given: list[Floats]
) -> tuple[Floats, str]:
    """Half-width within which a delta may be run-to-run noise: given, from repeats of either side, or assumed."""
    assumed = np.array(
        [float(assumed_half_width(kind, b, c)) for kind, b, c in zip(kinds, baseline, candidate, strict=True)]
    )
    repeats = [runs for runs in (given or (runs_b, runs_c)) if len(runs) >= 2]
    if not repeats:
        return assumed, "assumed"
    return moderated_noise(repeats, assumed, len(runs_b), len(runs_c)), "given" if given else "repeats"


PRIOR_RUNS = 4  # how many degrees of freedom the assumed noise counts for


def moderated_noise(
    repeats: list[Floats], assumed: Floats, baseline_runs: int, candidate_runs: int
) -> Floats:
    """A/A floor from few repeats, steadied by the assumed noise (moderated t, Smyth 2004).

    Two runs say almost nothing of their own scatter: by themselves they would give a floor of 12.7 standard
    errors, or of none where they happen to agree. So the variance is that of the repeats and of the assumed
    half-width (95 % of the difference of two runs), weighted by degrees of freedom.
    """
    from scipy.special import stdtrit

    prior = (assumed / (1.96 * np.sqrt(2))) ** 2
    freedom = [len(runs) - 1 for runs in repeats]
    measured = sum(df * run_sd(runs) ** 2 for df, runs in zip(freedom, repeats, strict=True))
    df = PRIOR_RUNS + sum(freedom)
    variance = (PRIOR_RUNS * prior + measured) / df
    return np.asarray(stdtrit(df, 0.975) * np.sqrt(variance * (1 / baseline_runs + 1 / candidate_runs)))


def levels(cells: Estimates, total_ns: float, least_ns: float = 500.0) -> tuple[list[Evidence], Floats]:
    """How far each delta can be believed, and its q value (Benjamini-Hochberg over the cells).

    confirmed: >= 3 runs a side, q < 0.05 and the interval excludes 0. likely: fewer than 5 runs a side, and the
    delta exceeds the noise; with one run a side also the interval within the runs excludes 0. A delta under 0.1 % of the step (and under `least_ns`) is never more than noise.
    """
    q = benjamini_hochberg(cells.p)
    low_of, high_of = decisive_interval(cells)
    runs = min(len(cells.baseline_runs), len(cells.candidate_runs))
    floor = max(least_ns, 0.001 * total_ns)
    out: list[Evidence] = []
    for delta, low, high, one_q, noise in zip(cells.delta, low_of, high_of, q, cells.noise, strict=True):
        apart = low > 0 or high < 0
        if abs(delta) < floor:
            out.append("within_noise")
        elif apart and runs >= MIN_CONFIRM and one_q < ALPHA:  # nan compares false
            out.append("confirmed")
        elif abs(delta) > noise and runs < TRIM_RUNS and (apart or runs > 1):
            out.append("likely")
        else:
            out.append("within_noise")
    return out, q


def decisive_interval(cells: Estimates) -> tuple[Floats, Floats]:
    """The interval that decides: from five runs a side on the trimmed one, which one outlying run cannot widen."""
    if min(len(cells.baseline_runs), len(cells.candidate_runs)) < TRIM_RUNS:
        return cells.low, cells.high
    low, high = run_level_interval(cells.baseline_runs, cells.candidate_runs)
    return np.where(np.isnan(low), cells.low, low), np.where(np.isnan(high), cells.high, high)


def of_means(level: Sequence[Evidence], cells: Estimates) -> list[Evidence]:
    """Levels for a table that shows differences of means, which sum up as trimmed ones do not.

    Where one outlying run turns a mean against what the other runs say, the difference shown is that run's: noise.
    """
    low, high = decisive_interval(cells)
    against = cells.delta * (low + high) < 0  # nan compares false
    return ["within_noise" if other else one for one, other in zip(level, against, strict=True)]


def finite(value: float, instead: float) -> float:
    """A bound of an interval, or `instead` where it cannot be said (one step, nothing repeats)."""
    return float(instead) if np.isnan(value) else float(value)
