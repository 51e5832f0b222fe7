"""By what two sides are compared, and why not by something better; execution/ladder.py says what they have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tracediff.arrays import Bools, Floats
from tracediff.comparison.frame import Frame
from tracediff.comparison.kernel_table import KernelCells
from tracediff.execution.ladder import ALIKE, NEAR, Shared, launched, shared
from tracediff.execution.sides import Side
from tracediff.kernels.matching import Match
from tracediff.kernels.names import category, is_kernel, short
from tracediff.model import Note, Rung
from tracediff.trace.steps import WHOLE_CAPTURE


def shared_work(sides: Sequence[Side]) -> Shared | None:
    """What the first two sides both launch; None where there is nothing."""
    return shared(*(launched(side.parts) for side in sides[:2]))


def is_whole(sides: Sequence[Side]) -> bool:
    """Whether every export is one step, because none are known."""
    return all(part.step_rule == WHOLE_CAPTURE for side in sides for part in side.parts)


def rounds(sides: Sequence[Side], work: Shared | None) -> tuple[float, ...]:
    """Of each run, numbered over all sides, the rounds of a rank; () where whole captures are compared, or steps.

    Rounds count where the steps of one side are known and nothing of the other's, and where one side did more of the same work.
    """
    if work is None or not is_whole(sides) or not work.holds or not work.rarest:
        return ()
    if not sides[0].why and abs(math.log(work.ratio)) <= NEAR:
        return ()
    found = [launched(run.parts).get(work.rarest, (0.0, 0.0))[0] for side in sides for run in side.runs]
    return tuple(found) if all(found) else ()


def rung_of(sides: Sequence[Side], frame: Frame, work: Shared | None = None) -> Rung:
    """What was compared. `sides`: two, or one."""
    why = sides[0].why
    if not frame.rounds and not any(side.captured("kernels") for side in sides):
        return Rung("host", why)
    if is_whole(sides):
        if not frame.rounds or work is None:
            return Rung("captures", why)
        per_run = np.split(np.array(frame.rounds), np.cumsum(frame.runs)[:-1])
        return Rung(
            "rounds", why, baseline_rounds=float(per_run[0].mean()), candidate_rounds=float(per_run[1].mean()), kernel=work.rarest
        )  # fmt: skip
    if any(part.step_rule.inferred for side in sides for part in side.parts):
        return Rung("inferred", why)
    alike = frame.once or any(one.repeated for one in frame.phases)
    return Rung("labels" if alike else "steps", why)


_WHY = {
    "labels_missing": "not all captures have step labels",
    "other_rules": "two rules cut the captures into steps",
    "other_work": "steps hold other work on each side",
    "steps_missing": "no steps were found in some captures",
    "kernels_missing": "one side lacks GPU kernels",
}
_WHAT = {
    "steps": "all steps of a phase were compared: no step repeats what an earlier one launched",
    "inferred": "steps of both sides were inferred from what repeats",
    "captures": "whole captures were compared",
    "host": "only the host was compared",
}


def rung_notes(rung: Rung) -> list[Note]:
    """What a report says of it; nothing of labelled steps that both sides have."""
    if rung.kind == "labels" and not rung.why:
        return []
    what = _WHAT.get(rung.kind, "steps of two rules were compared: they hold the same work")
    if rung.kind == "rounds":
        one, other = rung.baseline_rounds or 0.0, rung.candidate_rounds or 0.0
        what = (
            f"a round is a launch of {short(rung.kernel)}: {one:,.0f} and {other:,.0f} per capture and device"
        )
    if rung.kind in ("captures", "host", "inferred") and not rung.why:
        return []  # said by whole-capture, host-only, steps-inferred
    return [Note("compared-by", f"{_WHY[rung.why]}: {what}" if rung.why else what)]


# Whether two sides are one program: partners of their kernels.

# matches that rest on the kernels themselves, not on their place in a sequence
_OF_NAMES = ("exact", "name", "template")


def counterparts(kernels: KernelCells, work: Shared | None, rung: Rung) -> tuple[float, float] | None:
    """The part of each side's kernel time in kernels that the other side has too, as often as the work asks; None where a side has none.

    By name; else by place: a kernel of the same kind that is launched as often, where neither has a namesake. Libraries give one name to
    what all programs do, so that a name alone, launched at another ratio, tells nothing.
    """
    rows, time = kernels.rows, kernels.walls
    names = [(*row.baseline, *row.candidate)[0].name for row in rows]
    is_op = np.array([is_kernel(name) for name in names], np.bool_)
    total = time[is_op].sum(axis=0)
    if not len(rows) or not total.all():
        return None
    per_unit = 1.0 if rung.kind == "rounds" or work is None or not work.holds else work.ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log(kernels.counts[:, 1] / kernels.counts[:, 0] / per_unit))
    named = is_op & np.array([row.match in _OF_NAMES for row in rows], np.bool_) & (apart <= ALIKE)
    found = time[named].sum(axis=0) / total
    if work is not None and work.holds:
        found = np.maximum(found, work.anchored)
    placed = np.zeros(2)
    alone = [_alone(rows, kernels.counts, names, is_op, side) for side in (0, 1)]
    for kind, mine in alone[0].items():
        others = alone[1].get(kind, [])
        for one, other in zip(mine, others, strict=False):
            placed += time[one, 0] / total[0], time[other, 1] / total[1]
    one, other = np.minimum(found + placed, 1.0).tolist()
    return one, other


def _alone(
    rows: Sequence[Match], counts: Floats, names: Sequence[str], is_op: Bools, side: int
) -> dict[tuple[str, float], list[int]]:
    """Kernels without a namesake, by their kind and launches per step."""
    found: dict[tuple[str, float], list[int]] = {}
    for number, row in enumerate(rows):
        if is_op[number] and counts[number, side] and row.match not in _OF_NAMES:
            ops = row.candidate if side else row.baseline
            kind = category(ops[0].name if ops else names[number]), float(np.round(counts[number, side], 6))
            found.setdefault(kind, []).append(number)
    return found
