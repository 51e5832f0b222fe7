"""The verdict on one timed figure with a value per run: what companions compare that have no steps."""

from __future__ import annotations

import math

import numpy as np

from tracediff.accounting.intervals import Floats
from tracediff.model import Pair, Step, Verdict
from tracediff.stats.estimates import ALPHA, MIN_CONFIRM, TRIM_RUNS, Estimates, decisive_interval
from tracediff.stats.tests import min_detectable, permutation_p, runs_for, runs_needed, smallest_p

SAME = 0.01  # a delta within this part of the whole, and an interval within three times that, is no change
_WANTED = 0.02  # of the whole: the change for which the advised number of runs is

STEP = 0  # the column of the whole among the cells


def step_estimate(cells: Estimates, noise_ns: float, steps: Pair) -> Step:
    """The headline from the cell of the whole step."""
    baseline, candidate = cells.baseline_runs[:, STEP], cells.candidate_runs[:, STEP]
    mean, delta = float(cells.baseline[STEP]), float(cells.delta[STEP])
    low, high = float(cells.low[STEP]), float(cells.high[STEP])
    if math.isnan(low) or math.isnan(high):
        low, high = delta - noise_ns, delta + noise_ns
    detectable = min_detectable(baseline, candidate)
    return Step(
        baseline_ns=mean,
        candidate_ns=float(cells.candidate[STEP]),
        delta_ns=delta,
        ci_low_ns=low,
        ci_high_ns=high,
        p_value=_p(baseline, candidate, float(cells.p[STEP])),
        runs=Pair(len(baseline), len(candidate)),
        steps=steps,
        noise_floor_ns=noise_ns,
        noise_source=cells.noise_source,
        min_detectable_ns=detectable,
        runs_advised=_runs_advised(baseline, candidate, mean, detectable),
    )


def _p(baseline: Floats, candidate: Floats, welch: float) -> float | None:
    """Exact permutation test where so many runs can reach 5 %; Welch's t test below that."""
    if min(len(baseline), len(candidate)) < 2:
        return None
    if smallest_p(len(baseline), len(candidate)) <= ALPHA:
        return permutation_p(baseline, candidate)
    return None if math.isnan(welch) else welch


def _runs_advised(
    baseline: Floats, candidate: Floats, step_ns: float, detectable: float | None
) -> int | None:
    if detectable is None:
        return max(5, runs_needed(ALPHA))
    sd = float(np.sqrt(np.mean([np.std(values, ddof=1) ** 2 for values in (baseline, candidate)])))
    if not step_ns or detectable <= _WANTED * step_ns or not sd:
        return None
    return runs_for(_WANTED * step_ns, sd)


def decide(step: Step, cells: Estimates) -> Verdict:
    """The verdict."""
    if not cells.delta.any():
        return "no_change"
    runs = min(step.runs.baseline, step.runs.candidate)
    delta, (low, high) = step.delta_ns, (step.ci_low_ns, step.ci_high_ns)
    if runs >= TRIM_RUNS:  # trimmed means decide
        low, high = (float(bound[0]) for bound in decisive_interval(cells.take([STEP])))
        delta = (low + high) / 2
    known = not math.isnan(cells.low[STEP]) and not math.isnan(cells.high[STEP])
    outside = known and (
        low > 0 or high < 0
    )  # an interval of the noise floor around the delta proves nothing
    beyond = abs(step.delta_ns) > (step.noise_floor_ns or 0.0)
    if runs >= MIN_CONFIRM and step.p_value is not None and step.p_value < ALPHA and outside:
        return "regressed" if delta > 0 else "improved"
    if runs < MIN_CONFIRM and beyond and (outside or runs > 1):
        return "likely_regressed" if delta > 0 else "likely_improved"
    limit = SAME * step.baseline_ns
    if abs(step.delta_ns) <= limit and max(abs(step.ci_low_ns), abs(step.ci_high_ns)) <= 3 * limit:
        return "no_change"
    return "inconclusive"
