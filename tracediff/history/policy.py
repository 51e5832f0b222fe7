"""Whether the newest point of a history is all right: no recent change for the worse, and limits against the pinned baseline kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from tracediff.comparison.gates import Gate
from tracediff.comparison.measures import Measure
from tracediff.history.model import ChangeFound, History, Segment, Standing
from tracediff.model import Outcome

RECENT = 10  # points: an older change is the pinned baseline's matter

Reason = Literal["change", "stands_out", "limit", "no_pinned", "no_measure", "no_points"]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to fail, or to be unsure. limit: in the unit of the measure."""

    outcome: Outcome
    reason: Reason
    measure: str
    segment: int
    change: ChangeFound | None = None
    standing: Standing | None = None
    gate: str = ""
    limit: float | None = None


def judge(history: History, gates: Sequence[Gate] = (), recent: int = RECENT) -> list[Judged]:
    """Everything that is judged of the newest segment of each program. Empty: nothing to say against the newest point."""
    if not history.segments:
        return [Judged(outcome="inconclusive", reason="no_points", measure="", segment=0)]
    seen: set[str] = set()
    found: list[Judged] = []
    for number, segment in enumerate(history.segments):
        if segment.program.name not in seen:
            seen.add(segment.program.name)
            found += _of_segment(number, segment, gates, recent, history.asked)
    return found


def exit_code(judged: Iterable[Judged]) -> int:
    """3 where anything failed, 4 where something cannot be told, else 0."""
    outcomes = {one.outcome for one in judged}
    return 3 if "failed" in outcomes else 4 if "inconclusive" in outcomes else 0


def _of_segment(
    number: int, segment: Segment, gates: Sequence[Gate], recent: int, asked: Sequence[str]
) -> list[Judged]:
    standings = {one.measure: one for one in segment.standings}
    found = []
    for name, standing in standings.items():
        of_it = [one for one in segment.changes if one.measure == name]
        last = max(of_it, key=lambda one: one.bad, default=None)
        if last is not None and last.delta > 0 and last.points <= recent:
            found.append(Judged(outcome="failed", reason="change", measure=name, segment=number, change=last))
        elif standing.stands_out is not None and standing.stands_out > 0:
            found.append(
                Judged(
                    outcome="inconclusive",
                    reason="stands_out",
                    measure=name,
                    segment=number,
                    standing=standing,
                )
            )
    return found + [_limited(number, gate, standings) for gate in gates]


def _limited(number: int, gate: Gate, standings: dict[str, Standing]) -> Judged:
    """A gate against the pinned baseline: failed where the level since the last change is beyond it and beyond noise."""
    measure: Measure = gate.measure
    standing = standings.get(measure.text)
    outcome: Outcome = "inconclusive"
    if standing is None:
        return Judged(
            outcome=outcome, reason="no_measure", measure=measure.text, segment=number, gate=gate.text
        )
    if standing.baseline is None or standing.delta is None or standing.low is None:
        return Judged(
            outcome=outcome,
            reason="no_pinned",
            measure=measure.text,
            segment=number,
            gate=gate.text,
            standing=standing,
        )
    limit = gate.limit * standing.baseline if gate.percent else gate.limit
    if standing.delta <= limit:
        outcome = "passed"
    elif standing.low > 0:
        outcome = "failed"
    return Judged(
        outcome=outcome,
        reason="limit",
        measure=measure.text,
        segment=number,
        gate=gate.text,
        standing=standing,
        limit=limit,
    )
