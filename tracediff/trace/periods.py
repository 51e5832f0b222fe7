"""The op timeline of each rank and device, and its periods.

A rank is a process with a GPU. Period of step n on a device = [first op of n, first op of n+1): periods tile the
device's timeline whatever the host does ahead. An op belongs to the step in whose host window its launching
call started, found by (correlation id, process), never by comparing clocks of GPU and host rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.errors import TracediffError
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame, release_memory, sql
from tracediff.formats.selection import Selection
from tracediff.kernels.categories import is_communication
from tracediff.model import Note
from tracediff.trace.threads import Calls, Launches, distinct, read_calls

Ints = npt.NDArray[np.int64]

# What an op counts as in the accounting: where kinds overlap, the lower number wins.
COMPUTE, COMM, MEMCPY = 0, 1, 2


@dataclass(frozen=True)
class Unit:
    """One device of one rank: its ops in order of (start, correlation id, node), and its periods.

    Op arrays have one entry an op; period arrays one entry a whole period.
    """

    pid: int
    device: int
    rank: int
    start: Ints
    end: Ints
    kind: npt.NDArray[np.int8]  # COMPUTE, COMM or MEMCPY
    key: npt.NDArray[np.int32]  # row of Timeline.keys
    graph: npt.NDArray[np.bool_]
    launch: npt.NDArray[np.int32]  # id in Launches, -1 none
    later_node: npt.NDArray[np.bool_]  # of its graph launch: not the first op of it to start
    bounds: Ints  # period k = [bounds[k], bounds[k + 1])
    step: npt.NDArray[np.int32]  # step of the process (table step) of each period
    stream: npt.NDArray[np.int32]  # of each op
    node: npt.NDArray[np.int32] | None = None  # its id in the table node_id, -1 none; where it was asked for


@dataclass(frozen=True)
class Timeline:
    """All ranks of one export."""

    units: list[Unit]
    calls: Calls
    launches: Launches
    launchers: dict[int, list[int]]  # thread -> the devices that it launches on
    keys: pl.DataFrame  # id, name, short_name, kind (0 kernel, 1 memcpy, 2 memset, 3 graph), grid, block, ...
    api_names: dict[int, tuple[str, str]]  # id -> (name, class)
    warnings: list[Note]


def build_timeline(capture: Capture, *, whole_capture: bool = False, with_nodes: bool = False) -> Timeline:
    """Read the ops of every rank and cut their timelines into periods; makes the table node_id (pid, graph_node -> id).

    `whole_capture`: one period, from the first op to the end of the last. Needs the tables of `find_steps` otherwise.
    Raises `TracediffError`: no-kernels, no-whole-step.
    """
    db = capture.db
    if capture.coverage["kernels"] == "not_captured":
        raise TracediffError(
            "no-kernels",
            f"{capture.name}: no GPU kernels ({capture.recording.kernels})",
            fix="let the capture range hold GPU work (CUDA calls were recorded)"
            if capture.coverage["cuda_api"] == "captured"
            else capture.recording.gpu_work,
        )
    keys = _keys(capture)
    calls, launches, launch_ids = read_calls(db)
    ops = _ops(capture, launch_ids)
    api = {
        row[0]: (row[1], row[2])
        for row in db.execute("SELECT coalesce(name, -1), api, class FROM api_name").fetchall()
    }
    class_of = np.array(
        [_class(name, kind) for name, kind in keys.select("name", "kind").iter_rows()], np.int8
    )
    is_kernel = keys["kind"].to_numpy() == 0
    warnings = _without_launch(capture, is_kernel[ops["key"]], ops["launch"])
    if launches.shared:
        warnings.append(
            Note(
                "correlation-ids-repeat",
                f"{capture.name}: {launches.shared} correlation ids in CUPTI_ACTIVITY_KIND_RUNTIME belong to several calls of a"
                " process, one after the other: the GPU work of all goes to the first, so idle time may be laid to the wrong call",
            )
        )
    units: list[Unit] = []
    launchers: dict[int, set[int]] = {}
    for low, high in pairwise(_edges(ops["pid"], ops["device"])):
        mine = {name: values[low:high] for name, values in ops.items()}
        process, device = int(mine["pid"][0]), int(mine["device"][0])
        start, end, launch, graph = mine["start_ns"], mine["end_ns"], mine["launch"], mine["node"] >= 0
        for tid in distinct(launches.tid[launch[launch >= 0]]):
            launchers.setdefault(tid, set()).add(device)
        if whole_capture:
            bounds, step = np.array([start[0], end.max()], np.int64), np.zeros(1, np.int32)
        else:
            profiling = _profiling_began(calls, api, process)
            bounds, step, note = _periods(
                capture, process, start, end, launch, mine["stream"], launches, profiling
            )
            if note is not None:
                warnings.append(note)
        units.append(
            Unit(
                process,
                device,
                0,
                start=start,
                end=end,
                kind=class_of[mine["key"]],
                key=mine["key"],
                graph=graph,
                launch=launch,
                later_node=_later_nodes(start, graph, launch),
                bounds=bounds,
                step=step,
                stream=mine["stream"],
                node=mine["node"] if with_nodes else None,
            )
        )
    units = _numbered([unit for unit in units if len(unit.step)])
    if not units:
        raise TracediffError(
            "no-whole-step",
            f"{capture.name}: there are step labels, but no step with GPU work that is followed by another",
            fix=f"{capture.recording.gpu_work}; {capture.recording.more}",
        )
    return Timeline(
        units,
        calls,
        launches,
        {tid: sorted(devices) for tid, devices in launchers.items()},
        keys,
        api,
        warnings,
    )


def _ops(capture: Capture, launch_ids: Ints) -> dict[str, npt.NDArray[Any]]:
    """Columns of op.sql, launch as place in `launch_ids` or -1; the ops' table is dropped."""
    db = capture.db
    db.execute(
        "CREATE OR REPLACE TABLE node_id AS SELECT pid, graph_node, (row_number() OVER (ORDER BY pid, graph_node) - 1)::INTEGER AS id"
        " FROM (SELECT DISTINCT pid, graph_node FROM op_descriptor WHERE graph_node IS NOT NULL)"
    )
    ops = {name: np.asarray(values) for name, values in db.execute(sql("trace/op")).fetchnumpy().items()}
    db.execute("DROP VIEW op")
    db.execute("DROP TABLE op_row")
    release_memory(db)
    at = np.searchsorted(launch_ids, ops["launch"]).astype(np.int32)
    known = np.append(launch_ids, np.iinfo(np.int64).min)[at] == ops["launch"]
    ops["launch"] = np.where(known, at, np.int32(-1))
    return ops


def _edges(pid: npt.NDArray[np.int32], device: npt.NDArray[np.int32]) -> list[int]:
    """Where the ops of each process and device begin, and where the last ones end."""
    changes = (pid[1:] != pid[:-1]) | (device[1:] != device[:-1])
    return [0, *(np.flatnonzero(changes) + 1).tolist(), len(pid)]


def _without_launch(
    capture: Capture, kernel: npt.NDArray[np.bool_], launch: npt.NDArray[np.int32]
) -> list[Note]:
    kernels, orphans = int(kernel.sum()), int((kernel & (launch < 0)).sum())
    if not orphans:
        return []
    return [
        Note(
            "kernels-without-launch",
            f"{capture.name}: {orphans} of {kernels} kernels have no launching call in"
            " CUPTI_ACTIVITY_KIND_RUNTIME; the idle time before them is unattributed",
        )
    ]


def _later_nodes(
    start: Ints, graph: npt.NDArray[np.bool_], launch: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Which nodes of graphs start after the first op of their launch (ops come in order of start)."""
    nodes = np.flatnonzero(graph & (launch >= 0))
    later = np.zeros(len(start), np.bool_)
    if len(nodes):
        launched = np.flatnonzero(launch >= 0)[::-1]
        first = np.zeros(int(launch.max()) + 1, np.int64)
        first[launch[launched]] = start[launched]  # written backwards: the first one stays
        later[nodes] = start[nodes] > first[launch[nodes]]
    return later


def _keys(capture: Capture) -> pl.DataFrame:
    capture.db.execute(
        "CREATE OR REPLACE TABLE key_id AS SELECT key, (row_number() OVER (ORDER BY kind, name, grid, block,"
        " short_name) - 1)::INTEGER AS id FROM op_key"
    )
    return frame(
        capture.db,
        "SELECT id, name, short_name, kind, grid, block, registers, shared_bytes"
        " FROM op_key JOIN key_id USING (key) ORDER BY id",
    )


def _class(name: str, kind: int) -> int:
    if kind in (1, 2):
        return MEMCPY
    return COMM if kind == 0 and is_communication(name) else COMPUTE


def _numbered(units: list[Unit]) -> list[Unit]:
    ranks = {pid: rank for rank, pid in enumerate(sorted({unit.pid for unit in units}))}
    return [replace(unit, rank=ranks[unit.pid]) for unit in units]


def _periods(
    capture: Capture,
    pid: int,
    start: Ints,
    end: Ints,
    launch: npt.NDArray[np.int32],
    stream: npt.NDArray[np.int32],
    launches: Launches,
    profiling: int | None,
) -> tuple[Ints, npt.NDArray[np.int32], Note | None]:
    """Period bounds (one more than periods) and the step of each period. `profiling`: see `_profiling_began`."""
    steps = capture.db.execute(
        "SELECT start_ns, coalesce(next_ns, -1) AS next_ns FROM step WHERE pid = ? ORDER BY step", [pid]
    ).fetchnumpy()
    nothing = (np.empty(0, np.int64), np.empty(0, np.int32))
    closed = len(steps["next_ns"]) == 1 and int(steps["next_ns"][0]) >= 0
    if len(steps["start_ns"]) < 2 and not closed:
        return *nothing, Note(
            "rank-without-steps",
            f"{capture.name}: a process with GPU work has no step labels of its own; it is left out",
        )
    windows = np.asarray(steps["start_ns"], np.int64)
    if closed:  # one step that ends with its label: what follows is another
        windows = np.append(windows, np.int64(steps["next_ns"][0]))
    launched = launch >= 0
    step_of_launch = (np.searchsorted(windows, launches.start, side="right") - 1).astype(np.int32)
    step = np.full(len(launch), -2, np.int32)
    step[launched] = step_of_launch[launch[launched]]
    # An op without a launching call goes with the op before it on its stream.
    orphans = np.flatnonzero(~launched)
    if len(orphans):
        step = _step_of_neighbours(step, stream)
    # first op of every step, in order of time: ops come in that order, so written backwards the first one stays
    first = np.full(
        len(windows) + 2, -1, np.int64
    )  # ops without a step, -1 and -2, go to the two last places
    first[step[::-1]] = np.arange(len(step))[::-1]
    seen = np.flatnonzero(first[:-2] >= 0)
    bounds = start[first[seen]]
    # The capture began inside the first step where its label opened before the program started the profiler.
    if len(seen) and profiling is not None and windows[seen[0]] < profiling:
        seen, bounds = seen[1:], bounds[1:]
    if not len(seen):
        return *nothing, None
    if closed:
        if seen[0] > 0:
            return *nothing, None
        return np.array([bounds[0], end[step == 0].max()], np.int64), np.zeros(1, np.int32), None
    # A later step cannot begin before an earlier one; where it seems to (an op that overtook on another
    # stream), the earlier step gives its time to the one before it.
    ahead = np.minimum.accumulate(bounds[::-1])[::-1]
    keep = bounds <= ahead
    keep[:-1] &= bounds[:-1] < ahead[1:]
    note = None
    if not keep.all():
        note = Note(
            "steps-overtake",
            f"{capture.name}: {int((~keep).sum())} steps begin on the GPU after the step that follows them; they"
            " were joined with their neighbours",
        )
    return bounds[keep], seen[keep][:-1].astype(np.int32), note


def _profiling_began(calls: Calls, api: dict[int, tuple[str, str]], pid: int) -> int | None:
    """When the program of this process started the profiler (cudaProfilerStart), ns; None where it did not."""
    names = [
        name for name, (text, _) in api.items() if text.startswith("cu") and text.endswith("ProfilerStart")
    ]
    starts = [
        int(calls.start[mine][np.isin(calls.name[mine], names)].min(initial=_NEVER))
        for tid, mine in calls.of_thread.items()
        if names and tid >> 24 & 0xFFFFFF == pid
    ]
    earliest = min(starts, default=_NEVER)
    return None if earliest == _NEVER else earliest


_NEVER = np.iinfo(np.int64).max


def _step_of_neighbours(step: npt.NDArray[np.int32], stream: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Fill -2 with the step of the op before on the same stream (ops come in order of time)."""
    order = np.argsort(stream, kind="stable")
    grouped, streams = step[order], stream[order]
    position = np.where(grouped > -2, np.arange(len(grouped)), 0)
    last = np.maximum.accumulate(position)
    same = streams[last] == streams
    filled = np.where((grouped == -2) & same, grouped[last], grouped)
    out = np.empty_like(step)
    out[order] = filled
    return out


# The ranks and steps of a timeline that are asked for. Periods stay whole, so that the accounting of those kept closes.


@dataclass(frozen=True)
class Kept:
    """How much of an export is measured: steps count once for each rank and device."""

    steps: int
    all_steps: int
    ranks: int
    all_ranks: int


def select(
    name: str, timeline: Timeline, steps: pl.DataFrame, selection: Selection
) -> tuple[Timeline, frozenset[int], Kept]:
    """Keep what is asked for: the timeline, the processes that are left out of it, and how much is kept.

    `steps`: pid, step, number of every step; a step without a number counts by its place in the process, from 1. Numbers of
    ranks stay what they are without a selection. Raises `TracediffError`: nothing-selected, step-numbers-repeat.
    """
    numbers = _numbers(steps) if selection.steps is not None else {}
    kept: list[Unit] = []
    for unit in timeline.units:
        if selection.has_rank(unit.rank):
            found = _cut(name, unit, numbers, selection)
            if found is not None:
                kept.append(found)
    if not kept:
        raise TracediffError(
            "nothing-selected", f"{name}: no whole step is selected", fix=_there(timeline.units, steps)
        )
    pids = {unit.pid for unit in kept}
    ranks = {unit.pid for unit in timeline.units}
    count = Kept(
        sum(len(unit.step) for unit in kept), sum(len(unit.step) for unit in timeline.units), len(pids), len(ranks)
    )  # fmt: skip
    return replace(timeline, units=kept), frozenset(ranks - pids), count


def _numbers(steps: pl.DataFrame) -> dict[int, Ints]:
    """Process -> the number of each of its steps, by `step`."""
    known = steps.sort("pid", "step").with_columns(pl.col("number").fill_null(pl.col("step") + 1))
    return {int(pid): own["number"].to_numpy() for (pid,), own in known.group_by("pid", maintain_order=True)}


def _cut(name: str, unit: Unit, numbers: dict[int, Ints], selection: Selection) -> Unit | None:
    if not selection.cuts_steps:
        return unit
    keep = np.ones(len(unit.step), np.bool_)
    if selection.steps is not None:
        number = numbers[unit.pid][unit.step]
        keep &= (number >= selection.steps[0]) & (number <= selection.steps[1])
    if selection.window is not None:
        keep &= (unit.bounds[:-1] >= selection.window[0]) & (unit.bounds[1:] <= selection.window[1])
    where = np.flatnonzero(keep)
    if not len(where):
        return None
    low, high = int(where[0]), int(where[-1]) + 1
    if high - low != len(where):
        raise TracediffError(
            "step-numbers-repeat",
            f"{name}: the steps of these numbers do not follow one another: the numbers of its labels begin again or jump back",
            fix="--window 1.5s-2.5s selects by time",
        )
    return replace(unit, bounds=unit.bounds[low : high + 1], step=unit.step[low:high])


def _there(units: list[Unit], steps: pl.DataFrame) -> str:
    """What could be selected."""
    numbers = _numbers(steps)
    found = np.concatenate([numbers[unit.pid][unit.step] for unit in units if unit.pid in numbers])
    low, high = min(int(unit.bounds[0]) for unit in units), max(int(unit.bounds[-1]) for unit in units)
    last = max(unit.rank for unit in units)
    told = f"its whole steps are {found.min()} to {found.max()}, " if len(found) else "its whole steps are "
    return f"{told}from {low / 1e9:.6f} s to {high / 1e9:.6f} s, of rank{'s 0 to ' + str(last) if last else ' 0'}"
