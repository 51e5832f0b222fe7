"""Gate policy: gates, warnings and waivers with an end, from `[tool.tracediff]` of pyproject.toml or a TOML file.

[tool.tracediff]                        # a file of its own has the same keys at its top level
fail-on = ["step:+3%", "idle:+100us"]
warn-on = ["launches:+10"]
inconclusive = "fail"                   # exit status 4; or "pass"

[[tool.tracediff.waiver]]
metric = "gc"                           # as in the gate, without its limit
limit = "+500us"                        # waived up to here; without it, whatever the size
reason = "gc.freeze() lands with the next release"
expires = 2027-01-31                    # the last day on which it holds
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tracediff.errors import TracediffError
from tracediff.measure.gates import Gate, judge, parse_gate
from tracediff.model import GateOutcome, Gates, GateWaiver, Result

_KEYS = {"fail-on", "warn-on", "inconclusive", "waiver"}
_WAIVER_KEYS = {"metric", "limit", "reason", "expires"}


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


def read_policy(path: Path, *, required: bool = True) -> Policy:
    """Read a policy; with `required` false, a missing file or a pyproject.toml without `[tool.tracediff]` is none.

    Raises `TracediffError`: policy-unreadable, bad-policy, bad-gate.
    """
    if not required and not path.is_file():
        return Policy()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TracediffError(
            "policy-unreadable", f"{path}: {error.strerror}", fix="check the path", exit_code=2
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TracediffError(
            "policy-unreadable", f"{path.name} is no TOML: {error}", fix="see docs/ci.md", exit_code=2
        ) from error
    table: Any = data
    if "tool" in data or path.name == "pyproject.toml":
        tool = data.get("tool", {})
        table = tool.get("tracediff") if isinstance(tool, dict) else None
    if table is None:
        if required:
            raise _bad(path, "there is no [tool.tracediff]")
        return Policy()
    return _policy(path, table)


def _policy(path: Path, table: Any) -> Policy:
    if not isinstance(table, dict):
        raise _bad(path, "tool.tracediff is no table")
    _only(path, table, _KEYS)
    gates = [parse_gate(text) for text in _texts(path, table, "fail-on")]
    gates += [parse_gate(text, "warning") for text in _texts(path, table, "warn-on")]
    inconclusive = table.get("inconclusive", "fail")
    if inconclusive not in ("fail", "pass"):
        raise _bad(path, 'inconclusive is "fail" or "pass"')
    waivers = table.get("waiver", [])
    if not isinstance(waivers, list) or not all(isinstance(one, dict) for one in waivers):
        raise _bad(path, "a waiver is a [[waiver]] table")
    return Policy(
        tuple(gates), tuple(_waiver(path, one) for one in waivers), inconclusive == "pass", path.name
    )


def _waiver(path: Path, table: Mapping[str, Any]) -> Waiver:
    _only(path, table, _WAIVER_KEYS)
    metric, reason, expires = (table.get(key) for key in ("metric", "reason", "expires"))
    if not isinstance(metric, str) or not isinstance(reason, str) or not reason.strip():
        raise _bad(path, "a waiver needs a metric and a reason")
    if not isinstance(expires, date) or isinstance(expires, datetime):
        raise _bad(path, f"the waiver of {metric} needs a day on which it ends: expires = 2027-01-31")
    limit = table.get("limit")
    if limit is not None and not isinstance(limit, str):
        raise _bad(path, f'the limit of the waiver of {metric} is a text such as "+500us"')
    parsed = parse_gate(
        f"{metric}:{limit or '+0%'}"
    )  # percent suits times and counts: checks the metric alone
    return Waiver(metric, " ".join(reason.split()), expires, parsed if limit else None)


def _texts(path: Path, table: Mapping[str, Any], key: str) -> Sequence[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _bad(path, f'{key} is a list of texts such as ["step:+3%"]')
    return value


def _only(path: Path, table: Mapping[str, Any], keys: set[str]) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        raise _bad(path, f"unknown key {unknown[0]!r}; known: {', '.join(sorted(keys))}")


def _bad(path: Path, what: str) -> TracediffError:
    return TracediffError("bad-policy", f"{path.name}: {what}", fix="see docs/ci.md", exit_code=2)


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
