"""Kernels and launches of one export by phase, and the layer of the model that each kernel belongs to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

import duckdb
import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.intervals import (
    Index,
    Tally,
    count_by,
    float_sum_by,
    grouped,
    innermost,
    picked,
    quantiles,
    sum_by,
)
from tracediff.accounting.reduction import StepSequence
from tracediff.accounting.sweep import Sweep
from tracediff.accounting.walk import Names, Windows
from tracediff.arrays import Bools, Floats, Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame
from tracediff.kernels.names import collective, normalise
from tracediff.trace.layers import NO_LAYER, TENSORRT, layer_of
from tracediff.trace.periods import COMM, MEMCPY, Timeline, Unit
from tracediff.trace.threads import Launches, distinct

_KERNEL, _COPIES, _WHOLE_GRAPH = 0, (1, 2), 3  # kinds of ops, see formats/sql/op.sql
MOST_SEQUENCES = 8  # of a phase


def op_sums(unit: Unit, swept: Sweep, first_period: int) -> pl.DataFrame:
    """The ops of a unit: period, key -> count, graph, wall_ns, wall_square, share_ns. `first_period`: the number of its first period.

    count: ops that start in the period; graph: those of them launched by graphs; wall_ns: their length; wall_square: sum of the
    squares of each; share_ns: of the accounting, also of ops that reach into the period.
    """
    keys = int(unit.key.max(initial=0)) + 1
    key, graph, start, end = (column[swept.inside] for column in (unit.key, unit.graph, unit.start, unit.end))
    starting = swept.op_period * np.int64(keys) + key
    running = swept.piece_period * np.int64(keys) + unit.key[swept.piece_op]
    code, position = grouped(np.concatenate((starting, running)))
    size, of_op, of_piece = len(code), position[: len(starting)], position[len(starting) :]
    return pl.DataFrame(
        {
            "period": code // keys + first_period,
            "key": code % keys,
            "count": count_by(of_op, size),
            "graph": count_by(of_op[graph], size),
            "wall_ns": sum_by(of_op, size, end - start),
            "wall_square": float_sum_by(of_op, size, (end - start).astype(np.float64) ** 2),
            "share_ns": float_sum_by(of_piece, size, swept.piece_share),
        }
    )


def transition_table(sums: pl.DataFrame, keys: pl.DataFrame, stratum: Ints) -> pl.DataFrame:
    """stratum, key -> kernels launched on their own and by graphs, of the sums of a unit. `stratum`: of each period."""
    is_copy = np.isin(keys["kind"].to_numpy(), _COPIES)
    return (
        sums.with_columns(stratum=pl.Series(stratum[sums["period"].to_numpy()]))
        .filter(pl.Series(~is_copy[sums["key"].to_numpy()]), pl.col("count") > 0)
        .group_by("stratum", "key")
        .agg(eager=(pl.col("count") - pl.col("graph")).sum(), graph=pl.col("graph").sum())
        .sort("stratum", "key")
    )


def launch_table(
    unit: Unit, swept: Sweep, first_period: int, stratum: Ints, timeline: Timeline
) -> pl.DataFrame:
    """Stratum -> launching calls, graph launches, kernels, kernels of graphs, queueing delay (launch return -> start).

    Summed over the steps of the stratum; the delay is that of the first op of each launch, negative where the op
    began before the call returned.
    """
    inside, periods, strata = swept.inside, len(unit.step), int(stratum.max()) + 1
    kernel = unit.kind[inside] != MEMCPY
    of_period = stratum[first_period : first_period + periods]
    kernels = count_by(swept.op_period[kernel], periods)
    # nodes of graphs, and graphs that were traced as a whole
    of_graph = unit.graph[inside] | (timeline.keys["kind"].to_numpy() == _WHOLE_GRAPH)[unit.key[inside]]
    graph_kernels = count_by(swept.op_period[kernel & of_graph], periods)
    # The first op of each launch: ops come in order of start, so written backwards the first one stays.
    owned = np.flatnonzero(unit.launch[inside] >= 0).astype(np.int32)[::-1]
    first = np.full(len(timeline.launches.start), -1, np.int32)
    first[unit.launch[inside][owned]] = owned
    by_graph = np.zeros(len(first), np.bool_)
    by_graph[unit.launch[inside][of_graph & (unit.launch[inside] >= 0)]] = True
    launches = np.flatnonzero(first >= 0)
    called = of_period[swept.op_period[first[launches]]]
    delay = unit.start[inside][first[launches]] - timeline.launches.end[launches]
    calls = count_by(called, strata)
    p50, p99 = quantiles(called, delay, calls, (0.5, 0.99))
    total = sum_by(called, strata, delay)
    there = np.unique(of_period)
    some = calls[there] > 0
    return pl.DataFrame(
        {
            "stratum": there,
            "kernels": sum_by(of_period, strata, kernels)[there],
            "graph_kernels": sum_by(of_period, strata, graph_kernels)[there],
            "calls": calls[there],
            "graph_launches": count_by(called[by_graph[launches]], strata)[there],
            "delay_mean_ns": np.where(some, total[there] / np.maximum(calls[there], 1), np.nan),
            "delay_p50_ns": np.where(some, p50[there], np.nan),
            "delay_p99_ns": np.where(some, p99[there], np.nan),
        }
    ).with_columns(pl.col("delay_mean_ns", "delay_p50_ns", "delay_p99_ns").fill_nan(None))


# What a step launched: as a multiset, and in order.


def op_bags(kernels: pl.DataFrame, keys: pl.DataFrame, periods: int) -> tuple[Floats, list[str], Ints]:
    """What periods launched: (distinct contents, names), how often; the names, normalised, whatever the grid; the content of each period.

    From the tables of `Reduction`. A CUDA graph that was traced as a whole is one launch of its name.
    """
    templates = {name: normalise(name) for name in keys["name"].unique()}
    names = sorted(set(templates.values()))
    place = {name: number for number, name in enumerate(names)}
    column_of = np.array([place[templates[name]] for name in keys["name"]], np.int64)
    period, count = kernels["period"].to_numpy(), kernels["count"].to_numpy()
    column = column_of[kernels["key"].to_numpy()]
    content = np.zeros(periods, np.uint64)
    hashes = np.array([_hash(name) for name in names], np.uint64)
    np.add.at(content, period, hashes[column] * count.astype(np.uint64))
    _, first, content_of = np.unique(content, return_index=True, return_inverse=True)
    row = np.full(periods, -1, np.int64)
    row[first] = np.arange(len(first))
    kept = row[period] >= 0
    code = row[period[kept]] * len(names) + column[kept]
    bags = np.bincount(code, weights=count[kept], minlength=len(first) * len(names)).astype(np.float64)
    return bags.reshape(len(first), len(names)), names, content_of.astype(np.int64)


def op_columns(kernels: pl.DataFrame, keys: pl.DataFrame, periods: int) -> list[pl.Series]:
    """op_key, ops and copies of `Reduction.periods`, from its tables of kernels and keys."""
    identity = keys.select("kind", "name", pl.col("grid", "block").fill_null("")).iter_rows()
    hashes = np.array([_hash(*one) for one in identity], np.uint64)
    period, key, count = (kernels[name].to_numpy() for name in ("period", "key", "count"))
    copied = np.isin(keys["kind"].to_numpy(), _COPIES)[key]
    op_key = np.zeros(periods, np.uint64)
    # each hash times its count, modulo 2^64: rows of `keys` that differ in their short names alone count as one
    np.add.at(op_key, period, hashes[key] * count.astype(np.uint64))
    ops, copies = sum_by(period, periods, count), sum_by(period[copied], periods, count[copied])
    return [pl.Series("op_key", op_key), pl.Series("ops", ops), pl.Series("copies", copies)]


def _hash(*identity: object) -> int:
    text = "\0".join(map(str, identity))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def new_kernels(timeline: Timeline, swept: list[Sweep], first_steps: Collection[int]) -> Bools:
    """Whether each period is the first of the capture (begins at one of `first_steps`), or a kernel's name occurs in it for the first time.

    Ops before the first whole period count as seen.
    """
    is_kernel = timeline.keys["kind"].to_numpy() == _KERNEL
    name_of = timeline.keys["name"].rank("dense").to_numpy().astype(np.int64) - 1
    seen: dict[tuple[int, int], tuple[int, int]] = {}  # rank, name -> start of its first op, period or -1
    new: list[Bools] = []
    before = 0
    for unit, one in zip(timeline.units, swept, strict=True):
        first = np.full(len(is_kernel), -1, np.int64)
        first[unit.key[::-1]] = np.arange(len(unit.key))[::-1]  # written backwards: the first one stays
        for key in np.flatnonzero(is_kernel & (first >= 0)).tolist():
            op, name = int(first[key]), (unit.rank, int(name_of[key]))
            inside = one.inside.start <= op < one.inside.stop
            period = before + int(one.op_period[op - one.inside.start]) if inside else -1
            here = int(unit.start[op]), period
            if name not in seen or here[0] < seen[name][0]:
                seen[name] = here
        found = np.zeros(len(unit.step), np.bool_)
        found[:1] = int(unit.bounds[0]) in first_steps
        new.append(found)
        before += len(unit.step)
    column = np.concatenate(new)
    column[[period for _, period in seen.values() if period >= 0]] = True
    return column


# Calls that load code or make CUDA graphs: a program does not repeat them.
CODE_LOADS, GRAPHS_MADE = "ModuleLoad|LibraryLoad|FuncLoad", "GraphInstantiate|BeginCapture"
_LOADS = re.compile(f"{CODE_LOADS}|{GRAPHS_MADE}")
# Three equal distances are a rule, two may be chance; of four one may be cut by something else.
_DISTANCES, _NEARLY = 3, 0.75


def loading_periods(timeline: Timeline, windows: Windows, threads: Collection[int]) -> Ints:
    """The periods in whose steps known threads load code or make CUDA graphs."""
    calls = timeline.calls
    loads = np.array(
        [number for number, (name, _) in timeline.api_names.items() if _LOADS.search(name)], np.int64
    )
    found = [np.empty(0, np.int64)]
    for tid, mine in calls.of_thread.items():
        if tid in threads:
            start = calls.start[mine][np.isin(calls.name[mine], loads)]
            found.append(windows.period(tid >> 24 & 0xFFFFFF, start).astype(np.int64))
    periods = np.unique(np.concatenate(found))
    return periods[periods >= 0]


def first_uses(loading: Ints) -> Ints:
    """Of periods that load code, ascending, those that do so for once: what comes at a regular distance is done again and again, and no start."""
    every = regular(np.diff(loading))
    if not every:
        return loading
    again = np.isin(loading + every, loading) | np.isin(loading - every, loading)
    return loading[~again]


def regular(distances: Ints) -> int:
    """The distance that nearly all have, beyond the next; 0: none."""
    if len(distances) < _DISTANCES:
        return 0
    values, counts = np.unique(distances, return_counts=True)
    most = int(values[counts.argmax()])
    return most if most > 1 and counts.max() >= _NEARLY * len(distances) else 0


def common_sequences(
    timeline: Timeline, swept: list[Sweep], periods: pl.DataFrame
) -> dict[str, list[StepSequence]]:
    """Phase -> the most common sequences of op keys of its steps (first device of rank 0; ties: the first seen)."""
    unit, one = timeline.units[0], swept[0]
    key = np.ascontiguousarray(unit.key[one.inside])
    edges = np.searchsorted(one.op_period, np.arange(len(unit.step) + 1)).tolist()
    seen: dict[str, dict[bytes, int]] = {}
    for number, phase in enumerate(periods["phase"][: len(unit.step)].to_list()):
        counts = seen.setdefault(phase, {})
        sequence = key[edges[number] : edges[number + 1]].tobytes()
        counts[sequence] = counts.get(sequence, 0) + 1
    return {
        phase: [
            StepSequence(steps, np.frombuffer(sequence, key.dtype).tolist())
            for sequence, steps in islice(sorted(counts.items(), key=lambda item: -item[1]), MOST_SEQUENCES)
        ]
        for phase, counts in seen.items()
    }


# NCCL across ranks.

_COLLECTIVES: dict[str, Any] = {"rank": pl.Int64, "stratum": pl.Int64, "members": pl.List(pl.Int64), "group": pl.String, "calls": pl.String, "wait_ns": pl.Int64, "transfer_ns": pl.Int64, "count": pl.Int64,
           "caused_ns": pl.Int64}  # fmt: skip


# rank and step of the export alone, number: of the step by its label; comm: '' where the communicator is not known; group: its name
_ARRIVALS: dict[str, Any] = {"rank": pl.Int64, "step": pl.Int64, "number": pl.Int64, "stratum": pl.Int64, "comm": pl.String,
           "group": pl.String, "calls": pl.String, "reduces": pl.Boolean, "start": pl.Int64, "end": pl.Int64}  # fmt: skip


_COMMUNICATORS = """
SELECT comm, max("group") AS "group" FROM nccl_call WHERE comm IS NOT NULL GROUP BY comm ORDER BY comm
"""
_IN_GROUP = """
SELECT start_ns, end_ns, comm, text FROM nccl_call JOIN range_text ON label = name WHERE tid = ? ORDER BY start_ns, comm, text
"""
# What sends and receives are, by what is launched together.
SENDS, EXCHANGES = "ncclSend or ncclRecv", "ncclSend and ncclRecv"
_GROUP_END = "ncclGroupEnd"
_UNKNOWN = "?"  # before the kind of calls that stands for their communicator


class Communicators(msgspec.Struct, frozen=True):
    """The communicators of an export.

    of_launch: of each launching call inside a call into NCCL its communicator, -1 not in one. Of each communicator its own name, the
    group's as the program calls it ('' not at all), and its calls. Where the export names none at all, the kind of calls stands for it:
    the k-th of such a kind is the same collective on every rank, if their ends say so; its name begins with `_UNKNOWN`.
    """

    of_launch: Ints
    names: list[str]
    groups: list[str]
    calls: list[str]


def communicators(capture: Capture, launches: Launches) -> Communicators:
    """In ncclGroupEnd, which names none, it is that of the last call before it."""
    found = np.full(len(launches.start), -1, np.int64)
    if capture.coverage["nccl"] != "captured":
        return Communicators(found, [], [], [])
    known = frame(capture.db, _COMMUNICATORS)
    names, groups = known["comm"].to_list(), known["group"].to_list()
    number, says = {comm: at for at, comm in enumerate(names)}, bool(names)
    called: list[set[str]] = [set() for _ in names]
    for tid in distinct(launches.tid):
        calls = frame(capture.db, _IN_GROUP, [tid])
        kinds = _kinds(calls["text"].to_list())
        spelled = [
            comm or (kind and _UNKNOWN + kind) for comm, kind in zip(calls["comm"], kinds, strict=True)
        ]
        for one in [] if says else sorted({one for one in spelled if one} - number.keys()):
            number[one] = len(names)
            names.append(one)
            groups.append("")
            called.append(set())
        comm = np.array([-1, *(number.get(one, -1) for one in spelled)], np.int64)
        last = comm[np.maximum.accumulate(np.where(comm >= 0, np.arange(len(comm)), 0))]
        ends = (calls["text"] == _GROUP_END).to_numpy()
        for at in np.flatnonzero((comm[1:] >= 0) | (ends & (last[1:] >= 0))).tolist():
            called[last[at + 1]].add(kinds[at])
        until = np.append(0, np.maximum.accumulate(calls["end_ns"].to_numpy()))
        mine = launches.tid == tid
        at = np.searchsorted(calls["start_ns"].to_numpy(), launches.start[mine], side="right")
        found[mine] = np.where(launches.start[mine] < until[at], last[at], -1)
    return Communicators(found, names, groups, [_spelled(kinds) for kinds in called])


def _kinds(calls: list[str]) -> list[str]:
    """Of each call of a thread, in their order, its kind: its name, of sends and receives what their group does, '' of what launches nothing.

    A rank of an all-to-all sends to as many ranks as it receives from, itself among them; a stage of a pipeline to one.
    """
    kinds: list[str] = []
    sends = receives = 0
    for call in calls:
        if call in ("ncclSend", "ncclRecv"):
            sends, receives = sends + (call == "ncclSend"), receives + (call == "ncclRecv")
            kinds.append(SENDS)
        elif call == _GROUP_END and sends + receives:
            kinds.append(EXCHANGES if sends == receives >= 2 else SENDS)
        else:
            kinds.append("" if call.startswith(("ncclGroup", "ncclComm")) else call)
        if call in ("ncclGroupStart", _GROUP_END):
            sends = receives = 0
    return kinds


def _spelled(kinds: set[str]) -> str:
    """The calls of a communicator in one text: an all-to-all is made of sends and receives."""
    parts = {SENDS} if EXCHANGES in kinds else set()
    return ", ".join(sorted(kinds - parts - {""}))


# Ranks of one communicator end a collective together: differences of ends on one machine, see execution/clocks.py.
ONE_CLOCK_NS = 60_000
# of the collectives of a group; of sends, which end long before where a buffer takes them
TOGETHER, SENT_TOGETHER = (0.9, 0.25)


def arrivals(
    units: list[Unit], swept: list[Sweep], periods: pl.DataFrame, groups: Communicators, keys: pl.DataFrame
) -> pl.DataFrame:
    """Each communication kernel of whole periods: columns of `_ARRIVALS`, by rank and start; '' where its communicator is not known, as in a CUDA graph."""
    frames, first = [pl.DataFrame(schema=_ARRIVALS)], 0
    reduces = np.array([collective(name)[0] == "all-reduce" for name in keys["name"]], np.bool_)
    of = [pl.Series(["", *texts], dtype=pl.String) for texts in (groups.names, groups.groups, groups.calls)]
    for unit, one in zip(units, swept, strict=True):
        comm = np.flatnonzero(unit.kind[one.inside] == COMM)
        index = comm + one.inside.start
        # what a graph launches was put into it by calls of another time
        group = np.where(unit.graph[index], -1, picked(groups.of_launch, unit.launch[index]))
        ops = pl.DataFrame(
            {
                "rank": np.full(len(index), unit.rank, np.int64),
                "period": one.op_period[comm].astype(np.int64) + first,
                "group": group,
                "reduces": reduces[unit.key[index]],
                "start": unit.start[index],
                "end": unit.end[index],
            }
        )
        spelled = [texts.gather(group + 1) for texts in of]
        ops = ops.with_columns(comm=spelled[0], group=spelled[1], calls=spelled[2]).join(
            periods.select("period", "step", "number", "stratum"),
            on="period",
            how="left",
            maintain_order="left",
        )
        frames.append(ops.select(*_ARRIVALS))
        first += len(unit.step)
    return pl.concat(frames).sort("rank", "start", maintain_order=True)


def counted(ops: pl.DataFrame) -> pl.DataFrame:
    """The table of `arrivals` with ordinal: the k-th kernel of a step in a group is the same collective on every rank of it."""
    return ops.with_columns(ordinal=pl.int_range(pl.len()).over("rank", "step", "comm"))


def collective_waits(ops: pl.DataFrame) -> pl.DataFrame:
    """Arrivals of all ranks of a program -> stratum, rank, members, group, calls -> wait_ns, transfer_ns, count, caused_ns.

    caused_ns: what the others waited while the rank was the last. members: the ranks of a group, group: its name, calls: what they call; empty where
    neither the communicator is known nor do all ranks end calls of a kind together. A rank waits from its own start until the last rank's start; the rest is transfer. Needs
    one clock for all ranks, and all of them: the last one to come may be any.
    """
    if ops["rank"].n_unique() < 2:
        return pl.DataFrame(schema=_COLLECTIVES)
    ops = counted(ops)
    members = ops.group_by("comm").agg(members=pl.col("rank").unique().sort())
    together = ["step", "comm", "ordinal"]
    ops = ops.with_columns(
        present=pl.col("rank").n_unique().over(together), last=pl.col("start").max().over(together)
    )
    known = (pl.col("comm") != "") & ~pl.col("comm").str.starts_with(_UNKNOWN)
    ops = ops.join(members, on="comm", maintain_order="left").filter(
        pl.col("present") == pl.col("members").list.len(), (pl.col("present") > 1) | ~known
    )
    apart = pl.col("end").max().over(together) - pl.col("end").min().over(together)
    ops = ops.with_columns(
        near=((pl.col("present") > 1) & (apart <= ONE_CLOCK_NS)).mean().over("comm")
        >= pl.when(pl.col("calls") == SENDS).then(SENT_TOGETHER).otherwise(TOGETHER)
    )
    # what was sent before its receiver came waited for a buffer at most
    buffered = (pl.col("calls") == SENDS) & (pl.col("end") <= pl.col("last"))
    waited = pl.min_horizontal("last", "end") - pl.col("start")
    ops = ops.with_columns(wait=pl.when(buffered).then(0).otherwise(waited))
    named = known | ((pl.col("comm") != "") & pl.col("near"))
    ops = ops.with_columns(
        members=pl.when(named).then(pl.col("members")).otherwise(pl.lit([], pl.List(pl.Int64))),
        group=pl.when(named).then(pl.col("group")).otherwise(pl.lit("")),
        calls=pl.when(named).then(pl.col("calls")).otherwise(pl.lit("")),
    )
    # of ranks that start together at the last moment, the first number stands for the late one
    late = (pl.col("start") == pl.col("last")) & (
        pl.col("rank") == pl.col("rank").filter(pl.col("start") == pl.col("last")).min().over(together)
    )
    ops = ops.with_columns(caused=pl.when(late).then(pl.col("wait").sum().over(together)).otherwise(0))
    return (
        ops.group_by("stratum", "rank", "members", "group", "calls")
        .agg(
            wait_ns=pl.col("wait").sum(),
            transfer_ns=(pl.col("end") - pl.col("start") - pl.col("wait")).sum(),
            count=pl.len().cast(pl.Int64),
            caused_ns=pl.col("caused").sum(),
        )
        .sort("stratum", "rank", "members", "group", "calls")
        .select(*_COLLECTIVES)
    )


# Who launches each kernel: thread, innermost range and CUDA call.


def origin_table(timeline: Timeline, inside: list[slice], labels: Ints, names: Names) -> pl.DataFrame:
    """key, thread, place, api -> count of the ops of whole periods, '' where the launch was not recorded.

    inside: of each unit, its ops in whole periods; labels: of each launch, the innermost range in which it began.
    """
    launches = timeline.launches
    role, place = np.zeros(len(launches.start), np.int64), np.zeros(len(launches.start), np.int64)
    for tid in distinct(launches.tid):
        mine = np.flatnonzero(launches.tid == tid)
        role[mine] = names.role(tid)
        place[mine] = names.places(tid, labels[mine], launches.start[mine])
    api = launches.api.astype(np.int64) + 1  # -1: a call without a name
    places, apis = int(place.max(initial=0)) + 1, int(api.max(initial=0)) + 1
    kinds, kind = grouped((role * places + place) * apis + api)
    tally = Tally()  # by key and kind of launch, 0: not recorded
    for unit, part in zip(timeline.units, inside, strict=True):
        launch = unit.launch[part]
        of = picked(kind + 1, launch, 0)
        code = unit.key[part].astype(np.int64) * (len(kinds) + 1) + of
        tally.add(code, code)
    code, count, _ = tally.rows()
    key, origin = np.divmod(code, len(kinds) + 1)
    rest, call = np.divmod(np.append(0, kinds)[origin], apis)
    at, spot = np.divmod(rest, places)
    calls = [timeline.api_names.get(number - 1, ("", ""))[0] for number in range(apis)]
    texts = {
        "thread": names.tables()["role_name"],
        "place": names.tables()["place_name"],
        "api": ["", *calls],
    }
    numbers = {"thread": at, "place": spot, "api": np.where(origin, call + 1, 0)}
    spelled = {name: pl.Series(words, dtype=pl.String).gather(numbers[name]) for name, words in texts.items()}
    return pl.DataFrame({"key": key, **spelled, "count": count})


# The layer of each op: of the range under which it was launched, or its graph's node made.

# How the layer of an op is known.
NOT_KNOWN, OF_RANGE, OF_GRAPH = range(3)
SOURCES = ("", "range", "graph_creation")

_TABLE = {"period": pl.Int64, "key": pl.Int64, "layer": pl.String, "count": pl.Int64, "share_ns": pl.Float64}
_SOURCES = {"graph": pl.Boolean, "source": pl.String, "count": pl.Int64, "ns": pl.Float64}


class LayerRanges:
    """The ranges of an export that are named like layers, by thread."""

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self._db = db
        rows = db.execute(
            "SELECT label, any_value(spelled), bool_or(coalesce(d.name, '') = ?) FROM nvtx_text AS t"
            " LEFT JOIN nvtx_domain AS d ON d.pid = (t.tid >> 24 & 16777215)::INTEGER AND d.domain = t.domain"
            " WHERE meaning = 'range' AND event = 59 AND label NOT IN (SELECT label FROM step_text) GROUP BY label ORDER BY label",
            [TENSORRT],
        ).fetchall()
        of_label = {label: layer_of(text, tensorrt=tensorrt) for label, text, tensorrt in rows}
        self.names = sorted({NO_LAYER, *of_label.values()})  # no layer comes first
        number = {name: at for at, name in enumerate(self.names)}
        self._of_label = np.zeros(max(of_label, default=-1) + 1, np.int32)
        for label, name in of_label.items():
            self._of_label[label] = number[name]

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return len(self.names) > 1

    def at(self, tid: Ints, instant: Ints) -> npt.NDArray[np.int32]:
        """The innermost layer that was open on each thread at each instant: index into `names`."""
        found = np.zeros(len(tid), np.int32)
        for thread in distinct(tid) if self.any else ():
            rows = self._db.execute(
                "SELECT start_ns, end_ns, label FROM range WHERE push_pop AND tid = ?", [thread]
            ).fetchnumpy()
            start, end, label = (np.asarray(rows[name], np.int64) for name in ("start_ns", "end_ns", "label"))
            known = label < len(self._of_label)
            layer = np.where(known, self._of_label[np.where(known, label, 0)], 0)
            start, end, layer = start[layer > 0], end[layer > 0], layer[layer > 0]
            parts, owner = innermost(start, end)
            if not parts.size:
                continue
            mine = np.flatnonzero(tid == thread)
            part = np.searchsorted(parts.start, instant[mine], side="right") - 1
            inside = (part >= 0) & (instant[mine] < parts.end[np.maximum(part, 0)])
            found[mine[inside]] = layer[owner[part[inside]]]
        return found


def layer_tables(
    capture: Capture, ranges: LayerRanges, timeline: Timeline, swept: Sequence[Sweep]
) -> dict[str, pl.DataFrame]:
    """What `Reduction` has as layers and layer_sources: the layer of every op of whole periods. Both empty where none is known."""
    nothing = {"layers": pl.DataFrame(schema=_TABLE), "layer_sources": pl.DataFrame(schema=_SOURCES)}
    if not ranges.any:
        return nothing
    launches = timeline.launches
    of_launch = ranges.at(launches.tid, launches.start)
    of_node = _of_nodes(capture.db, ranges)
    tables, sources = [], []
    first = 0
    for unit, one in zip(timeline.units, swept, strict=True):
        layer, source = _own(unit, one.inside, of_launch, of_node)
        tables.append(_table(unit, one, layer, ranges.names, first))
        sources.append(_sources(unit, one, source))
        first += len(unit.step)
    found = pl.concat(sources).group_by("graph", "source").agg(pl.all().sum()).sort("graph", "source")
    if not found.filter(pl.col("source") != SOURCES[NOT_KNOWN])["count"].sum():
        return nothing
    return {"layers": pl.concat(tables), "layer_sources": found}


def _of_nodes(db: duckdb.DuckDBPyConnection, ranges: LayerRanges) -> npt.NDArray[np.int32]:
    """The layer in which each node of a graph was made, by its id in node_id."""
    ((many,),) = db.execute("SELECT count(*) FROM node_id").fetchall()
    found = np.zeros(many, np.int32)
    if ranges.any and db.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'graph_node'").fetchone():
        made = db.execute(
            "SELECT id, tid, start_ns FROM node_id JOIN graph_node ON graph_node.pid = node_id.pid AND graph_node.node = node_id.graph_node"
        ).fetchnumpy()
        node, tid, start = (np.asarray(made[name], np.int64) for name in ("id", "tid", "start_ns"))
        found[node] = ranges.at(tid, start)
    return found


def _own(
    unit: Unit, inside: slice, of_launch: npt.NDArray[np.int32], of_node: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int8]]:
    """The layer of each op by what was recorded of it, and how it is known."""
    assert unit.node is not None
    launch, node = unit.launch[inside], unit.node[inside]
    layer, source = np.zeros(len(launch), np.int32), np.zeros(len(launch), np.int8)
    for mine, table, code in (
        (np.flatnonzero((node < 0) & (launch >= 0)), (of_launch, launch), OF_RANGE),
        (np.flatnonzero(node >= 0), (of_node, node), OF_GRAPH),
    ):
        values, at = table
        layer[mine] = values[at[mine]]
        source[mine[layer[mine] > 0]] = code
    # a graph that was launched inside a layer, as where each layer is one, and whose making was not recorded
    rest = np.flatnonzero((layer == 0) & (node >= 0) & (launch >= 0))
    layer[rest] = of_launch[launch[rest]]
    source[rest[layer[rest] > 0]] = OF_RANGE
    return layer, source


def _table(
    unit: Unit, swept: Sweep, layer: npt.NDArray[np.int32], names: list[str], first_period: int
) -> pl.DataFrame:
    """period, key, layer -> count, share_ns: the table of kernels, divided further."""
    every = np.zeros(len(unit.key), np.int32)
    every[swept.inside] = layer  # an op that reaches into the first period from before it has none
    keys, many = int(unit.key.max(initial=0)) + 1, len(names)

    def code(period: Index, op: Index | slice) -> Ints:
        return (period.astype(np.int64) * keys + unit.key[op]) * many + every[op]

    distinct_codes, position = grouped(
        np.concatenate((code(swept.op_period, swept.inside), code(swept.piece_period, swept.piece_op)))
    )
    size, ops = len(distinct_codes), len(swept.op_period)
    period_key = distinct_codes // many
    return pl.DataFrame(
        {
            "period": period_key // keys + first_period,
            "key": period_key % keys,
            "layer": pl.Series(names, dtype=pl.String).gather(distinct_codes % many),
            "count": count_by(position[:ops], size),
            "share_ns": float_sum_by(position[ops:], size, swept.piece_share),
        },
        schema=_TABLE,
    )


def _sources(unit: Unit, swept: Sweep, source: npt.NDArray[np.int8]) -> pl.DataFrame:
    """graph, source -> kernels and copies, and their share_ns."""
    assert unit.node is not None
    share = float_sum_by(swept.piece_op, len(unit.key), swept.piece_share)[swept.inside]
    code, position = grouped((unit.node[swept.inside] >= 0) * len(SOURCES) + source.astype(np.int64))
    return pl.DataFrame(
        {
            "graph": code >= len(SOURCES),
            "source": pl.Series([SOURCES[at] for at in (code % len(SOURCES)).tolist()], dtype=pl.String),
            "count": count_by(position, len(code)),
            "ns": float_sum_by(position, len(code), share),
        },
        schema=_SOURCES,
    )
