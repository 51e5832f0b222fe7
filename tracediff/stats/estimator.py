"""Differences of two sides in many cells at once, from one value per run and cell; knows nothing of traces.

    delta = mean(candidate runs) - mean(baseline runs) - beta * gap                             analysis of covariance
    s^2   = (PRIOR * s0^2 + SS) / (PRIOR + df), t with PRIOR + df degrees of freedom            moderated t (Smyth 2004)
    error^2 = s^2 (1 / runs + 1 / runs of the other side + gap^2 / (S_zz + RIDGE))

gap: difference of host speed. SS, S_zz: squares of the runs about the mean of their side, of time and of host speed. s0: scatter that a cell
of its kind and size usually has. With one or two runs a side the scatter of the steps is added, because so few runs may agree by
chance. All times are ns per step.
Every function is symmetric: exchanging the sides changes the sign of delta and nothing else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

PRIOR = 4  # runs that the usual scatter counts for
RIDGE = 0.05  # within-side squares of host speed that the usual slope counts for, (log ratio)^2
STEEPEST = 2.0  # a slope at most, in times of the smaller side's mean: proportional to the host is 1, up to 1.8 was seen on hosts under load
FEW_RUNS = 2  # up to so many a side, the scatter of the steps is added
LONE_RUN = 2.25  # with one run a side the usual variance is taken this many times
LONE_SLOPE = 0.5  # of a slope that is the usual one, not fitted: its standard deviation, as one run a side does not show it
SPLITS = 2_000  # permutations beyond which they are drawn at random

Bools = npt.NDArray[np.bool_]
Sums: TypeAlias = Mapping[int, npt.NDArray[np.intp]]
"""Cell -> the cells that it is the sum of."""


@dataclass(frozen=True)
class Sample:
    """The runs of both sides. values: (runs, cells) a side, host speed not taken out.

    speed: host speed of each run, log ratio to the mean, a side; None where it was not measured. step_variance: of each side's
    mean, from the scatter of its steps, (cells,). more: further runs of the baseline's program, (runs, cells), which tell of the
    scatter alone. step_df: degrees of freedom of step_variance. paired: run k of one side had the same requests as run k of the other, see `paired`.
    """

    values: tuple[Floats, Floats]
    speed: tuple[Floats, Floats] | None = None
    step_variance: tuple[Floats, Floats] | None = None
    more: Floats | None = None
    paired: bool = False
    step_df: float = 0.0

    @property
    def runs(self) -> tuple[int, int]:
        """Runs of each side."""
        return len(self.values[0]), len(self.values[1])


@dataclass(frozen=True)
class Estimate:
    """Arrays over cells. candidate - baseline = delta + host_speed; half: half-width of the 95 % interval of delta."""

    baseline: Floats
    candidate: Floats
    delta: Floats
    host_speed: Floats
    half: Floats
    error: Floats  # standard error of delta
    p: Floats
    df: Floats
    values: tuple[Floats, Floats]  # (runs, cells), host speed taken out

    def change(self, cell: int) -> dict[str, Any]:
        """One cell as the fields of a row: baseline_ns, candidate_ns, delta_ns, and the interval of that."""
        baseline, candidate, delta, half = (
            float(values[cell]) for values in (self.baseline, self.candidate, self.delta, self.half)
        )
        both = {"baseline_ns": baseline, "candidate_ns": candidate}
        return {**both, "delta_ns": delta, "ci_low_ns": delta - half, "ci_high_ns": delta + half}

    def take(self, index: Sequence[int] | npt.NDArray[np.intp]) -> Estimate:
        """Some of the cells."""
        at = np.asarray(index, np.intp)
        return replace(
            self,
            **{name: getattr(self, name)[at] for name in ("baseline", "candidate", "delta", "host_speed", "half", "error", "p", "df")},
            values=(self.values[0][:, at], self.values[1][:, at]),
        )  # fmt: skip


def paired(sample: Sample) -> Sample:
    """The sample without what the runs of a pair have in common: what is left scatters by half of each pair's difference."""

    def apart(one: Floats, other: Floats) -> tuple[Floats, Floats]:
        common = (one + other) / 2
        common = common - common.mean(axis=0)
        return one - common, other - common

    speed = None if sample.speed is None else apart(*sample.speed)
    return replace(sample, values=apart(*sample.values), speed=speed, paired=True)


def slopes(sample: Sample, usual: Floats, sums: Sums) -> Floats:
    """What a cell gains per unit of host speed, (cells,): fitted within the sides and drawn to `usual`; 0 where that is nan.

    At most `STEEPEST`: a few runs may fit more than a host can do.
    `sums`: cells that are sums of others, whose slope is then the sum of theirs: what belongs together stays closed.
    """
    if sample.speed is None:
        return np.zeros(len(usual))
    # side by side, so that exchanging the sides changes no bit
    speed = [one - one.mean() for one in sample.speed]
    apart = [one - one.mean(axis=0) for one in sample.values]
    products = [(fast[:, None] * own).sum(axis=0) for fast, own in zip(speed, apart, strict=True)]
    squares = np.array([[(speed[0] ** 2).sum() + (speed[1] ** 2).sum()]])
    least = np.minimum(*_sizes(sample.values))
    return np.asarray(_slope((products[0] + products[1])[None], squares, usual, least, sums)[0])


class Lone(NamedTuple):
    """What a cell scatters where a side has one run, so that nothing measures it, ns, (cells,).

    apart: of what was measured on each side, for the interval. alike: if both sides took the same, for the test.
    """

    apart: Floats
    alike: Floats


def estimate(sample: Sample, usual_scatter: Floats, slope: Floats, lone: Lone | None = None) -> Estimate:
    """The difference of every cell. `usual_scatter`: s0, `slope`: per unit of host speed, both (cells,).

    `lone`: instead of s0 where a side has one run.
    """
    from tracediff.stats.student import stdtr, stdtrit

    one, other = sample.values
    raw = other.mean(axis=0) - one.mean(axis=0)
    gap = 0.0 if sample.speed is None else float(sample.speed[1].mean() - sample.speed[0].mean())
    adjusted = _adjusted(sample, slope)
    if lone is None or min(sample.runs) > 1:
        error, freedom = _error(sample, adjusted, usual_scatter, slope, LONE_RUN)
        half = stdtrit(freedom, 0.975) * error
    else:
        apart, freedom_apart = _error(sample, adjusted, lone.apart, slope, 1.0)
        half = stdtrit(freedom_apart, 0.975) * apart
        error, freedom = _error(sample, adjusted, lone.alike, slope, 1.0)
    delta = raw - slope * gap
    return Estimate(
        baseline=one.mean(axis=0),
        candidate=other.mean(axis=0),
        delta=delta,
        host_speed=slope * gap,
        half=half,
        error=error,
        p=2 * stdtr(freedom, -_t(delta, error)),
        df=freedom,
        values=adjusted,
    )


def _error(
    sample: Sample, adjusted: tuple[Floats, Floats], usual: Floats, slope: Floats, lone_run: float
) -> tuple[Floats, Floats]:
    """The standard error of delta and its degrees of freedom. `lone_run`: times the usual variance with one run a side."""
    squares, df = _squares(adjusted, sample, slope)
    variance = (PRIOR * usual**2 + squares) / (PRIOR + df)
    of_steps = _of_steps(sample)
    of_runs = _of_runs(sample, variance, usual, lone_run) + _of_slope(sample, variance, slope)
    error2 = of_runs + of_steps
    freedom = np.full(len(usual), float(PRIOR + df))
    if of_steps.any():  # Satterthwaite (1946)
        spread = of_runs**2 / freedom + of_steps**2 / max(sample.step_df, 1.0)
        freedom = np.where(spread > 0, error2**2 / np.where(spread > 0, spread, 1.0), freedom)
    return np.sqrt(error2), freedom


def _of_slope(sample: Sample, variance: Floats, slope: Floats) -> Floats:
    """What an uncertain slope adds to the variance of delta: only the time that both sides have may move with the host."""
    if sample.speed is None:
        return np.zeros(len(slope))
    gap = float(sample.speed[1].mean() - sample.speed[0].mean())
    squares = [float(((one - one.mean()) ** 2).sum()) for one in sample.speed]
    lever = gap**2 / (squares[0] + squares[1] + RIDGE)
    found = np.where(slope != 0, variance * lever * _common(sample.values) ** 2, 0.0)
    if min(sample.runs) == 1 and sample.step_variance is not None:
        # that of the step is smaller than its parts' together, which all miss in one direction where the host does
        found = np.maximum(found, (LONE_SLOPE * RIDGE / (squares[0] + squares[1] + RIDGE) * slope * gap) ** 2)
    return np.asarray(found)


def _common(values: tuple[Floats, Floats]) -> Floats:
    """The smaller side's mean to the larger's, 0 to 1."""
    return _ratio(*_sizes(values))


def _sizes(values: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    return np.abs(values[0].mean(axis=0)), np.abs(values[1].mean(axis=0))


def _ratio(one: Floats, other: Floats) -> Floats:
    larger = np.maximum(one, other)
    return np.asarray(np.divide(np.minimum(one, other), larger, out=np.zeros_like(larger), where=larger > 0))


def _adjusted(sample: Sample, slope: Floats) -> tuple[Floats, Floats]:
    """Values of the runs as if all hosts had the mean speed of both sides."""
    if sample.speed is None:
        return sample.values
    middle = (sample.speed[0].mean() + sample.speed[1].mean()) / 2
    one, other = (
        values - np.outer(speed - middle, slope)
        for values, speed in zip(sample.values, sample.speed, strict=True)
    )
    return one, other


def _squares(values: tuple[Floats, Floats], sample: Sample, slope: Floats) -> tuple[Floats, int]:
    """Squares of the runs about the mean of their side, and the degrees of freedom of their sum."""
    groups = [one for one in (*values, sample.more) if one is not None and len(one)]
    squares = sum((((one - one.mean(axis=0)) ** 2).sum(axis=0) for one in groups), start=np.zeros(len(slope)))
    df = sum(len(one) - 1 for one in groups)
    return squares, df - (len(values[0]) - 1 if sample.paired else 0)


def _of_runs(sample: Sample, variance: Floats, usual: Floats, lone_run: float) -> Floats:
    """The variance of delta from that of a run."""
    runs = sample.runs
    if min(runs) <= FEW_RUNS and sample.step_variance is not None:
        variance = np.maximum(variance, usual**2 * (lone_run if min(runs) == 1 else 1.0))
    return variance * (1 / runs[0] + 1 / runs[1])


def _of_steps(sample: Sample) -> Floats:
    """The variance of delta from the scatter of steps: of few runs, which may agree by chance."""
    if min(sample.runs) > FEW_RUNS or sample.step_variance is None:
        return np.zeros(sample.values[0].shape[1])
    return sample.step_variance[0] + sample.step_variance[1]


def splits(runs: tuple[int, int], *, pairs: bool = False, seed: int = 0) -> Bools:
    """Which runs are called candidate, (splits, runs of both): all ways, or `SPLITS` random ones; the true one first.

    `pairs`: one run of each pair.
    """
    total, size = sum(runs), runs[1]
    if pairs:
        if 2**size <= SPLITS:
            kept = (np.arange(2**size)[:, None] >> np.arange(size)) & 1 == 0
        else:
            kept = np.random.default_rng(seed).random((SPLITS, size)) < 0.5
            kept[0] = True
        return np.concatenate([~kept, kept], axis=1)
    true = _true_split(runs)
    if math.comb(total, size) <= SPLITS:
        chosen = np.zeros((math.comb(total, size), total), np.bool_)
        for row, members in enumerate(combinations(range(total), size)):
            chosen[row, list(members)] = True
        rest = chosen[(chosen != true).any(axis=1)]
        return np.concatenate([true[None], rest])
    keys = np.random.default_rng(seed).random((SPLITS - 1, total))
    drawn = np.argsort(np.argsort(keys, axis=1), axis=1) < size
    return np.concatenate([true[None], drawn])


def _true_split(runs: tuple[int, int]) -> Bools:
    return np.arange(sum(runs)) >= runs[0]


@dataclass(frozen=True)
class _Within:
    """Products within the sides, for many ways to deal the runs out: arrays (splits, cells), of host speed (splits, 1)."""

    delta: Floats
    gap: Floats
    squares: Floats
    products: Floats
    speed_squares: Floats
    least: Floats  # the smaller side's mean
    common: Floats


def _within(sample: Sample, groups: Bools) -> _Within:
    values = np.concatenate(sample.values)
    speed = np.zeros(len(values)) if sample.speed is None else np.concatenate(sample.speed)
    other = groups.astype(np.float64)
    many = other.sum(axis=1, keepdims=True), (1 - other).sum(axis=1, keepdims=True)
    middle = values.mean(axis=0)
    apart, fast = values - middle, (speed - speed.mean())[:, None]  # without a common part, nothing cancels
    high, low = other @ apart, (1 - other) @ apart
    quick, slow = other @ fast, (1 - other) @ fast
    means = np.abs(middle + high / many[0]), np.abs(middle + low / many[1])
    return _Within(
        least=np.minimum(*means),
        common=_ratio(*means),
        delta=high / many[0] - low / many[1],
        gap=quick / many[0] - slow / many[1],
        squares=np.maximum((apart**2).sum(axis=0) - high**2 / many[0] - low**2 / many[1], 0.0),
        products=(fast * apart).sum(axis=0) - quick * high / many[0] - slow * low / many[1],
        speed_squares=np.maximum((fast**2).sum(axis=0) - quick**2 / many[0] - slow**2 / many[1], 0.0),
    )


def permuted_t(
    sample: Sample, usual_scatter: Floats, usual_slope: Floats, sums: Sums, groups: Bools
) -> Floats:
    """|t| of every cell with the runs dealt out anew, (splits, cells): whole runs, their host speed with them.

    The slope is fitted anew each time: exact where the runs of both sides are exchangeable.
    """
    found = _within(sample, groups)
    slope = _slope(found.products, found.speed_squares, usual_slope, found.least, sums)
    squares = found.squares - 2 * slope * found.products + slope**2 * found.speed_squares
    df = len(groups[0]) // 2 - 1 if sample.paired else len(groups[0]) - 2
    if sample.more is not None and len(sample.more):
        squares = squares + ((sample.more - sample.more.mean(axis=0)) ** 2).sum(axis=0)
        df += len(sample.more) - 1
    variance = (PRIOR * usual_scatter**2 + np.maximum(squares, 0.0)) / (PRIOR + df)
    many = groups[0].sum(), (~groups[0]).sum()
    lever = np.where(slope != 0, found.gap**2 / (found.speed_squares + RIDGE) * found.common**2, 0.0)
    error = np.sqrt(variance * (1 / many[0] + 1 / many[1] + lever))
    return _t(found.delta - slope * found.gap, error)


def _t(delta: Floats, error: Floats) -> Floats:
    """|t|; without any scatter 0 or infinite, nan where a value is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, np.where(delta == 0, 0.0, np.inf), np.abs(delta) / error)


def _slope(products: Floats, speed_squares: Floats, usual: Floats, least: Floats, sums: Sums) -> Floats:
    fitted = (products + RIDGE * np.nan_to_num(usual)) / (speed_squares + RIDGE)
    fitted = np.where(np.isnan(usual), 0.0, np.clip(fitted, -STEEPEST * least, STEEPEST * least))
    for cell, parts in sums.items():
        fitted[:, cell] = fitted[:, parts].sum(axis=1)
    return np.asarray(fitted)


def permutation_p(t: Floats) -> Floats:
    """P of each cell from `permuted_t`: the part of the splits, the true one among them, that are as extreme."""
    return np.asarray((~(t < t[0] * (1 - 1e-9))).mean(axis=0))  # what is unknown is no evidence


def detectable(error: Floats, df: Floats, power: float = 0.8, alpha: float = 0.05) -> Floats:
    """The change that such a standard error shows with the given power, from the noncentral t distribution."""
    from tracediff.stats.student import nctdtrinc, stdtrit

    return np.asarray(error * nctdtrinc(df, 1 - power, stdtrit(df, 1 - alpha / 2)))


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


MOST_RUNS = 50  # beyond which no number of runs is advised: `runs_for` gives one more


def runs_for(error: float, runs: tuple[int, int], change: float) -> int | None:
    """Runs a side with which a change of that size would show, where `runs` gave this standard error; None where they suffice."""
    per_run = error / math.sqrt(1 / runs[0] + 1 / runs[1])
    many: Floats = np.arange(5.0, MOST_RUNS + 1)
    enough = detectable(np.asarray(per_run * np.sqrt(2 / many)), PRIOR + 2.0 * many - 2) <= change
    if not enough.any():
        return MOST_RUNS + 1
    found = int(many[enough.argmax()])
    return found if found > min(runs) else None


def trimmed_interval(baseline: Floats, candidate: Floats) -> tuple[float, float] | None:
    """95 % interval of candidate - baseline in 20 % trimmed means of runs, (runs,) a side; None with fewer than two on a side.

    Yuen 1974; below five runs nothing is trimmed, which is Welch's.
    """
    if min(len(baseline), len(candidate)) < 2:
        return None
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of runs that do not scatter at all
        bounds = ttest_ind(candidate, baseline, equal_var=False, trim=0.2).confidence_interval()
    low, high = float(bounds.low), float(bounds.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
