"""CI gates: `--fail-on METRIC:+5%`, `METRIC:+200us`, `launches:+10`. A gate fails only on what can be told from noise.

Metrics of time: step (the mean of all phases, and the typical step of the phase `step`), a phase (generation, context, mixed,
class-2, ...: its typical step), a category of the accounting (gc, launch_api, ...), idle (everything but compute, comm and memcpy), p50, p90 and p99 of a phase (generation.p99), and kernel:NAME,
the kernels in whose name NAME occurs (`*`: anything).
Metrics that are counted, a step: launches, graph_launches, kernels, syncs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from tracediff.comparison.kernel_answer import rows_named
from tracediff.comparison.places import SURE
from tracediff.errors import TracediffError
from tracediff.formats.regular import read_toml
from tracediff.model import (
    CATEGORIES,
    GateOutcome,
    Gates,
    GateWaiver,
    Outcome,
    Phase,
    Result,
    Severity,
)
from tracediff.model.causes import IDLE

_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_LIMIT = re.compile(r"\+?(?P<value>\d+(?:\.\d+)?)(?P<unit>%|ns|us|ms|s|)\Z")
_TAIL = re.compile(r"[\w-]+\.p(50|90|99)\Z")
_CLASS = re.compile(r"class-\d+\Z")
_KERNEL = "kernel:"
_NAME = re.compile(r"[^\n]*(\w|\*)[^\n]*\Z")
PHASES = ("generation", "context", "mixed")
_STEP = "step"
TIMES = (_STEP, *PHASES, "idle", *CATEGORIES)
# What is counted -> the kinds of trace that it is counted in: without one of them there is no count, not even none.
_COUNTED_IN = {
    "launches": ("cuda_api", "kernels"), "graph_launches": ("cuda_api", "kernels"),
    "kernels": ("kernels",), "syncs": ("cuda_api",),
}  # fmt: skip
COUNTS = tuple(_COUNTED_IN)
_LEAST_RUNS = 3  # a side, below which nothing is said of a tail


@dataclass(frozen=True)
class Gate:
    """A limit on how much worse a metric may get: a share of the baseline (percent), ns per step, or a count per step.

    A gate of severity `warning` is judged and shown, and never changes the exit status.
    """

    text: str
    metric: str
    limit: float
    percent: bool
    severity: Severity = "error"


@dataclass(frozen=True)
class _Measured:
    """A metric on both sides; `sure` is the part of the delta that is more than noise."""

    baseline: float
    delta: float
    sure: float
    unseen: float = 0.0  # a change of up to this much would not have shown with the runs at hand
    low: float | None = None  # interval of the delta, where there is one
    high: float | None = None


def parse_gate(text: str, severity: Severity = "error") -> Gate:
    """Raises `TracediffError` (bad-gate). The limit follows the last colon: names of kernels hold colons."""
    metric, _, given = text.strip().rpartition(":")
    limit = _LIMIT.match(given)
    counted = metric in COUNTS
    kernel = metric.startswith(_KERNEL) and _NAME.match(metric.removeprefix(_KERNEL))
    known = counted or metric in TIMES or _CLASS.match(metric) or _TAIL.match(metric) or kernel
    if not known or not limit or (limit["unit"] not in ("", "%") if counted else not limit["unit"]):
        raise TracediffError(
            "bad-gate",
            f"{text!r} is no METRIC:+LIMIT",
            fix=f"for example step:+5%, gc:+200us or launches:+10; metrics: {', '.join(TIMES)}, class-2, PHASE.p50, "
            f"PHASE.p90, PHASE.p99, kernel:NAME; counted: {', '.join(COUNTS)}",
            exit_code=2,
        )
    unit, value = limit["unit"], float(limit["value"])
    scaled = value / 100 if unit == "%" else value * _UNITS.get(unit, 1.0)
    return Gate(text, metric, scaled, unit == "%", severity)


def judge(gate: Gate, result: Result) -> GateOutcome:
    """Whether the gate holds. What exceeds the limit but may be noise is inconclusive, not failed."""
    if result.verdict == "not_comparable":
        return _outcome(gate, "inconclusive", f"not comparable: {result.verdict_reason}")
    found = _measure(gate.metric, result)
    whole = _held(gate, found)
    main = _phase(_STEP, result) if gate.metric == _STEP else ""
    if isinstance(main, str):
        return whole
    # the mean hides a change of the steps that are most: in steps that take longer, and in rare ones
    typical = _held(gate, main, "typical ")
    return max(whole, typical, key=lambda one: _WORST.index(one.outcome))


_WORST: tuple[Outcome, ...] = ("passed", "inconclusive", "failed")


def _held(gate: Gate, found: _Measured | str, of: str = "") -> GateOutcome:
    """Whether a metric keeps within the limit. `of`: said before its name."""
    if isinstance(found, str):
        return _outcome(gate, "inconclusive", found)
    limit = gate.limit * found.baseline if gate.percent else gate.limit
    change = f"{of}{gate.metric} {_amount(gate, found.delta, '+')}" + (
        f" ({_percent(found.delta / found.baseline)})" if found.baseline else ""
    )
    beyond = f"{change} exceeds {_amount(gate, limit)}"
    if found.delta <= limit:
        blind = ""
        if found.unseen > limit:
            blind = f"; with these runs a change below {_amount(gate, found.unseen)} may not show"
        return _outcome(gate, "passed", f"{change}, limit {_amount(gate, limit)}{blind}", limit, found)
    if found.sure <= limit:
        return _outcome(gate, "inconclusive", f"{beyond}, but may be noise", limit, found)
    return _outcome(gate, "failed", beyond, limit, found)


def _outcome(
    gate: Gate, outcome: Outcome, message: str, limit: float | None = None, found: _Measured | None = None
) -> GateOutcome:
    judged = GateOutcome(
        text=gate.text.strip(), metric=gate.metric, severity=gate.severity, outcome=outcome, message=message,
        unit="count" if gate.metric in COUNTS else "ns", limit=limit,
    )  # fmt: skip
    if found is None:
        return judged
    return replace(judged, baseline=found.baseline, delta=found.delta, ci_low=found.low, ci_high=found.high)


def _percent(share: float) -> str:
    """Without a sign where it rounds to nothing: the amount beside it may have either."""
    percent = round(100 * share, 1)
    return f"{percent:+,.{0 if abs(percent) >= 100 else 1}f} %" if percent else "0.0 %"


def _amount(gate: Gate, value: float, sign: Literal["", "+"] = "") -> str:
    if gate.metric in COUNTS:
        return f"{value:{sign}.2f}".rstrip("0").rstrip(".") + " a step"
    return f"{value / 1e3:{sign},.1f} us"


def _measure(metric: str, result: Result) -> _Measured | str:
    """The metric, or why it cannot be judged."""
    if metric == _STEP:
        step = result.step
        # the phases that are slower for sure are all that is sure of a mean that may itself be noise
        sure = step.delta_ns if step.ci_low_ns > 0 else sum(_sure(one) * one.share for one in result.phases)
        unseen = step.min_detectable_ns or step.noise_floor_ns or 0.0
        return _Measured(step.baseline_ns, step.delta_ns, sure, unseen, step.ci_low_ns, step.ci_high_ns)
    if metric in PHASES or _CLASS.match(metric):
        return _phase(metric, result)
    if metric.startswith(_KERNEL):
        return _kernel(metric.removeprefix(_KERNEL).strip(), result)
    if metric in COUNTS:
        return _count(metric, result)
    if "." in metric:
        return _tail(metric, result) or f"{metric} was not measured on both sides"
    books = result.accounting
    names = [name for name in IDLE if name in books.delta] if metric == "idle" else [metric]
    if not all(name in books.delta for name in names):
        return f"{metric} was not measured on both sides"
    return _Measured(
        sum(books.baseline.get(name, 0.0) for name in names),
        sum(books.delta[name] for name in names),
        sum(books.delta[name] for name in names if books.level.get(name) in SURE),
        low=books.ci_low.get(metric),  # a sum of categories has no interval of its own
        high=books.ci_high.get(metric),
    )


def _phase(name: str, result: Result) -> _Measured | str:
    """The typical step of a phase."""
    phase = next((one for one in result.phases if one.phase == name and one.typical), None)
    if phase is None or phase.typical is None:
        return f"{name} steps were not compared"
    found = phase.typical
    unseen = found.detectable_ns or found.noise_floor_ns or 0.0
    return _Measured(
        found.baseline_ns, found.delta_ns, _sure(phase), unseen, found.ci_low_ns, found.ci_high_ns
    )


def _sure(phase: Phase) -> float:
    """The part of a phase's growth that is more than noise."""
    slower = phase.verdict in ("regressed", "likely_regressed")
    return phase.typical.delta_ns if slower and phase.typical is not None else 0.0


def _count(metric: str, result: Result) -> _Measured | str:
    """A count per step. Counted, not estimated: no test applies."""
    coverage = result.coverage.baseline, result.coverage.candidate
    if any(side.get(kind) == "not_captured" for kind in _COUNTED_IN[metric] for side in coverage):
        return f"{metric} were not captured on both sides"
    if metric == "syncs":
        rows = [row for row in result.launch.apis if row.kind == "sync"]
        before, after = sum(row.baseline_calls for row in rows), sum(row.candidate_calls for row in rows)
    else:
        name = "calls_per_step" if metric == "launches" else f"{metric}_per_step"
        before, after = getattr(result.launch.baseline, name), getattr(result.launch.candidate, name)
    return _Measured(before, after - before, after - before)


def _kernel(name: str, result: Result) -> _Measured | str:
    """All rows whose kernels bear the name, on either side: a kernel that was replaced stays in its gate."""
    rows = [result.kernels[at] for at in rows_named(name, result.kernels)]
    if not rows:
        return f"no kernel of either side is named {name}"
    return _Measured(
        sum(row.baseline.ns_per_step for row in rows if row.baseline),
        sum(row.delta_ns for row in rows),
        sum(row.delta_ns for row in rows if row.level in SURE),
        low=rows[0].ci_low_ns if len(rows) == 1 else None,
        high=rows[0].ci_high_ns if len(rows) == 1 else None,
    )


def _tail(metric: str, result: Result) -> _Measured | None:
    """A quantile of a phase; sure where it is higher in every run of the candidate than in any of the baseline.

    Three runs a side that part so do it by chance in one of twenty pairs of sides; fewer say nothing of a tail.
    """
    import numpy as np

    phase, quantile = metric.split(".")
    one = next((one for one in result.phases if one.phase == phase), None)
    if one is None or not one.baseline or not one.candidate:
        return None
    baseline, candidate = (float(getattr(side, f"{quantile}_ns")) for side in (one.baseline, one.candidate))
    runs: dict[str, dict[int, list[int]]] = {"baseline": {}, "candidate": {}}
    for sample in result.samples:
        if sample.phase == phase:
            runs[sample.side].setdefault(sample.run, []).append(sample.period_ns)
    before, after = (
        [float(np.quantile(times, int(quantile[1:]) / 100)) for times in side.values()]
        for side in runs.values()
    )
    apart = min(len(before), len(after)) >= _LEAST_RUNS and min(after) > max(before)
    return _Measured(baseline, candidate - baseline, candidate - baseline if apart else 0.0)


# Gate policy: gates, warnings and waivers with an end, from `[tool.tracediff]` of pyproject.toml or a TOML file.


@dataclass(frozen=True)
class Waiver:
    """A failure that is accepted for a time. `gate` is the wider limit; None where any size is accepted."""

    metric: str
    reason: str
    expires: date
    gate: Gate | None


@dataclass(frozen=True)
class Policy:
    """What a comparison is held to; `source` is the file's name, empty where there is none."""

    gates: tuple[Gate, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    pass_inconclusive: bool = False
    source: str = ""


class _Waiver(msgspec.Struct, forbid_unknown_fields=True):
    metric: str
    reason: Annotated[str, msgspec.Meta(pattern=r"\S")]
    expires: date
    limit: str | None = None


class _Policy(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """A policy as it is written."""

    fail_on: list[str] = []
    warn_on: list[str] = []
    inconclusive: Literal["fail", "pass"] = "fail"
    waiver: list[_Waiver] = []


def read_policy(path: Path, *, required: bool = True) -> Policy:
    """Read a policy; with `required` false, a missing file or a pyproject.toml without `[tool.tracediff]` is none.

    Raises `TracediffError`: policy-unreadable, bad-policy, bad-gate.
    """
    if not required and not path.is_file():
        return Policy()
    try:
        data = read_toml(path)
    except OSError as error:
        raise TracediffError(
            "policy-unreadable", f"{path}: {error.strerror}", fix="check the path", exit_code=2
        ) from error
    except ValueError as error:
        raise TracediffError(
            "policy-unreadable", f"{path.name} is no TOML: {error}", fix="see docs/ci.md", exit_code=2
        ) from error
    table: Any = data
    if "tool" in data or path.name == "pyproject.toml":
        tool = data.get("tool")
        table = tool.get("tracediff") if isinstance(tool, dict) else None
        if table is None and not required:
            return Policy()
    try:
        if table is None:
            raise ValueError("there is no [tool.tracediff]")
        found = msgspec.convert(table, _Policy)
    except ValueError as error:
        raise TracediffError(
            "bad-policy", f"{path.name}: {error}", fix="see docs/ci.md", exit_code=2
        ) from error
    gates = [parse_gate(text) for text in found.fail_on] + [
        parse_gate(text, "warning") for text in found.warn_on
    ]
    return Policy(tuple(gates), tuple(map(_waiver, found.waiver)), found.inconclusive == "pass", path.name)


def _waiver(found: _Waiver) -> Waiver:
    gate = parse_gate(
        f"{found.metric}:{found.limit or '+0%'}"
    )  # percent suits times and counts: checks the metric alone
    return Waiver(found.metric, " ".join(found.reason.split()), found.expires, gate if found.limit else None)


def judged(policy: Policy, result: Result, today: date) -> Result:
    """The result with its gates judged. Gates that it holds already stand as they were judged, unless given again."""
    gates = judge_all(policy, result, today)
    if result.gates is not None:
        again = {one.text for one in gates.outcomes}
        stored = [one for one in result.gates.outcomes if one.text not in again]
        gates = replace(
            gates if policy.source else result.gates,
            outcomes=[*stored, *gates.outcomes],
            notes=gates.notes if policy.source else result.gates.notes,
        )
    return replace(result, gates=gates if gates.outcomes or gates.notes else None)


def exit_code(result: Result) -> int:
    """3 where a gate failed, 4 where the sides are not comparable or a gate is inconclusive, else 0."""
    gates = result.gates or Gates([])
    errors = [one.outcome for one in gates.outcomes if one.severity == "error"]
    if "failed" in errors:
        return 3
    if result.verdict == "not_comparable":
        return 4
    return 4 if "inconclusive" in errors and not gates.pass_inconclusive else 0


def judge_all(policy: Policy, result: Result, today: date) -> Gates:
    """Judge every gate, then let the waivers that still hold take what failed."""
    outcomes, notes = [], []
    used: set[int] = set()
    for gate in policy.gates:
        outcome = judge(gate, result)
        for number, waiver in enumerate(policy.waivers):
            if waiver.metric != gate.metric or outcome.outcome != "failed":
                continue
            used.add(number)
            outcome = _waive(outcome, waiver, result, today)
        outcomes.append(outcome)
    gated = {gate.metric for gate in policy.gates}
    for number, waiver in enumerate(policy.waivers):
        if waiver.metric not in gated:
            notes.append(f"waiver of {waiver.metric}: no gate has this metric")
        elif number not in used:
            notes.append(f"waiver of {waiver.metric}: not needed, its gate did not fail")
    return Gates(outcomes, notes, policy.source, policy.pass_inconclusive)


def _waive(outcome: GateOutcome, waiver: Waiver, result: Result, today: date) -> GateOutcome:
    if today > waiver.expires:
        return replace(
            outcome, message=f"{outcome.message}; its waiver ended on {waiver.expires}: {waiver.reason}"
        )
    if waiver.gate is not None and judge(waiver.gate, result).outcome != "passed":
        limit = waiver.gate.text.rpartition(":")[2]
        return replace(outcome, message=f"{outcome.message}, and the {limit} to which it is waived")
    return replace(
        outcome,
        outcome="waived",
        message=f"{outcome.message}; waived until {waiver.expires}: {waiver.reason}",
        waiver=GateWaiver(waiver.reason, waiver.expires.isoformat()),
    )
