"""Sampled steps of both sides beside each other, and where two steps part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.reduction import Lane, Reduction, SampledStep
from tracediff.arrays import Ints
from tracediff.kernels.matching import MAX_SEQUENCE, Matching, OpKey, longest_common
from tracediff.model import CATEGORIES, Timeline, TimelineLane, Timelines, TimelineStep
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.model.pictures import Divergence, DivergenceCause, DivergencePoint, DivergentStep
from tracediff.steps.sample import MOST_ALIGNED, in_order, typical

WORKLOADS = 3  # that are shown: those with the most time
RANKS = 2  # of a workload
_KINDS: tuple[Literal["typical", "worst"], ...] = ("typical", "worst")

Runs = Sequence[Sequence[Reduction]]  # of one side, export by export


@dataclass(frozen=True)
class ShownStep:
    """A sampled step of one side. `exact`: it is the step that was looked for, not the nearest sampled one."""

    run: int
    part: int
    period: int
    rank: int
    exact: bool
    sampled: SampledStep = field(compare=False)


class Selected(msgspec.Struct, frozen=True):
    """The typical or the longest step of a workload and rank on every side."""

    workload: str
    kind: Literal["typical", "worst"]
    rank: int
    steps: list[ShownStep | None]

    @property
    def exact(self) -> bool:
        """Whether these are the very steps, or the nearest ones that were sampled."""
        return all(one is not None and one.exact for one in self.steps)


def select_steps(
    sides: Sequence[Runs], steps: pl.DataFrame, first: str = ""
) -> tuple[list[Selected], int, int]:
    """The steps to draw; then how many workloads and ranks with steps on every side are left out.

    `steps`: every whole step of all sides, column `row` naming its workload. first: the phase whose longest workload comes before
    the others, which are those with the most time.
    """
    totals = steps.group_by("row").agg(
        pl.col("side").n_unique().alias("sides"), pl.col("ns").sum(), pl.col("phase").first()
    )
    ordered = totals.filter(pl.col("sides") == len(sides)).sort("ns", "row", descending=[True, False])
    own = ordered.filter(pl.col("phase") == first)["row"].to_list()[:1]
    shared = [*own, *(row for row in ordered["row"].to_list() if row not in own)]
    found: list[Selected] = []
    ranks_left_out = 0
    for row in shared[:WORKLOADS]:
        mine = steps.filter(pl.col("row") == row)
        units = most_changed(mine, ["rank", "counterpart"], len(sides))
        ranks_left_out = max(ranks_left_out, len(units) - RANKS)
        for rank, device in units[:RANKS]:
            of_rank = mine.filter(rank=rank, counterpart=device)
            seen: list[ShownStep | None] = [None] * len(sides)
            for kind in _KINDS:
                shown = [
                    _nearest(runs, of_rank.filter(pl.col("side") == side), kind)
                    for side, runs in enumerate(sides)
                ]
                if shown != seen and any(shown):  # the typical steps may be the longest as well
                    seen = shown
                    found.append(Selected(row, kind, rank, shown))
    return found, max(0, len(shared) - WORKLOADS), ranks_left_out


def most_changed(steps: pl.DataFrame, by: Sequence[str], sides: int) -> list[tuple[int, ...]]:
    """Ranks (or devices) with steps on every side, those first whose own GPU work or idle time changed most; of one side, is longest."""
    means = (
        steps.with_columns(idle=pl.col("ns") - pl.sum_horizontal(BUSY))
        .group_by(*by, "side", maintain_order=True)
        .agg(pl.col("idle").mean())
        .sort(*by, "side")
    )
    found: dict[tuple[int, ...], list[float]] = {}
    for *unit, _, idle in means.iter_rows():
        found.setdefault(tuple(unit), []).append(idle)
    change = {unit: abs(idle[-1] - sum(idle[:-1])) for unit, idle in found.items() if len(idle) == sides}
    return sorted(change, key=lambda unit: (-change[unit], unit))


def _nearest(runs: Runs, steps: pl.DataFrame, kind: str) -> ShownStep | None:
    """The typical or the longest step of one side, workload and rank, or of those sampled the nearest in length."""
    sampled = {
        (run, part, one.period): one
        for run, parts in enumerate(runs)
        for part, export in enumerate(parts)
        for one in export.sampled
    }
    names = ["run", "part", "period"]
    known = pl.DataFrame(list(sampled), schema=dict.fromkeys(names, pl.Int64), orient="row")
    candidates = steps.join(known, on=names, how="semi")
    if not len(candidates):
        return None
    if kind == "worst":
        best = steps.sort("ns", "run", "start_ns", descending=[True, False, False]).row(0, named=True)
    else:
        means = steps.group_by("run").agg(pl.col("ns").mean()).sort("ns", "run")
        of_run = in_order(steps.filter(pl.col("run") == typical(means["run"].to_list())))
        best = of_run.row((len(of_run) - 1) // 2, named=True)
    place = tuple(best[name] for name in names)

    def far(row: dict[str, Any]) -> tuple[Any, ...]:
        other = tuple(row[name] for name in names) != place
        return other, abs(row["ns"] - best["ns"]), row["run"], row["start_ns"]

    row = min(candidates.iter_rows(named=True), key=far)
    found = (row["run"], row["part"], row["period"])
    return ShownStep(*found, row["rank"], found == place, sampled[found])


def timelines(
    sides: Sequence[Runs], steps: pl.DataFrame, workloads: Sequence[str], writer: StepWriter, first: str = ""
) -> tuple[Timelines | None, list[Selected]]:
    """The steps of both sides, or of the one, to draw; None where none were sampled.

    `workloads`: of the result's strata, their `row`; first: see `select_steps`. The names are all that the writer has written.
    """
    if not any(part.sampled for runs in sides for parts in runs for part in parts):
        return None, []
    selected, workloads_left_out, ranks_left_out = select_steps(sides, steps, first)
    found = [
        Timeline(
            stratum=workloads.index(one.workload),
            kind=one.kind,
            rank=one.rank,
            exact=one.exact,
            baseline=writer.step(sides[0], one.steps[0], 0),
            candidate=writer.step(sides[1], one.steps[1], 1) if len(sides) > 1 else ABSENT,
        )
        for one in selected
    ]
    return Timelines(list(writer.names), found, workloads_left_out, ranks_left_out), selected


def accounting_of(part: Reduction, step: SampledStep, with_gil: bool) -> dict[str, int]:
    """Category -> ns of a sampled step. Without `with_gil` waits for the GIL count as what they would be without its trace."""
    row = part.periods.row(step.period, named=True)
    out = {name: int(row[name]) for name in CATEGORIES if row[name]}
    if with_gil:
        return out
    out.pop("gil_wait", None)
    for lane in step.lanes:
        if lane.kind == "idle" and lane.under is not None:
            waits = lane.group == lane.groups.index("gil_wait")
            ns = lane.inside if len(lane.inside) else lane.end - lane.start
            for cause in np.unique(lane.under[waits]).tolist():
                name = lane.groups[cause]
                out[name] = out.get(name, 0) + int(ns[waits & (lane.under == cause)].sum())
    return out


class StepWriter:
    """Sampled steps as the result holds them; every text once.

    `kernel_order`: the row of the matching that each kernel row of the result is.
    """

    def __init__(self, matching: Matching, kernel_order: Sequence[int], with_gil: bool) -> None:
        self.names: dict[str, int] = {}
        self._place = {row: place for place, row in enumerate(kernel_order)}
        self._matching, self.with_gil = matching, with_gil

    def step(self, runs: Runs, shown: ShownStep | None, side: int) -> TimelineStep | None:
        """One step of one side."""
        if shown is None:
            return None
        part, sampled = runs[shown.run][shown.part], shown.sampled
        row = part.periods.row(sampled.period, named=True)
        assert row["period"] == sampled.period
        return TimelineStep(
            run=part.name,
            rank=shown.rank,
            device=int(row["device"]),
            number=row["number"],
            start_ns=int(row["start_ns"]),
            period_ns=int(row["end_ns"] - row["start_ns"]),
            thread=sampled.thread,
            accounting=accounting_of(part, sampled, self.with_gil),
            lanes=self.lanes(sampled.lanes, part, row["phase"], side),
            events=sampled.events,
            merged_below_ns=sampled.merged_below_ns,
        )

    def lanes(self, lanes: Sequence[Lane], part: Reduction, phase: str, side: int) -> list[TimelineLane]:
        """Lanes of a sampled step, whole or cut; without the GIL's where one side did not trace it."""
        return [
            self._lane(lane, part, phase, side)
            for lane in lanes
            if self.with_gil or lane.kind not in ("gil", "holders")
        ]

    def rows(self, lane: Lane, part: Reduction, phase: str, side: int) -> Ints:
        """Of each op of a lane the row of the matching that has most of its time in the phase, -1 none."""
        shares = self._matching.candidate if side else self._matching.baseline
        return _mapped(lane.what, lambda key: row_of(part.keys.row(key, named=True), shares, phase))

    def _lane(self, lane: Lane, part: Reduction, phase: str, side: int) -> TimelineLane:
        merged = bool((lane.count > 1).any())
        group = lane.group if self.with_gil or lane.under is None else lane.under
        ops = lane.kind == "gpu"
        texts = part.keys["name"] if ops else lane.texts
        rows = self.rows(lane, part, phase, side) if ops else lane.what
        return TimelineLane(
            kind=lane.kind,
            name=lane.name,
            of=lane.of,
            start=_column(lane.start),
            length=_column(lane.end - lane.start),
            what=_column(_mapped(lane.what, lambda one: self.name(texts[one]))),
            group=_column(_mapped(group, lambda one: self.name(lane.groups[one]))),
            row=_column(_mapped(rows, lambda row: self._place.get(row, -1))) if ops else "",
            count=_column(lane.count) if merged else "",
            inside=_column(lane.inside) if merged else "",
        )

    def name(self, text: str) -> int:
        """The number of a text."""
        return self.names.setdefault(text, len(self.names))


def row_of(key: dict[str, Any], shares: dict[tuple[str, OpKey], list[tuple[int, float]]], phase: str) -> int:
    """The row of the matching that has most of an op's time in a phase, -1 none. `key`: of `Reduction.keys`."""
    op = OpKey(key["name"], key["grid"] or "", key["block"] or "")
    parts = shares.get((phase, op), [])
    return max(parts, key=lambda part: (part[1], -part[0]), default=(-1, 0.0))[0]


def _mapped(values: Ints, to: Callable[[int], int]) -> Ints:
    """Each different value mapped once, in ascending order."""
    seen, back = np.unique(values, return_inverse=True)
    return np.array([to(one) for one in seen.tolist()], np.int64)[back.reshape(-1)]


def _column(values: Ints) -> str:
    return " ".join(map(str, values.tolist()))


# Where two steps diverge: along the ops that both have, and by what.
#
# Both steps are cut where an op of the alignment begins. What a chunk between two cuts lasts longer on one side is a jump: its idle
# time has the causes of the accounting, the rest is GPU time of the ops that ran in the chunk.


MOST_POINTS, MOST_CAUSES = 400, 8

Cause = tuple[str, int, str]  # category, row of the matching or -1, place of idle time


class StepOps(msgspec.Struct, frozen=True):
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
    way = 1 if sum(jumps) >= 0 else -1
    number = max(range(len(jumps)), key=lambda one: (way * jumps[one], -at[one]))
    return at[number], jumps[number]


def _step(part: Reduction, shown: ShownStep, ops: StepOps) -> DivergentStep:
    row = part.periods.row(shown.sampled.period, named=True)
    return DivergentStep(part.name, row["number"], int(row["start_ns"]), ops.period, len(ops.names))


def _ops(
    part: Reduction, sampled: SampledStep, matching: Matching, side: int, with_gil: bool
) -> StepOps | None:
    """The ops of a sampled step; None where they were not held one by one, or are too many to align."""
    if sampled.merged_below_ns and {lane.kind for lane in sampled.whole} != MOST_ALIGNED.keys():
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
    for side, sign, cut in ((one, -1, cuts[0]), (other, 1, cuts[1])):
        for at, op, ns in _busy(side, cut):
            cause = (at, (side.busy[op], side.rows[op], ""))
            found[cause] = found.get(cause, 0) + sign * ns
            busy[at] -= sign * ns
    for at, ns in enumerate(busy.tolist()):
        if ns:  # of an op that began in the step before
            found[at, ("compute", -1, "")] = found.get((at, ("compute", -1, "")), 0) + ns
    causes: dict[Cause, tuple[list[int], list[int]]] = {}
    for (at, named), ns in sorted(found.items()):
        if ns:
            ops, jumps = causes.setdefault(named, ([], []))
            ops.append(at)
            jumps.append(ns)
    return points, causes


def _busy(step: StepOps, cut: Ints) -> Iterator[tuple[int, int, int]]:
    """The GPU time of a step as (chunk, op, ns): of ops that overlap, the earlier one has the time."""
    end = np.minimum(step.start + step.length, cut[-1])
    begin = np.maximum(step.start, np.concatenate(([0], np.maximum.accumulate(end)[:-1])))
    first = np.searchsorted(cut, begin, "right") - 1
    last = np.searchsorted(cut, end, "left")
    for op in np.flatnonzero(end > begin).tolist():
        for at in range(first[op], last[op]):
            yield at, op, int(min(end[op], cut[at + 1]) - max(begin[op], cut[at]))


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
