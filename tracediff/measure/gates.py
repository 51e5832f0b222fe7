"""CI gates: `--fail-on METRIC:+5%`, `METRIC:+200us`. Fails only on what can be told from noise.

Metrics: step, a category of the accounting (gc, launch_api, ...), idle (everything but compute, comm and memcpy),
and p50, p90, p99 of a phase (generation.p99).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tracediff.errors import TracediffError
from tracediff.model import CATEGORIES, Result

_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_GATE = re.compile(r"(?P<metric>[a-z_.0-9]+):\+?(?P<value>\d+(?:\.\d+)?)(?P<unit>%|ns|us|ms|s)\Z")

Outcome = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True)
class Gate:
    """A limit on how much worse a metric may get: a share of the baseline (percent) or ns a step."""

    text: str
    metric: str
    limit: float
    percent: bool


@dataclass(frozen=True)
class GateOutcome:
    """What became of a gate."""

    gate: Gate
    outcome: Outcome
    message: str


def parse_gate(text: str) -> Gate:
    """Raises `TracediffError` (bad-gate)."""
    found = _GATE.match(text.strip())
    metrics = ("step", "idle", *CATEGORIES)
    if not found or (found["metric"] not in metrics and not re.fullmatch(r"\w+\.p(50|90|99)", found["metric"])):
        raise TracediffError(
            "bad-gate",
            f"--fail-on {text!r} is no METRIC:+LIMIT",
            fix=f"for example step:+5% or gc:+200us; metrics: {', '.join(metrics)}, PHASE.p50, PHASE.p90, PHASE.p99",
            exit_code=2,
        )
    unit = found["unit"]
    value = float(found["value"])
    return Gate(text, found["metric"], value / 100 if unit == "%" else value * _UNITS[unit], unit == "%")


def judge(gate: Gate, result: Result) -> GateOutcome:
    """Whether the gate holds. What exceeds the limit but may be noise is inconclusive, not failed."""
    if result.verdict == "not_comparable":
        return GateOutcome(gate, "inconclusive", f"not comparable: {result.verdict_reason}")
    baseline, delta, sure = _metric(gate.metric, result)
    if baseline is None:
        return GateOutcome(gate, "inconclusive", f"{gate.metric} was not measured on both sides")
    limit = gate.limit * baseline if gate.percent else gate.limit
    change = f"{gate.metric} {delta / 1e3:+.1f} us" + (f" ({100 * delta / baseline:+.1f} %)" if baseline else "")
    if delta <= limit:
        return GateOutcome(gate, "passed", f"{change}, limit {limit / 1e3:.1f} us")
    if not sure:
        return GateOutcome(gate, "inconclusive", f"{change} exceeds {limit / 1e3:.1f} us, but may be noise")
    return GateOutcome(gate, "failed", f"{change} exceeds {limit / 1e3:.1f} us")


def _metric(metric: str, result: Result) -> tuple[float | None, float, bool]:
    """(baseline, delta, whether the delta is more than noise)."""
    if metric == "step":
        return result.step.baseline_ns, result.step.delta_ns, result.verdict in ("regressed", "likely_regressed")
    if "." in metric:
        name, quantile = metric.split(".")
        for phase in result.phases:
            if phase.phase == name and phase.baseline and phase.candidate:
                one = getattr(phase.baseline, f"{quantile}_ns")
                other = getattr(phase.candidate, f"{quantile}_ns")
                # tails have no test of their own: they are believed when the step's noise is exceeded
                return one, other - one, other - one > (result.step.noise_floor_ns or 0.0)
        return None, 0.0, False
    books = result.accounting
    names = [name for name in CATEGORIES[3:] if name in books.delta] if metric == "idle" else [metric]
    if not all(name in books.delta for name in names):
        return None, 0.0, False
    baseline = sum(books.baseline.get(name, 0.0) for name in names)
    delta = sum(books.delta[name] for name in names)
    return baseline, delta, any(books.level.get(name) in ("confirmed", "likely") for name in names)
