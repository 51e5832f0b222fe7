"""Chosen steps of an export with everything that happened in them, event by event: what a trace viewer is given.

Unlike the steps kept for the page (step_events.py) nothing is merged, every thread of the process is shown, and events
say what they were. The GPU's states and its idle time tile a step: their sums are the accounting's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.idle import IDLE
from tracediff.accounting.intervals import Ints, layers, union
from tracediff.accounting.reduction import KeptStep, Reduction, typical
from tracediff.accounting.sweep import Sweep
from tracediff.compare.comparability import check
from tracediff.compare.sides import Side, steps_table
from tracediff.compare.strata import ROW, Strata, build_strata, need_common
from tracediff.errors import TracediffError
from tracediff.execution.run import Reading, reduce_file, reduce_sides
from tracediff.formats.capture import Capture
from tracediff.formats.database import sql
from tracediff.formats.inputs import SideFiles
from tracediff.formats.selection import MIN_STEPS, Selection
from tracediff.kernels.categories import category
from tracediff.model import Note, Stratum
from tracediff.steps.events import CALL_GROUPS, GilRows, Keep, Keeper, StepEvents, Words
from tracediff.trace.periods import COMM, COMPUTE, MEMCPY, Timeline, Unit

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
    ranges = {name: np.asarray(values) for name, values in db.execute(sql("accounting/range_of_step")).fetchnumpy().items()}  # fmt: skip
    collections = db.execute(sql("accounting/gc_of_step")).fetchall()
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


# Which steps of the two sides are shown beside each other, and where each begins on the common axis.

Row = dict[str, Any]


@dataclass(frozen=True)
class ShownStep:
    """One period of one device. `unit`: which device of its rank, from 0; `offset`: ns from the pair's start."""

    part: int
    period: int
    rank: int
    unit: int
    device: int
    row: str  # of the strata
    ns: int
    offset: int


@dataclass(frozen=True)
class Pair:
    """Steps of the baseline and of the candidate; the first of each side are those that were paired.

    number: among all pairs, from 1. at: where it begins on the axis, ns.
    """

    number: int
    row: str
    steps: tuple[tuple[ShownStep, ...], tuple[ShownStep, ...]]
    at: int = 0

    def end(self) -> int:
        """Where the last of its steps ends on the axis."""
        return self.at + max(one.offset + one.ns for side in self.steps for one in side)

    def deltas(self) -> dict[tuple[int, int], int]:
        """(rank, unit) -> candidate - baseline, ns, for those with a step of the same workload on both sides."""
        baseline, candidate = ({(one.rank, one.unit): one for one in side} for side in self.steps)
        return {
            key: candidate[key].ns - one.ns
            for key, one in baseline.items()
            if key in candidate and candidate[key].row == one.row
        }


def median_run(steps: pl.DataFrame, side: int) -> int:
    """The run of a side whose mean time of a compared step is the (lower) median."""
    means = steps.filter(pl.col("side") == side).group_by("run").agg(pl.col("ns").mean()).sort("ns", "run")
    return typical(means["run"].to_list())


def pair_steps(steps: pl.DataFrame, runs: tuple[int, int]) -> list[Pair]:
    """Pair the compared steps of one run of each side.

    `steps`: side, run, part, period, rank, device, ns, start_ns, number, row (see `steps_table` and strata.ROW).
    """
    sides = [
        _Run(steps.filter((pl.col("side") == side) & (pl.col("run") == run))) for side, run in enumerate(runs)
    ]
    waiting: dict[str, list[Row]] = {}
    for step in sides[1].main:
        waiting.setdefault(step["row"], []).append(step)
    pairs: list[Pair] = []
    for step in sides[0].main:
        if not waiting.get(step["row"]):
            continue
        other = waiting[step["row"]].pop(0)
        shown = tuple(side.around(one) for side, one in zip(sides, (step, other), strict=True))
        pairs.append(Pair(len(pairs) + 1, step["row"], (shown[0], shown[1])))
    return pairs


class _Run:
    """The compared steps of one run by device."""

    def __init__(self, steps: pl.DataFrame) -> None:
        numbered = steps.with_columns(unit=pl.col("device").rank("dense").over("rank").cast(pl.Int64) - 1)
        self._of_unit: dict[
            tuple[int, int, int], list[Row]
        ] = {}  # (part, rank, unit) -> steps in order of time
        for row in numbered.sort("part", "rank", "unit", "start_ns").iter_rows(named=True):
            self._of_unit.setdefault((row["part"], row["rank"], row["unit"]), []).append(row)
        self._leads: dict[int, tuple[int, int, int]] = {}  # part -> its first device
        for key in self._of_unit:
            self._leads.setdefault(key[0], key)
        self._first = min(self._of_unit)
        self._used: set[tuple[int, int]] = set()
        self._place = {
            (key, row["period"]): (row["row"], nth)
            for key, rows in self._of_unit.items()
            for row, nth in zip(rows, _nth(row["row"] for row in rows), strict=True)
        }

    @property
    def main(self) -> list[Row]:
        """The steps of the first device of the first rank."""
        return self._of_unit[self._first]

    def around(self, main: Row) -> tuple[ShownStep, ...]:
        """That step, and those of the other devices that belong to it."""
        shown = []
        for part, key in self._leads.items():
            lead = main if key == self._first else self._same(key, main)
            if lead is None:
                continue
            for unit, rows in self._of_unit.items():
                if unit[0] != part:
                    continue
                step = lead if unit == key else _nearest(rows, lead)
                if step is not None and (part, step["period"]) not in self._used:
                    self._used.add((part, step["period"]))
                    shown.append(_shown(step, step["start_ns"] - lead["start_ns"]))
        return tuple(shown)

    def _same(self, key: tuple[int, int, int], main: Row) -> Row | None:
        """The same step in another export of the run: of that number, else as many steps of the workload in."""
        rows = self._of_unit[key]
        if main["number"] is not None:
            return next((row for row in rows if row["number"] == main["number"]), None)
        place = self._place[self._first, main["period"]]
        return next((row for row in rows if self._place[key, row["period"]] == place), None)


def _nth(rows: Iterable[str]) -> list[int]:
    """How often each word was seen before."""
    seen: dict[str, int] = {}
    out = []
    for row in rows:
        out.append(seen.get(row, 0))
        seen[row] = out[-1] + 1
    return out


def _nearest(rows: Sequence[Row], lead: Row) -> Row | None:
    """The step that begins nearest to another one of the same clock, less than that one's length away."""
    best = min(rows, key=lambda row: (abs(row["start_ns"] - lead["start_ns"]), row["start_ns"]))
    return best if abs(best["start_ns"] - lead["start_ns"]) < lead["ns"] else None


def _shown(row: Row, offset: int) -> ShownStep:
    names = ("part", "period", "rank", "unit", "device", "row", "ns")
    return ShownStep(**{name: row[name] for name in names}, offset=offset)


def on_axis(pairs: Sequence[Pair], origin: int = 0) -> list[Pair]:
    """Lay the pairs out one after another, as close as they go without two steps of one device overlapping."""
    placed: list[Pair] = []
    free: dict[tuple[int, int, int], int] = {}  # side, rank, unit -> where its last step ended
    for pair in pairs:
        shown = [((side, one.rank, one.unit), one) for side in (0, 1) for one in pair.steps[side]]
        at = max(free.get(key, origin) - one.offset for key, one in shown)
        placed.append(replace(pair, at=at))
        free |= {key: at + one.offset + one.ns for key, one in shown}
    return placed


# One run of each side with the events of its paired steps: what `tracediff timeline` writes.

SIDES = ("baseline", "candidate")
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Window:
    """Which pairs are shown: the first to the last, counted from 1, and at most so many events of both sides."""

    first: int = 1
    last: int = 20
    most_events: int = 500_000
    asked: bool = True  # not so: it is the default, and that there are more pairs is warned of


@dataclass(frozen=True)
class TracedPair:
    """Everything that is shown. `parts`, `steps`: of each side's run, export by export; steps by (part, period)."""

    labels: tuple[str, str]
    runs: tuple[str, str]
    parts: tuple[list[Reduction], list[Reduction]]
    steps: tuple[dict[tuple[int, int], TracedStep], dict[tuple[int, int], TracedStep]]
    pairs: list[Pair]
    all_pairs: int
    strata: dict[str, Stratum]  # by the row of a pair
    with_gil: bool
    warnings: list[Note] = field(default_factory=list)

    @property
    def events(self) -> int:
        """How many events all shown steps have."""
        return sum(_events(pair, self.steps) for pair in self.pairs)


def trace_pair(
    files: tuple[SideFiles, SideFiles],
    reading: Reading,
    window: Window,
    *,
    runs: tuple[int | None, int | None] = (None, None),
    min_steps: int = MIN_STEPS,
    progress: Callable[[str], None] = lambda _: None,
) -> TracedPair:
    """Read both sides, choose a run of each (`runs`: their numbers from 0, else the median one) and the pairs to show.

    Raises `TracediffError`: no-common-strata, timeline-no-run, timeline-no-steps, timeline-too-large, and those of
    reading.
    """
    files = (_only(files[0], runs[0], 0), _only(files[1], runs[1], 1))
    sides = reduce_sides(files, reading, progress)
    table = steps_table(sides)
    strata = build_strata(table, (len(sides[0].runs), len(sides[1].runs)), min_steps)
    need_common(strata)
    compared = strata.locate(table).filter(pl.col("group") >= 0).with_columns(row=ROW)
    chosen = (median_run(compared, 0), median_run(compared, 1))
    pairs = pair_steps(compared, chosen)
    shown = [pair for pair in pairs if window.first <= pair.number <= window.last]
    if not shown:
        raise TracediffError(
            "timeline-no-steps",
            f"there is no pair of steps {window.first} to {window.last}: the runs that are shown have {len(pairs)} pairs",
            fix=f"--steps 1-{min(len(pairs), 20)}" if pairs else "other runs (--run), or a longer capture",
        )
    first_pass = (sides[0].runs[chosen[0]].parts, sides[1].runs[chosen[1]].parts)
    asked = len(shown)
    shown = _fitting(shown, _ops(first_pass), window.most_events)
    with_gil = sides[0].captured("gil") == sides[1].captured("gil")
    keep = partial(trace_steps, with_gil=with_gil, most_events=window.most_events)
    parts = tuple(
        _read(sides[side].runs[chosen[side]].sources, _periods(shown, side), reading, keep) for side in (0, 1)
    )
    for before, after in zip(first_pass, parts, strict=True):
        assert all(one.periods.equals(other.periods) for one, other in zip(before, after, strict=True))
    steps = (_steps(parts[0]), _steps(parts[1]))
    shown = _fitting(shown, lambda pair: _events(pair, steps), window.most_events)
    return TracedPair(
        labels=(sides[0].label, sides[1].label),
        runs=(sides[0].runs[chosen[0]].name, sides[1].runs[chosen[1]].name),
        parts=(parts[0], parts[1]),
        steps=steps,
        pairs=on_axis(shown),
        all_pairs=len(pairs),
        strata=dict(zip(strata.keys, strata.rows, strict=True)),
        with_gil=with_gil,
        warnings=_warnings(sides, parts, strata, window, (len(pairs), asked, len(shown)), with_gil),
    )


def _only(side: SideFiles, run: int | None, number: int) -> SideFiles:
    if run is None:
        return side
    if run >= len(side.runs):
        raise TracediffError(
            "timeline-no-run",
            f"the {SIDES[number]} has {len(side.runs)} runs: there is no run {run + 1}",
            fix="--run N, or --run N,M where the sides differ: " + ", ".join(f"{at} {one.name}" for at, one in enumerate(side.runs, 1)),
            exit_code=2,
        )  # fmt: skip
    return replace(side, runs=(side.runs[run],))


def _periods(pairs: Sequence[Pair], side: int) -> dict[int, list[int]]:
    """Part -> the periods of it that are shown, in the order of the pairs."""
    found: dict[int, list[int]] = {}
    for pair in pairs:
        for one in pair.steps[side]:
            found.setdefault(one.part, []).append(one.period)
    return found


def _read(
    sources: Sequence[tuple[Path, Selection]], periods: dict[int, list[int]], reading: Reading, keep: Keep
) -> list[Reduction]:
    """Read every export of a run with the events of some periods."""
    return [
        reduce_file(
            path,
            replace(reading, keep=True, only=only),
            keeper=Keeper(partial(_given, periods.get(part, [])), keep),
        )
        for part, (path, only) in enumerate(sources)
    ]


def _given(periods: list[int], *_: object) -> list[int]:
    return periods


def _steps(parts: Sequence[Reduction]) -> dict[tuple[int, int], TracedStep]:
    found = {}
    for number, part in enumerate(parts):
        for step in part.kept:
            assert isinstance(step, TracedStep)
            found[number, step.period] = step
    return found


def _events(pair: Pair, steps: Sequence[dict[tuple[int, int], TracedStep]]) -> int:
    """How many events a pair has; endless where a step of it was not read, for there were too many before it."""
    found = [steps[side].get((one.part, one.period)) for side in (0, 1) for one in pair.steps[side]]
    return sum(_ENDLESS if one is None else one.events for one in found)


def _ops(parts: Sequence[Sequence[Reduction]]) -> Callable[[Pair], int]:
    """How many ops a pair has: known before its events are read."""
    counts = [
        [dict(one.kernels.group_by("period").agg(pl.col("count").sum()).iter_rows()) for one in side]
        for side in parts
    ]
    return lambda pair: sum(
        int(counts[side][one.part].get(one.period, 0)) for side in (0, 1) for one in pair.steps[side]
    )


def _fitting(pairs: list[Pair], size: Callable[[Pair], int], most: int) -> list[Pair]:
    """The first of the pairs, as many as have no more than `most` events together."""
    total, kept = 0, []
    for pair in pairs:
        total += size(pair)
        if total > most:
            break
        kept.append(pair)
    if not kept:
        raise TracediffError(
            "timeline-too-large",
            f"the first pair of steps alone has {size(pairs[0]):,} events, more than {most:,}",
            fix=f"--max-events {2 * size(pairs[0])}",
        )
    return kept


def _warnings(
    sides: Sequence[Side],
    parts: Sequence[Sequence[Reduction]],
    strata: Strata,
    window: Window,
    counts: tuple[int, int, int],
    with_gil: bool,
) -> list[Note]:
    pairs, asked, shown = counts
    notes = [note for side in sides for note in side.notes]
    notes += [note for side in parts for part in side for note in part.warnings]
    notes += strata.warnings
    if any(part.step_source == "whole-capture" for side in parts for part in side):
        notes.append(
            Note("whole-capture", "each capture was counted as one step: captures of different length cannot be compared")
        )  # fmt: skip
    if not with_gil:
        notes.append(
            Note("gil-one-side", "the GIL was traced on one side only: idle time that waited for it is counted as the host work"
                 " or call it fell into, on both sides. Capture both with nsys -t python-gil")
        )  # fmt: skip
    comparability = check((sides[0], sides[1]), strata)
    if not comparability.comparable:
        failed = ", ".join(one.name for one in comparability.checks if one.status == "fail")
        notes.append(
            Note("timeline-not-comparable", f"the captures are not comparable ({failed}): deltas of their steps say nothing")
        )  # fmt: skip
    if shown < asked:
        notes.append(
            Note("timeline-cut", f"{asked - shown} of the {asked} pairs of steps asked for were left out: with them there would be more"
                 f" than {window.most_events:,} events. --max-events N allows more")
        )  # fmt: skip
    if asked < pairs and not window.asked:
        notes.append(
            Note("timeline-window", f"{asked} of {pairs} pairs of steps are shown; --steps {pairs} shows all")
        )  # fmt: skip
    return list({(note.slug, note.message): note for note in notes}.values())  # said once for both sides
