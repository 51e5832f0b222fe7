"""Run-to-run noise of a difference: an assumed one where nothing repeats, else repeats steadied by it.

The assumed noise is no substitute for repeats: a verdict that rests on it is at best `likely`. All values are ns per step;
every function is symmetric in the two sides.
"""

from __future__ import annotations

import numpy as np

from tracediff.stats.bootstrap import Floats
from tracediff.stats.tests import run_sd

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
