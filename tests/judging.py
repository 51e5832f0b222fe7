"""Gates as a report words them."""

from __future__ import annotations

from datetime import date

from msgspec.structs import replace

from tracediff.comparison import gates
from tracediff.model import GateOutcome, Gates, Result
from tracediff.report.gate_words import with_messages, worded


def judge(gate: gates.Gate, result: Result) -> GateOutcome:
    """The outcome of a gate with its message."""
    return worded(gates.judge(gate, result))


def judge_all(policy: gates.Policy, result: Result, today: date) -> Gates:
    """Those of a policy, with their messages."""
    found = gates.judge_all(policy, result, today)
    return replace(found, outcomes=list(map(worded, found.outcomes)))


def judged(policy: gates.Policy, result: Result, today: date) -> Result:
    """The result with its gates, and their messages."""
    return with_messages(gates.judged(policy, result, today))
