"""Which steps of an export are sampled event by event while it is measured, and how much of them is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Index, Ints
from tracediff.accounting.reduction import Lane, SampledStep
from tracediff.accounting.sweep import Sweep
from tracediff.accounting.walk import Hosts
from tracediff.formats.capture import Capture
from tracediff.steps.events import StepEvents, read_host_rows
from tracediff.trace.periods import Timeline
from tracediff.trace.threads import Places, Thread
from tracediff.trace.workloads import SHAPE, bucket

WORKLOADS = 6  # of a rank and level, those with the most time
LONG = 5  # of a phase, of those that are far longer than others of their workload
_LEAST_MORE_NS = 10_000
OF_PHASE = 2  # of a phase at least, whatever their time
LONGEST_STEP = 100_000  # ops; a step with more is not sampled, nor is anything of it read
MOST_EVENTS = 4_000  # of one step of the page
MOST_ALIGNED = 8_000  # ops, and pieces of idle time, of a step up to which they are held one by one for its comparison with another
_RESOLUTIONS = (4096, 2048, 1024, 512, 256, 128)
_MOST_RANGES = 20_000  # of one step of the page: the longest
_DEEPEST = 6  # nested ranges of the page
_STREAMS = 6  # streams of the page with a row each


@dataclass(frozen=True)
class Sampler:
    """A `StepSampler` of accounting/reduce.py. choose: the table of periods and how many ops each has -> rows of it."""

    choose: Callable[[pl.DataFrame, Ints], Sequence[int]]
    hold: Callable[[Iterator[StepEvents]], Iterable[SampledStep]]

    def __call__(
        self, capture: Capture, timeline: Timeline, swept: list[Sweep], periods: pl.DataFrame
    ) -> Callable[[Places, dict[int, Thread], Hosts], list[SampledStep]]:
        """Choose the steps and read the rows of their threads; the events are made where the threads are known."""
        ops = np.concatenate([np.bincount(one.piece_period, minlength=len(one.busy)) for one in swept])
        rows = list(self.choose(periods, ops))
        host_rows = read_host_rows(capture, periods, rows)

        def finish(places: Places, threads: dict[int, Thread], hosts: Hosts) -> list[SampledStep]:
            steps = (StepEvents(timeline, swept, row, host_rows, places, threads, hosts) for row in rows)
            return list(self.hold(steps))

        return finish


def choose_steps(periods: pl.DataFrame, ops: Ints) -> list[int]:
    """The typical and the longest step of the workloads with the most time, and long ones, before anybody knows the other side."""
    table = periods.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
        bucket("ctx_tokens").alias("wide_tokens"),
        bucket("gen_reqs").alias("wide_gen"),
    )
    unit = ["rank", "device"]
    chosen = set(_long(table))
    for level in (SHAPE, ["phase", "ctx_reqs", "wide_tokens", "wide_gen"], ["phase"]):
        by = [*unit, *level]
        groups = (
            in_order(table)
            .group_by(by, maintain_order=True)
            .agg(
                typical=pl.col("period").get((pl.len() - 1) // 2),
                worst=pl.col("period").last(),
                total=pl.col("ns").sum(),
            )
            .sort("total", *by, descending=[True, *[False] * len(by)], nulls_last=True)
        )
        for shown in (
            groups.group_by(unit, maintain_order=True).head(WORKLOADS),
            groups.group_by(*unit, "phase", maintain_order=True).head(OF_PHASE),
        ):
            chosen |= {*shown["typical"].to_list(), *shown["worst"].to_list()}
    return sorted(one for one in chosen if ops[one] <= LONGEST_STEP)


def _long(table: pl.DataFrame) -> list[int]:
    """Of each phase of a rank some of the steps that are far longer than others of their workload, from the shortest to the longest."""
    usual = pl.col("ns").median().over("rank", "device", "phase", "ctx_reqs", "wide_tokens", "wide_gen")
    long = table.with_columns(more=pl.col("ns") - usual).filter(
        ~pl.col("start_up"), pl.col("more") > 0.2 * usual, pl.col("more") > _LEAST_MORE_NS
    )
    found: list[int] = []
    for group in long.sort("more", "start_ns").partition_by("rank", "device", "phase", maintain_order=True):
        at = (2 * np.arange(LONG) + 1) * len(group) // (2 * LONG)
        found += group["period"].gather(np.unique(at)).to_list()
    return found


def in_order(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps from the shortest to the longest, of equal ones the latest first: so that the last is the earliest longest."""
    return steps.sort("ns", "start_ns", descending=[False, True])


def typical(ordered: list[int]) -> int:
    """The (lower) median."""
    return ordered[(len(ordered) - 1) // 2]


# For a trace viewer: every event of given steps.


def in_full(rows: Sequence[int], most_events: int) -> Sampler:
    """Sample some rows of the table of periods, up to the step with which there are more than `most_events`."""
    return Sampler(lambda *_: rows, partial(_in_full, most_events=most_events))


def _in_full(steps: Iterator[StepEvents], most_events: int) -> Iterator[SampledStep]:
    total = 0
    for step in steps:
        units = [one for one in step.timeline.units if one.pid == step.unit.pid]
        lanes = [step.states(), step.idle(), *step.streams()]
        devices = step.timeline.launchers.get(step.tid, [])
        if step.unit is next((one for one in units if one.device in devices), None):
            lanes += step.calls()
        if step.unit is units[0]:  # the threads of a process once, whatever the number of its devices
            lanes += [*step.ranges(), step.gil_holds(), *step.gil_waits(), step.collections()]
        lanes = [lane for lane in lanes if len(lane.start)]
        events = sum(len(lane.start) for lane in lanes)
        yield SampledStep(step.row, step.role(step.tid), lanes, events)
        total += events
        if total > most_events:
            return


# For the page: the busiest streams and the launching thread. Events too short to be seen are merged with their like.


def _for_the_page(step: StepEvents) -> SampledStep:
    streams, idle = list(step.streams()), step.idle()
    lanes = [
        *_streams(streams),
        idle,
        *step.calls(),
        *(lane for own in step.ranges() if own.source == step.tid for lane in _levels(own)),
        *_gil(step),
        _collections(step),
    ]
    lanes = [_without_columns(lane) for lane in lanes if len(lane.start)]
    merged, events, below = bounded(lanes, step.end - step.begin)
    whole = [joined(streams, "all streams"), _without_columns(idle)] if below and streams else []
    if whole and max(len(lane.start) for lane in whole) > MOST_ALIGNED:
        whole = []
    return SampledStep(step.row, step.role(step.tid), merged, events, below, whole)


_OF_IDLE = (
    "tid",
    "range",
    "holder",
    "holder_range",
)  # by which the idle time of one cause and place is found


def _without_columns(lane: Lane) -> Lane:
    kept = _OF_IDLE if lane.kind == "idle" else ()
    return replace(lane, columns={name: lane.columns[name] for name in kept})


FOR_THE_PAGE = Sampler(choose_steps, partial(map, _for_the_page))


def _streams(lanes: list[Lane]) -> list[Lane]:
    """The busiest first; what runs on further streams shares one lane."""
    lanes = sorted(lanes, key=lambda lane: (-len(lane.start), lane.source))
    if len(lanes) <= _STREAMS:
        return lanes
    rest = lanes[_STREAMS - 1 :]
    return [*lanes[: _STREAMS - 1], joined(rest, f"{len(rest)} other streams")]


def joined(lanes: list[Lane], name: str) -> Lane:
    """Events of several lanes of one kind, texts and groups as one."""
    columns: dict[str, Any] = {
        field: np.concatenate([getattr(lane, field) for lane in lanes])
        for field in ("start", "end", "what", "group")
    }
    joined = replace(lanes[0], name=name, source=-1, columns={}, **columns)
    return joined.take(np.lexsort((-joined.end, joined.start)))


def _levels(ranges: Lane) -> Iterator[Lane]:
    """Ranges of a thread by their level of nesting."""
    start = ranges.start - ranges.columns["before_ns"]
    end = start + ranges.columns["whole_ns"]
    longest = np.argsort(start - end, kind="stable")[:_MOST_RANGES]
    order = longest[np.lexsort((ranges.what[longest], -end[longest], start[longest]))]
    level = _depth(start[order], end[order])
    role = ranges.name
    for depth in range(min(int(level.max(initial=-1)) + 1, _DEEPEST)):
        here = order[level == depth]
        here = here[np.lexsort((-ranges.end[here], ranges.start[here]))]
        yield replace(ranges.take(here), name=role if depth == 0 else f"ranges, level {depth + 1}")


def _depth(start: Ints, end: Ints) -> Ints:
    """Lanes on which ranges in order of (start, longest first) do not overlap; of nested ones the depth."""
    ends: list[int] = []
    out = np.empty(len(start), np.int64)
    for number, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        # an inner range never goes above the one it lies in
        lane = next((at for at in range(len(ends), 0, -1) if ends[at - 1] > begin), 0)
        ends[lane:] = [stop]
        out[number] = lane
    return out


def _gil(step: StepEvents) -> list[Lane]:
    """Holds and waits of the launching thread, and who else of its process held the GIL."""
    holds = step.gil_holds()
    tid = holds.columns["tid"]
    words: dict[str, Any] = {
        "texts": ["holds the GIL", "waits for the GIL"],
        "groups": ("gil_hold", "gil_wait"),
    }
    own = [replace(holds.take(np.flatnonzero(tid == step.tid)), kind="gil", **words)]
    own += [
        replace(lane, what=lane.what + 1, group=lane.group + 1, **words)
        for lane in step.gil_waits()
        if lane.source == step.tid
    ]
    others = holds.take(np.flatnonzero(tid != step.tid))
    seen, what = np.unique(others.columns["tid"], return_inverse=True)
    texts = [f"{step.role(int(one)) or 'a thread'} holds the GIL" for one in seen.tolist()]
    return [
        joined(own, f"GIL, {step.role(step.tid)}"),
        replace(others, name="GIL, other threads", what=what.reshape(-1), texts=texts, groups=("gil_other",)),
    ]


def _collections(step: StepEvents) -> Lane:
    lane = step.collections()
    texts = [
        f"{step.role(tid) or 'a thread'}, generation {lane.texts[one]}"
        for tid, one in zip(lane.columns["tid"].tolist(), lane.what.tolist(), strict=True)
    ]
    return replace(lane, what=np.arange(len(texts)), texts=texts)


def bounded(lanes: list[Lane], length: int) -> tuple[list[Lane], int, int]:
    """Merge what is shorter than a 4096th (2048th, ...) of the step until at most MOST_EVENTS are left.

    Returns the lanes, how many events there were, and below what length they were merged (0: none were).
    """
    events = sum(len(lane.start) for lane in lanes)
    plain = [
        replace(lane, inside=lane.end - lane.start, count=np.ones(len(lane.start), np.int64))
        for lane in lanes
    ]
    if events <= MOST_EVENTS:
        return plain, events, 0
    for resolution in _RESOLUTIONS:
        below = max(length // resolution, 1)
        merged = [merge_lane(lane, below) for lane in plain]
        if sum(len(lane.start) for lane in merged) <= MOST_EVENTS:
            break
    return merged, events, below


def merge_lane(lane: Lane, below: int) -> Lane:
    """A lane in which what is shorter than `below` ns is merged with its like (see `merge`)."""
    # one number for the group, and for what it would be without the GIL's trace
    group = lane.group if lane.under is None else lane.group * 64 + lane.under
    index, owner = merge(lane.start, lane.end, group, below)
    longest = np.lexsort((np.arange(len(owner)), -lane.inside, owner))
    first = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(index)))[:-1])).astype(np.int64)
    shown = longest[first] if len(index) else index  # a merged event is called what its longest part is
    end = np.full(len(index), np.iinfo(np.int64).min, np.int64)
    np.maximum.at(end, owner, lane.end)
    return replace(
        lane.take(index),
        end=end,
        what=lane.what[shown],
        columns={name: values[shown] for name, values in lane.columns.items()},
        inside=np.bincount(owner, weights=lane.inside, minlength=len(index)).astype(np.int64),
        count=np.bincount(owner, weights=lane.count, minlength=len(index)).astype(np.int64),
    )


def merge(start: Ints, end: Ints, group: Index, below: int) -> tuple[Ints, Ints]:
    """Merge events shorter than `below` that start in the same `below` ns of the axis and are of one group.

    Events come in order of start. Returns the first event of each merged one, in order, and for each event which
    merged one it went into.
    """
    size = len(start)
    short = end - start < below
    cell = np.where(short, start // below, -1 - np.arange(size))
    order = np.lexsort((np.arange(size), group, cell))
    fresh = np.ones(size, np.bool_)
    fresh[1:] = (np.diff(cell[order]) != 0) | (np.diff(group[order]) != 0)
    first, place = np.unique(order[fresh], return_inverse=True)  # in order of start again
    owner = np.empty(size, np.int64)
    owner[order] = place[np.cumsum(fresh) - 1]
    return first.astype(np.int64), owner
