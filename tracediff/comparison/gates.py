"""CI gates: `--fail-on MEASURE:+5%`, `MEASURE:+200us`, `launches:+10`. A gate fails only on what can be told from noise.

What can be measured: comparison/measures.py.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from tracediff.comparison.measures import Measure, Measured, measured, parse
from tracediff.errors import TracediffError, UsageError
from tracediff.formats.files import read_toml
from tracediff.model import GateFacts, GateOutcome, Gates, GateWaiver, Outcome, Result, Said, Severity

_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_LIMIT = re.compile(r"\+?(?P<value>\d+(?:\.\d+)?)(?P<unit>%|ns|us|ms|s|)\Z")
_SEVERAL = re.compile(r":\+\d[\d.]*(?:%|ns|us|ms|s|)\s*,")  # a whole gate, and a comma behind it


class Gate(msgspec.Struct, frozen=True):
    """A limit on how much worse a metric may get: a share of the baseline (percent), ns per step, or a count per step.

    A gate of severity `warning` is judged and shown, and never changes the exit status.
    """

    text: str
    measure: Measure
    limit: float
    percent: bool
    severity: Severity = "error"

    @property
    def metric(self) -> str:
        """What it limits, in the one spelling of its measure."""
        return self.measure.text


def parse_gate(text: str, severity: Severity = "error") -> Gate:
    """Raises `TracediffError` (bad-gate, bad-measure). The limit follows the last colon: names of kernels hold colons."""
    metric, _, given = text.strip().rpartition(":")
    limit = _LIMIT.match(given)
    if not metric or not given:
        raise _bad_gate(text, "a measure, a colon and a limit are needed")
    if _SEVERAL.search(metric):
        raise _bad_gate(
            text, "it holds several gates: repeat the option, or the line of the policy, for each"
        )
    if not limit:
        raise _bad_gate(text, f"{given!r} is no limit")
    measure = parse(metric)
    if measure.unit == "count" and limit["unit"] not in ("", "%"):
        raise _bad_gate(text, f"{metric} is a count, and {given!r} a time")
    if measure.unit != "count" and not limit["unit"]:
        raise _bad_gate(text, f"{metric} is a time, and {given!r} has no unit")
    unit, value = limit["unit"], float(limit["value"])
    scaled = value / 100 if unit == "%" else value * _UNITS.get(unit, 1.0)
    return Gate(text, measure, scaled, unit == "%", severity)


def _bad_gate(text: str, why: str) -> TracediffError:
    return UsageError(
        "bad-gate",
        f"{text!r} is no MEASURE:+LIMIT: {why}",
        fix="for example step:+5%, gil@_schedule:+50us, kernel:fmha:+3% or launches:+10: times are limited in %, ns, us, ms or s, "
        "counts in % or in no unit",
    )


def judge(gate: Gate, result: Result) -> GateOutcome:
    """Whether the gate holds. What exceeds the limit but may be noise is inconclusive, not failed.

    Raises `TracediffError` where neither side has anything of the name that it limits, whatever a policy lets through: no-such-kernel, no-such-place.
    """
    if result.verdict == "not_comparable":
        return _outcome(gate, "inconclusive", GateFacts("not_comparable"))
    found = measured(gate.measure, result)
    if isinstance(found, Said):
        return _outcome(gate, "inconclusive", GateFacts("not_measured", said=found))
    runs = result.step.runs
    return _held(gate, found, lone=min(runs.baseline, runs.candidate) == 1)


def _held(gate: Gate, found: Measured, *, lone: bool) -> GateOutcome:
    """Whether a metric keeps within the limit; with one run on a side it fails by what a repeat would show, not by what was seen."""
    limit = gate.limit * found.baseline if gate.percent else gate.limit
    facts = GateFacts(
        "passed_blind" if found.unseen > limit else "passed", of=found.of, steps=found.steps, places=list(found.places),
        sure=found.sure, least=found.least, unseen=found.unseen, bytes=gate.measure.quantity == "copied_bytes",
    )  # fmt: skip
    outcome: Outcome = "passed"
    if found.delta > limit:
        if found.sure <= limit:
            outcome, facts = "inconclusive", replace(facts, why="may_be_noise")
        elif lone and found.least <= limit:
            outcome, facts = "inconclusive", replace(facts, why="may_repeat")
        else:
            part = found.sure < _ALL * found.delta
            outcome, facts = "failed", replace(facts, why="failed_part" if part else "failed")
    judged = _outcome(gate, outcome, facts)
    return replace(judged, limit=limit, baseline=found.baseline, delta=found.delta, ci_low=found.low, ci_high=found.high)  # fmt: skip


_ALL = 0.9  # of a change, from which on its sure part is not told apart


def _outcome(gate: Gate, outcome: Outcome, facts: GateFacts) -> GateOutcome:
    return GateOutcome(
        text=gate.text.strip(), metric=gate.metric, severity=gate.severity, outcome=outcome, facts=facts, unit=gate.measure.unit
    )  # fmt: skip


# Gate policy: gates, warnings and waivers with an end, from `[tool.tracediff]` of pyproject.toml or a TOML file.


class Waiver(msgspec.Struct, frozen=True):
    """A failure that is accepted for a time. `gate` is the wider limit; None where any size is accepted."""

    measure: Measure
    reason: str
    expires: date
    gate: Gate | None


class Policy(msgspec.Struct, frozen=True):
    """What a comparison is held to; `source` is the file's name, empty where there is none."""

    gates: tuple[Gate, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    pass_inconclusive: bool = False
    source: str = ""


class _Waiver(msgspec.Struct, forbid_unknown_fields=True):
    measure: str
    reason: Annotated[str, msgspec.Meta(pattern=r"\S")]
    expires: date
    limit: str | None = None


class _Policy(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """A policy as it is written."""

    fail_on: list[str] = []
    warn_on: list[str] = []
    inconclusive: str = "fail"  # or "pass"
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
        raise UsageError("policy-unreadable", f"{path}: {error.strerror}", fix="check the path") from error
    except ValueError as error:
        raise UsageError(
            "policy-unreadable", f"{path.name} is no TOML: {error}", fix="see docs/gate.md"
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
        if found.inconclusive not in ("fail", "pass"):
            raise ValueError(f'inconclusive is "fail" or "pass", not {found.inconclusive!r}')
    except ValueError as error:
        raise UsageError("bad-policy", f"{path.name}: {error}", fix="see docs/gate.md") from error
    gates = [parse_gate(text) for text in found.fail_on] + [
        parse_gate(text, "warning") for text in found.warn_on
    ]
    return Policy(tuple(gates), tuple(map(_waiver, found.waiver)), found.inconclusive == "pass", path.name)


def _waiver(found: _Waiver) -> Waiver:
    gate = parse_gate(f"{found.measure}:{found.limit}") if found.limit else None
    return Waiver(parse(found.measure), " ".join(found.reason.split()), found.expires, gate)


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


def undecided(gate: GateOutcome) -> bool:
    """Whether a gate passed although its interval reaches beyond the limit."""
    if gate.outcome != "passed" or gate.limit is None or gate.ci_high is None:
        return False
    return gate.ci_high > gate.limit


def judge_all(policy: Policy, result: Result, today: date) -> Gates:
    """Judge every gate, then let the waivers that still hold take what failed."""
    outcomes, notes = [], []
    used: set[int] = set()
    for gate in policy.gates:
        outcome = judge(gate, result)
        for number, waiver in enumerate(policy.waivers):
            if waiver.measure != gate.measure or outcome.outcome != "failed":
                continue
            used.add(number)
            outcome = _waive(outcome, waiver, result, today)
        outcomes.append(outcome)
    gated = {gate.measure for gate in policy.gates}
    for number, waiver in enumerate(policy.waivers):
        if waiver.measure not in gated:
            notes.append(f"waiver of {waiver.measure.text}: no gate limits it")
        elif number not in used:
            notes.append(f"waiver of {waiver.measure.text}: not needed, its gate did not fail")
    return Gates(outcomes, notes, policy.source, policy.pass_inconclusive)


def _waive(outcome: GateOutcome, waiver: Waiver, result: Result, today: date) -> GateOutcome:
    accepted, facts = GateWaiver(waiver.reason, waiver.expires.isoformat()), outcome.facts
    assert facts is not None  # of one judged just now
    if today > waiver.expires:
        return replace(outcome, facts=replace(facts, ended=accepted))
    if waiver.gate is not None and judge(waiver.gate, result).outcome != "passed":
        return replace(outcome, facts=replace(facts, waived_to=waiver.gate.text.rpartition(":")[2]))
    return replace(outcome, outcome="waived", waiver=accepted)
