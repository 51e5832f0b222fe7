"""Whether the newest point of a history is all right: no recent change for the worse, and limits against the pinned baseline kept.

One point of another kind (machine, configuration, phases) is a segment of its own that says nothing. It must not clear what failed before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from tracediff.comparison.gates import Gate
from tracediff.history.model import ChangeFound, History, Segment, Standing
from tracediff.model import Outcome

RECENT = 10  # points: an older change is the pinned baseline's matter
FEW = 10  # points, with which no change can be told yet

Reason = Literal[
    "change", "stands_out", "exceeds", "may_exceed", "passed", "passed_alone", "no_pinned", "no_measure", "no_points", "new_segment"
]  # fmt: skip


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to fail, or to be unsure. limit: in the unit of the measure; before: what was said of the segment that a new one follows."""

    outcome: Outcome
    reason: Reason
    measure: str
    segment: int
    change: ChangeFound | None = None
    standing: Standing | None = None
    gate: str = ""
    limit: float | None = None
    before: Judged | None = None


def judge(history: History, gates: Sequence[Gate] = (), recent: int = RECENT) -> list[Judged]:
    """Everything that is judged of the newest points of each program. Empty: nothing to say against them."""
    if not history.segments:
        return [Judged(outcome="inconclusive", reason="no_points", measure="", segment=0)]
    programs: dict[str, list[int]] = {}
    for number, segment in enumerate(history.segments):
        programs.setdefault(segment.program.name, []).append(number)
    found: list[Judged] = []
    for newest, *older in programs.values():
        found += _of_segment(newest, history, gates, recent)
        for number in older:
            if _in_turn(history.segments[number], history.segments[newest]):
                found += _of_segment(number, history, gates, recent)
        found += _before(newest, older, history, gates, recent)
    return found


def _in_turn(segment: Segment, newest: Segment) -> bool:
    """Whether both go on: neither follows the other, and the newest has few points since. Of an odd point among many there is nothing to say."""
    since = sum(at > segment.points[-1] for at in newest.points)
    odd = len(segment.points) < FEW <= len(newest.points)
    return not odd and since < min(FEW, len(newest.points))


def _before(
    newest: int, older: Sequence[int], history: History, gates: Sequence[Gate], recent: int
) -> list[Judged]:
    """What was against the segments that a new one follows, back to one of enough points: it cannot be told whether that is mended."""
    new, found = history.segments[newest], []
    for number in older if len(new.points) < FEW else ():
        segment = history.segments[number]
        if segment.points[-1] < new.points[0]:
            found += [
                Judged(
                    outcome="inconclusive",
                    reason="new_segment",
                    measure=one.measure,
                    segment=newest,
                    before=one,
                )
                for one in _of_segment(number, history, gates, recent)
                if one.outcome != "passed"
            ]
        if len(segment.points) >= FEW:
            break
    return found


def exit_code(judged: Iterable[Judged]) -> int:
    """3 where anything failed, 4 where something cannot be told, else 0."""
    outcomes = {one.outcome for one in judged}
    return 3 if "failed" in outcomes else 4 if "inconclusive" in outcomes else 0


def _of_segment(number: int, history: History, gates: Sequence[Gate], recent: int) -> list[Judged]:
    segment = history.segments[number]
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
    name = gate.measure.text
    standing = standings.get(name)
    judged = Judged(outcome="inconclusive", reason="no_measure", measure=name, segment=number, gate=gate.text)
    if standing is None:
        return judged
    if standing.baseline is None or standing.delta is None or standing.low is None:
        return msgspec.structs.replace(judged, reason="no_pinned", standing=standing)
    limit = gate.limit * standing.baseline if gate.percent else gate.limit
    outcome: Outcome = "inconclusive"
    reason: Reason = "may_exceed"
    if standing.delta <= limit:
        alone = standing.last - standing.baseline > limit or standing.stands_out is not None
        outcome, reason = "passed", "passed_alone" if alone else "passed"
    elif standing.low > 0:
        outcome, reason = "failed", "exceeds"
    return msgspec.structs.replace(judged, outcome=outcome, reason=reason, standing=standing, limit=limit)
