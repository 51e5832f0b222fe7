"""Estimates of many cells at once, and how far each difference can be believed.

A cell is one number per step of each side, ns; the run is the unit of replication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from tracediff.model import Evidence
from tracediff.stats.bootstrap import Floats
from tracediff.stats.tests import benjamini_hochberg, run_level_interval

ALPHA = 0.05
MIN_CONFIRM = 3  # runs a side below which nothing is confirmed
TRIM_RUNS = 5  # runs a side from which trimmed means stand against one outlying run
Robust: TypeAlias = tuple[Floats, Floats, Floats]


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
            [runs[:, columns] for runs in self.repeats],
        )


def levels(cells: Estimates, total_ns: float, least_ns: float = 500.0) -> tuple[list[Evidence], Floats]:
    """How far each delta can be believed, and its q value (Benjamini-Hochberg over the cells).

    confirmed: >= 3 runs a side, q < 0.05 and the interval excludes 0. likely: fewer than 5 runs a side, and the
    delta exceeds the noise; with one run a side also the interval within the runs excludes 0. A delta under 0.1 % of the step (and under `least_ns`) is
    never more than noise.
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


class Shown(NamedTuple):
    """The delta and interval that a finding shows; `apart`: one outlying run was left out of them."""

    delta: float
    low: float
    high: float
    apart: bool = False


def shown(cells: Estimates, column: int, level: Evidence, robust: Robust | None) -> Shown:
    """The mean's delta, or from five runs a side the trimmed one where an outlying run moves the mean."""
    delta = float(cells.delta[column])
    if robust is not None and level in ("confirmed", "likely"):
        middle, low, high = (float(one[column]) for one in robust)
        if abs(middle - delta) > 0.1 * abs(middle):
            return Shown(middle, low, high, apart=True)
    return Shown(delta, finite(cells.low[column], delta), finite(cells.high[column], delta))


def robust_estimates(cells: Estimates) -> Robust | None:
    """Middle, low and high of the trimmed difference of every cell; None with too few runs to trim."""
    if min(len(cells.baseline_runs), len(cells.candidate_runs)) < TRIM_RUNS:
        return None
    low, high = run_level_interval(cells.baseline_runs, cells.candidate_runs)
    return (low + high) / 2, low, high
