"""The moment of each finding on both sides: a step near the typical size of its cause, the query for it, a crop of its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import Intervals, covered, union
from tracediff.accounting.reduction import STEP, Lane, Reduction, SampledStep
from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison.candidates import kernels_of
from tracediff.comparison.cells import IdleKey, Measured, PhaseCells
from tracediff.comparison.evidence import Idle, idle_of_step, ops_of_step
from tracediff.comparison.places import far_more
from tracediff.comparison.shown import FIRST, PARTS
from tracediff.model import Crop, CropSide, Finding, FindingEvidence, FindingPart, Kernels, Moment
from tracediff.model.causes import IDLE
from tracediff.model.common import SIDES
from tracediff.stats.workload import stop_of
from tracediff.steps.sample import joined, merge_lane
from tracediff.steps.timelines import StepWriter
from tracediff.trace.threads import mask

_SHORTEST_NS = 10_000  # of a crop
_MOST_EVENTS = 60  # of a lane of a crop


class _Place(NamedTuple):
    """What the events of a cause are: idle time of some keys, or ops of some rows of the matching.

    whole: of idle time, also the keys of what follows from it. framed: of the rows those that are pointed at: of kernels that replaced others,
    what one side alone launches. range: the one that launches the ops.
    """

    cause: str
    keys: list[tuple[int, IdleKey]]
    rows: list[int]
    whole: list[tuple[int, IdleKey]]
    framed: list[int]
    range: str = ""


class Span(NamedTuple):
    """A part of a step, ns from its start."""

    start: int
    end: int


class _Scene(msgspec.Struct, frozen=True, dict=True):
    """A step of one side. row: of `Frame.steps`; lanes: its events, none where they were not kept; found: what of them is the cause, in order of time."""

    side: int
    row: int
    step: dict[str, Any]
    part: Reduction
    lanes: list[Lane]
    found: list[Span] = msgspec.field(default_factory=list)
    spent: int | None = None  # ns of the ops of the cause, where they were kept one by one
    names: tuple[tuple[str, str], ...] = ()  # name and grid of the ops that are found, the most time first

    @cached_property
    def ops(self) -> Lane:
        """All its ops in order of start."""
        return joined([lane for lane in self.lanes if lane.kind == "gpu"], "all streams")

    def within(self, name: str) -> Bools:
        """Which ops begin while a range of the launching thread is open."""
        levels = [lane for lane in self.lanes if lane.kind == "range"]
        if not levels:
            return np.zeros(len(self.ops.start), np.bool_)
        ranges = joined(levels, "all levels")
        mine = np.isin(ranges.what, [at for at, text in enumerate(ranges.texts) if mask(text) == name])
        opened = union(ranges.start[mine], ranges.end[mine])
        return covered(Intervals(self.ops.start, self.ops.start + 1), opened) > 0


def with_moments(
    findings: Sequence[Finding], measured: Measured, workloads: pl.DataFrame, writer: StepWriter
) -> list[Finding]:
    """The findings with their moments and, of the first beyond noise, crops. `workloads`: every step with its `row`."""
    finder = _Finder(measured, workloads, writer)
    out, left = [], PARTS
    for one in findings:
        evidence = finder.evidence(one, crop=left > 0 and one.level != "within_noise")
        left -= evidence.crop is not None
        out.append(replace(one, evidence=evidence))
    return out


class _Finder:
    def __init__(self, measured: Measured, workloads: pl.DataFrame, writer: StepWriter) -> None:
        self._m, self._writer = measured, writer
        steps = measured.steps
        self._steps = steps
        self._side, self._rank, self._of, self._ns = (
            steps[name].to_numpy() for name in ("side", "rank", "counterpart", "ns")
        )
        self._phases = {one.steps.phase: one for one in measured.phases}
        self._workload = np.full(len(steps), -1, np.int64)
        place = measured.frame.index.rows(workloads)
        number = workloads["row"].rank("dense").to_numpy().astype(np.int64)
        inside = (place >= 0) & (place < len(steps))
        self._workload[place[inside]] = number[inside]
        self._sampled = self._sampled_steps()
        self._kept = np.zeros(len(steps), np.bool_)
        self._kept[list(self._sampled)] = True
        # names and match of kernel rows -> the rows
        self._called: dict[tuple[Kernels | None, str], list[int]] = {}
        for row, match in enumerate(measured.kernels.rows):
            self._called.setdefault((kernels_of(match), match.match), []).append(row)

    def _sampled_steps(self) -> dict[int, SampledStep]:
        """Row of the frame -> the step's events."""
        found = [
            (side, run, part, one.period, one)
            for side, own in enumerate(self._m.sides)
            for run, each in enumerate(own.runs)
            for part, export in enumerate(each.parts)
            for one in export.sampled
        ]
        table = pl.DataFrame(
            [place[:4] for place in found], schema=dict.fromkeys(STEP, pl.Int64), orient="row"
        )
        rows = self._m.frame.index.rows(table).tolist() if found else []
        return {row: one[4] for row, one in zip(rows, found, strict=True) if 0 <= row < len(self._steps)}

    # What of a step is the cause.

    def _place(self, finding: Finding) -> _Place | None:
        """The place of a finding with its parts of the same cause, or of the largest of its parts that is one."""
        parts = sorted(
            (part for part in finding.parts if not part.follows), key=lambda part: -abs(part.delta_ns)
        )
        named: list[Finding | FindingPart] = [finding, *parts]
        for one in named:
            alike = [other for other in named if other.cause == one.cause]
            keys = [key for other in alike for key in self._keys(other)] if one.cause in IDLE else []
            if keys:
                every = [key for other in [*named[:1], *finding.parts] for key in self._keys(other)]
                return _Place(one.cause, list(dict.fromkeys(keys)), [], list(dict.fromkeys(every)), [])
            if self._kernels(one):
                rows = [row for other in (parts or named) for row in self._kernels(other)]
                apart = [
                    row for part in parts if part.match in ("added", "removed") for row in self._kernels(part)
                ]
                framed = apart if finding.facts.match == "replaced" else []
                return _Place(
                    one.cause, [], list(dict.fromkeys(rows)), [], framed or rows, finding.where.range or ""
                )
        return None

    def _kernels(self, one: Finding | FindingPart) -> list[int]:
        """Rows of the matching: those of its names that came, went or stayed as its own did."""
        match = one.match if isinstance(one, FindingPart) else one.facts.match
        match = {"more": "added", "fewer": "removed"}.get(match, match)
        return self._called.get((one.where.kernels, match), [])

    def _keys(self, one: Finding | FindingPart) -> list[tuple[int, IdleKey]]:
        where, layout = one.where, self._m.layout
        named = where.holder_range if one.cause == "gil_wait" else where.range
        return [
            (cell, key)
            for cell, key in zip(layout.idle, layout.idle_keys, strict=True)
            if key.cause == one.cause
            and key.thread == (where.thread or "")
            and (one.cause == "gc" or key.where == (named or ""))
            and (one.cause != "gil_wait" or key.holder == (where.holder_thread or ""))
            and (isinstance(one, FindingPart) or key.copy == one.facts.copies)
        ]

    def _spent(self, place: _Place) -> Floats:
        """What every step has of the place, ns."""
        out = np.zeros(len(self._steps))
        idle = self._m.layout.idle_rows.select("step", "cell", "ns").filter(
            pl.col("cell").is_in([cell for cell, _ in place.whole])
        )
        np.add.at(out, idle["step"].to_numpy(), idle["ns"].to_numpy())
        if place.rows:
            values = self._m.kernels.values.select("step", "side", "row", "share_ns").filter(
                pl.col("row").is_in(place.rows), pl.col("side") < 2, pl.col("step") >= 0
            )
            np.add.at(out, values["step"].to_numpy(), values["share_ns"].to_numpy())
        return out

    # Which step.

    def evidence(self, finding: Finding, *, crop: bool) -> FindingEvidence:
        """The evidence of a finding with its moments."""
        old = finding.evidence
        place = self._place(finding)
        phase = self._phases.get(finding.where.phase or "")
        if place is None or phase is None:
            return old
        spent = self._spent(place)
        found = self._lead_step(finding, place, phase, spent)
        if found is None:
            moments = [self._of_longest(one, place, spent) for one in old.moments]
        else:
            other = self._other_step(finding, phase, spent, found)
            scenes = [self._scene(row, place) for row in (found, other) if row is not None]
            aligned = self._aligned(scenes, place)
            moments = [
                self._moment(scene, place, spent, finding, at)
                for scene, at in zip(scenes, aligned, strict=True)
            ]
            if crop:
                old = replace(old, crop=self._crop(scenes, place, aligned))
        moments.sort(key=lambda one: one.side == "baseline")
        return replace(old, moments=moments)

    def _lead_step(self, finding: Finding, place: _Place, phase: PhaseCells, spent: Floats) -> int | None:
        """A kept step of the side that has more of the cause, near its median size there; None where none has any."""
        lead = int(finding.delta_ns >= 0)
        rest, typical, mean = self._weights(phase)
        mine = (self._side == lead) & (rest > 0)
        if finding.where.rank is not None and place.keys:
            mine &= self._rank == finding.where.rank
        mine &= self._of == self._most_changed(mean, spent, lead, mine)
        if _in_rare_steps(finding):
            usual = self._mean(spent, typical * mine)
            more = np.where(mine, spent - usual, 0.0)
            return self._nearest(more >= stop_of(more, far_more(usual, phase.step_ns)), spent)
        found = self._nearest(mine & (typical > 0) & (spent > 0), spent)
        return self._nearest(mine & (spent > 0), spent) if found is None else found

    def _weights(self, phase: PhaseCells) -> tuple[Floats, Floats, Floats]:
        """Of every step: how it counts among all of its phase, among the typical ones, in the mean."""
        many = len(self._steps)
        return phase.steps.rest[:many], phase.steps.typical[:many], phase.steps.mean[:many]

    def _most_changed(self, weight: Floats, spent: Floats, lead: int, steps: Bools) -> int:
        """Of the devices of some steps of a side the one on which the cause grew most against the other side."""
        devices = np.unique(self._of[steps]).tolist()

        def grown(device: int) -> float:
            own, other = (
                self._mean(spent, weight * ((self._of == device) & (self._side == side)))
                for side in (lead, 1 - lead)
            )
            return own - other

        return max(devices, key=lambda device: (grown(device), -device), default=-1)

    def _other_step(self, finding: Finding, phase: PhaseCells, spent: Floats, lead: int) -> int | None:
        """The step of the other side to look at beside: of the same workload where one was kept, typical of its side."""
        mine = (self._side != self._side[lead]) & (self._of == self._of[lead])
        rest, typical, _ = (mine & (weight > 0) for weight in self._weights(phase))
        alike = self._workload == self._workload[lead]
        by = self._ns.astype(float) if _in_rare_steps(finding) else spent
        for steps in (typical & alike, rest & alike, typical, rest):
            found = self._nearest(steps, by)
            if found is not None:
                return found
        return None

    def _nearest(self, steps: Bools, by: Floats) -> int | None:
        """The kept one of some steps that is nearest to the median of all of them."""
        kept = np.flatnonzero(steps & self._kept)
        if not len(kept):
            return None
        middle = float(np.median(by[steps]))
        return int(kept[np.argmin(np.abs(by[kept] - middle))])

    @staticmethod
    def _mean(values: Floats, weight: Floats) -> float:
        total = float(weight.sum())
        return float((values * weight).sum() / total) if total else 0.0

    # What of it.

    def _scene(self, row: int, place: _Place) -> _Scene:
        step = self._steps.row(row, named=True)
        part = self._m.sides[step["side"]].runs[step["run"]].parts[step["part"]]
        scene = _Scene(step["side"], row, step, part, _lanes(self._sampled.get(row)))
        if not scene.lanes:
            return scene
        if place.rows:
            ops, of_rows = scene.ops, self._rows_of(scene)
            inside, framed = np.isin(of_rows, place.rows), np.isin(of_rows, place.framed)
            within = framed & scene.within(place.range)
            shown = within if within.any() else framed
            found = _spans(ops.start[shown], ops.end[shown], join=False)
            merged = any((lane.count > 1).any() for lane in scene.lanes if lane.kind == "gpu")
            spent = None if merged else int((ops.end - ops.start)[framed].sum())
            return replace(scene, found=found, spent=spent, names=_names(part, ops, inside))
        lane = next((lane for lane in scene.lanes if lane.kind == "idle"), None)
        if lane is None:  # of several streams one was always at work
            return scene
        roles = {thread.tid: thread.role for thread in part.threads}
        mine = self._of_keys(lane, [key for _, key in place.keys], roles)
        return replace(scene, found=_spans(lane.start[mine], lane.end[mine], join=True))

    def _of_keys(self, lane: Lane, keys: list[IdleKey], roles: dict[int, str]) -> Bools:
        """Which pieces of idle time are of some keys."""
        out = np.zeros(len(lane.start), np.bool_)
        group = lane.group if self._m.with_gil or lane.under is None else lane.under
        tid, where, holder, held_in = (
            lane.columns[name] for name in ("tid", "range", "holder", "holder_range")
        )
        role = np.array([roles.get(one, "") for one in tid.tolist()], object)
        for key in keys:
            mine = (group == lane.groups.index(key.cause)) & (role == key.thread)
            if key.cause == "gil_wait":
                holding = np.array([roles.get(one, "") for one in holder.tolist()], object)
                mine &= (holding == key.holder) & _says(lane, held_in, key.where)
            elif key.cause != "gc":
                mine &= _says(lane, where, key.where)
            out |= mine
        return out

    def _rows_of(self, scene: _Scene) -> Ints:
        return self._writer.rows(scene.ops, scene.part, scene.step["phase"], scene.side)

    # Both sides on one axis.

    def _aligned(self, scenes: list[_Scene], place: _Place) -> list[tuple[Span, Span | None]]:
        """Of each scene what is aligned and what is the moment; the first is the one with more of the cause.

        What is aligned of idle time is the end of the op before it, of a kernel the start of the op before: the op that the other
        side has in the same place. Else the start of the step.
        """
        lead = scenes[0]
        shown = middle(lead.found)
        if shown is None:
            return [(Span(0, 0), None) for _ in scenes]
        ops = lead.ops
        edge = ops.end if place.keys else ops.start
        before = np.flatnonzero(edge <= shown.start if place.keys else edge < shown.start)
        before = before[np.argsort(edge[before], kind="stable")][::-1]
        if len(scenes) == 1:
            return [(_span(ops, int(before[0])) if len(before) else Span(0, 0), shown)]
        other = scenes[1]
        rows, theirs = self._rows_of(lead), self._rows_of(other)
        anchors, inside = (Span(0, 0), Span(0, 0)), list[Span]()
        for at in before[:12].tolist():
            mine, partners = np.flatnonzero(rows == rows[at]), np.flatnonzero(theirs == rows[at])
            if rows[at] >= 0 and len(partners):
                nth = int(np.searchsorted(mine, at))
                anchors = _span(ops, at), _span(other.ops, int(partners[nth * len(partners) // len(mine)]))
                if place.keys and at == before[0]:  # the very gap, however much of it comes before the cause
                    gap = _until_next(other, anchors[1].end)
                    inside = [one for one in other.found if one.start < gap.end and one.end > gap.start]
                break
        side = 1 if place.keys else 0  # of the anchors' start and end
        expected = anchors[1][side] + shown.start - anchors[0][side]
        near = [one for one in other.found if abs(one.start - expected) <= 2 * (shown.end - shown.start) + _SHORTEST_NS]  # fmt: skip
        beside = max(inside, key=lambda one: one.end - one.start, default=None)
        beside = beside or min(near, key=lambda one: abs(one.start - expected), default=None)
        return [(anchors[0], shown), (anchors[1], beside)]

    def _crop(
        self, scenes: list[_Scene], place: _Place, aligned: list[tuple[Span, Span | None]]
    ) -> Crop | None:
        """The crop of both sides; None where the side with more of the cause has no moment."""
        lead, (anchor, shown) = scenes[0], aligned[0]
        if shown is None:
            return None
        at_end = bool(place.keys)
        points = [(one.end if at_end else one.start) for one, _ in aligned]
        if place.keys:
            span = max(shown.end - points[0], _SHORTEST_NS)
            before, length = span // 4, span // 4 + span + span // 4
        else:
            sizes = [
                _neighbourhood(scene, span or Span(at, at), at)
                for scene, at, (_, span) in zip(scenes, points, aligned, strict=True)
            ]
            before = max(one for one, _ in sizes)
            length = before + max(max(after for _, after in sizes), _SHORTEST_NS // 4)
        before = min(before, points[0]) if length > 2 * _SHORTEST_NS else before
        name = -1
        if anchor.end:
            ops = lead.ops
            at = int(np.flatnonzero((ops.start == anchor.start) & (ops.end == anchor.end))[0])
            name = self._writer.name(str(lead.part.keys["name"][int(ops.what[at])]))
        sides: list[CropSide | None] = [None, None]
        for scene, point, (_, mark) in zip(scenes, points, aligned, strict=True):
            sides[scene.side] = self._crop_side(scene, point - before, length, place.cause, mark)
        return Crop(length, before, name, at_end, sides[0], sides[1])

    def _crop_side(self, scene: _Scene, start: int, length: int, cause: str, shown: Span | None) -> CropSide:
        lanes = [
            _cut(lane, start, length)
            for lane in scene.lanes
            if cause == "gil_wait" or lane.kind not in ("gil", "holders")
        ]
        lanes = [one for kind in dict.fromkeys(lane.kind for lane in lanes) for one in _busiest(lanes, kind)]
        found = [one for one in scene.found if one.end > start and one.start < start + length]
        found = sorted(sorted(found, key=lambda one: (one != shown, one.start - one.end))[:PARTS])
        starts = [max(one.start - start, 0) for one in found]
        return CropSide(
            run=scene.part.name,
            rank=scene.step["rank"],
            number=scene.step["number"],
            start_ns=scene.step["start_ns"] + start,
            step_start_ns=scene.step["start_ns"],
            step_end_ns=scene.step["start_ns"] + scene.step["ns"],
            lanes=self._writer.lanes(lanes, scene.part, scene.step["phase"], scene.side),
            starts=starts,
            lengths=[min(one.end - start, length) - low for one, low in zip(found, starts, strict=True)],
        )

    # As the result has it.

    def _moment(
        self, scene: _Scene, place: _Place, spent: Floats, finding: Finding, at: tuple[Span, Span | None]
    ) -> Moment:
        begin = int(scene.step["start_ns"])
        anchor, span = at
        lead = scene.side == int(finding.delta_ns >= 0)  # of the other side a typical step is shown
        kind: Literal["typical", "rare", "beside"] = "rare" if lead and _in_rare_steps(finding) else "typical"
        if span is None:
            span, kind = _until_next(scene, anchor.end if place.keys else anchor.start), "beside"
        moment = Moment(
            SIDES[scene.side], scene.part.name, begin + span.start, begin + span.end, step=scene.step["number"],
            kind=kind,
        )  # fmt: skip
        cause_ns = int(spent[scene.row]) if scene.spent is None else scene.spent
        return self._of_step(moment, scene, place, cause_ns)

    def _of_longest(self, moment: Moment, place: _Place, spent: Floats) -> Moment:
        """The longest moment with the step that it lies in."""
        side = SIDES.index(moment.side)
        runs = [run.name for run in self._m.sides[side].runs]
        starts = self._steps["start_ns"].to_numpy()
        inside = (self._side == side) & (starts <= moment.start_ns) & (moment.end_ns <= starts + self._ns)
        inside &= self._steps["run"].to_numpy() == (runs.index(moment.run) if moment.run in runs else -1)
        rows = np.flatnonzero(inside & (spent > 0))
        if not len(rows):
            return moment
        row = int(rows[0])
        return self._of_step(moment, self._scene(row, place), place, int(spent[row]))

    def _of_step(self, moment: Moment, scene: _Scene, place: _Place, cause_ns: int) -> Moment:
        """A moment with its step, and what shows it."""
        begin = int(scene.step["start_ns"])
        return replace(
            moment, rank=scene.step["rank"], step_start_ns=begin, step_end_ns=begin + int(scene.step["ns"]),
            cause_ns=cause_ns, query=self._query(scene, place),
        )  # fmt: skip

    def _query(self, scene: _Scene, place: _Place) -> str:
        """SQL for what a step has of a place."""
        period = scene.part.periods.row(scene.step["period"], named=True)
        at = int(period["start_ns"]), int(period["device"])
        if place.rows:
            rows = [self._m.kernels.rows[row] for row in place.rows]
            own = [op for row in rows for op in (row.candidate if scene.side else row.baseline)]
            own = own or [op for row in rows for op in (*row.baseline, *row.candidate)]
            return ops_of_step(scene.names or tuple(dict.fromkeys((op.name, op.grid) for op in own)), *at)
        asked: dict[tuple[str, str, str], set[IdleKey]] = {}
        for _, key in place.whole:
            asked.setdefault((key.cause, key.thread, key.holder), set()).add(key)
        idle = []
        for (cause, thread, holder), keys in asked.items():
            copies = {one.copy for one in keys}
            only = copies.pop() if len(copies) == 1 else None
            places = sorted({one.where for one in keys})
            idle.append(Idle(cause, thread, places, holder, only, self._m.with_gil))
        return idle_of_step(idle, *at)


def _in_rare_steps(finding: Finding) -> bool:
    return finding.part == "tail" or finding.facts.rare is not None


def _says(lane: Lane, column: Ints, text: str) -> Bools:
    """Where a column of texts says something."""
    number = lane.texts.index(text) if text in lane.texts else -1
    return np.asarray(column == number)


def _span(ops: Lane, at: int) -> Span:
    return Span(int(ops.start[at]), int(ops.end[at]))


def _names(part: Reduction, ops: Lane, inside: Bools) -> tuple[tuple[str, str], ...]:
    """Name and grid of some ops, those with the most time first."""
    time: dict[tuple[str, str], int] = {}
    for key, ns in zip(ops.what[inside].tolist(), (ops.end - ops.start)[inside].tolist(), strict=True):
        row = part.keys.row(key, named=True)
        name = (row["name"], row["grid"] or "")
        time[name] = time.get(name, 0) + ns
    return tuple(sorted(time, key=lambda name: (-time[name], name)))


def _lanes(sampled: SampledStep | None) -> list[Lane]:
    """The lanes of a step, those that were kept unmerged as such."""
    if sampled is None:
        return []
    instead = {lane.kind for lane in sampled.whole}
    return [*sampled.whole, *(lane for lane in sampled.lanes if lane.kind not in instead)]


def _spans(start: Ints, end: Ints, *, join: bool) -> list[Span]:
    """Events as spans in order; `join`: those that touch are one."""
    out: list[Span] = []
    for one in sorted(map(Span, start.tolist(), end.tolist())):
        if join and out and one.start <= out[-1].end:
            out[-1] = Span(out[-1].start, max(out[-1].end, one.end))
        else:
            out.append(one)
    return out


def middle(spans: Sequence[Span]) -> Span | None:
    """The span at which half of the time of all lies in longer ones, the first of equal ones; None without any."""
    total = sum(one.end - one.start for one in spans)
    covered = 0
    for one in sorted(spans, key=lambda one: (one.start - one.end, one.start)):
        covered += one.end - one.start
        if 2 * covered >= total:
            return one
    return None


def _until_next(scene: _Scene, at: int) -> Span:
    """From an instant of a step to the start of the next op."""
    starts = scene.ops.start
    after = starts[starts > at]
    return Span(at, int(after[0]) if len(after) else int(scene.step["ns"]))


def _neighbourhood(scene: _Scene, span: Span, anchor: int) -> tuple[int, int]:
    """How much before and after the anchor the neighbours of an op reach, ns."""
    ops = scene.ops
    before = np.flatnonzero(ops.start < span.start)[-FIRST:]
    after = np.flatnonzero(ops.start >= max(span.end, span.start + 1))[:FIRST]
    low = int(ops.start[before[0]]) if len(before) else 0
    high = int(ops.end[after].max()) if len(after) else span.end
    return max(anchor - low, 0), max(high - anchor, span.end - anchor)


def _busiest(lanes: list[Lane], kind: str) -> list[Lane]:
    """Lanes of a kind that hold an event: of streams and levels of ranges some, of streams the busiest."""
    own = [lane for lane in lanes if lane.kind == kind and len(lane.start)]
    if kind == "gpu":
        own.sort(key=lambda lane: -int(lane.count.sum()))
    return own[:FIRST] if kind in ("gpu", "range") else own


def _cut(lane: Lane, begin: int, length: int) -> Lane:
    """The events of a lane in a part of its step, few enough to be drawn small."""
    inside = np.flatnonzero((lane.end > begin) & (lane.start < begin + length))
    start = np.maximum(lane.start[inside] - begin, 0)
    end = np.minimum(lane.end[inside] - begin, length)
    whole = lane.inside[inside] if len(lane.inside) else end - start
    count = lane.count[inside] if len(lane.count) else np.ones(len(inside), np.int64)
    part = replace(
        lane.take(inside),
        start=start,
        end=end,
        inside=np.minimum(whole, end - start),
        count=count,
        columns={},
    )
    for cells in (400, 200, 100, 60, 30, 15):  # events of several kinds are merged each with its own
        if len(part.start) <= _MOST_EVENTS:
            break
        part = merge_lane(part, max(length // cells, 1))
    return part
