"""The op timeline of each rank and device, and its periods.

A rank is a process with a GPU. Period of step n on a device = [first op of n, first op of n+1): periods tile the
device's timeline whatever the host does ahead. An op belongs to the step in whose host window its launching
call started, found by (correlation id, process), never by comparing clocks of GPU and host rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracediff.arrays import Bools, Hashes, Ints
from tracediff.errors import TracediffError
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame, release_memory, sql
from tracediff.formats.lost import FLUSH, calls_lost
from tracediff.formats.selection import Selection
from tracediff.kernels.names import is_communication
from tracediff.model import Note
from tracediff.model.common import CALLS_LOST
from tracediff.trace.threads import Calls, Launches, distinct, ordered, read_calls
from tracediff.trace.workloads import ALIKE, IN_ORDER, RECURS, heaviest_first, leaders

# Segments of a launch sequence: which of them hold the same work, and how regularly kinds of work follow one another.


LONGEST_CYCLE = 200  # segments after which the classes of a structured sequence begin again
CYCLES = 4  # of them in a structured sequence, at least
STRUCTURED = 0.9  # share of segments whose class is that of the segment one cycle later
_REPEATS, _PART = 0.5, 4  # share of launches that begin a part that repeats; launches of a part
_MOST_BLOCKS, _SAME = 65, 0.95  # blocks of a sequence; share of launches that are those of a block later
_DISTINCT = 3000  # distinct segments that are clustered; rarer ones are classes of their own
_MOST_CLASSES = 300  # likewise


class Segments(msgspec.Struct, frozen=True):
    """A cut of n launches into k segments, the first and the last of which may be parts."""

    start: Ints  # (k,) index of the first launch of each; the last one ends with the launches
    ops: Ints  # (k,)
    kind: Ints  # (k,) the class, 0 the one with the most segments
    recurring: Bools  # (k,) class of at least RECURS segments
    alike: float  # share of ops in recurring classes, edges left out
    known: float  # share of ops inside sequences of three launches that at least RECURS segments hold
    ordered: float  # share of ops in segments whose sequence of launches is their class's, or recurs


def segments(start: Ints, token: Ints, ops: Ints) -> Segments:
    """Cluster the segments that begin at `start` (sorted, from 0 on, below n).

    A run of one launch counts once: how often a kernel is launched in a row depends on lengths. O(n) for n launches, and
    O(m log m) for the m launches of the segments that differ.
    """
    count, launches = len(start), len(token)
    total = np.add.reduceat(ops, start)
    kept = np.ones(launches, np.bool_)
    kept[1:] = token[1:] != token[:-1]
    kept[start] = True
    place = np.flatnonzero(kept)
    runs, weight = token[place], np.add.reduceat(ops, place)
    first, which, often = _distinct(runs, np.searchsorted(place, start))
    chosen, owner = _launches_of(first, np.searchsorted(place, start), len(place))
    runs, weight = runs[chosen], weight[chosen]
    kind = _classes(runs, owner, often)
    sizes = np.bincount(kind, weights=often)
    grams = _threes(runs, owner)
    held = _held_by(grams, owner, often)[grams] >= RECURS
    # a share: segments of one sequence may have longer runs
    known = np.bincount(owner, weights=weight * held) / np.bincount(owner, weights=weight)
    known = known[which] * total
    ordered = _in_order(grams, owner, kind, often)[which]
    inner = np.ones(count, np.bool_)
    inner[[0, -1]] = count < 3
    all_inner = max(float(total[inner].sum()), 1.0)
    kind = kind[which]
    recurring = sizes[kind] >= RECURS
    return Segments(
        start, total, kind, recurring,
        float(total[recurring & inner].sum()) / all_inner, float(known[inner].sum()) / all_inner,
        float(total[ordered & inner].sum()) / all_inner,
    )  # fmt: skip


def _distinct(token: Ints, start: Ints) -> tuple[Ints, Ints, Ints]:
    """The first segment of each sequence of launches, which of these each segment is, and how often each occurs."""
    length = np.diff(start, append=len(token))
    powers = np.full(int(length.max()), 0x9E3779B97F4A7C15, np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    words = mixed(np.arange(int(token.max()) + 1))[token]
    words *= powers[np.arange(len(token)) - np.repeat(start, length)]
    _, first, which, often = np.unique(
        np.add.reduceat(words, start), return_index=True, return_inverse=True, return_counts=True
    )
    return first, which.reshape(-1), often.astype(np.int64)


def _launches_of(chosen: Ints, start: Ints, count: int) -> tuple[Ints, Ints]:
    """Indices of the launches of some segments, and the place of each launch's segment among them."""
    length = np.diff(start, append=count)[chosen]
    owner = np.repeat(np.arange(len(chosen)), length)
    inside = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return start[chosen][owner] + inside, owner


def mixed(values: npt.NDArray[np.integer]) -> Hashes:
    """Spread small numbers over 64 bits (splitmix64)."""
    x = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def _threes(token: Ints, owner: Ints) -> Ints:
    """Dense id of each launch with its neighbours in the same segment; an end of the segment is a neighbour too."""
    words = mixed(token)
    same = owner[1:] == owner[:-1]
    before, after = np.zeros(len(token), np.uint64), np.zeros(len(token), np.uint64)
    before[1:][same] = words[:-1][same]
    after[:-1][same] = words[1:][same]
    joined = (
        before * np.uint64(0x9E3779B97F4A7C15) + words * np.uint64(3) + after * np.uint64(0xC2B2AE3D27D4EB4F)
    )
    return np.unique(joined, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _bags(item: Ints, owner: Ints, wide: int) -> tuple[Ints, Ints, Ints]:
    """(owner, item, how often) of every different pair, in order of owner."""
    pairs, counts = np.unique(owner * wide + item, return_counts=True)
    return pairs // wide, pairs % wide, counts.astype(np.int64)


def _classes(token: Ints, owner: Ints, often: Ints) -> Ints:
    """The class of each distinct segment, 0 the one with the most segments; the most frequent ones lead."""
    count = len(often)
    starts = np.searchsorted(owner, np.arange(count))
    content = np.add.reduceat(mixed(token), starts)
    _, first, bag_of = np.unique(content, return_index=True, return_inverse=True)
    bag_of = bag_of.reshape(-1)
    rank = np.lexsort((first, -np.bincount(bag_of, weights=often)))
    row = np.full(count, -1, np.int64)
    row[first[rank[:_DISTINCT]]] = np.arange(min(len(rank), _DISTINCT))
    chosen = row[owner] >= 0
    wide = int(token.max()) + 1
    rows = min(len(rank), _DISTINCT)
    bag = np.bincount(row[owner[chosen]] * wide + token[chosen], minlength=rows * wide)
    # what is rarer or unlike all is a class of its own
    label = len(rank) + np.arange(len(rank))
    bags = bag.reshape(rows, wide).astype(np.float32)
    classes, apart = leaders(bags, _MOST_CLASSES, nearest=False)
    label[:rows] = np.where(apart <= ALIKE, classes, label[:rows])
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    kind = np.unique(label[place[bag_of]], return_inverse=True)[1].reshape(-1)
    return heaviest_first(kind, often)


def _held_by(item: Ints, owner: Ints, often: Ints) -> Ints:
    """In how many segments each item occurs."""
    wide = int(item.max()) + 1
    pairs = np.unique(owner * wide + item)
    return np.bincount(pairs % wide, weights=often[pairs // wide], minlength=wide)


def _in_order(gram: Ints, owner: Ints, kind: Ints, often: Ints) -> Bools:
    """Of each distinct segment: its sequences of three are those of the most frequent one of its class, or it recurs itself.

    Where a graph is the step, a segment has a few launches: one more, of a request that ends, changes most threes.
    """
    wide = int(gram.max()) + 1
    who, item, times = _bags(gram, owner, wide)
    total = np.bincount(who, weights=times, minlength=len(kind))
    order = np.argsort(often, kind="stable")
    leader = np.zeros(int(kind.max()) + 1, np.int64)
    leader[kind[order]] = order  # the last one written stays
    # how often the leader of each owner's class holds the item: the pair (leader, item) is looked up
    key = who * wide + item
    sought = leader[kind[who]] * wide + item
    at = np.minimum(np.searchsorted(key, sought), len(key) - 1)
    theirs = np.where(key[at] == sought, times[at], 0)
    shared = np.bincount(who, weights=np.minimum(times, theirs), minlength=len(kind))
    distance = 1 - 2 * shared / np.maximum(total + total[leader[kind]], 1)
    return np.asarray((distance <= IN_ORDER) | (often >= RECURS), np.bool_)


def begins(sequence: Ints) -> Bools:
    """Where something begins that is not what comes before: what comes several times in a row is there once."""
    return np.append(True, sequence[1:] != sequence[:-1])


def repeats(sequence: Ints) -> bool:
    """Tell whether parts come again and again in a sequence: layers do in a step, little does in a layer."""
    sequence = sequence[begins(sequence)]
    if len(sequence) < _PART * RECURS:
        return False
    words = mixed(sequence)
    joined = sum(
        words[place : len(words) - _PART + 1 + place] * np.uint64(2 * place + 3) for place in range(_PART)
    )
    _, which, often = np.unique(joined, return_inverse=True, return_counts=True)
    return bool(np.mean(often[which.reshape(-1)] >= RECURS) >= _REPEATS)


def blocks(sequence: Ints) -> int:
    """Of how many equal blocks a sequence consists, in each of which parts repeat; 1 where it does not.

    Layers come again in a step, but a block of them is no surer than one; the steps of a request are. O(64 n).
    """
    collapsed = sequence[begins(sequence)]
    for count in range(2, _MOST_BLOCKS):
        step = round(len(collapsed) / count)
        if step < _PART * RECURS:
            break
        near = {lag: _alike(collapsed, lag) for lag in range(step - 2, step + 3)}
        lag = max(near, key=lambda one: near[one])
        smaller = max(_alike(collapsed, max(round(lag / part), 1)) for part in range(2, 65))
        if near[lag] >= _SAME and 1 - near[lag] <= (1 - smaller) / 2 and repeats(collapsed[:lag]):
            return count
    return 1


def _alike(sequence: Ints, lag: int) -> float:
    return float(np.mean(sequence[lag:] == sequence[:-lag]))


def cycle(kind: Ints) -> int:
    """After how many segments the classes begin again, 0 where they do not: parts of a step follow one another so.

    Runs of one class (a batch of one size, then of another) are no cycle: the class a cycle later must be
    surer than that of the next segment. O(LONGEST_CYCLE * k).
    """
    inner = kind[1:-1]
    if len(inner) < 2 * CYCLES:
        return 0
    longest = min(LONGEST_CYCLE, len(inner) // CYCLES)
    share = np.array([np.mean(inner[step:] == inner[:-step]) for step in range(1, longest + 1)])
    frequency = np.bincount(inner) / len(inner)
    least = max(float(share[0]), float((frequency**2).sum()))
    good = (share >= STRUCTURED) & (share >= (1 + least) / 2) & (share > share[0])
    good[0] = False
    return int(np.flatnonzero(good)[0]) + 1 if good.any() else 0


# What an op counts as in the accounting: where kinds overlap, the lower number wins.
COMPUTE, COMM, MEMCPY = 0, 1, 2


class Unit(msgspec.Struct, frozen=True):
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
    graph: Bools
    launch: npt.NDArray[np.int32]  # id in Launches, -1 none
    later_node: Bools  # of its graph launch: not the first op of it to start
    bounds: Ints  # period k = [bounds[k], bounds[k + 1])
    step: npt.NDArray[np.int32]  # step of the process (table step) of each period
    stream: npt.NDArray[np.int32]  # of each op
    node: npt.NDArray[np.int32] | None = None  # its id in the table node_id, -1 none; where it was asked for


class Timeline(msgspec.Struct, frozen=True):
    """All ranks of one export."""

    units: list[Unit]
    calls: Calls
    launches: Launches
    launchers: dict[int, list[int]]  # thread -> the devices that it launches on
    keys: pl.DataFrame  # id, name, short_name, kind (0 kernel, 1 memcpy, 2 memset, 3 graph), grid, block, ...
    api_names: dict[int, tuple[str, str]]  # id -> (name, class)
    warnings: list[Note]
    lost: float  # the part of a process's CUDA calls that was not recorded, the largest


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
    warnings, lost = calls_lost(capture.db, capture.name)
    if not whole_capture:
        warnings += _ended(capture)
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
    warnings += _without_launch(capture, is_kernel[ops["key"]], ops["launch"])
    warnings += _odd(capture.name, ops, launches)
    warnings += _lost(capture.name, ops, calls, api)
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
        owning = np.zeros(len(launches.tid) + 1, np.bool_)
        owning[launch] = True  # -1, none, is the last one
        for tid in distinct(launches.tid[owning[:-1]]):
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
        node = mine["node"] if with_nodes else None
        later = _later_nodes(start, graph, launch)
        unit = Unit(
            process, device, 0, start=start, end=end, kind=class_of[mine["key"]], key=mine["key"], graph=graph, launch=launch,
            later_node=later, bounds=bounds, step=step, stream=mine["stream"], node=node,
        )  # fmt: skip
        units.append(unit)
    units = _numbered([unit for unit in units if len(unit.step)])
    if not units:
        raise TracediffError(
            "no-whole-step",
            f"{capture.name}: there are step labels, but no step with GPU work that is followed by another",
            fix=f"{capture.recording.gpu_work}; {capture.recording.more}",
        )
    of_thread = {tid: sorted(devices) for tid, devices in launchers.items()}
    return Timeline(units, calls, launches, of_thread, keys, api, warnings, lost)


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
    by = ("pid", "device", "start_ns", "launch", "node", "end_ns", "stream", "key")
    order = ordered([ops[name] for name in by], leading=3)
    for name in ops:
        ops[name] = ops[name][order]
    at = np.searchsorted(launch_ids, ops["launch"]).astype(np.int32)
    known = np.append(launch_ids, np.iinfo(np.int64).min)[at] == ops["launch"]
    ops["launch"] = np.where(known, at, np.int32(-1))
    return ops


def _edges(pid: npt.NDArray[np.int32], device: npt.NDArray[np.int32]) -> list[int]:
    """Where the ops of each process and device begin, and where the last ones end."""
    changes = (pid[1:] != pid[:-1]) | (device[1:] != device[:-1])
    return [0, *(np.flatnonzero(changes) + 1).tolist(), len(pid)]


def _without_launch(capture: Capture, kernel: Bools, launch: npt.NDArray[np.int32]) -> list[Note]:
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


_LOST = 0.1  # of a process's launches, and of the time that they take; of its steps
_IN_FLIGHT = 10  # launches: of so few the GPU work may not be over when recording stops


def _ended(capture: Capture) -> list[Note]:
    """What is said of processes of which some steps make CUDA calls, and all from one on none: what these launched is missing, and no step before it."""
    found = capture.db.execute(sql("trace/call_ended"), [_LOST]).fetchall()
    return [
        Note(
            CALLS_LOST,
            f"{capture.name}: the last {later:,} of {steps:,} steps of process {pid} begin after its last CUDA call, at {ended / 1e9:.3f} s:"
            " what they called and launched was not recorded. Likely the program ended before CUPTI wrote its buffers"
            f" (nsys {FLUSH})",
        )
        for pid, later, steps, ended in found
    ]


def _lost(
    name: str, ops: dict[str, npt.NDArray[Any]], calls: Calls, api: dict[int, tuple[str, str]]
) -> list[Note]:
    """What is said of processes that go on launching after their last GPU row ended: the rows of these launches were lost."""
    launching = [number for number, (text, _) in api.items() if "Launch" in text]
    notes = []
    for low, high in pairwise(_edges(ops["pid"], np.zeros(len(ops["pid"]), np.int32))):
        pid, ended = int(ops["pid"][low]), int(ops["end_ns"][low:high].max())
        mine = [at for tid, at in calls.of_thread.items() if tid >> 24 & 0xFFFFFF == pid]
        own = [calls.start[at][np.isin(calls.name[at], launching)] for at in mine]
        start = np.concatenate([np.empty(0, np.int64), *own])
        later = int((start > ended).sum())
        if later < max(_LOST * len(start), _IN_FLIGHT):
            continue
        missing = int(start.max()) - ended
        if missing >= _LOST * int(start.max() - start.min()):
            notes.append(
                Note(
                    "gpu-rows-end-early",
                    f"{name}: process {pid} launches for {missing / 1e9:.3f} s after its last row of GPU work"
                    f" (CUPTI_ACTIVITY_KIND_KERNEL, _MEMCPY, _MEMSET) has ended: the GPU work of {later:,} of {len(start):,} launches"
                    " was lost, and figures are of the time before. Record a shorter window, or fewer kinds of events",
                )
            )
    return notes


# clocks of GPU and host: captures of nsys show no kernel before its launch at all
_CLOCKS_APART_NS = 1_000_000


def _odd(name: str, ops: dict[str, npt.NDArray[Any]], launches: Launches) -> list[Note]:
    """What is said of ops that are there twice, or began before they were launched."""
    again = np.ones(max(len(ops["start_ns"]) - 1, 0), np.bool_)
    for values in ops.values():  # rows of the same values stand side by side
        again &= values[1:] == values[:-1]
    launched = np.flatnonzero(ops["launch"] >= 0)
    early = ops["start_ns"][launched] < launches.start[ops["launch"][launched]] - _CLOCKS_APART_NS
    found = (
        (int(again.sum()), "are there twice"),
        (int(early.sum()), "began more than 1 ms before the call that launched them"),
    )
    said = f"{name}: of {len(ops['start_ns']):,} kernels, copies and memsets"
    return [Note("odd-rows", f"{said} {count:,} {what}") for count, what in found if count]


def _later_nodes(start: Ints, graph: Bools, launch: npt.NDArray[np.int32]) -> Bools:
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
    # launchers start ranks in any order, and give each the device of its number
    first = {unit.pid: unit.device for unit in reversed(units)}  # they come by process and device
    ranks = {pid: rank for rank, pid in enumerate(sorted(first, key=lambda pid: (first[pid], pid)))}
    return sorted((replace(unit, rank=ranks[unit.pid]) for unit in units), key=lambda unit: unit.rank)


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
    # ops without a step, -1 and -2, go to the two last places
    first = np.full(len(windows) + 2, -1, np.int64)
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


def starts_profiler(call: str) -> bool:
    """Whether a CUDA call is one by which a program starts the profiler."""
    return call.startswith("cu") and call.endswith("ProfilerStart")


def _profiling_began(calls: Calls, api: dict[int, tuple[str, str]], pid: int) -> int | None:
    """When the program of this process started the profiler (cudaProfilerStart), ns; None where it did not."""
    names = [name for name, (text, _) in api.items() if starts_profiler(text)]
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


class Kept(msgspec.Struct, frozen=True):
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
            fix="--steps 1.5s-2.5s selects by time",
        )
    return replace(unit, bounds=unit.bounds[low : high + 1], step=unit.step[low:high])


def _there(units: list[Unit], steps: pl.DataFrame) -> str:
    """What could be selected."""
    numbers = _numbers(steps)
    found = np.concatenate([numbers[unit.pid][unit.step] for unit in units if unit.pid in numbers])
    low, high = min(int(unit.bounds[0]) for unit in units), max(int(unit.bounds[-1]) for unit in units)
    last = max(unit.rank for unit in units)
    told = f"its whole steps are {found.min()} to {found.max()}, " if len(found) else "its whole steps are "
    ranks = f"ranks 0 to {last}" if last else "rank 0"
    return f"{told}from {low / 1e9:.6f} s to {high / 1e9:.6f} s, of {ranks}"
