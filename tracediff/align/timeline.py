"""The op timeline of each rank and device, and its periods.

A rank is a process with a GPU. Period of step n on a device = [first op of n, first op of n+1): periods tile the
device's timeline whatever the host does ahead. An op belongs to the step in whose host window its launching
call started, found by (correlation id, process), never by comparing clocks of GPU and host rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.align.kernel_categories import is_communication
from tracediff.errors import TracediffError
from tracediff.load.capture import Capture
from tracediff.load.database import frame, run_sql, sql
from tracediff.model import Note

Ints = npt.NDArray[np.int64]

# What an op counts as in the accounting: where kinds overlap, the lower number wins.
COMPUTE, COMM, MEMCPY = 0, 1, 2


@dataclass(frozen=True)
class Launches:
    """Launching calls by dense id, arrays of one length."""

    start: Ints
    end: Ints
    tid: Ints
    api: Ints  # id in api_name


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
    stream: npt.NDArray[np.int32]
    pageable_dtoh: npt.NDArray[np.bool_]
    bounds: Ints  # period k = [bounds[k], bounds[k + 1])
    step: npt.NDArray[np.int32]  # step of the process (table step) of each period


@dataclass(frozen=True)
class Timeline:
    """All ranks of one export."""

    units: list[Unit]
    launches: Launches
    keys: pl.DataFrame  # id, name, short_name, kind (0 kernel, 1 memcpy, 2 memset, 3 graph), grid, block, ...
    api_names: dict[int, tuple[str, str]]  # id -> (name, class)
    warnings: list[Note]


def build_timeline(capture: Capture, *, whole_capture: bool = False) -> Timeline:
    """Read the ops of every rank and cut their timelines into periods.

    `whole_capture`: one period, from the first op to the end of the last. Needs the tables of `find_steps` otherwise.
    Raises `TracediffError`: no-kernels, no-whole-step.
    """
    db = capture.db
    if capture.coverage["kernels"] == "not_captured":
        raise TracediffError(
            "no-kernels",
            f"{capture.name}: no GPU kernels (table CUPTI_ACTIVITY_KIND_KERNEL is missing or empty)",
            fix="capture with nsys profile -t cuda,nvtx,python-gil, and let the capture range hold GPU work",
        )
    run_sql(db, "align/launch")
    keys = _keys(capture)
    columns = db.execute(sql("align/op_sorted")).fetchnumpy()
    raw = db.execute("SELECT start_ns, end_ns, tid, name FROM launch ORDER BY launch").fetchnumpy()
    launches = Launches(*(np.asarray(raw[name], np.int64) for name in ("start_ns", "end_ns", "tid", "name")))
    class_of = np.array(
        [_class(name, kind) for name, kind in keys.select("name", "kind").iter_rows()], np.int8
    )
    pid = np.asarray(columns["pid"])
    device = np.asarray(columns["device"])
    edges = np.flatnonzero((np.diff(pid) != 0) | (np.diff(device) != 0)) + 1
    units: list[Unit] = []
    warnings: list[Note] = []
    for low, high in zip([0, *edges.tolist()], [*edges.tolist(), len(pid)], strict=True):
        part = {name: np.asarray(values[low:high]) for name, values in columns.items()}
        key = part["key"].astype(np.int32)
        ops: dict[str, npt.NDArray[Any]] = {
            "start": part["start_ns"].astype(np.int64), "end": part["end_ns"].astype(np.int64),
            "kind": class_of[key], "key": key, "graph": part["graph"].astype(np.bool_),
            "launch": part["launch"].astype(np.int32), "stream": part["stream"].astype(np.int32),
            "pageable_dtoh": part["pageable_dtoh"].astype(np.bool_),
        }  # fmt: skip
        process = int(pid[low])
        if whole_capture:
            bounds = np.array([ops["start"][0], ops["end"].max()], np.int64)
            step = np.zeros(1, np.int32)
        else:
            bounds, step, note = _periods(
                capture, process, ops["start"], ops["launch"], ops["stream"], launches
            )
            if note is not None:
                warnings.append(note)
        units.append(Unit(process, int(device[low]), 0, bounds=bounds, step=step, **ops))
    units = _numbered([unit for unit in units if len(unit.step)])
    if not units:
        raise TracediffError(
            "no-whole-step",
            f"{capture.name}: there are step labels, but no step with GPU work that is followed by another",
            fix="capture more iterations, with the CUDA trace on (nsys profile -t cuda,nvtx)",
        )
    api = {row[0]: (row[1], row[2]) for row in db.execute("SELECT name, api, class FROM api_name").fetchall()}
    return Timeline(units, launches, keys, api, warnings)


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
    return [Unit(**{**unit.__dict__, "rank": ranks[unit.pid]}) for unit in units]


def _periods(
    capture: Capture,
    pid: int,
    start: Ints,
    launch: npt.NDArray[np.int32],
    stream: npt.NDArray[np.int32],
    launches: Launches,
) -> tuple[Ints, npt.NDArray[np.int32], Note | None]:
    """Period bounds (one more than periods) and the step of each period."""
    steps = capture.db.execute(
        "SELECT step, start_ns FROM step WHERE pid = ? ORDER BY step", [pid]
    ).fetchnumpy()
    nothing = (np.empty(0, np.int64), np.empty(0, np.int32))
    if len(steps["start_ns"]) < 2:
        return *nothing, Note(
            "rank-without-steps",
            f"{capture.name}: a process with GPU work has no step labels of its own; it is left out",
        )
    windows = np.asarray(steps["start_ns"], np.int64)
    launched = launch >= 0
    step_of_launch = np.searchsorted(windows, launches.start, side="right") - 1
    step = np.full(len(launch), -2, np.int64)
    step[launched] = step_of_launch[launch[launched]]
    # An op without a launching call goes with the op before it on its stream.
    orphans = np.flatnonzero(~launched)
    if len(orphans):
        step = _step_of_neighbours(step, stream)
    # first op of every step, in order of time
    order = np.flatnonzero(step >= 0)
    seen, first = np.unique(step[order], return_index=True)
    bounds = start[order[first]]
    if len(launches.start) and len(seen) and _cut_off(capture, pid, int(windows[seen[0]])):
        seen, bounds = seen[1:], bounds[1:]
    if not len(seen):
        return *nothing, None
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


def _cut_off(capture: Capture, pid: int, first_label_ns: int) -> bool:
    """Whether the capture began inside the first step: its label opened before the program started the profiler."""
    row = capture.db.execute(
        "SELECT min(start_ns) FROM api_call JOIN api_name USING (name) WHERE pid = ? AND api LIKE 'cu%ProfilerStart'",
        [pid],
    ).fetchone()
    return row is not None and row[0] is not None and first_label_ns < int(row[0])


def _step_of_neighbours(step: npt.NDArray[np.int64], stream: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
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
