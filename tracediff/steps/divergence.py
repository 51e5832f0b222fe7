"""Where two steps diverge: along the ops that both have, and by what.

Both steps are cut where an op of the alignment begins. What a chunk between two cuts lasts longer on one side is a jump: its idle
time has the causes of the accounting, the rest is GPU time of the ops of the chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduction import Lane, Reduction, SampledStep
from tracediff.kernels.matching import MAX_SEQUENCE, Matching, longest_common
from tracediff.model.causes import BUSY
from tracediff.model.pictures import Divergence, DivergenceCause, DivergencePoint, DivergentStep
from tracediff.steps.timelines import Runs, Selected, ShownStep, row_of

MOST_POINTS, MOST_CAUSES = 400, 8

Cause = tuple[str, int, str]  # category, row of the matching or -1, place of idle time


@dataclass(frozen=True)
class StepOps:
    """The ops of a step in order of start, ns from its begin, and its idle time, none of which an op begins within.

    rows: of the matching, -1 none. busy: the categories that their time is of. causes: category and place of each piece of idle time.
    """

    names: list[str]
    rows: list[int]
    busy: list[str]
    start: Ints
    length: Ints
    idle_start: Ints
    idle_ns: Ints
    causes: list[tuple[str, str]]
    period: int


def divergences(
    sides: Sequence[Runs],
    selected: Sequence[Selected],
    strata: Sequence[str],
    matching: Matching,
    kernel_order: Sequence[int],
    with_gil: bool,
    kind: Literal["typical", "worst"] = "typical",
) -> list[Divergence]:
    """The steps of one kind of both sides, a workload each. `strata`: of the result, the workload of each; `kernel_order`: see `StepWriter`."""
    found: dict[str, Divergence] = {}
    place = {row: number for number, row in enumerate(kernel_order)}
    for one in selected:
        if one.kind != kind or one.workload in found or None in one.steps:
            continue
        shown = [(sides[side][step.run][step.part], step) for side, step in enumerate(one.steps) if step]
        ops = [_ops(part, step.sampled, matching, side, with_gil) for side, (part, step) in enumerate(shown)]
        if ops[0] is None or ops[1] is None:
            continue
        anchors = align(ops[0], ops[1])
        points, causes = diverge(ops[0], ops[1], anchors)
        named = [
            DivergenceCause(category, place.get(row, -1), text, sum(jumps), len(jumps), *_largest(at, jumps))
            for (category, row, text), (at, jumps) in _by_name(causes, matching).items()
        ]
        named.sort(key=lambda one: (-abs(one.delta_ns), one.cause, one.place, one.op))
        found[one.workload] = Divergence(
            stratum=strata.index(one.workload),
            rank=one.rank,
            matched=len(anchors),
            baseline=_step(*shown[0], ops[0]),
            candidate=_step(*shown[1], ops[1]),
            points=[DivergencePoint(op, ns) for op, ns in thinned(points)],
            causes=[one for one in named[:MOST_CAUSES] if one.delta_ns],
            rest_delta_ns=sum(one.delta_ns for one in named[MOST_CAUSES:]),
            kind=kind,
        )
    return list(found.values())


def _by_name(
    causes: dict[Cause, tuple[list[int], list[int]]], matching: Matching
) -> dict[Cause, tuple[list[int], list[int]]]:
    """Kernels of the same names, whatever their shapes, as one cause: its row is the one met first."""
    first: dict[tuple[str, ...], int] = {}
    found: dict[Cause, tuple[list[int], list[int]]] = {}
    for (category, row, place), (at, jumps) in causes.items():
        if row >= 0:
            ends = (matching.rows[row].baseline, matching.rows[row].candidate)
            row = first.setdefault((category, *(ops[0].name if ops else "" for ops in ends)), row)
        ops, sizes = found.setdefault((category, row, place), ([], []))
        ops += at
        sizes += jumps
    return found


def _largest(at: list[int], jumps: list[int]) -> tuple[int, int]:
    number = max(range(len(jumps)), key=lambda one: (abs(jumps[one]), -at[one]))
    return at[number], jumps[number]


def _step(part: Reduction, shown: ShownStep, ops: StepOps) -> DivergentStep:
    row = part.periods.row(shown.sampled.period, named=True)
    return DivergentStep(part.name, row["number"], int(row["start_ns"]), ops.period, len(ops.names))


def _ops(
    part: Reduction, sampled: SampledStep, matching: Matching, side: int, with_gil: bool
) -> StepOps | None:
    """The ops of a sampled step; None where they were not held one by one, or are too many to align."""
    if sampled.merged_below_ns and not sampled.whole:
        return None
    lanes = sampled.whole or sampled.lanes
    gpu = [lane for lane in lanes if lane.kind == "gpu"]
    ops = sum(len(lane.start) for lane in gpu)
    if not 0 < ops <= MAX_SEQUENCE:
        return None
    row = part.periods.row(sampled.period, named=True)
    shares = matching.candidate if side else matching.baseline
    start, end, key = (
        np.concatenate([getattr(lane, name) for lane in gpu]) for name in ("start", "end", "what")
    )
    groups = [lane.groups[one] for lane in gpu for one in lane.group.tolist()]
    order = np.lexsort((key, end, start))
    keys = {one: part.keys.row(one, named=True) for one in np.unique(key).tolist()}
    rows = {one: row_of(name, shares, row["phase"]) for one, name in keys.items()}
    in_order = key[order].tolist()
    idle_start, idle_ns, causes = _idle([lane for lane in lanes if lane.kind == "idle"], with_gil)
    return StepOps(
        names=[keys[one]["name"] for one in in_order],
        rows=[rows[one] for one in in_order],
        busy=[groups[one] if groups[one] in BUSY else "compute" for one in order.tolist()],
        start=start[order],
        length=(end - start)[order],
        idle_start=idle_start,
        idle_ns=idle_ns,
        causes=causes,
        period=int(row["end_ns"] - row["start_ns"]),
    )


def _idle(lanes: list[Lane], with_gil: bool) -> tuple[Ints, Ints, list[tuple[str, str]]]:
    if not lanes:
        return np.empty(0, np.int64), np.empty(0, np.int64), []
    (lane,) = lanes
    group = lane.group if with_gil or lane.under is None else lane.under
    texts = lane.texts if with_gil else [text.partition("; held by")[0] for text in lane.texts]
    causes = [
        (lane.groups[one], texts[what]) for one, what in zip(group.tolist(), lane.what.tolist(), strict=True)
    ]
    return lane.start, lane.end - lane.start, causes


def align(one: StepOps, other: StepOps) -> list[tuple[int, int]]:
    """Ops of both sides in the same order: of one row of the matching, or without one of one name."""
    if other.names < one.names:  # both ways round the same alignment
        return [(a, b) for b, a in align(other, one)]
    keys = [
        [(row, "" if row >= 0 else name) for row, name in zip(side.rows, side.names, strict=True)]
        for side in (one, other)
    ]
    return longest_common(*keys)


def diverge(
    one: StepOps, other: StepOps, anchors: Sequence[tuple[int, int]]
) -> tuple[list[tuple[int, int]], dict[Cause, tuple[list[int], list[int]]]]:
    """Points (number of the common op, lag of `other` where it begins), and for each cause the ops before which it jumps, by how much.

    The last point is the end of the steps, the first their begin; the jumps of all causes add up to the last point.
    """
    cuts = [
        np.array([0, *(int(side.start[pair[number]]) for pair in anchors), side.period])
        for number, side in enumerate((one, other))
    ]
    lag = cuts[1] - cuts[0]
    points = [(0, 0), *enumerate(lag[1:].tolist())]
    found: dict[tuple[int, Cause], int] = {}
    busy = np.diff(lag)
    for side, sign, cut in ((one, -1, cuts[0]), (other, 1, cuts[1])):
        chunk = np.searchsorted(cut, side.idle_start, "right") - 1
        for at, ns, (category, place) in zip(chunk.tolist(), side.idle_ns.tolist(), side.causes, strict=True):
            cause = (at, (category, -1, place))
            found[cause] = found.get(cause, 0) + sign * ns
            busy[at] -= sign * ns
    for at, ns in enumerate(busy.tolist()):
        if ns:
            found[at, _op_of(one, other, anchors, at)] = ns
    causes: dict[Cause, tuple[list[int], list[int]]] = {}
    for (at, named), ns in sorted(found.items()):
        if ns:
            ops, jumps = causes.setdefault(named, ([], []))
            ops.append(at)
            jumps.append(ns)
    return points, causes


def _op_of(one: StepOps, other: StepOps, anchors: Sequence[tuple[int, int]], at: int) -> Cause:
    """The op that the GPU time of a chunk is of: the longest that one side alone has, else the common op that it begins with."""
    begin = anchors[at - 1] if at else (-1, -1)
    end = anchors[at] if at < len(anchors) else (len(one.names), len(other.names))
    alone = [
        (-int(side.length[op]), side.names[op], side, op)
        for number, side in enumerate((one, other))
        for op in range(begin[number] + 1, end[number])
    ]
    if alone:
        *_, side, op = min(alone, key=lambda found: found[:2])
    elif at:
        side, op = one, begin[0]
    else:
        return ("compute", -1, "")
    return (side.busy[op], side.rows[op], "")


def thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most MOST_POINTS of them: of neighbours the first, the last, the lowest and the highest."""
    share = -(-len(points) // (MOST_POINTS // 4))
    if len(points) <= MOST_POINTS:
        return list(points)
    kept: set[int] = set()
    for first in range(0, len(points), share):
        part = range(first, min(first + share, len(points)))
        low, high = (bound(part, key=lambda at: points[at][1]) for bound in (min, max))
        kept |= {part[0], part[-1], low, high}
    return [points[at] for at in sorted(kept)]
