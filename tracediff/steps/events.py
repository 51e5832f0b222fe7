"""The events of the steps that are kept: GPU work, idle time by cause, calls, ranges, GIL and collections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import polars as pl

from tracediff.accounting.hosts import STATES, Hosts
from tracediff.accounting.idle import IDLE, IdlePieces, attribute
from tracediff.accounting.intervals import Index, Ints
from tracediff.accounting.reduction import KeptStep, Lane, choose_steps
from tracediff.accounting.sweep import Sweep, rows_of
from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, sql
from tracediff.kernels.categories import category
from tracediff.trace.calls import distinct
from tracediff.trace.periods import COMM, MEMCPY, Timeline, Unit
from tracediff.trace.ranges import Places
from tracediff.trace.threads import Thread

# Events too short to be seen are merged with their like, so that a long step stays small enough to draw.

MOST_EVENTS = 4_000  # of one step
_RESOLUTIONS = (4096, 2048, 1024, 512, 256, 128)


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
        merged = [_merged(lane, below) for lane in plain]
        if sum(len(lane.start) for lane in merged) <= MOST_EVENTS:
            break
    return merged, events, below


def _merged(lane: Lane, below: int) -> Lane:
    index, owner = merge(lane.start, lane.end, _code(lane), below)
    longest = np.lexsort((np.arange(len(owner)), -lane.inside, owner))
    first = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(index)))[:-1])).astype(np.int64)
    shown = longest[first] if len(index) else index  # a merged event is called what its longest part is
    end = np.full(len(index), np.iinfo(np.int64).min, np.int64)
    np.maximum.at(end, owner, lane.end)
    return replace(
        lane,
        start=lane.start[index],
        end=end,
        what=lane.what[shown],
        group=lane.group[index],
        under=None if lane.under is None else lane.under[index],
        inside=np.bincount(owner, weights=lane.inside, minlength=len(index)).astype(np.int64),
        count=np.bincount(owner, weights=lane.count, minlength=len(index)).astype(np.int64),
    )


def _code(lane: Lane) -> Ints:
    """One number for the group, and for what it would be without the GIL's trace."""
    return lane.group if lane.under is None else lane.group * 64 + lane.under


def merge(start: Ints, end: Ints, group: Index, below: int) -> tuple[Ints, Ints]:
    """Merge events shorter than `below` that start in the same `below` ns of the axis and are of one group.

    Events come in order of start. Returns the first event of each merged one, in order, and for each event which
    merged one it went into.
    """
    size = len(start)
    if not size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if below <= 0:
        return np.arange(size), np.arange(size)
    short = end - start < below
    cell = np.where(short, start // below, -1 - np.arange(size))
    order = np.lexsort((np.arange(size), group, cell))
    fresh = np.ones(size, np.bool_)
    fresh[1:] = (cell[order][1:] != cell[order][:-1]) | (group[order][1:] != group[order][:-1])
    number = np.cumsum(fresh) - 1
    first = order[fresh]
    rank = np.argsort(first, kind="stable")  # in order of start again
    place = np.empty(len(first), np.int64)
    place[rank] = np.arange(len(first))
    owner = np.empty(size, np.int64)
    owner[order] = place[number]
    return first[rank].astype(np.int64), owner


GPU_GROUPS = ("gemm", "attention", "compute", "comm", "memcpy")
CALL_GROUPS = STATES[2:]  # launch_api, host_sync, host_api: in the order of LAUNCH, SYNC, OTHER
_MOST_RANGES = 20_000  # of one thread in one step: the longest
_DEEPEST = 6  # nested ranges drawn
_STREAMS = 6  # streams with a row each
_of_name = lru_cache(1 << 16)(category)


@dataclass(frozen=True)
class GilRows:
    """Holds and waits that touch a kept period: which one, thread, ns, whether it waits."""

    period: Ints
    tid: Ints
    start: Ints
    end: Ints
    waiting: Index


def ops_of_periods(swept: list[Sweep]) -> Ints:
    """How many ops each row of the table of periods has."""
    return np.concatenate([np.bincount(one.piece_period, minlength=len(one.busy)) for one in swept])


def gil_of_steps(capture: Capture, periods: pl.DataFrame, chosen: list[int]) -> GilRows:
    """Read the GIL's trace of the kept periods. To be called before `read_gil`, which drops it."""
    rows = periods[chosen]
    create_table(
        capture.db,
        "kept_period",
        {
            "period": rows["period"].to_numpy(),
            "pid": rows["pid"].to_numpy(),
            "begin_ns": rows["start_ns"].to_numpy(),
            "stop_ns": rows["end_ns"].to_numpy(),
        },
    )
    found = _arrays(capture.db, sql("accounting/gil_of_step"))
    return GilRows(found["period"], found["tid"], found["start_ns"], found["end_ns"], found["waiting"])


def keep_steps(
    capture: Capture,
    timeline: Timeline,
    swept: list[Sweep],
    periods: pl.DataFrame,
    chosen: list[int],
    words: tuple[Places, dict[int, Thread], Hosts],
    gil: GilRows,
) -> list[KeptStep]:
    """The chosen rows of the table of periods with their events; needs table `kept_period` of `gil_of_steps`."""
    ranges = _arrays(capture.db, sql("accounting/range_of_step"))
    collections = capture.db.execute(sql("accounting/gc_of_step")).fetchall()
    owner = [
        (unit, one, period)
        for unit, one in zip(timeline.units, swept, strict=True)
        for period in range(len(unit.step))
    ]
    kept = []
    for row in chosen:
        unit, one, period = owner[row]
        step = StepEvents(unit, one, period, timeline, *words)
        lanes = [*step.gpu(), step.idle()]
        if step.tid >= 0:
            lanes += [step.calls(), *step.ranges(ranges, row)]
        lanes += [*step.gil(gil, row), step.collections([gc[1:] for gc in collections if gc[0] == row])]
        lanes = [lane for lane in lanes if len(lane.start)]
        merged, events, below = bounded(lanes, step.end - step.begin)
        kept.append(KeptStep(row, step.role(step.tid), merged, events, below))
    return kept


def _arrays(db: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    return {name: np.asarray(values) for name, values in db.execute(query).fetchnumpy().items()}


class StepEvents:
    """One period of one unit."""

    def __init__(
        self,
        unit: Unit,
        swept: Sweep,
        period: int,
        timeline: Timeline,
        places: Places,
        threads: dict[int, Thread],
        hosts: Hosts,
    ) -> None:
        self._unit, self._swept, self._period, self._timeline = unit, swept, period, timeline
        self._places, self._threads, self._hosts = places, threads, hosts
        self.begin, self.end = int(unit.bounds[period]), int(unit.bounds[period + 1])
        self.pieces = rows_of(swept.piece_period, period, period + 1)
        launch = unit.launch[swept.piece_op[self.pieces]]
        tids = timeline.launches.tid[launch[launch >= 0]]
        seen, count = np.unique(tids, return_counts=True)
        self.tid = int(seen[np.argmax(count)]) if len(seen) else -1  # that launched most of the step's ops

    def role(self, tid: int) -> str:
        """The role of a thread."""
        return self._threads[tid].role if tid in self._threads else ""

    def _lane(self, kind: str, name: str, start: Ints, end: Ints, **more: Any) -> Lane:
        """A lane of events given in trace time and any order, those outside the step left out."""
        start, end = np.maximum(start, self.begin) - self.begin, np.minimum(end, self.end) - self.begin
        keep = np.flatnonzero(end > start)
        keep = keep[np.lexsort((keep, -end[keep], start[keep]))]
        arrays = {
            key: np.asarray(value, np.int64)[keep]
            for key, value in more.items()
            if isinstance(value, np.ndarray)
        }
        return Lane(
            kind, name, start[keep].astype(np.int64), end[keep].astype(np.int64), **{**more, **arrays}
        )

    def gpu(self) -> list[Lane]:
        """A lane a stream, the busiest first; what runs on further streams shares one."""
        unit, op = self._unit, self._swept.piece_op[self.pieces]
        names = self._timeline.keys["name"]
        key = unit.key[op]
        group = np.empty(len(op), np.int64)
        for one in np.unique(key).tolist():
            kind = _of_name(str(names[int(one)]))
            group[key == one] = GPU_GROUPS.index(kind if kind in ("gemm", "attention") else "compute")
        kinds = unit.kind[op]
        group[kinds == COMM] = GPU_GROUPS.index("comm")
        group[kinds == MEMCPY] = GPU_GROUPS.index("memcpy")
        stream = unit.stream[op] if unit.stream is not None else np.zeros(len(op), np.int32)
        seen, count = np.unique(stream, return_counts=True)
        seen = seen[np.lexsort((seen, -count))]
        lanes = []
        for number, one in enumerate(seen[:_STREAMS].tolist()):
            last = number == _STREAMS - 1 and len(seen) > _STREAMS
            mine = np.flatnonzero(np.isin(stream, seen[number:]) if last else stream == one)
            name = f"{len(seen) - number} other streams" if last else f"stream {one}"
            lanes.append(
                self._lane(
                    "gpu", name, unit.start[op[mine]], unit.end[op[mine]],
                    what=key[mine], group=group[mine], texts=[], groups=GPU_GROUPS,
                )
            )  # fmt: skip
        return lanes

    def idle_parts(self) -> list[IdlePieces]:
        """Idle time of the device by cause, as the accounting has it."""
        unit, gaps = self._unit, self._swept.gaps
        mine = gaps.take(np.flatnonzero(gaps.period == self._period))
        launches = self._timeline.launches
        labels = np.full(len(launches.start), -1, np.int64) if len(launches.start) else np.empty(0, np.int64)
        launch = unit.launch[mine.op]
        for tid in distinct(launches.tid[launch[launch >= 0]]):
            own = np.unique(launch[(launch >= 0) & (launches.tid[launch] == tid)])
            labels[own] = self._hosts.thread(tid).label_at(launches.start[own])
        return attribute(unit, mine, launches, labels, self._hosts)

    def idle(self) -> Lane:
        """The same as a lane."""
        parts = self.idle_parts()
        texts: dict[str, int] = {}
        what = [texts.setdefault(text, len(texts)) for part in parts for text in self._idle_texts(part)]
        empty = np.empty(0, np.int64)
        start, end, cause, under = (
            np.concatenate([empty, *columns])
            for columns in (
                [part.start for part in parts],
                [part.end for part in parts],
                [part.cause.astype(np.int64) for part in parts],
                [part.cause.astype(np.int64) if part.under is None else part.under.astype(np.int64) for part in parts],
            )
        )  # fmt: skip
        return self._lane(
            "idle", "GPU idle", start, end, what=np.array(what, np.int64), group=cause, under=under,
            texts=list(texts), groups=IDLE,
        )  # fmt: skip

    def _idle_texts(self, part: IdlePieces) -> list[str]:
        places = self.place_texts(part.tid, part.label, part.start)
        apis = [self._timeline.api_names.get(int(one), ("", ""))[0] for one in part.api.tolist()]
        texts = [f"{api} in {place}" if api and place else api or place for api, place in zip(apis, places, strict=True)]  # fmt: skip
        if part.holder_label is None:
            return texts
        held = self.role(part.holder) or "nobody recorded"
        where = self.place_texts(part.holder, part.holder_label, part.start)
        return [f"in {text or 'no range'}; held by {held}{f' in {at}' if at else ''}" for text, at in zip(texts, where, strict=True)]  # fmt: skip

    def place_texts(self, tid: int, label: Index, start: Ints) -> list[str]:
        """The places of labels of a thread; outside its ranges, between which the instants fall."""
        if tid < 0:
            return [""] * len(label)
        place = self._places.ids(label)
        outside = np.flatnonzero(label < 0)
        if len(outside):
            ranges, labels = self._hosts.thread(tid).places
            place[outside] = self._places.outside(ranges.start, labels, start[outside])
        return [self._places.name(int(one)) for one in place.tolist()]

    def calls(self) -> Lane:
        """Outermost CUDA calls of the launching thread."""
        calls, name, kind = self._hosts.thread(self.tid).outer_calls(self.begin, self.end)
        seen, what = np.unique(name, return_inverse=True)
        texts = [self._timeline.api_names.get(int(one), ("", ""))[0] for one in seen.tolist()]
        return self._lane(
            "api", f"CUDA calls, {self.role(self.tid)}", calls.start, calls.end,
            what=what.reshape(-1), group=kind.astype(np.int64), texts=texts, groups=CALL_GROUPS,
        )  # fmt: skip

    def ranges(self, rows: dict[str, Any], period: int) -> list[Lane]:
        """NVTX ranges of the launching thread, a lane a level of nesting."""
        mine = np.flatnonzero((rows["period"] == period) & (rows["tid"] == self.tid))
        start, end, label = (
            np.asarray(rows[name], np.int64)[mine] for name in ("start_ns", "end_ns", "label")
        )
        if len(mine) > _MOST_RANGES:
            longest = np.argsort(start - end, kind="stable")[:_MOST_RANGES]
            start, end, label = start[longest], end[longest], label[longest]
        order = np.lexsort((label, -end, start))
        start, end, label = start[order], end[order], label[order]
        level = _levels(start, end)
        seen, what = np.unique(label, return_inverse=True)
        said = dict(zip(rows["label"][mine].tolist(), rows["text"][mine].tolist(), strict=True))
        texts = [str(said[one]) for one in seen.tolist()]
        lanes = []
        for depth in range(min(int(level.max(initial=-1)) + 1, _DEEPEST)):
            here = np.flatnonzero(level == depth)
            name = f"ranges, {self.role(self.tid)}" if depth == 0 else f"ranges, level {depth + 1}"
            lanes.append(
                self._lane(
                    "range", name, start[here], end[here], what=what.reshape(-1)[here],
                    group=np.zeros(len(here), np.int64), texts=texts, groups=("range",),
                )
            )  # fmt: skip
        return lanes

    def gil(self, rows: GilRows, period: int) -> list[Lane]:
        """Holds and waits of the launching thread, and who else of its process held the GIL."""
        here = rows.period == period
        own = np.flatnonzero(here & (rows.tid == self.tid))
        others = np.flatnonzero(here & (rows.tid != self.tid) & ~rows.waiting)
        seen, what = np.unique(rows.tid[others], return_inverse=True)
        return [
            self._lane(
                "gil", f"GIL, {self.role(self.tid)}", rows.start[own], rows.end[own],
                what=np.where(rows.waiting[own], 1, 0), group=np.where(rows.waiting[own], 1, 0),
                texts=["holds the GIL", "waits for the GIL"], groups=("gil_hold", "gil_wait"),
            ),
            self._lane(
                "holders", "GIL, other threads", rows.start[others], rows.end[others], what=what.reshape(-1),
                group=np.zeros(len(others), np.int64),
                texts=[f"{self.role(int(tid)) or 'a thread'} holds the GIL" for tid in seen.tolist()],
                groups=("gil_other",),
            ),
        ]  # fmt: skip

    def collections(self, rows: list[tuple[int, int, int, str]]) -> Lane:
        """Garbage collections of the process."""
        texts = [f"{self.role(tid) or 'a thread'}, generation {said}" for tid, _, _, said in rows]
        return self._lane(
            "gc", "Python GC", np.array([row[1] for row in rows], np.int64), np.array([row[2] for row in rows], np.int64),
            what=np.arange(len(rows)), group=np.zeros(len(rows), np.int64), texts=texts, groups=("gc",),
        )  # fmt: skip


def _levels(start: Ints, end: Ints) -> Ints:
    """Lanes on which ranges in order of (start, longest first) do not overlap; of nested ones the depth."""
    ends: list[int] = []
    out = np.empty(len(start), np.int64)
    for number, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane = next((at for at, last in enumerate(ends) if last <= begin), len(ends))
        # an inner range never goes above the one it lies in
        while lane < len(ends) and any(last > begin for last in ends[lane:]):
            lane += 1
        ends[lane:] = [stop]
        out[number] = lane
    return out


# Which steps of an export are kept event by event, and in what form: what `reduce_capture` asks while it has the events.

Words = tuple[Places, dict[int, Thread], Hosts]


Keep = Callable[[Capture, Timeline, list[Sweep], pl.DataFrame, list[int], Words, GilRows], list[KeptStep]]


@dataclass(frozen=True)
class Keeper:
    """`choose`: the table of periods and how many ops each has -> rows of it; `keep`: those rows -> steps."""

    choose: Callable[[pl.DataFrame, Ints], list[int]]
    keep: Keep


DRAWN = Keeper(choose_steps, keep_steps)  # for the page
