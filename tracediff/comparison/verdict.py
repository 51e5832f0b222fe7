"""The verdict on the step time and what it rests on; report/phrases.py writes the sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tracediff.accounting.intervals import Floats
from tracediff.model import Launch, MedianFact, Pair, Phase, Relaunched, Step, Verdict, VerdictFacts
from tracediff.stats.estimates import ALPHA, MIN_CONFIRM, TRIM_RUNS, Estimates, decisive_interval
from tracediff.stats.tests import min_detectable, permutation_p, runs_for, runs_needed, smallest_p

SAME = 0.01  # a delta within this part of the step, and an interval within three times that, is no change
_WANTED = 0.02  # of the step: the change for which the advised number of runs is
_FEW = 0.25  # the median step changed by less than this part of what the mean did
MOVED = 0.5  # so much of the kernels changed the way in which they are launched

STEP = 0  # the column of the whole step among the cells


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


def decide(step: Step, cells: Estimates, *, comparable: bool) -> tuple[Verdict, VerdictFacts]:
    """The verdict and its basis."""
    if not comparable:
        return "not_comparable", VerdictFacts("checks")
    if not cells.delta.any():
        return "no_change", VerdictFacts("identical")
    runs = min(step.runs.baseline, step.runs.candidate)
    delta, (low, high), outlying = step.delta_ns, (step.ci_low_ns, step.ci_high_ns), None
    if runs >= TRIM_RUNS:  # trimmed means decide
        low, high = (float(bound[0]) for bound in decisive_interval(cells.take([STEP])))
        outlying = None if low <= delta <= high else (low + high) / 2
        delta = (low + high) / 2
    known = not math.isnan(cells.low[STEP]) and not math.isnan(cells.high[STEP])
    outside = known and (
        low > 0 or high < 0
    )  # an interval of the noise floor around the delta proves nothing
    beyond = abs(step.delta_ns) > (step.noise_floor_ns or 0.0)
    if runs >= MIN_CONFIRM and step.p_value is not None and step.p_value < ALPHA and outside:
        return ("regressed" if delta > 0 else "improved"), VerdictFacts("test", outlying)
    if runs < MIN_CONFIRM and beyond and (outside or runs > 1):
        return ("likely_regressed" if delta > 0 else "likely_improved"), VerdictFacts("noise_floor", outlying)
    limit = SAME * step.baseline_ns
    if abs(step.delta_ns) <= limit and max(abs(step.ci_low_ns), abs(step.ci_high_ns)) <= 3 * limit:
        return "no_change", VerdictFacts("same", outlying)
    few = math.isnan(cells.low[STEP]) and runs == 1
    return "inconclusive", VerdictFacts("scatter", outlying, few)


def caveats(
    facts: VerdictFacts, step: Step, phases: Sequence[Phase], launch: Launch, relaunched: Relaunched | None
) -> VerdictFacts:
    """What a called change leaves unsaid: another way of launching, a change of a few steps only."""
    if facts.basis not in ("test", "noise_floor"):
        return facts
    moved = abs(launch.candidate.graph_coverage - launch.baseline.graph_coverage) >= MOVED
    medians = [
        (phase.baseline.steps + phase.candidate.steps, phase.phase, phase.delta_p50_ns)
        for phase in phases
        if phase.baseline and phase.candidate and phase.delta_p50_ns is not None
    ]
    median = None
    if medians:
        _, name, delta = max(medians)
        median = MedianFact(name, delta) if abs(delta) < _FEW * abs(step.delta_ns) else None
    return VerdictFacts(
        facts.basis, facts.delta_trimmed_ns, facts.few_steps, relaunched, moved and relaunched is None, median
    )
