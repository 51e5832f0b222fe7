"""The verdict on the step time, in one word and one sentence."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tracediff.accounting.intervals import Floats
from tracediff.compare.cells import ALPHA, MIN_CONFIRM, TRIM_RUNS, Estimates, decisive_interval
from tracediff.model import Finding, Pair, Step, Verdict
from tracediff.stats.tests import min_detectable, permutation_p, runs_for, runs_needed, smallest_p

_ADVICE = " For 2 % take "
_SAME = 0.01  # a delta within this part of the step, and an interval within three times that, is no change


def step_estimate(cells: Estimates, column: int, noise_ns: float, steps: Pair) -> Step:
    """The headline from the cell of the whole step."""
    runs = Pair(len(cells.baseline_runs), len(cells.candidate_runs))
    low, high = float(cells.low[column]), float(cells.high[column])
    if math.isnan(low) or math.isnan(high):
        low, high = float(cells.delta[column]) - noise_ns, float(cells.delta[column]) + noise_ns
    values = cells.baseline_runs[:, column], cells.candidate_runs[:, column]
    detectable = min_detectable(*values)
    return Step(
        baseline_ns=float(cells.baseline[column]),
        candidate_ns=float(cells.candidate[column]),
        delta_ns=float(cells.delta[column]),
        ci_low_ns=low,
        ci_high_ns=high,
        p_value=_p(values[0], values[1], float(cells.p[column])),
        runs=runs,
        steps=steps,
        noise_floor_ns=noise_ns,
        noise_source=cells.noise_source,
        min_detectable_ns=detectable,
        power_note=_power(values[0], values[1], float(cells.baseline[column]), detectable),
    )


def _p(baseline: Floats, candidate: Floats, welch: float) -> float | None:
    """Exact permutation test where so many runs can reach 5 %; Welch's t test below that."""
    if min(len(baseline), len(candidate)) < 2:
        return None
    if smallest_p(len(baseline), len(candidate)) <= ALPHA:
        return permutation_p(baseline, candidate)
    return None if math.isnan(welch) else welch


def _power(baseline: Floats, candidate: Floats, step_ns: float, detectable: float | None) -> str:
    runs = min(len(baseline), len(candidate))
    if detectable is None:
        return f"Run-to-run noise is not measured with a single run on a side: record {max(5, runs_needed(ALPHA))} or more a side."
    if not step_ns or not detectable:
        return ""
    deviations = [np.std(values, ddof=1) for values in (baseline, candidate) if len(values) > 1]
    sd = float(np.sqrt(np.mean(np.square(deviations))))
    text = (
        f"With {runs} runs a side that scatter like these, the test finds a change of {100 * detectable / step_ns:.1f} %"
        " four times in five."
    )
    if detectable > 0.02 * step_ns and sd > 0:
        needed = runs_for(0.02 * step_ns, sd)
        text += f"{_ADVICE}{needed if needed <= 50 else 'more than 50'} runs a side."
    return text


def without_advice(step: Step, verdict: Verdict) -> Step:
    """Of a confirmed change the step says no longer how many runs a smaller one would take."""
    if verdict not in ("regressed", "improved"):
        return step
    return msgspec.structs.replace(step, power_note=step.power_note.partition(_ADVICE)[0])


def decide(
    step: Step,
    cells: Estimates,
    column: int,
    findings: list[Finding],
    *,
    comparable: bool,
    reason: str,
    lead: str = "",
) -> tuple[Verdict, str]:
    """The verdict and why. `reason` names what makes the sides incomparable, `lead` what explains several findings."""
    if not comparable:
        return "not_comparable", reason
    if not cells.delta.any():
        return "no_change", "Every measured place is the same to the nanosecond on both sides."
    trimmed = _trimmed_delta(step, cells, column)
    change = f"{step.delta_ns / 1e3:+,.1f} us a step ({_percent(step)})" + _outlying(step, trimmed)
    places = [
        finding
        for finding in findings
        if finding.level in ("exact", "confirmed", "likely")
        and abs(finding.delta_ns) > 0
        and finding.cause != "batch_mix"
    ]
    best = places[0] if places else None
    because = f" Largest cause: {best.title} ({best.delta_ns / 1e3:+,.1f} us)." if best else ""
    because = f" {lead}{because.replace('Largest cause', 'Largest part')}" if lead else because
    worse = (step.delta_ns if trimmed is None else trimmed[0]) > 0
    runs = min(step.runs.baseline, step.runs.candidate)
    outside = _interval_excludes_zero(step, cells, column)
    beyond = abs(step.delta_ns) > (step.noise_floor_ns or 0.0)
    if runs >= MIN_CONFIRM and step.p_value is not None and step.p_value < ALPHA and outside:
        return ("regressed" if worse else "improved"), (
            f"{change}, p {_probability(step.p_value)} over {step.runs.baseline} and {step.runs.candidate} runs.{because}"
        )
    if runs < MIN_CONFIRM and beyond and (outside or runs > 1):
        why = (
            "run-to-run noise is assumed, not measured"
            if step.noise_source == "assumed"
            else "too few runs to confirm it"
        )
        return ("likely_regressed" if worse else "likely_improved"), (
            f"{change}, beyond the noise floor of {(step.noise_floor_ns or 0) / 1e3:,.1f} us; {why}.{because}"
        )
    limit = _SAME * step.baseline_ns
    within = abs(step.delta_ns) <= limit and max(abs(step.ci_low_ns), abs(step.ci_high_ns)) <= 3 * limit
    if within:
        tail = f" Yet within the step: {best.title} ({best.delta_ns / 1e3:+,.1f} us)." if best else ""
        return "no_change", f"{change}, within 1 % of the step.{tail}"
    # beyond the floor it is the test or the interval that says no
    scatter = "the scatter of the runs" if runs > 1 else "the scatter of the steps"
    if math.isnan(cells.low[column]) and runs == 1:
        scatter += ", which so few steps do not show"
    noise = scatter if beyond else f"noise (floor {(step.noise_floor_ns or 0) / 1e3:,.1f} us)"
    return "inconclusive", f"{change} cannot be told from {noise}.{_all_the_same(places)}"


def _all_the_same(places: list[Finding]) -> str:
    """What holds though the step's change may be noise: a place is sure only where it was counted or confirmed."""
    for word, levels in (("sure", ("exact", "confirmed")), ("likely", ("likely",))):
        for one in places:
            if one.level in levels:
                return f" But one thing is {word}: {one.title} ({one.delta_ns / 1e3:+,.1f} us)."
    return ""


def _interval_excludes_zero(step: Step, cells: Estimates, column: int) -> bool:
    if math.isnan(cells.low[column]) or math.isnan(cells.high[column]):
        return False  # the step then has the noise floor around the delta, which proves nothing
    trimmed = _trimmed_delta(step, cells, column)
    low, high = (step.ci_low_ns, step.ci_high_ns) if trimmed is None else trimmed[1:]
    return low > 0 or high < 0


def _trimmed_delta(step: Step, cells: Estimates, column: int) -> tuple[float, float, float] | None:
    """Delta of the trimmed means with its interval, ns: what decides from five runs a side on."""
    if min(step.runs.baseline, step.runs.candidate) < TRIM_RUNS:
        return None
    low, high = (float(bound[0]) for bound in decisive_interval(cells.take([column])))
    return (low + high) / 2, low, high


def _outlying(step: Step, trimmed: tuple[float, float, float] | None) -> str:
    """Said where single runs move the mean out of the interval that the other runs give."""
    if trimmed is None or trimmed[1] <= step.delta_ns <= trimmed[2]:
        return ""
    return f", {trimmed[0] / 1e3:+,.1f} us without the fastest and slowest runs of each side"


def _probability(p: float) -> str:
    """As the reports write it."""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _percent(step: Step) -> str:
    """With as many digits as the reports give beside it."""
    if not step.baseline_ns:
        return "no baseline"
    percent = 100 * step.delta_ns / step.baseline_ns
    return f"{percent:+,.{0 if abs(percent) >= 100 else 1}f} %"
