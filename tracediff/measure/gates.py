"""CI gates: `--fail-on METRIC:+5%`, `METRIC:+200us`. Fails only on what can be told from noise.

Metrics: step, a category of the accounting (gc, launch_api, ...), idle (everything but compute, comm and memcpy),
and p50, p90, p99 of a phase (generation.p99).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracediff.errors import TracediffError
from tracediff.measure.cells import MIN_CONFIRM
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
    if not found or (
        found["metric"] not in metrics and not re.fullmatch(r"\w+\.p(50|90|99)", found["metric"])
    ):
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
    baseline, delta, certain = _metric(gate.metric, result)
    if baseline is None:
        return GateOutcome(gate, "inconclusive", f"{gate.metric} was not measured on both sides")
    limit = gate.limit * baseline if gate.percent else gate.limit
    change = f"{gate.metric} {delta / 1e3:+.1f} us" + (
        f" ({100 * delta / baseline:+.1f} %)" if baseline else ""
    )
    if delta <= limit:
        return GateOutcome(gate, "passed", f"{change}, limit {limit / 1e3:.1f} us")
    if certain <= limit:
        return GateOutcome(gate, "inconclusive", f"{change} exceeds {limit / 1e3:.1f} us, but may be noise")
    return GateOutcome(gate, "failed", f"{change} exceeds {limit / 1e3:.1f} us")


def _metric(metric: str, result: Result) -> tuple[float | None, float, float]:
    """(baseline, delta, the part of the delta that is more than noise)."""
    if metric == "step":
        sure = result.verdict in ("regressed", "likely_regressed")
        return result.step.baseline_ns, result.step.delta_ns, result.step.delta_ns if sure else 0.0
    if "." in metric:
        phase, quantile = metric.split(".")
        return _tail(phase, quantile, result)
    books = result.accounting
    names = [name for name in CATEGORIES[3:] if name in books.delta] if metric == "idle" else [metric]
    if not all(name in books.delta for name in names):
        return None, 0.0, 0.0
    sure_names = [name for name in names if books.level.get(name) in ("confirmed", "likely")]
    baseline = sum(books.baseline.get(name, 0.0) for name in names)
    return baseline, sum(books.delta[name] for name in names), sum(books.delta[name] for name in sure_names)


def _tail(phase: str, quantile: str, result: Result) -> tuple[float | None, float, float]:
    """A quantile of a phase; certain where it is higher in every run of the candidate than in any of the baseline.

    Three runs a side that part so do it by chance in one of twenty pairs of sides; fewer say nothing of a tail.
    """
    for one in result.phases:
        if one.phase != phase or not one.baseline or not one.candidate:
            continue
        baseline = float(getattr(one.baseline, f"{quantile}_ns"))
        delta = float(getattr(one.candidate, f"{quantile}_ns")) - baseline
        runs: dict[str, dict[int, list[int]]] = {"baseline": {}, "candidate": {}}
        for sample in result.samples:
            if sample.phase == phase:
                runs[sample.side].setdefault(sample.run, []).append(sample.period_ns)
        tails = [
            [float(np.quantile(times, int(quantile[1:]) / 100)) for times in runs[side].values()]
            for side in ("baseline", "candidate")
        ]
        apart = min(map(len, tails)) >= MIN_CONFIRM and min(tails[1]) > max(tails[0])
        return baseline, delta, delta if apart else 0.0
    return None, 0.0, 0.0
