"""Gates and what became of them."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Outcome, Severity


class GateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a gate. Numbers are ns a step, or a count a step where `unit` is count; None: not measured."""

    text: str  # as it was given: METRIC:+LIMIT
    metric: str
    severity: Severity = "error"  # a warning never changes the exit status
    outcome: Outcome
    message: str
    unit: Literal["ns", "count"] = "ns"
    limit: float | None = None  # the growth allowed; of a limit in percent, that part of the baseline
    baseline: float | None = None
    delta: float | None = None
    ci_low: float | None = (
        None  # of delta; None where it is counted, or a sum or quantile without an interval
    )
    ci_high: float | None = None
    waiver: GateWaiver | None = None  # the one that took the failure


class GateWaiver(msgspec.Struct, frozen=True):
    """A failure accepted for a time."""

    reason: str
    expires: str  # the last day (UTC) on which it holds, YYYY-MM-DD


class Gates(msgspec.Struct, frozen=True):
    """All gates, as they were judged."""

    outcomes: list[GateOutcome]
    notes: list[str] = []  # on waivers of the policy
    policy: str = ""  # base name of the policy's file; empty where there is none
    pass_inconclusive: bool = False
