"""Chosen steps of an export with everything that happened in them, event by event: what a trace viewer is given.

Unlike the steps kept for the page (step_events.py) nothing is merged, every thread of the process is shown, and events
say what they were. The GPU's states and its idle time tile a step: their sums are the accounting's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from tracediff.align.kernel_categories import category
from tracediff.align.timeline import COMM, COMPUTE, MEMCPY, Timeline, Unit
from tracediff.load.capture import Capture
from tracediff.load.database import sql
from tracediff.measure.attribution import IDLE
from tracediff.measure.intervals import Ints, layers, union
from tracediff.measure.keeper import Words
from tracediff.measure.kept_steps import KeptStep
from tracediff.measure.step_events import CALL_GROUPS, GilRows, StepEvents
from tracediff.measure.sweep import Sweep

STATES = ("compute", "comm", "memcpy")  # of the GPU, in the order of COMPUTE, COMM, MEMCPY
Args = tuple[tuple[str, str | int], ...]
_kind = lru_cache(1 << 16)(category)


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that lasts: ns from the start of its step, cut to it. Arguments without a value are left out.

    leaves, lands: a launch, by its number in the export, that begins in this call, or whose first op this is.
    """

    start: int
    end: int
    name: str
    category: str
    args: Args = ()
    leaves: int = -1
    lands: int = -1


@dataclass(frozen=True)
class Track:
    """Slices of one kind in order of (start, longest first); of a kind that is no device's, `device` is -1.

    kind: state, idle, stream, calls, ranges, gil_waits, gil_holders, gc.
    """

    kind: str
    name: str
    device: int
    slices: list[Slice]


@dataclass(frozen=True)
class TracedStep(KeptStep):
    """A kept step with tracks in place of lanes."""

    tracks: list[Track] = field(default_factory=list)


def trace_steps(
    capture: Capture,
    timeline: Timeline,
    swept: list[Sweep],
    periods: pl.DataFrame,
    chosen: list[int],
    words: Words,
    gil: GilRows,
    *,
    with_gil: bool,
    most_events: int,
) -> list[KeptStep]:
    """The chosen rows of the table of periods as `TracedStep`; see `Keeper`.

    It stops after the step with which there are more than `most_events`. Without `with_gil` idle time that waited for the GIL is called what it would be had the GIL not been traced.
    """
    db = capture.db
    ranges = {name: np.asarray(values) for name, values in db.execute(sql("measure/range_of_step")).fetchnumpy().items()}  # fmt: skip
    collections = db.execute(sql("measure/gc_of_step")).fetchall()
    owner = [
        (number, period) for number, unit in enumerate(timeline.units) for period in range(len(unit.step))
    ]
    keys = _Keys(timeline.keys)
    facts = {
        number: _UnitFacts(timeline.units[number]) for number in sorted({owner[row][0] for row in chosen})
    }
    of_process: dict[int, list[int]] = {}
    for number, unit in enumerate(timeline.units):
        of_process.setdefault(unit.pid, []).append(number)
    launching = {
        tid: [
            one for one in of_process.get(tid >> 24 & 0xFFFFFF, []) if timeline.units[one].device in devices
        ]
        for tid, devices in timeline.launchers.items()
    }  # thread -> the units that it launches on: its calls are shown once
    kept: list[KeptStep] = []
    total = 0
    for row in chosen:
        number, period = owner[row]
        unit = timeline.units[number]
        step = _Traced(unit, swept[number], period, timeline, *words)
        tracks = [step.states(), step.idle_time(with_gil), *step.streams(keys, facts[number])]
        if step.tid >= 0 and number == min(launching[step.tid]):
            tracks.append(step.launching())
        mine = number == of_process[unit.pid][0]
        if mine:  # the threads of a process once, whatever the number of its devices
            of_step = np.flatnonzero(ranges["period"] == row)
            tracks += step.all_ranges({name: values[of_step] for name, values in ranges.items()})
            tracks += step.gil_tracks(gil, row)
            tracks.append(step.pauses([one[1:] for one in collections if one[0] == row]))
        tracks = [track for track in tracks if track.slices]
        events = sum(len(track.slices) for track in tracks)
        total += events
        kept.append(TracedStep(row, step.role(step.tid), [], events, tracks=tracks))
        if total > most_events:
            break
    return kept


class _Keys:
    """The table of ops by key, as lists."""

    def __init__(self, keys: pl.DataFrame) -> None:
        columns = ("name", "kind", "grid", "block", "registers", "shared_bytes")
        self.name, self.kind, self.grid, self.block, self.registers, self.shared = (keys[one].to_list() for one in columns)  # fmt: skip

    def args(self, key: int) -> Args:
        """What is the same of all ops of a key."""
        values = (("grid", self.grid[key]), ("block", self.block[key]), ("registers", self.registers[key]), ("shared_bytes", self.shared[key]))  # fmt: skip
        return tuple((name, value) for name, value in values if value is not None and value != "")


class _UnitFacts:
    """What is true of all ops of a unit: the first of each launch, and what its streams mostly do."""

    def __init__(self, unit: Unit) -> None:
        launched = np.flatnonzero(unit.launch >= 0)
        launch, at = np.unique(unit.launch[launched], return_index=True)
        self.first_op = dict(zip(launch.tolist(), launched[at].tolist(), strict=True))
        assert unit.stream is not None  # kept steps are read with streams
        self.names: dict[int, str] = {}
        ns = (unit.end - unit.start).astype(np.float64)
        for stream in np.unique(unit.stream).tolist():
            own = unit.stream == stream
            mostly = int(np.argmax(np.bincount(unit.kind[own], weights=ns[own], minlength=len(STATES))))
            self.names[stream] = f"stream {stream}, {('compute', 'communication', 'copies')[mostly]}"


class _Traced(StepEvents):
    """One period of one unit as tracks."""

    def _cut(self, start: Ints, end: Ints) -> Iterator[tuple[int, int, int, Args]]:
        """Events that touch the step, in order: (position, start, end, what was cut off of it)."""
        low, high = np.maximum(start, self.begin), np.minimum(end, self.end)
        keep = np.flatnonzero(high > low)
        keep = keep[np.lexsort((keep, -high[keep], low[keep]))]
        for at in keep.tolist():
            begin, stop = int(low[at]), int(high[at])
            whole: Args = ()
            if begin > start[at] or stop < end[at]:
                whole = (
                    ("whole_ns", int(end[at] - start[at])),
                    ("began_before_step_ns", begin - int(start[at])),
                )
            yield at, begin - self.begin, stop - self.begin, whole

    def _ops(self) -> Ints:
        return np.asarray(self._swept.piece_op[self.pieces], np.int64)

    def states(self) -> Track:
        """What the device did: a kind of work that hides the ones after it, as in the accounting."""
        unit, op = self._unit, self._ops()
        start, end = np.maximum(unit.start[op], self.begin), np.minimum(unit.end[op], self.end)
        kinds = [unit.kind[op] == kind for kind in (COMPUTE, COMM, MEMCPY)]
        parts, number = layers(*(union(start[one], end[one]) for one in kinds))
        slices = [
            Slice(begin - self.begin, stop - self.begin, STATES[state], "state")
            for begin, stop, state in zip(
                parts.start.tolist(), parts.end.tolist(), number.tolist(), strict=True
            )
        ]
        return Track("state", "GPU busy", unit.device, slices)

    def idle_time(self, with_gil: bool) -> Track:
        """Pieces of idle time with their cause, and where the thread was that caused it."""
        found: list[Slice] = []
        for part in self.idle_parts():
            cause = part.cause if with_gil or part.under is None else part.under
            place = self.place_texts(part.tid, part.label, part.start)
            held = part.holder_label is not None and with_gil
            holder_place = self.place_texts(part.holder, part.holder_label, part.start) if held and part.holder_label is not None else None  # fmt: skip
            for at, start, end, _ in self._cut(part.start, part.end):
                name = IDLE[int(cause[at])]
                said: list[tuple[str, str | int]] = [
                    ("cause", name), ("ns", end - start), ("range", place[at]), ("thread", self.role(part.tid)),
                    ("call", self._timeline.api_names.get(int(part.api[at]), ("", ""))[0]),
                ]  # fmt: skip
                if holder_place is not None:
                    said.append(("gil_holder", self.role(part.holder) or "nobody recorded"))
                    said.append(("gil_holder_range", holder_place[at]))
                found.append(Slice(start, end, name, "idle", tuple(one for one in said if one[1] != "")))
        found.sort(key=lambda one: (one.start, one.end))
        return Track("idle", "GPU idle, by cause", self._unit.device, found)

    def streams(self, keys: _Keys, facts: _UnitFacts) -> list[Track]:
        """Every op, a track a stream, in order of the streams' numbers."""
        unit, ops, launches = self._unit, self._ops(), self._timeline.launches
        assert unit.stream is not None
        tracks: dict[int, list[Slice]] = {}
        for at, start, end, whole in self._cut(unit.start[ops], unit.end[ops]):
            op = int(ops[at])
            key, launch, stream = int(unit.key[op]), int(unit.launch[op]), int(unit.stream[op])
            said: list[tuple[str, str | int]] = [
                ("duration_ns", end - start),
                *keys.args(key),
                ("stream", stream),
            ]
            lands = -1
            if launch >= 0:
                said.append(("launch_to_start_ns", int(unit.start[op] - launches.start[launch])))
                lands = launch if facts.first_op[launch] == op and not whole else -1
            if unit.graph[op]:
                said.append(("launched_by", "CUDA graph"))
            kind = {COMM: "communication", MEMCPY: "copy"}.get(int(unit.kind[op])) or _kind(keys.name[key])
            tracks.setdefault(stream, []).append(
                Slice(start, end, keys.name[key], kind, (*said, *whole), lands=lands)
            )
        return [Track("stream", facts.names.get(one, ""), unit.device, tracks[one]) for one in sorted(tracks)]

    def launching(self) -> Track:
        """Outermost CUDA calls of the launching thread."""
        calls, name, kind = self._hosts.thread(self.tid).outer_calls(self.begin, self.end)
        launches = self._timeline.launches
        mine = np.flatnonzero(
            (launches.tid == self.tid) & (launches.start >= self.begin) & (launches.start < self.end)
        )
        begun = dict(zip(launches.start[mine].tolist(), mine.tolist(), strict=True))
        slices = [
            Slice(
                start, end, self._timeline.api_names.get(int(name[at]), ("", ""))[0] or "a CUDA call",
                CALL_GROUPS[int(kind[at])], (("duration_ns", end - start), *whole),
                leaves=begun.get(int(calls.start[at]), -1),
            )
            for at, start, end, whole in self._cut(calls.start, calls.end)
        ]  # fmt: skip
        return Track("calls", f"CUDA calls, {self.role(self.tid)}", -1, slices)

    def all_ranges(self, rows: dict[str, Any]) -> list[Track]:
        """NVTX ranges, a track a thread, the launching thread first."""
        tids = sorted(np.unique(rows["tid"]).tolist(), key=lambda tid: (tid != self.tid, self.role(tid), tid))
        names = self._apart()
        tracks = []
        for tid in tids:
            mine = np.flatnonzero(rows["tid"] == tid)
            start, end = (np.asarray(rows[name][mine], np.int64) for name in ("start_ns", "end_ns"))
            slices = [
                Slice(low, high, str(rows["text"][mine[at]]), "range", whole)
                for at, low, high, whole in self._cut(start, end)
            ]
            tracks.append(Track("ranges", f"NVTX ranges, {names.get(int(tid), 'a thread')}", -1, slices))
        return tracks

    def _apart(self) -> dict[int, str]:
        """Names of the threads of the process: roles, those that share one told apart by their ids."""
        roles = {tid: one.role for tid, one in self._threads.items() if one.pid == self._unit.pid}
        count = Counter(roles.values())
        return {tid: role if count[role] == 1 else f"{role} {tid & 0xFFFFFF}" for tid, role in roles.items()}

    def gil_tracks(self, rows: GilRows, period: int) -> list[Track]:
        """Who held the GIL, and a track for each thread that waited for it."""
        here = rows.period == period
        held = np.flatnonzero(here & ~rows.waiting)
        names = self._apart()
        holds = [
            Slice(start, end, names.get(int(rows.tid[held[at]]), "a thread"), "gil_hold", whole)
            for at, start, end, whole in self._cut(rows.start[held], rows.end[held])
        ]
        tracks = [Track("gil_holders", "GIL held by", -1, holds)]
        for tid in sorted(
            {int(one) for one in rows.tid[here & rows.waiting]},
            key=lambda one: (one != self.tid, names.get(one, "")),
        ):
            mine = np.flatnonzero(here & rows.waiting & (rows.tid == tid))
            waits = [
                Slice(start, end, "waits for the GIL", "gil_wait", whole)
                for _, start, end, whole in self._cut(rows.start[mine], rows.end[mine])
            ]
            tracks.append(Track("gil_waits", f"GIL waits, {names.get(tid, 'a thread')}", -1, waits))
        return tracks

    def pauses(self, rows: list[tuple[int, int, int, str]]) -> Track:
        """Garbage collections of the process."""
        start, end = (np.array([row[column] for row in rows], np.int64) for column in (1, 2))
        slices = [
            Slice(low, high, f"generation {rows[at][3]}", "gc", (("thread", self.role(rows[at][0]) or "a thread"), *whole))
            for at, low, high, whole in self._cut(start, end)
        ]  # fmt: skip
        return Track("gc", "Python GC", -1, slices)
