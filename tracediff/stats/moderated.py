"""Figures with one value per run and side, such as latencies: moderated t statistics; knows nothing of traces.

    s^2 = (PRIOR * s0^2 + SS) / (PRIOR + df), t with PRIOR + df degrees of freedom              (Smyth 2004)

s0: scatter that such a figure usually has. SS: squares of the runs about the mean of their side. With one or two runs a side the
scatter within the runs is added, because so few runs may agree by chance.
Every function is symmetric: exchanging the sides changes the sign of delta and nothing else.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tracediff.stats.student import Floats, above, quantile
from tracediff.stats.tests import RUNS_TELL

# Degrees of freedom that the usual scatter counts for: with four, 1 of 126 ways to deal ten runs of one program out had a false sure figure.
PRIOR = 4
LONE_RUN = 2.25  # times the usual variance where a side has one run: half as much scatter again, none false in 60 null pairs of single runs


class Moderated(msgspec.Struct, frozen=True):
    """Arrays over figures. half: half-width of the 95 % interval of delta; error: its standard error."""

    baseline: Floats
    candidate: Floats
    delta: Floats
    half: Floats
    error: Floats
    p: Floats
    df: Floats


def moderated(
    values: tuple[Floats, Floats],
    usual: Floats,
    within: tuple[Floats, Floats] | None = None,
    within_df: float = 0.0,
) -> Moderated:
    """The difference of every figure, (runs, figures) a side. `usual`: s0. `within`: variance of each side's mean from within its runs."""
    one, other = values
    runs = len(one), len(other)
    df = runs[0] + runs[1] - 2
    squares = ((one - one.mean(axis=0)) ** 2).sum(axis=0) + ((other - other.mean(axis=0)) ** 2).sum(axis=0)
    variance = (PRIOR * usual**2 + squares) / (PRIOR + df)
    few = min(runs) < RUNS_TELL
    if few:
        variance = np.maximum(variance, usual**2 * (LONE_RUN if min(runs) == 1 else 1.0))
    of_runs = variance * (1 / runs[0] + 1 / runs[1])
    of_steps = within[0] + within[1] if few and within is not None else np.zeros(len(usual))
    error2 = of_runs + of_steps
    freedom = np.full(len(usual), float(PRIOR + df))
    if of_steps.any():  # Satterthwaite (1946)
        spread = of_runs**2 / freedom + of_steps**2 / max(within_df, 1.0)
        freedom = np.where(spread > 0, error2**2 / np.where(spread > 0, spread, 1.0), freedom)
    error = np.sqrt(error2)
    delta = other.mean(axis=0) - one.mean(axis=0)
    return Moderated(
        baseline=one.mean(axis=0),
        candidate=other.mean(axis=0),
        delta=delta,
        half=quantile(freedom, 0.975) * error,
        error=error,
        p=2 * above(freedom, _t(delta, error)),
        df=freedom,
    )


def _t(delta: Floats, error: Floats) -> Floats:
    """|t|; without any scatter 0 or infinite, nan where a value is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(error == 0, np.where(delta == 0, 0.0, np.inf), np.abs(delta) / error))
