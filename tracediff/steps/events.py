"""All events of a step: GPU work, idle time by cause, CUDA calls, NVTX ranges, the GIL, garbage collections.

The page and the Perfetto export both draw what is extracted here. Nothing is merged; events are cut at the bounds of the step.
Every lane has the columns `before_ns` (cut off at its start) and `whole_ns` (length uncut); further ones are named where they are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Index, Ints, layers, union
from tracediff.accounting.reduction import Lane
from tracediff.accounting.sweep import Sweep, rows_of
from tracediff.accounting.walk import Hosts, IdlePieces, attribute
from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, sql
from tracediff.kernels.categories import category
from tracediff.model.causes import BUSY, IDLE
from tracediff.trace.periods import COMM, COMPUTE, MEMCPY, Timeline
from tracediff.trace.threads import Places, Thread, distinct

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
        pieces = rows_of(self._swept.piece_period, period, period + 1)
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
        under: Ints | None = None,
        source: int = -1,
        **columns: Any,
    ) -> Lane:
        """A lane of events given in trace time and any order."""
        low, high = np.maximum(start, self.begin), np.minimum(end, self.end)
        lane = Lane(
            kind, name, low - self.begin, high - self.begin, what, group.astype(np.int64), texts, groups, under, source,
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
        texts = [f"{call} in {place}" if call and place else call or place for call, place in zip(calls, places, strict=True)]  # fmt: skip
        if part.holder_label is None:
            return places, calls, [""] * len(places), texts
        held = self.role(part.holder) or "nobody recorded"
        where = self._place_texts(part.holder, part.holder_label, part.start)
        texts = [f"in {text or 'no range'}; held by {held}{f' in {at}' if at else ''}" for text, at in zip(texts, where, strict=True)]  # fmt: skip
        return places, calls, where, texts

    def _place_texts(self, tid: int, label: Index, start: Ints) -> list[str]:
        """The places of labels of a thread; outside its ranges, between which the instants fall."""
        if tid < 0:
            return [""] * len(label)
        place = self._places.ids(label)
        outside = np.flatnonzero(label < 0)
        if len(outside):
            ranges, labels = self._hosts.thread(tid).places
            place[outside] = self._places.outside(ranges.start, labels, start[outside])
        return [self._places.name(int(one)) for one in place.tolist()]

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
            "api", f"CUDA calls, {self.role(self.tid)}", calls.start, calls.end, what=what.reshape(-1), group=kind,
            texts=[self._call(one) for one in seen.tolist()], groups=CALL_GROUPS, source=self.tid,
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
                "range", f"ranges, {self.role(tid)}", rows["start_ns"][mine], rows["end_ns"][mine], what=what.reshape(-1),
                group=np.zeros(len(mine), np.int64), texts=[str(one) for one in rows["text"][mine][first]],
                groups=("range",), source=tid,
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
