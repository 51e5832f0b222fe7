"""Bootstrap intervals of the difference of quantiles of two single runs, ns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracediff.measure.bootstrap import Floats, block_edges, circular, multinomial, quantiles

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
