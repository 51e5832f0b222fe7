"""Timed figures with one value per run and side: estimated as the causes of a trace are, and a verdict on the first of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from tracediff.model import Evidence, Pair, Step, Verdict
from tracediff.model.causes import SURELY
from tracediff.stats.moderated import PRIOR, Moderated, moderated
from tracediff.stats.noise import dealt_t, permutation_p, splits
from tracediff.stats.rules import PERMUTE
from tracediff.stats.student import Floats
from tracediff.stats.tests import ALPHA, ODD, WANTED, benjamini_hochberg, detectable, robust, runs_for

_LEAST = 0.001  # of the largest figure: what changes less is never more than noise
TELL_RELATED = 8  # iterations that tell whether neighbours are alike
_OF_ITERATIONS = 10.0  # degrees of freedom of the variance that the iterations of a run show
_TWO_RUNS = 1.96 * np.sqrt(2)  # half-width of the difference of two runs over the standard deviation of a run


class Figures(msgspec.Struct, frozen=True):
    """What is known of each figure, arrays over figures. p: nan with one run on a side; interval: nan where it cannot be said.

    floor: half-width of the interval as if the iterations did not scatter.
    """

    found: Moderated
    floor: Floats
    p: Floats
    q: Floats  # Benjamini-Hochberg over the figures
    runs: tuple[int, int]

    def bounds(self, at: int) -> tuple[float, float]:
        """The 95 % interval of candidate - baseline."""
        delta, half = float(self.found.delta[at]), float(self.found.half[at])
        return delta - half, delta + half


def compare_runs(
    baseline: Floats, candidate: Floats, assumed: Floats, within: tuple[Floats, Floats] | None = None
) -> Figures:
    """Estimate figures, (runs, figures) a side.

    `assumed`: half-width of the difference of two runs of one program, the usual scatter of such figures. `within`: variance of
    each side's figures from the iterations of its runs, which counts where a side has one or two runs; nan where it is not known.
    """
    # sorted, so that the order of the runs cannot move the last bit
    values = np.sort(baseline, axis=0), np.sort(candidate, axis=0)
    usual, runs = assumed / _TWO_RUNS, (len(baseline), len(candidate))
    found = moderated(values, usual, within, _OF_ITERATIONS)
    p = found.p
    if min(runs) >= PERMUTE:
        # whole runs are dealt out, so here they stay as they are
        p = np.maximum(
            p, permutation_p(dealt_t((baseline, candidate), usual**2, PRIOR, splits(runs), sum(runs) - 2))
        )
    elif min(runs) == 1:
        p = np.full(len(assumed), np.nan)
    return Figures(found, moderated(values, usual).half, p, benjamini_hochberg(p), runs)


def levels(figures: Figures, largest: float) -> list[Evidence]:
    """How far each delta can be believed. `largest`: the figure that a change is measured by, ns."""
    found, out = figures.found, list[Evidence]()
    for delta, half, q in zip(found.delta, found.half, figures.q, strict=True):
        if abs(delta) < _LEAST * largest or not abs(delta) > half:  # nan compares false
            out.append("within_noise")
        elif min(figures.runs) < PERMUTE:
            out.append("likely")
        else:
            out.append("confirmed" if q < ALPHA else "within_noise")
    return out


def decide(figures: Figures, level: Evidence, at: int = 0) -> Verdict:
    """The verdict on one figure from its level."""
    delta, half = float(figures.found.delta[at]), float(figures.found.half[at])
    if not figures.found.delta.any():
        return "no_change"
    if level == "confirmed":
        return "regressed" if delta > 0 else "improved"
    if level == "likely":
        return "likely_regressed" if delta > 0 else "likely_improved"
    limit = SURELY * float(max(figures.found.baseline[at], figures.found.candidate[at]))
    return "no_change" if abs(delta) <= limit and abs(delta) + half <= 3 * limit else "inconclusive"


def step_of(figures: Figures, steps: Pair, at: int = 0) -> Step:
    """One figure as the step of a result; `steps`: iterations of each side."""
    found, (low, high) = figures.found, figures.bounds(at)
    error, half, p = float(found.error[at]), float(found.half[at]), float(figures.p[at])
    base = float(found.baseline[at])
    least = float(detectable(found.error[[at]], found.df[[at]])[0]) if error > 0 else None
    if min(figures.runs) < 2:
        least = None
    advised: int | None = 5
    if least is not None:
        advised = (
            runs_for(error, figures.runs, WANTED * base, PRIOR) if base and least > WANTED * base else None
        )
    floor = float(figures.floor[at])
    if np.isnan(half):
        low, high = float(found.delta[at]) - floor, float(found.delta[at]) + floor
    return Step(
        baseline_ns=base,
        candidate_ns=float(found.candidate[at]),
        delta_ns=float(found.delta[at]),
        ci_low_ns=low,
        ci_high_ns=high,
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
