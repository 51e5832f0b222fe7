"""Run-to-run noise of a difference: assumed from the causes' rows where nothing repeats, else repeats steadied by it.

The assumed noise is no substitute for repeats: a verdict that rests on it is at best `likely`. All values are ns per step;
every function is symmetric in the two sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tracediff.model.causes import CAUSES
from tracediff.stats.bootstrap import Floats
from tracediff.stats.tests import run_sd

PRIOR_RUNS = 4  # how many degrees of freedom the assumed noise counts for


def assumed_half_width(category: str, baseline_ns: npt.ArrayLike, candidate_ns: npt.ArrayLike) -> Floats:
    """Half-width of the noise of a difference of means of one category; 0 where both sides are 0."""
    noise = CAUSES[category].noise
    larger = np.maximum(np.abs(np.asarray(baseline_ns, float)), np.abs(np.asarray(candidate_ns, float)))
    width = np.maximum(noise.relative * larger + noise.plus_ns, noise.at_least_ns)
    return np.where(larger > 0, width, 0.0)


def assumed_noise_total(baseline: Mapping[str, float], candidate: Mapping[str, float]) -> float:
    """Half-width of the sum of all categories (category -> mean on each side).

    What moves together adds up; that sum and each of the others are independent and add in quadrature.
    """
    together, alone = 0.0, []
    for name in sorted({*baseline, *candidate}):
        width = float(assumed_half_width(name, baseline.get(name, 0.0), candidate.get(name, 0.0)))
        if CAUSES[name].noise.together:
            together += width
        else:
            alone.append(width)
    return math.hypot(together, *alone)


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
