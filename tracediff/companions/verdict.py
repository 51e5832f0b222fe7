"""Timed figures with one value per run and side: estimated as the causes of a trace are, and a verdict on the first of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from tracediff.arrays import Floats
from tracediff.model import Evidence, Pair, Step, Verdict
from tracediff.model.causes import SURELY
from tracediff.stats.noise import NU, Estimate, Noise, Sample, dealt_t, estimate, permutation_p, splits
from tracediff.stats.rules import PERMUTE
from tracediff.stats.tests import ALPHA, ODD, WANTED, benjamini_hochberg, detectable, robust, runs_for

_LEAST = 0.001  # of the largest figure: what changes less is never more than noise
TELL_RELATED = 8  # iterations that tell whether neighbours are alike
_TWO_RUNS = 1.96 * np.sqrt(2)  # half-width of the difference of two runs over the standard deviation of a run
_FEW_RUNS = 0.65  # of the usual scatter: what one run a side may hide, and a quarter of it what two may


class Figures(msgspec.Struct, frozen=True):
    """What is known of each figure, arrays over figures. p: nan with one run on a side; interval: nan where it cannot be said.

    floor: half-width of the interval as if the iterations did not scatter.
    """

    found: Estimate
    floor: Floats
    p: Floats
    q: Floats  # Benjamini-Hochberg over the figures
    runs: tuple[int, int]


def compare_runs(
    baseline: Floats, candidate: Floats, assumed: Floats, within: tuple[Floats, Floats] | None = None
) -> Figures:
    """Estimate figures, (runs, figures) a side, as the cells of a trace are: of time that no host's speed moves.

    `assumed`: half-width of the difference of two runs of one program, the usual scatter of such figures. `within`: variance of
    each side's figures from the iterations of its runs; nan where it is not known.
    """
    # sorted, so that the order of the runs cannot move the last bit
    values, runs = (np.sort(baseline, axis=0), np.sort(candidate, axis=0)), (len(baseline), len(candidate))
    usual = assumed / _TWO_RUNS * (1 + _FEW_RUNS / min(runs) ** 2)
    noise = Noise(np.array([usual, usual]), np.zeros(len(usual), np.bool_))
    found = estimate(Sample(values, step_variance=within), noise)
    p = found.p
    if min(runs) >= PERMUTE:
        # whole runs are dealt out, so here they stay as they are
        dealt = dealt_t((baseline, candidate), found.usual, NU, splits(runs), sum(runs) - 2)
        p = np.maximum(p, permutation_p(dealt))
    elif min(runs) == 1:
        p = np.full(len(usual), np.nan)
    return Figures(found, estimate(Sample(values), noise).half, p, benjamini_hochberg(p), runs)


def levels(figures: Figures, largest: float) -> list[Evidence]:
    """How far each delta can be believed. `largest`: the figure that a change is measured by, ns."""
    found, out = figures.found, list[Evidence]()
    for delta, clear, q in zip(found.delta, found.clear, figures.q, strict=True):
        if abs(delta) < _LEAST * largest or not clear:
            out.append("within_noise")
        elif min(figures.runs) < PERMUTE:
            out.append("likely")
        else:
            out.append("confirmed" if q < ALPHA else "within_noise")
    return out


def decide(figures: Figures, level: Evidence, at: int = 0) -> Verdict:
    """The verdict on one figure from its level."""
    delta = float(figures.found.delta[at])
    if not figures.found.delta.any():
        return "no_change"
    if level == "confirmed":
        return "regressed" if delta > 0 else "improved"
    if level == "likely":
        return "likely_regressed" if delta > 0 else "likely_improved"
    return "no_change" if figures.found.about_same(at, SURELY) else "inconclusive"


def step_of(figures: Figures, steps: Pair, at: int = 0) -> Step:
    """One figure as the step of a result; `steps`: iterations of each side."""
    found, floor, p = figures.found, float(figures.floor[at]), float(figures.p[at])
    error, base = found.error(at), float(found.baseline[at])
    known = error > 0 and min(figures.runs) > 1
    least = float(detectable(error, found.df)) if known else None
    advised: int | None = 5
    if least is not None:
        advised = runs_for(error, figures.runs, WANTED * base, NU) if base and least > WANTED * base else None
    change = found.change(at)
    if np.isnan(error):
        change |= {"ci_low_ns": change["delta_ns"] - floor, "ci_high_ns": change["delta_ns"] + floor}
    return Step(
        **change,
        p_value=None if np.isnan(p) else p,
        runs=Pair(*figures.runs),
        steps=steps,
        noise_floor_ns=floor,
        noise_source="repeats" if max(figures.runs) > 1 else "assumed",
        min_detectable_ns=least,
        runs_advised=advised,
    )


def related(values: Floats) -> float:
    """Correlation of neighbouring iterations, by ranks (Spearman): outliers do not decide it."""
    ranks = pl.Series(values).rank().to_numpy()
    one, other = ranks[:-1] - ranks[:-1].mean(), ranks[1:] - ranks[1:].mean()
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size else 0.0


def independent(values: Floats) -> float:
    """How many independent iterations say as much as these, of which neighbours are alike: n (1 - r) / (1 + r)."""
    r = min(max(related(values), 0.0), 0.95) if len(values) >= TELL_RELATED else 0.0
    return len(values) * (1 - r) / (1 + r)


def variance_of_mean(values: Floats) -> float:
    """Squared standard error of the mean of a run's iterations; 0 of one."""
    return float(values.var(ddof=1)) / independent(values) if len(values) > 1 else 0.0


def odd(values: Sequence[float]) -> list[int]:
    """Runs that lie apart from the others of their side, by number: one of five at most, else nobody can say which are odd."""
    runs = np.asarray(values, np.float64)
    middle = float(np.median(runs))
    limit = max(ODD * robust(runs - middle), 3 * SURELY * middle)
    far = np.flatnonzero(np.abs(runs - middle) > limit).tolist()
    return far if len(far) <= len(runs) // 5 else []
