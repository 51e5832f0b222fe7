"""A few steps of one export, and their events as timelines need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import Index, layers, union
from tracediff.accounting.reduction import Lane, SampledStep
from tracediff.accounting.sweep import Sweep
from tracediff.accounting.walk import Hosts, IdlePieces, attribute, places_of
from tracediff.arrays import Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, sql
from tracediff.kernels.names import category
from tracediff.model.causes import BUSY, IDLE
from tracediff.trace.periods import COMM, COMPUTE, MEMCPY, Timeline
from tracediff.trace.threads import OUTSIDE, Places, Thread, distinct
from tracediff.trace.workloads import bucket

# All events of a step: GPU work, idle time by cause, CUDA calls, NVTX ranges, the GIL, garbage collections.
#
# The page and the Perfetto export both draw what is extracted here. Nothing is merged; events are cut at the bounds of the step.
# Every lane has the columns `before_ns` (cut off at its start) and `whole_ns` (length uncut); further ones are named where they are made.


GPU_STATES = BUSY  # each hides those after it, as in the accounting
GPU_GROUPS = ("gemm", "attention", *GPU_STATES)
CALL_GROUPS = ("launch_api", "host_sync", "host_api")  # in the order of LAUNCH, SYNC, OTHER
_category = lru_cache(1 << 16)(category)

Rows = dict[str, Any]  # column -> array


def read_host_rows(capture: Capture, periods: pl.DataFrame, rows: list[int]) -> dict[str, Rows]:
    """The `gil`, `range` and `gc` rows that touch some periods, each with its `period`. Before `read_gil`, which drops the GIL's."""
    chosen = periods[rows]
    columns = {"period": "period", "pid": "pid", "begin_ns": "start_ns", "stop_ns": "end_ns"}
    create_table(
        capture.db, "sampled_period", {name: chosen[own].to_numpy() for name, own in columns.items()}
    )
    return {
        kind: {
            name: np.asarray(values)
            for name, values in capture.db.execute(sql(f"steps/{kind}_of_step")).fetchnumpy().items()
        }
        for kind in ("gil", "range", "gc")
    }


class StepEvents:
    """One period of one device. `row`: of the table of periods; `period`: of the unit; `tid`: thread that launched most of its ops, or -1."""

    def __init__(
        self,
        timeline: Timeline,
        swept: list[Sweep],
        row: int,
        host_rows: dict[str, Rows],
        places: Places,
        threads: dict[int, Thread],
        hosts: Hosts,
    ) -> None:
        number, period = 0, row
        while period >= len(timeline.units[number].step):
            period -= len(timeline.units[number].step)
            number += 1
        self.row, self.timeline, self.unit = row, timeline, timeline.units[number]
        self._period, self._swept, self._host_rows = period, swept[number], host_rows
        self._places, self._threads, self._hosts = places, threads, hosts
        self.begin, self.end = int(self.unit.bounds[period]), int(self.unit.bounds[period + 1])
        periods = self._swept.piece_period
        pieces = slice(*np.searchsorted(periods, np.array((period, period + 1), periods.dtype)).tolist())
        self._ops = np.asarray(self._swept.piece_op[pieces], np.int64)
        launch = self.unit.launch[self._ops]
        seen, count = np.unique(timeline.launches.tid[launch[launch >= 0]], return_counts=True)
        self.tid = int(seen[np.argmax(count)]) if len(seen) else -1

    def role(self, tid: int) -> str:
        """The role of a thread; '' where it has none."""
        return self._threads[tid].role if tid in self._threads else ""

    def _lane(
        self,
        kind: str,
        name: str,
        start: Ints,
        end: Ints,
        *,
        what: Ints,
        group: Index,
        texts: list[str],
        groups: tuple[str, ...],
        of: str = "",
        under: Ints | None = None,
        source: int = -1,
        **columns: Any,
    ) -> Lane:
        """A lane of events given in trace time and any order."""
        low, high = np.maximum(start, self.begin), np.minimum(end, self.end)
        lane = Lane(
            kind, name, of, low - self.begin, high - self.begin, what, group.astype(np.int64), texts, groups, under, source,
            {"before_ns": low - start, "whole_ns": end - start, **columns},
        )  # fmt: skip
        inside = np.flatnonzero(high > low)
        return lane.take(inside[np.lexsort((inside, -high[inside], low[inside]))])

    def states(self) -> Lane:
        """What the device did: compute, else communication, else copies."""
        unit, op = self.unit, self._ops
        start, end = np.maximum(unit.start[op], self.begin), np.minimum(unit.end[op], self.end)
        kinds = [unit.kind[op] == kind for kind in (COMPUTE, COMM, MEMCPY)]
        parts, state = layers(*(union(start[one], end[one]) for one in kinds))
        return self._lane(
            "state", "GPU busy", parts.start, parts.end, what=state, group=state, texts=list(GPU_STATES), groups=GPU_STATES
        )  # fmt: skip

    def streams(self) -> Iterator[Lane]:
        """Every op, a lane a stream, in order of their numbers.

        Columns: launch (number in the export, -1 none), first (of its launch), launched_ns (from its launch to it), graph.
        """
        unit, op, launches = self.unit, self._ops, self.timeline.launches
        names, key, launch, kinds = self.timeline.keys["name"], unit.key[op], unit.launch[op], unit.kind[op]
        group = np.empty(len(op), np.int64)
        for one in np.unique(key).tolist():
            kind = _category(str(names[int(one)]))
            group[key == one] = GPU_GROUPS.index(kind if kind in ("gemm", "attention") else "compute")
        group[kinds == COMM] = GPU_GROUPS.index("comm")
        group[kinds == MEMCPY] = GPU_GROUPS.index("memcpy")
        launched = np.zeros(len(op), np.int64)
        launched[launch >= 0] = (unit.start[op] - launches.start[launch])[launch >= 0] if len(launches.start) else 0  # fmt: skip
        for stream in np.unique(unit.stream[op]).tolist():
            mine = np.flatnonzero(unit.stream[op] == stream)
            yield self._lane(
                "gpu", f"stream {stream}", unit.start[op[mine]], unit.end[op[mine]], what=key[mine].astype(np.int64),
                group=group[mine], texts=[], groups=GPU_GROUPS, source=stream, launch=launch[mine].astype(np.int64),
                first=(~unit.later_node[op[mine]]).astype(np.int64), launched_ns=launched[mine], graph=unit.graph[op[mine]].astype(np.int64),
            )  # fmt: skip

    def idle(self) -> Lane:
        """Idle time of the device by cause, as the accounting has it.

        Columns: tid and range of the thread that was waited for, call that it was in, holder of the GIL and its range;
        range, call and holder_range index `texts`.
        """
        texts: dict[str, int] = {}
        columns: dict[str, list[Index]] = {}

        def indexed(words: list[str]) -> Ints:
            return np.array([texts.setdefault(word, len(texts)) for word in words], np.int64)

        pieces = self._idle_pieces()
        worded = [self._idle_words(part) for part in pieces]
        for *_, words in worded:  # texts of events come before those of columns
            columns.setdefault("what", []).append(indexed(words))
        for part, (place, call, holder_place, _) in zip(pieces, worded, strict=True):
            size = len(part.start)
            for name, values in {
                "start": part.start,
                "end": part.end,
                "group": part.cause,
                "under": part.cause if part.under is None else part.under,
                "tid": np.full(size, part.tid),
                "range": indexed(place),
                "call": indexed(call),
                "holder": np.full(size, part.holder),
                "holder_range": indexed(holder_place),
            }.items():
                columns.setdefault(name, []).append(values)
        names = ("start", "end", "what", "group", "under", "tid", "range", "call", "holder", "holder_range")
        empty = np.empty(0, np.int64)
        joined: dict[str, Any] = {
            name: np.concatenate([empty, *columns.get(name, [])]).astype(np.int64) for name in names
        }
        return self._lane("idle", "GPU idle", texts=list(texts), groups=IDLE, **joined)

    def _idle_pieces(self) -> list[IdlePieces]:
        unit, gaps, launches = self.unit, self._swept.gaps, self.timeline.launches
        mine = gaps.take(np.flatnonzero(gaps.period == self._period))
        labels = np.full(len(launches.start), -1, np.int64)
        launch = unit.launch[mine.op]
        for tid in distinct(launches.tid[launch[launch >= 0]]):
            own = np.unique(launch[(launch >= 0) & (launches.tid[launch] == tid)])
            labels[own] = self._hosts.thread(tid).label_at(launches.start[own])
        return attribute(unit, mine, launches, labels, self._hosts)

    def _idle_words(self, part: IdlePieces) -> tuple[list[str], list[str], list[str], list[str]]:
        """Of each piece: range, call, range of the GIL's holder, and all in one."""
        places = self._place_texts(part.tid, part.label, part.start)
        calls = [self._call(one) for one in part.api.tolist()]
        texts = [f"{call} {_in(place)}" if call and place else call or place for call, place in zip(calls, places, strict=True)]  # fmt: skip
        if part.holder_label is None:
            return places, calls, [""] * len(places), texts
        held = self.role(part.holder) or "nobody recorded"
        where = self._place_texts(part.holder, part.holder_label, part.start)
        holders = [f"{held} {_in(at)}" if at else held for at in where]
        texts = [
            f"{_in(text or 'no range')}; held by {holder}"
            for text, holder in zip(texts, holders, strict=True)
        ]
        return places, calls, where, texts

    def _place_texts(self, tid: int, label: Index, start: Ints) -> list[str]:
        place = places_of(self._places, self._hosts, tid, label, start)
        return list(map(self._places.name, place.tolist()))

    def _call(self, api: int) -> str:
        return self.timeline.api_names.get(int(api), ("", ""))[0]

    def calls(self) -> Iterator[Lane]:
        """Outermost CUDA calls of the launching thread. Column: launch (number in the export, -1 none)."""
        if self.tid < 0:
            return
        calls, name, kind = self._hosts.thread(self.tid).outer_calls(self.begin, self.end)
        launches = self.timeline.launches
        mine = np.flatnonzero(
            (launches.tid == self.tid) & (launches.start >= self.begin) & (launches.start < self.end)
        )
        begun = dict(zip(launches.start[mine].tolist(), mine.tolist(), strict=True))
        seen, what = np.unique(name, return_inverse=True)
        yield self._lane(
            "api", "CUDA calls", calls.start, calls.end, what=what.reshape(-1), group=kind,
            texts=[self._call(one) for one in seen.tolist()], groups=CALL_GROUPS, of=self.role(self.tid), source=self.tid,
            launch=np.array([begun.get(one, -1) for one in calls.start.tolist()], np.int64),
        )  # fmt: skip

    def _of_step(self, kind: str) -> Rows:
        rows = self._host_rows[kind]
        mine = np.flatnonzero(rows["period"] == self.row)
        return {name: values[mine] for name, values in rows.items()}

    def _in_turn(self, tids: Index) -> list[int]:
        """Threads in the order in which they are shown: the launching thread first."""
        return sorted(np.unique(tids).tolist(), key=lambda tid: (tid != self.tid, self.role(tid), tid))

    def ranges(self) -> Iterator[Lane]:
        """NVTX ranges, a lane a thread of the process."""
        rows = self._of_step("range")
        for tid in self._in_turn(rows["tid"]):
            mine = np.flatnonzero(rows["tid"] == tid)
            _, first, what = np.unique(rows["label"][mine], return_index=True, return_inverse=True)
            yield self._lane(
                "range", "ranges", rows["start_ns"][mine], rows["end_ns"][mine], what=what.reshape(-1),
                group=np.zeros(len(mine), np.int64), texts=[str(one) for one in rows["text"][mine][first]],
                groups=("range",), of=self.role(tid), source=tid,
            )  # fmt: skip

    @cached_property
    def _gil(self) -> Rows:
        return self._of_step("gil")

    def gil_holds(self) -> Lane:
        """Holds of the GIL by all threads of the process. Column: tid."""
        held = np.flatnonzero(~self._gil["waiting"])
        return self._gil_lane("holders", held, "gil_hold", tid=self._gil["tid"][held])

    def gil_waits(self) -> Iterator[Lane]:
        """Waits for the GIL, a lane a thread."""
        for tid in self._in_turn(self._gil["tid"][self._gil["waiting"]]):
            mine = np.flatnonzero(self._gil["waiting"] & (self._gil["tid"] == tid))
            yield self._gil_lane("gil", mine, "gil_wait", source=tid)

    def _gil_lane(self, kind: str, rows: Index, group: str, **more: Any) -> Lane:
        none = np.zeros(len(rows), np.int64)
        return self._lane(
            kind, "GIL", self._gil["start_ns"][rows], self._gil["end_ns"][rows], what=none, group=none,
            texts=[group], groups=(group,), **more,
        )  # fmt: skip

    def collections(self) -> Lane:
        """Garbage collections of the process; texts are their generations. Column: tid."""
        rows = self._of_step("gc")
        size = len(rows["tid"])
        return self._lane(
            "gc", "Python GC", rows["start_ns"], rows["end_ns"], what=np.arange(size), group=np.zeros(size, np.int64),
            texts=[str(one) for one in rows["generation"]], groups=("gc",), tid=rows["tid"],
        )  # fmt: skip


WORKLOADS = 6  # of a rank and level, those with the most time
LONG = 5  # of a phase, of those that are far longer than others of their workload
_LEAST_MORE_NS = 10_000
OF_PHASE = 2  # of a phase at least, whatever their time
LONGEST_STEP = 100_000  # ops; a step with more is not sampled, nor is anything of it read
MOST_EVENTS = 4_000  # of one step of the page
# Ops, and pieces of idle time, of a step up to which they are held one by one for its comparison with another.
MOST_ALIGNED = {"gpu": 8_000, "idle": 32_000}
_RESOLUTIONS = (4096, 2048, 1024, 512, 256, 128)
_MOST_RANGES = 20_000  # of one step of the page: the longest
_DEEPEST = 6  # nested ranges of the page
_STREAMS = 6  # streams of the page with a row each


class Sampler(msgspec.Struct, frozen=True):
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
    # of a stratum first: a step that starts up is no long step of its shape
    for level in (["phase", "stratum"], ["phase", "ctx_reqs", "wide_tokens", "wide_gen"], ["phase"]):
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


def _in(place: str) -> str:
    """`in PLACE`; what lies in no range says so itself."""
    return place if place.startswith(OUTSIDE) else f"in {place}"


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
    few = [lane for lane in whole if len(lane.start) <= MOST_ALIGNED[lane.kind]]
    return SampledStep(step.row, step.role(step.tid), merged, events, below, few)


# by which the idle time of one cause and place is found
_OF_IDLE = ("tid", "range", "holder", "holder_range")


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


def joined(lanes: list[Lane], name: str, of: str = "") -> Lane:
    """Events of several lanes of one kind, texts and groups as one."""
    columns: dict[str, Any] = {
        field: np.concatenate([getattr(lane, field) for lane in lanes])
        for field in ("start", "end", "what", "group")
    }
    joined = replace(lanes[0], name=name, of=of, source=-1, columns={}, **columns)
    return joined.take(np.lexsort((-joined.end, joined.start)))


def _levels(ranges: Lane) -> Iterator[Lane]:
    """Ranges of a thread by their level of nesting."""
    start = ranges.start - ranges.columns["before_ns"]
    end = start + ranges.columns["whole_ns"]
    longest = np.argsort(start - end, kind="stable")[:_MOST_RANGES]
    order = longest[np.lexsort((ranges.what[longest], -end[longest], start[longest]))]
    level = _depth(start[order], end[order])
    for depth in range(min(int(level.max(initial=-1)) + 1, _DEEPEST)):
        here = order[level == depth]
        here = here[np.lexsort((-ranges.end[here], ranges.start[here]))]
        yield replace(ranges.take(here), of=f"level {depth + 1}" if depth else ranges.of)


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
        joined(own, "GIL", step.role(step.tid)),
        replace(others, of="other threads", what=what.reshape(-1), texts=texts, groups=("gil_other",)),
    ]


def _collections(step: StepEvents) -> Lane:
    lane = step.collections()
    texts = [
        f"{step.role(tid) or 'a thread'}, generation {lane.texts[one]}".removesuffix(", generation ?")
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
