"""When enough runs have been made: an interval of the step's change that may be looked at after every pair of runs.

A fixed 95 % interval that is looked at again and again excludes the truth far more often than in 5 % of the cases.
Here it is a confidence sequence: with probability 1 - alpha it holds the true difference after every pair at
once, however many are made and whatever decides to stop (Ville's inequality). It is the one that the t test with
a normal prior of variance G on the effect size (difference over standard deviation) gives, the scale integrated out:
Lai (1976); Perez-Ortiz, Lardy, de Heide and Gruenwald (2024) show that its Bayes factor is an e-process:

    B_n = (1 + n G)^(-1/2) ((1 + t^2/v) / (1 + t^2/(v (1 + n G))))^(n/2),  v = n - 1; the interval holds every
    difference for which B_n < 1 / alpha

Unit is the pair: candidate run minus the baseline run beside it in time, so that drift of the machine cancels.
Exact for normal differences; tests/comparison/test_sequential.py simulates others. The price of looking after every
pair: the interval is 1.6 to 1.9 times as wide as one that is looked at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracediff.accounting.intervals import Floats
from tracediff.comparison.frame import CellSums, Values, build_frame
from tracediff.execution.sides import Side, steps_table

ALPHA = 0.05
METHOD = "always-valid confidence sequence of paired runs (t test, normal mixture)"
_PRIOR = 4.0  # G: narrowest for 5 to 10 pairs (see the table in docs/capture.md)

Answer = Literal["changed", "narrow"]


@dataclass(frozen=True)
class Look:
    """What is known after some pairs, ns per step. Bounds are infinite while too few pairs say nothing."""

    pairs: int
    baseline_ns: float
    delta_ns: float
    low_ns: float
    high_ns: float
    wanted_ns: float  # half-width that is wanted
    answer: Answer | None  # None: go on

    @property
    def half_ns(self) -> float:
        """Half-width of the interval."""
        return (self.high_ns - self.low_ns) / 2


def confidence_sequence(
    differences: Sequence[float] | Floats, *, alpha: float = ALPHA, prior: float = _PRIOR
) -> tuple[float, float]:
    """Return the interval (low, high) of the mean of paired differences after len(differences) pairs."""
    values = np.asarray(differences, np.float64)
    n = len(values)
    if n < 2:
        return -math.inf, math.inf
    wide = 1 + n * prior
    # B_n < 1/alpha solved for t^2 / v
    ratio = (math.sqrt(wide) / alpha) ** (2 / n)
    if ratio >= wide:
        return -math.inf, math.inf
    bound = (ratio - 1) / (1 - ratio / wide)
    half = float(values.std(ddof=1)) * math.sqrt((n - 1) * bound / n)
    mean = float(values.mean())
    return mean - half, mean + half


def look(baseline: Floats, candidate: Floats, *, wanted: float, relative: bool, alpha: float = ALPHA) -> Look:
    """Say whether these pairs are enough. `wanted`: half-width in ns, or as a share of the baseline's mean.

    `baseline[k]` and `candidate[k]` are the step times of one pair, ns.
    """
    low, high = confidence_sequence(candidate - baseline, alpha=alpha)
    mean = float(baseline.mean())
    target = wanted * mean if relative else wanted
    answer: Answer | None = None
    if low > 0 or high < 0:
        answer = "changed"
    elif (high - low) / 2 <= target:
        answer = "narrow"
    return Look(len(baseline), mean, float((candidate - baseline).mean()), low, high, target, answer)


def step_times(baseline: Side, candidate: Side) -> tuple[Floats, Floats]:
    """The mean typical step of each run of both sides, ns: at equal workload, the phases that can be judged weighted by their share.

    A phase of a few steps a run (one prefill) would widen the interval and say nothing; it counts where there is no other.

    Raises `TracediffError`: no-common-strata, run-without-steps.
    """
    sides = (baseline, candidate)
    frame = build_frame(steps_table(sides), (len(baseline.runs), len(candidate.runs)))
    table = CellSums.of(
        [
            Values(
                np.arange(len(frame.steps)),
                np.zeros(len(frame.steps), np.int64),
                frame.steps["ns"].to_numpy(),
            )
        ],
        1,
    )
    times = [np.zeros(many) for many in frame.runs]
    phases = [phase for phase in frame.phases if phase.judged] or frame.phases
    whole = sum(phase.share for phase in phases)
    for phase in phases:
        found = frame.sums(table, phase.typical, phase.klass, variance=False)
        for side, values in enumerate(found.values):
            # what a run without such steps would have taken, is the mean of its side
            own = np.full(frame.runs[side], found.means[side, 0])
            own[found.runs[side]] = values[:, 0]
            times[side] += phase.share / whole * own
    return times[0], times[1]
