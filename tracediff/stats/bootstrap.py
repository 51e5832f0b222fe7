"""Means of a side over runs, steps and strata, and the bootstrap interval of the difference of two sides.

Everything works on all *cells* at once: a cell is one number a step, such as the time of one (cause, place),
of one kernel row, or the total. All times are ns a step; differences are candidate - baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Weights: TypeAlias = Mapping[int, float]
"""Stratum id -> its share of the baseline's steps; the shares sum to 1."""

MAX_BLOCKS = 64  # sums of steps kept for a run and stratum, however many steps it has
_RUN_BLOCKS = 256  # the same for all strata of a run together
_CHUNK = 1024  # cells resampled at a time: bounds the memory to resamples * _CHUNK floats


class Summed(NamedTuple):
    """The steps of one run and stratum, neighbours added up to the blocks of `block_edges`."""

    sums: Floats  # (blocks in time order, cells), ns
    steps: int


@dataclass(frozen=True, eq=False)
class RunSteps:
    """The steps of one run: stratum id -> array (steps in time order, cells), float64, ns, or their sums by block."""

    strata: Mapping[int, Floats | Summed]

    def __post_init__(self) -> None:
        rows = [one.sums if isinstance(one, Summed) else one for one in self.strata.values()]
        widths = {one.shape[1] if one.ndim == 2 else -1 for one in rows}
        if len(widths) != 1 or -1 in widths:
            raise ValueError("a run needs a stratum or more, each an array (steps, cells) of the same cells")

    def summed(self, stratum: int, strata: int) -> Summed | None:
        """Return the block sums of a stratum, None when the run has no step of it. `strata`: how many are compared."""
        steps = self.strata.get(stratum)
        if steps is None or not len(steps):
            return None
        if isinstance(steps, Summed):
            return steps
        rows = np.ascontiguousarray(steps, dtype=np.float64)
        return Summed(np.add.reduceat(rows, block_edges(len(rows), strata), axis=0), len(rows))

    def count(self, stratum: int) -> int:
        """Return how many steps of a stratum there are."""
        steps = self.strata[stratum]
        return steps.steps if isinstance(steps, Summed) else len(steps)


def block_edges(steps: int, strata: int) -> npt.NDArray[np.int64]:
    """Return the first step of each block, that many steps put into at most `MAX_BLOCKS` contiguous blocks.

    Fewer where a run is compared in many `strata`: what is resampled stays of one size.
    """
    count = min(steps, MAX_BLOCKS, max(8, _RUN_BLOCKS // max(strata, 1)))
    return np.arange(count) * steps // count


@dataclass(frozen=True, eq=False)
class _Means:
    """Means of a side by stratum: of each run that has it, and of the side."""

    by_run: dict[int, dict[int, Floats]]  # stratum -> position of the run -> (cells,)
    side: dict[int, Floats]  # stratum -> (cells,)


def _means(runs: Sequence[RunSteps], weights: Weights) -> _Means:
    by_run: dict[int, dict[int, Floats]] = {}
    side: dict[int, Floats] = {}
    strata = sorted(stratum for stratum, weight in weights.items() if weight)
    for stratum in strata:
        summed = ((position, run.summed(stratum, len(strata))) for position, run in enumerate(runs))
        means = {position: one.sums.sum(axis=0) / one.steps for position, one in summed if one is not None}
        if not means:
            raise ValueError(f"stratum {stratum} has a weight and no steps on one side")
        by_run[stratum] = means
        # Sorted, so that the order of the runs cannot move the last bit.
        side[stratum] = np.sort(np.stack(list(means.values())), axis=0).mean(axis=0)
    empty = set(range(len(runs))).difference(*by_run.values())
    if empty or not by_run:
        raise ValueError(f"runs {sorted(empty)} have no step in any weighted stratum: leave them out")
    return _Means(by_run, side)


def _weighted(means: Mapping[int, Floats], weights: Weights) -> Floats:
    total: Floats = np.sum([weights[stratum] * values for stratum, values in means.items()], axis=0)
    return total


def _filled(means: _Means, position: int) -> dict[int, Floats]:
    return {stratum: means.by_run[stratum].get(position, side) for stratum, side in means.side.items()}


def bootstrap_ci(
    baseline_runs: Sequence[RunSteps],
    candidate_runs: Sequence[RunSteps],
    weights: Weights,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Return the confidence interval of candidate - baseline of every cell: (low, high), each (cells,), ns.

    Two levels (Davison and Hinkley 1997, section 3.8): runs with replacement; within each run and stratum,
    steps in circular blocks of about n^(1/3) (Kuensch 1989; Politis and Romano 1992), because neighbouring
    steps are alike. Steps are first summed into at most `MAX_BLOCKS` contiguous blocks, so a resample is a
    row of multinomial weights and all of them are one matrix product. The quantiles of the resampled
    deviations are expanded for small samples: sqrt(n/(n-1)) at each level, and t over z at the
    Welch-Satterthwaite degrees of freedom of the cell, with runs - 1 a side. (Plain percentiles of 95 % cover
    66 % with two runs a side and 88 % with five.)

    - The scatter of run means contains the noise of their steps; the second level adds only what is missing
      where the run means happen to agree better than their steps allow.
    - One run on both sides: the second level alone. The interval says nothing of run-to-run noise.
    - One run on one side only: it is given the run-to-run scatter of the other side, with that side's degrees
      of freedom; the scatter of its own steps keeps the degrees of freedom of steps.
    - nan where a side has one run of one step a stratum: nothing repeats. Zero on both sides gives (0, 0).
    - The interval is of the difference of means: an outlying run widens it. `run_level_interval` is robust.

    Deterministic given the seed; the order of runs is irrelevant, and swapping the sides gives (-high, -low)
    exactly: half the resamples are drawn with the two random streams exchanged.
    """
    from scipy.special import ndtri, stdtrit

    tail = (1 - level) / 2
    half = (resamples + 1) // 2
    pools = [_pool(runs, weights) for runs in (baseline_runs, candidate_runs)]
    lone = [pool.runs == 1 for pool in pools]
    borrowed = lone[0] != lone[1]
    if borrowed:
        index = lone.index(True)
        pools[index] = _borrow(pools[index], pools[1 - index])
    streams = ([np.random.default_rng([seed, stream]) for stream in (0, 1)] for _ in pools)
    draws = [[_draw(pool, half, rng) for rng in both] for pool, both in zip(pools, streams, strict=True)]
    scatter = [_scatter(pool) for pool in pools]

    if borrowed:
        df = _satterthwaite(*_components(pools[index], scatter[1 - index]))
    else:
        df = _satterthwaite(*scatter)
    expand = stdtrit(df, 1 - tail) / ndtri(1 - tail)
    delta = pools[1].mean - pools[0].mean
    low, high = np.empty_like(delta), np.empty_like(delta)
    for start in range(0, len(delta), _CHUNK):
        part = slice(start, start + _CHUNK)
        rows = [side.rows(pool, part).T for side, pool in zip(scatter, pools, strict=True)]
        b0, b1 = (rows[0] @ draw.T for draw in draws[0])
        c0, c1 = (rows[1] @ draw.T for draw in draws[1])
        low[part], high[part] = quantiles(np.concatenate([c1 - b0, c0 - b1], axis=1), tail)
    low, high = delta + expand * low, delta + expand * high
    for pool in pools:
        if not pool.replicated:
            unknown = (pools[0].mean != 0) | (pools[1].mean != 0)
            low[unknown] = high[unknown] = np.nan
    return low, high


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Block sums of one run and stratum: deviations from the mean, scaled to the mean of the side."""

    sums: Floats  # (blocks, cells)
    window: int  # neighbouring blocks drawn together
    draws: int
    variance: Floats  # (cells,) of the resampled mean
    df: float


@dataclass(frozen=True, eq=False)
class _Pool:
    """What is resampled of one side."""

    runs: int
    mean: Floats
    between: Floats  # (runs, cells): deviations of the runs, such that drawing `draws` of them moves the mean
    draws: int
    blocks: list[_Blocks]

    @property
    def replicated(self) -> bool:
        return len(self.between) > 1 or bool(self.blocks)


@dataclass(frozen=True, eq=False)
class _Scatter:
    """How far the mean of a side moves from resample to resample."""

    top_up: Floats  # (cells,): share of the block sums' deviations that the runs' deviations do not show
    variance: Floats  # (cells,)
    df: Floats  # (cells,)

    def rows(self, pool: _Pool, part: slice) -> Floats:
        """Return what a resample weights: (runs + all blocks, cells of the part)."""
        sums = (block.sums[:, part] * self.top_up[part] for block in pool.blocks)
        return np.concatenate([pool.between[:, part], *sums])


def _pool(runs: Sequence[RunSteps], weights: Weights) -> _Pool:
    means = _means(runs, weights)
    mean = _weighted(means.side, weights)
    between = np.zeros((len(runs), len(mean)))
    blocks: dict[int, list[_Blocks]] = {position: [] for position in range(len(runs))}
    for stratum, by_run in means.by_run.items():
        share, n = weights[stratum] / len(by_run), len(by_run)
        for position, run_mean in by_run.items():
            if n > 1:
                between[position] += share * np.sqrt(n / (n - 1)) * (run_mean - means.side[stratum])
            summed = runs[position].summed(stratum, len(means.side))
            if summed is not None and summed.steps > 1:
                blocks[position].append(_block_sums(summed, run_mean, share))

    def content(position: int) -> tuple[list[tuple[int, int]], list[float]]:
        return _sizes(runs[position]), np.sort(_weighted(_filled(means, position), weights)).tolist()

    # Neither the order in which runs were given nor that of the cells decides which run gets which draws.
    order = sorted(blocks, key=content)
    return _Pool(len(runs), mean, between[order], len(runs), [block for r in order for block in blocks[r]])


def _sizes(run: RunSteps) -> list[tuple[int, int]]:
    return sorted((stratum, run.count(stratum)) for stratum in run.strata)


def _block_sums(summed: Summed, mean: Floats, share: float) -> _Blocks:
    n, count = summed.steps, len(summed.sums)
    window = max(1, round(n ** (1 / 3) * count / n))
    draws = -(-count // window)
    sizes = np.diff(np.arange(count) * n // count, append=n)
    drawn = draws * window / count  # steps drawn over steps: a little above 1
    # Blocks of one sample scatter too little, by 1 - window/count (n/(n-1) for blocks of one step).
    scale = share / (n * drawn) * np.sqrt(drawn / (1 - window / count))
    sums = (summed.sums - sizes[:, None] * mean) * scale
    variance = draws * np.mean(circular(sums, window, axis=0) ** 2, axis=0)
    return _Blocks(sums, window, draws, variance, count / window - 1)


def circular(values: Floats, window: int, axis: int) -> Floats:
    """Sum `window` neighbours, past the end from the start again."""
    total: Floats = np.sum([np.roll(values, shift, axis=axis) for shift in range(window)], axis=0)
    return total


def _borrow(pool: _Pool, other: _Pool) -> _Pool:
    """Give a single run the deviations of the other side's runs, drawn once."""
    return _Pool(pool.runs, pool.mean, other.between * len(other.between), 1, pool.blocks)


def _scatter(pool: _Pool) -> _Scatter:
    zero = np.zeros_like(pool.mean)
    within = sum((block.variance for block in pool.blocks), start=zero)
    if len(pool.between) == 1:
        return _Scatter(np.ones_like(zero), within, _within_df(pool))
    runs = len(pool.between)
    between = np.sum(pool.between**2, axis=0) * (pool.draws / runs)
    shown = np.divide(between, within, out=np.ones_like(zero), where=within > 0)
    variance = np.maximum(between, within)
    return _Scatter(np.sqrt(np.clip(1 - shown, 0, 1)), variance, np.full_like(zero, runs - 1))


def _within_df(pool: _Pool) -> Floats:
    """Return the degrees of freedom of the steps' own variance of a side."""
    within = sum((block.variance for block in pool.blocks), start=np.zeros_like(pool.mean))
    spread = sum((block.variance**2 / block.df for block in pool.blocks), start=np.zeros_like(pool.mean))
    return np.divide(within**2, spread, out=np.ones_like(within), where=spread > 0)


def _components(borrower: _Pool, other: _Scatter) -> tuple[_Scatter, _Scatter]:
    """Return what the variance of a difference is made of where a single run borrowed the other side's scatter.

    The scatter of runs of both sides is one estimate, with the degrees of freedom of the side that has runs.
    What the single run's steps scatter beyond it has their many: they must not be expanded as if they were runs.
    """
    whole = _scatter(borrower)
    runs = np.sum(borrower.between**2, axis=0) * (borrower.draws / len(borrower.between))
    steps = np.maximum(whole.variance - runs, 0.0)
    return (
        _Scatter(other.top_up, other.variance + runs, other.df),
        _Scatter(whole.top_up, steps, _within_df(borrower)),
    )


def _satterthwaite(b: _Scatter, c: _Scatter) -> Floats:
    """Degrees of freedom of the sum of two variances (Welch 1947); 1 where there is no variance at all."""
    total, spread = b.variance + c.variance, b.variance**2 / b.df + c.variance**2 / c.df
    return np.divide(total**2, spread, out=np.ones_like(total), where=spread > 0)


def _draw(pool: _Pool, resamples: int, rng: np.random.Generator) -> Floats:
    """Return the weight of every row of `_Scatter.rows` in each resample, (resamples, rows)."""
    drawn = [multinomial(len(pool.between), pool.draws, resamples, rng)]
    for block in pool.blocks:
        starts = multinomial(len(block.sums), block.draws, resamples, rng)
        drawn.append(circular(starts, block.window, axis=1))
    return np.concatenate(drawn, axis=1)


def multinomial(of: int, draws: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Count draws with replacement, (resamples, of). Faster than Generator.multinomial for these sizes."""
    picked = rng.integers(0, of, size=(resamples, draws)) + of * np.arange(resamples)[:, None]
    return np.bincount(picked.ravel(), minlength=resamples * of).reshape(resamples, of).astype(np.float64)


def quantiles(values: Floats, tail: float) -> tuple[Floats, Floats]:
    """Return the quantiles `tail` and 1 - `tail` of each row; of -values exactly the negatives, swapped."""
    last = values.shape[1] - 1
    lower = int(last * tail)
    part = last * tail - lower
    values = np.partition(values, [lower, lower + 1, last - lower - 1, last - lower], axis=1)
    low = values[:, lower] * (1 - part) + values[:, lower + 1] * part
    high = values[:, last - lower] * (1 - part) + values[:, last - lower - 1] * part
    return low, high


# Bootstrap intervals of the difference of quantiles of two single runs, ns.

_GRID = 2048  # values that stand for those of a longer run


class _Binned(NamedTuple):
    """A run in blocks: how many of its values lie in each bin of a block; a bin is called by its largest value."""

    counts: Floats  # (blocks, bins)
    grid: Floats  # (bins,)
    window: int
    draws: int


def quantile_interval(
    baseline: Floats,
    candidate: Floats,
    probabilities: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Return the interval of candidate - baseline of each quantile, (low, high), each (probabilities,), of values (n,).

    Circular blocks of about n^(1/3) neighbours are drawn, as `bootstrap_ci` draws steps (Kuensch 1989; for quantiles Sun and
    Lahiri 2006); percentiles of the resampled differences. It knows nothing of noise between runs. Deterministic; swapping
    the sides gives (-high, -low) exactly. nan with fewer than two values on a side.
    """
    unknown = np.full(len(probabilities), np.nan)
    if min(len(baseline), len(candidate)) < 2:
        return unknown, unknown
    half = (resamples + 1) // 2
    drawn = []
    for one in (_binned(baseline), _binned(candidate)):
        rngs = (np.random.default_rng([seed, stream]) for stream in (0, 1))
        drawn.append([_resampled(one, probabilities, half, rng) for rng in rngs])
    (b0, b1), (c0, c1) = drawn
    return quantiles(np.concatenate([c1 - b0, c0 - b1], axis=1), (1 - level) / 2)


def _binned(values: Floats) -> _Binned:
    n = len(values)
    edges = block_edges(n, 1)
    grid = np.unique(values)
    if len(grid) > _GRID:
        grid = np.unique(np.quantile(values, np.linspace(0, 1, _GRID), method="higher"))
    bins = np.searchsorted(grid, values)
    block = np.repeat(np.arange(len(edges)), np.diff(edges, append=n))
    counts = np.bincount(block * len(grid) + bins, minlength=len(edges) * len(grid)).reshape(
        len(edges), len(grid)
    )
    window = max(1, round(n ** (1 / 3) * len(edges) / n))
    return _Binned(counts.astype(np.float64), grid, window, -(-len(edges) // window))


def _resampled(
    run: _Binned, probabilities: Sequence[float], resamples: int, rng: np.random.Generator
) -> Floats:
    """Return the quantiles of resampled runs, (probabilities, resamples), by linear interpolation (Hyndman and Fan's 7th)."""
    blocks = len(run.counts)
    weights = circular(multinomial(blocks, run.draws, resamples, rng), run.window, axis=1)
    below: npt.NDArray[np.float64] = np.cumsum(weights @ run.counts, axis=1)
    out = np.empty((len(probabilities), resamples))
    for row, probability in enumerate(probabilities):
        place = probability * (below[:, -1] - 1)
        first = np.floor(place)
        low, high = (run.grid[(below > rank[:, None]).argmax(axis=1)] for rank in (first, np.ceil(place)))
        out[row] = low + (place - first) * (high - low)
    return out
