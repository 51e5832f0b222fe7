"""Tests over many figures, and what a number of runs can show; knows nothing of traces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracediff.arrays import Floats
from tracediff.stats.rules import MOST_RUNS
from tracediff.stats.student import above, quantile, shift_for

ALPHA = 0.05  # by convention: of a test, of false discoveries, and of the ways to deal the runs out
WANTED = 0.02  # of what is compared: the change for which a number of runs is advised; a choice
ODD = 6.0  # robust standard deviations from which a run lies apart: by chance in 6 of 100 pairs of five normal runs a side, in 2 of eight


def detectable(error: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """The change that such a standard error shows in four of five tests, from the noncentral t distribution."""
    return np.asarray(np.asarray(error) * shift_for(df, quantile(df, 1 - ALPHA / 2), 0.8))


def robust(distances: Floats) -> float:
    """The standard deviation of normal data whose distances from the middle have this median."""
    return 1.4826 * float(np.median(np.abs(distances)))


def holm(p: Sequence[float]) -> list[float]:
    """P values corrected for their number (Holm 1979)."""
    order = sorted(range(len(p)), key=lambda at: p[at])
    out, most = [0.0] * len(p), 0.0
    for place, at in enumerate(order):
        most = max(most, min(1.0, (len(p) - place) * p[at]))
        out[at] = most
    return out


def benjamini_hochberg(p: Floats) -> Floats:
    """The q values of p values, (n,): the false discovery rate at which each would be called (Benjamini and Hochberg 1995).

    nan stays nan and does not count as a test. (scipy.stats has it too; importing that takes longer than a whole comparison.)
    """
    q = np.full(len(p), np.nan)
    (known,) = np.nonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    ratios = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)
    return q


def counts_differ(one: float, other: float) -> bool:
    """Whether so many events in equal times are unlike by more than chance: 4 beside none, 7 beside one (square roots of Poisson counts, Anscombe 1948)."""
    apart = abs(math.sqrt(one + 3 / 8) - math.sqrt(other + 3 / 8))
    return apart > NormalDist().inv_cdf(1 - ALPHA / 2) / math.sqrt(2)


def runs_for(error: float, runs: tuple[int, int], change: float, prior: float) -> int | None:
    """Runs a side with which a change of that size would show, where `runs` gave this standard error; None where they suffice.

    `prior`: degrees of freedom that the usual scatter counts for.
    """
    per_run = error / math.sqrt(1 / runs[0] + 1 / runs[1])
    many: Floats = np.arange(5.0, MOST_RUNS + 1)
    enough = detectable(np.asarray(per_run * np.sqrt(2 / many)), prior + 2.0 * many - 2) <= change
    if not enough.any():
        return MOST_RUNS + 1
    found = int(many[enough.argmax()])
    return found if found > min(runs) else None


class Trimmed(NamedTuple):
    """The difference of two 20 % trimmed means, its standard error and degrees of freedom (Yuen 1974)."""

    delta: float
    error: float
    df: float

    @property
    def p(self) -> float:
        """Two-sided; nan where nothing scatters."""
        return math.nan if self.error == 0 else 2 * float(above(self.df, abs(self.delta) / self.error))

    @property
    def interval(self) -> tuple[float, float]:
        """That of 95 %."""
        half = float(quantile(self.df, 0.975)) * self.error
        return self.delta - half, self.delta + half


def trimmed(baseline: Floats, candidate: Floats) -> Trimmed | None:
    """Candidate - baseline of runs, (runs,) a side; None with fewer than two on a side.

    Below five runs nothing is trimmed, which is Welch's test.
    """
    if min(len(baseline), len(candidate)) < 2:
        return None
    (one, error_one, df_one), (other, error_other, df_other) = _trimmed(baseline), _trimmed(candidate)
    error2 = error_one + error_other
    if not math.isfinite(error2):
        return None
    df = error2**2 / (error_one**2 / df_one + error_other**2 / df_other) if error2 else 1.0
    return Trimmed(other - one, math.sqrt(error2), df)


def _trimmed(values: Floats) -> tuple[float, float, int]:
    """The mean, its squared error and degrees of freedom; what is trimmed scatters as what is left."""
    cut = int(0.2 * len(values))
    left = np.sort(values)[cut : len(values) - cut]
    winsorized = np.clip(values, left[0], left[-1])
    df = len(left) - 1
    return float(left.mean()), float(((winsorized - winsorized.mean()) ** 2).sum()) / df / len(left), df


def fisher_exact(some: int, of: int, others: int, of_others: int) -> float:
    """Two-sided p value of `some` of `of` against `others` of `of_others` (scipy.stats has it too, and takes long to import)."""

    def log_choose(n: int, some: np.ndarray) -> np.ndarray:
        return np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in some])

    total = some + others
    possible = np.arange(max(0, total - of_others), min(of, total) + 1)
    logs = log_choose(of, possible) + log_choose(of_others, total - possible)
    weight = np.exp(logs - logs.max())
    seen = weight[some - possible[0]]
    return float(min(weight[weight <= seen * (1 + 1e-9)].sum() / weight.sum(), 1.0))
