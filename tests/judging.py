"""Gates as a report words them."""

from __future__ import annotations

from datetime import date

from msgspec.structs import replace

from tracediff.comparison import gates
from tracediff.model import GateOutcome, Gates, Result
from tracediff.report.phrases import with_messages


def judge(gate: gates.Gate, result: Result) -> GateOutcome:
    """The outcome of a gate with its message."""
    return _worded(Gates([gates.judge(gate, result)]), result).outcomes[0]


def judge_all(policy: gates.Policy, result: Result, today: date) -> Gates:
    """Those of a policy, with their messages."""
    return _worded(gates.judge_all(policy, result, today), result)


def _worded(found: Gates, result: Result) -> Gates:
    said = with_messages(replace(result, gates=found)).gates
    assert said is not None
    return said


def judged(policy: gates.Policy, result: Result, today: date) -> Result:
    """The result with its gates, and their messages."""
    return with_messages(gates.judged(policy, result, today))
