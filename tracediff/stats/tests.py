"""Run-level tests, multiple testing, noise floors and power.

All work on one value a run.
Times are ns a step. A result that too few runs cannot give is nan in an array and None for a single number.
"""

from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np

from tracediff.stats.bootstrap import Floats

MAX_SPLITS = 20_000  # an exact permutation test up to here, random splits beyond
_ROUNDING = 1e-12  # a spread or difference below this part of the values is rounding, not noise
_TRIMMED_LOSS = 1.14  # variance of a 20 % trimmed mean over that of a mean, normal data


# One value a run: is the difference more than the scatter of the runs?


def run_level_p(baseline_values: Floats, candidate_values: Floats) -> Floats:
    """Return the two-sided p-value of no difference, (cells,), of values (runs, cells): Yuen-Welch t test.

    Trimmed means (Yuen 1974): the lowest and the highest fifth of the runs of a side go, which from five runs
    on is one of each, so one outlying run neither makes nor hides a change. Below five runs nothing can be
    trimmed: Welch's t test (Welch 1947). Both allow the sides different scatter and numbers of runs.

    nan with fewer than two runs on a side. Without any scatter: 1 when the sides are equal; else 0 with
    three runs or more a side, nan with fewer. Where trimming removed all the scatter there was: the smallest
    p that a permutation test of so many runs could reach.
    """
    return _yuen_welch(baseline_values, candidate_values)[0]


def run_level_interval(
    baseline_values: Floats, candidate_values: Floats, *, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the confidence interval that belongs to `run_level_p`: (low, high), each (cells,), ns.

    Of candidate - baseline in (trimmed) means of runs; it excludes 0 where p < 1 - level. nan as there.
    """
    from scipy.special import stdtrit

    p, delta, variance, df = _yuen_welch(baseline_values, candidate_values)
    half = stdtrit(df, (1 + level) / 2) * np.sqrt(variance)
    half = np.where(np.isnan(p), np.nan, half)
    return delta - half, delta + half


def _yuen_welch(baseline: Floats, candidate: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return p, difference of trimmed means, its variance, its degrees of freedom; each (cells,)."""
    from scipy.special import stdtr

    rb, rc = len(baseline), len(candidate)
    if min(rb, rc) < 2:
        unknown = np.full(baseline.shape[1], np.nan)
        return unknown, unknown, unknown, np.ones_like(unknown)
    (mean_b, variance_b, df_b), (mean_c, variance_c, df_c) = _trimmed(baseline), _trimmed(candidate)
    rounding = _ROUNDING * np.maximum(np.abs(baseline).max(axis=0), np.abs(candidate).max(axis=0))
    delta, variance = mean_c - mean_b, variance_b + variance_c
    still = variance <= rounding**2
    spread = np.where(still, 1.0, variance_b**2 / df_b + variance_c**2 / df_c)
    df = np.where(still, 1.0, variance**2 / spread)
    p = 2 * stdtr(df, -np.abs(delta) / np.sqrt(np.where(still, 1.0, variance)))
    moved = 0.0 if min(rb, rc) >= 3 else np.nan
    constant = (np.ptp(baseline, axis=0) <= rounding) & (np.ptp(candidate, axis=0) <= rounding)
    certain = np.where(constant, moved, smallest_p(rb, rc))
    p = np.where(still, np.where(np.abs(delta) <= rounding, 1.0, certain), p)
    return p, delta, np.where(still, 0.0, variance), df


def _trimmed(values: Floats) -> tuple[Floats, Floats, int]:
    """Return the 20 % trimmed mean of runs, its squared standard error and degrees of freedom (Yuen 1974)."""
    n = len(values)
    cut = n // 5
    kept = n - 2 * cut
    ordered = np.sort(values, axis=0)
    winsorized = ordered.clip(ordered[cut], ordered[n - 1 - cut])
    variance = winsorized.var(axis=0, ddof=1) * (n - 1) / (kept * (kept - 1))
    return ordered[cut : n - cut].mean(axis=0), variance, kept - 1


def trimmed_means(values: Floats) -> Floats:
    """Return the 20 % trimmed mean over runs of each cell: (runs, cells) -> (cells,), in the unit given."""
    return _trimmed(values)[0]


def permutation_p(baseline: Floats, candidate: Floats, *, seed: int = 0) -> float | None:
    """Return the two-sided p-value of a permutation test of the difference of trimmed means of (runs,) values.

    Exact (Fisher 1935) over all splits of the pooled runs, or over `MAX_SPLITS` random ones, the observed
    split counted among them (Phipson and Smyth 2010), when there are more. Means are trimmed as in `run_level_p`:
    the mean would let one outlying run hide any difference. None with fewer than two runs a side.
    """
    rb, rc = len(baseline), len(candidate)
    if min(rb, rc) < 2:
        return None
    raw = np.sort(np.concatenate([baseline, candidate]))
    pool = raw - raw.mean()
    runs, size = rb + rc, min(rb, rc)
    splits = math.comb(runs, size)
    if splits <= MAX_SPLITS:
        flat = chain.from_iterable(combinations(range(runs), size))
        chosen = np.fromiter(flat, dtype=np.intp, count=splits * size).reshape(splits, size)
    else:
        keys = np.random.default_rng(seed).random((MAX_SPLITS - 1, runs))
        chosen = np.sort(np.argsort(keys, axis=1)[:, :size], axis=1)
    left = np.ones((len(chosen), runs), np.bool_)
    np.put_along_axis(left, chosen, False, axis=1)
    rest = np.nonzero(left)[1].reshape(len(chosen), runs - size)
    differences = np.abs(_middle(pool[chosen]) - _middle(pool[rest]))
    observed = abs(float(_middle(np.sort(candidate)) - _middle(np.sort(baseline))))
    as_large = int(np.count_nonzero(differences >= observed - _ROUNDING * np.abs(raw).max()))
    return as_large / splits if splits <= MAX_SPLITS else (as_large + 1) / MAX_SPLITS


def _middle(ordered: Floats) -> Floats:
    """20 % trimmed mean of runs in order, along the last axis."""
    n = ordered.shape[-1]
    return np.asarray(ordered[..., n // 5 : n - n // 5].mean(axis=-1))


def smallest_p(baseline_runs: int, candidate_runs: int) -> float:
    """Return the p-value that `permutation_p` gives where the sides lie wholly apart; 1 where it gives None.

    As extreme as that split are those that exchange only runs which trimming leaves out (the highest of the lower side,
    the lowest of the higher one), and with equal numbers of runs the mirrored ones.
    """
    if min(baseline_runs, candidate_runs) < 2:
        return 1.0
    splits = math.comb(baseline_runs + candidate_runs, baseline_runs)
    cut = baseline_runs // 5, candidate_runs // 5
    extreme = math.comb(sum(cut), cut[0]) * (2 if baseline_runs == candidate_runs else 1)
    return extreme / splits if splits <= MAX_SPLITS else 1 / MAX_SPLITS


def runs_needed(alpha: float) -> int:
    """Return the runs a side from which on a permutation test can say p <= alpha."""
    if not 2 / MAX_SPLITS <= alpha < 1:
        raise ValueError(f"alpha must be at least {2 / MAX_SPLITS} and below 1, not {alpha}")
    return next(runs for runs in range(2, 100) if smallest_p(runs, runs) <= alpha)


def benjamini_hochberg(p: Floats) -> Floats:
    """Return the q-values of p-values, (n,): the false discovery rate at which each would be called.

    Step-up procedure of Benjamini and Hochberg 1995, with q monotone in p. nan stays nan and does not count
    as a test.
    """
    q = np.full(len(p), np.nan)
    (known,) = np.nonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    ratios = p[order] * len(order) / np.arange(1, len(order) + 1)
    q[order] = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)
    return q


# Repeats of one program: how much noise is there, and what would show through it?


def run_sd(values: Floats) -> Floats:
    """Return the run-to-run standard deviation, (cells,), ns, of repeats (runs, cells), outliers left out.

    Up to one run in five is left out where it is an outlier at the 1 % level (Grubbs 1950; for several the
    generalised ESD test, Rosner 1983): of five, one that lies eleven standard deviations of the other four
    from their mean. Milder ones stay and widen it. A run is kept where the others do not scatter at all: then
    it is the only sign of noise. nan with one run.
    """
    n, cells = values.shape
    if n < 2:
        return np.full(cells, np.nan)
    kept = rest = np.array(values, dtype=np.float64)
    for _ in range(n // 5):
        mean, sd, count = _moments(rest)
        distance = np.where(np.isnan(rest), -1.0, np.abs(rest - mean))
        rest = rest.copy()
        rest[distance.argmax(axis=0), np.arange(cells)] = np.nan
        outlying = distance.max(axis=0) > sd * _grubbs(count)
        scattered = _moments(rest)[1] > _ROUNDING * np.abs(values).max(axis=0)
        # Two outliers hide one another: with the second found, the first goes as well.
        kept = np.where(outlying & scattered, rest, kept)
    sd = _moments(kept)[1]
    return np.where(sd > _ROUNDING * np.abs(values).max(axis=0), sd, 0.0)


def _moments(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, standard deviation and count of the runs that are not nan, each (cells,)."""
    count = np.asarray(np.count_nonzero(~np.isnan(values), axis=0), dtype=np.float64)
    mean = np.nansum(values, axis=0) / count
    return mean, np.sqrt(np.nansum((values - mean) ** 2, axis=0) / (count - 1)), count


def _grubbs(count: Floats, alpha: float = 0.01) -> Floats:
    """Critical value of Grubbs' two-sided test: (largest distance from the mean) / sd, of `count` values."""
    from scipy.special import stdtrit

    t = stdtrit(count - 2, 1 - alpha / (2 * count))
    return np.asarray((count - 1) / np.sqrt(count) * np.sqrt(t**2 / (count - 2 + t**2)))


def min_detectable(
    baseline_values: Floats, candidate_values: Floats, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """Return the change, ns, that these runs, (runs,) a side, would show with the given power.

    From the noncentral t distribution with the standard error and degrees of freedom of `run_level_p` at
    alpha (one test: no correction for a table of them). None with fewer than two runs a side.
    """
    if min(len(baseline_values), len(candidate_values)) < 2:
        return None
    _, _, variance, df = _yuen_welch(baseline_values[:, None], candidate_values[:, None])
    return float(np.sqrt(variance[0]) * _noncentrality(df, power, alpha)[0])


def runs_for(change_ns: float, sd_ns: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """Return the runs a side with which a change of so many ns would show, given the run-to-run sd.

    From the noncentral t distribution for `run_level_p` and normal noise, allowing for what trimming loses:
    five runs trimmed say less than four that are not, but survive an outlier.
    """
    if change_ns == 0 or sd_ns < 0:
        raise ValueError("runs_for needs a change other than 0 and a standard deviation of 0 or more")
    ratio = abs(change_ns) / sd_ns if sd_ns else math.inf
    runs = np.arange(2, 1001)
    # Welch's degrees of freedom lie between those of one side and of both; here the power simulated is met.
    df = np.where(runs == 2, 1.25, 1.5) * (runs - 2 * (runs // 5) - 1)
    reached = ratio * np.sqrt(runs / 2 / np.where(runs < 5, 1.0, _TRIMMED_LOSS))
    enough = reached >= _noncentrality(df, power, alpha)
    if enough.any():
        return int(runs[enough.argmax()])
    from scipy.special import ndtri

    return math.ceil(2 * _TRIMMED_LOSS * float(ndtri(1 - alpha / 2) + ndtri(power)) ** 2 / ratio**2)


def _noncentrality(df: Floats, power: float, alpha: float) -> Floats:
    """Return the change over its standard error that a two-sided t test shows with the given power."""
    from scipy.special import nctdtrinc, stdtrit

    return np.asarray(nctdtrinc(df, 1 - power, stdtrit(df, 1 - alpha / 2)))
