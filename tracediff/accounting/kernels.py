"""Tables of ops by key: time and counts a period, launches, and the typical order of kernels in a step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import polars as pl

from tracediff.accounting.grouping import count_by, float_sum_by, grouped, quantiles, sum_by
from tracediff.accounting.intervals import Floats, Index, Ints
from tracediff.accounting.sweep import Sweep, begins, rows_of
from tracediff.trace.periods import MEMCPY, Timeline, Unit

_OPS = 1 << 18  # summed at a time: their codes stay in the processor's cache
_WHOLE_GRAPH = 3  # kind of an op, see formats/sql/op.sql


@dataclass(frozen=True)
class OpSums:
    """Ops of one unit by period and key, arrays of one length.

    count: ops that start in the period; graph: those of them launched by graphs; wall_ns: their length;
    share_ns: of the accounting, also of ops that reach into the period.
    """

    period: Ints
    key: Ints
    count: Ints
    graph: Ints
    wall_ns: Ints
    share_ns: Floats


def op_sums(unit: Unit, swept: Sweep, first_period: int) -> OpSums:
    """Sum the ops of a unit; `first_period` is the number of its first period."""
    keys = int(unit.key.max(initial=0)) + 1
    parts = [
        _op_sums(unit, swept, low, high, keys, first_period)
        for low, high in _whole_periods(swept.op_period, len(unit.step))
    ]
    return OpSums(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(OpSums)))


def _whole_periods(op_period: Index, periods: int) -> list[tuple[int, int]]:
    """[low, high) of periods that hold some `_OPS` ops together: a sum is made in one go, whatever the stretch."""
    edges = begins(op_period, np.arange(periods + 1))
    cuts = np.unique(np.searchsorted(edges, np.arange(0, len(op_period), _OPS), side="left"))
    bounds = [0, *(one for one in cuts.tolist() if 0 < one < periods), periods]
    return list(pairwise(bounds))


def _op_sums(unit: Unit, swept: Sweep, low: int, high: int, keys: int, first_period: int) -> OpSums:
    """The same of the periods [low, high). `keys`: how many there are."""
    some, pieces = (rows_of(column, low, high) for column in (swept.op_period, swept.piece_period))
    key, graph, start, end = (
        column[swept.inside][some] for column in (unit.key, unit.graph, unit.start, unit.end)
    )
    starting = (swept.op_period[some] - low) * np.int64(keys) + key
    running = (swept.piece_period[pieces] - low) * np.int64(keys) + unit.key[swept.piece_op[pieces]]
    code, position = grouped(np.concatenate((starting, running)))
    size, ops = len(code), len(starting)
    return OpSums(
        code // keys + (first_period + low),
        code % keys,
        count_by(position[:ops], size),
        count_by(position[:ops][graph], size) if graph.any() else np.zeros(size, np.int64),
        sum_by(position[:ops], size, end - start),
        float_sum_by(position[ops:], size, swept.piece_share[pieces]),
    )


def kernel_table(sums: OpSums) -> pl.DataFrame:
    """period, key -> count, wall_ns, share_ns."""
    return pl.DataFrame(
        {name: getattr(sums, name) for name in ("period", "key", "count", "wall_ns", "share_ns")}
    )


def transition_table(unit: Unit, sums: OpSums, stratum: Ints) -> pl.DataFrame:
    """stratum, key -> kernels launched on their own and by graphs. `stratum`: of each period."""
    kind = np.full(int(unit.key.max(initial=0)) + 1, MEMCPY, np.int8)
    kind[unit.key] = unit.kind
    kernels = np.flatnonzero((kind[sums.key] != MEMCPY) & (sums.count > 0))
    code, position = grouped(stratum[sums.period[kernels]] * len(kind) + sums.key[kernels])
    graph = sum_by(position, len(code), sums.graph[kernels])
    eager = sum_by(position, len(code), sums.count[kernels]) - graph
    return pl.DataFrame(
        {"stratum": code // len(kind), "key": code % len(kind), "eager": eager, "graph": graph}
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


def modal_sequences(timeline: Timeline, swept: list[Sweep], periods: pl.DataFrame) -> dict[str, list[int]]:
    """Phase -> the most common sequence of op keys of a step, in order of start (rank 0; ties: the first seen)."""
    unit, one = timeline.units[0], swept[0]
    key = np.ascontiguousarray(unit.key[one.inside])
    edges = begins(one.op_period, np.arange(len(unit.step) + 1)).tolist()
    seen: dict[str, dict[bytes, int]] = {}
    for number, phase in enumerate(periods["phase"][: len(unit.step)].to_list()):
        counts = seen.setdefault(phase, {})
        sequence = key[edges[number] : edges[number + 1]].tobytes()
        counts[sequence] = counts.get(sequence, 0) + 1
    modal = {phase: max(counts, key=lambda one: counts[one]) for phase, counts in seen.items()}
    return {phase: np.frombuffer(sequence, key.dtype).tolist() for phase, sequence in modal.items()}
