"""Idle time of one export: gaps cut into pieces a stretch at a time, and summed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.align.timeline import Timeline
from tracediff.measure.attribution import IDLE, attribute
from tracediff.measure.gaps import GapTables, worst_index
from tracediff.measure.grouping import grouped, stretches, sum_by
from tracediff.measure.host_work import HostWork
from tracediff.measure.hosts import Hosts
from tracediff.measure.idle_cells import Cells, Words
from tracediff.measure.intervals import Index, Ints
from tracediff.measure.sweep import Gaps

# Gaps cut at a time: few enough for their pieces to stay in the processor's cache, and to be told apart by 16 bits.
_STRETCH = 1 << 15


@dataclass(frozen=True)
class IdleTables:
    """causes: ns of each period of each unit by IDLE. The frames are those of `Reduction`."""

    causes: list[Ints]
    cells: pl.DataFrame
    idle_ns: pl.DataFrame
    gaps: pl.DataFrame
    worst: pl.DataFrame
    moments: pl.DataFrame


def idle_tables(
    timeline: Timeline,
    gaps: list[Gaps],
    periods: pl.DataFrame,
    words: Words,
    hosts: Hosts,
    host_work: HostWork | None = None,
) -> IdleTables:
    """Attribute the gaps of the units. `periods`: the table of periods, still without the categories.

    `host_work` is handed every piece, where the operating system's calls or switches were recorded.
    """
    names = timeline.keys["name"].to_list()
    copies = [name for name, (api, _) in timeline.api_names.items() if re.match(r"cu(da)?Mem(cpy|set)", api)]
    stratum = periods["stratum"].to_numpy()
    cells = Cells(words, copies)
    launches, labels = timeline.launches, hosts.labels(timeline.launches)
    causes, idle, by_neighbours, worst, moments = [], [], [], [], []
    first = 0
    for unit, own in zip(timeline.units, gaps, strict=True):
        tables = GapTables(unit, own, first, stratum, cells, worst_index(own))
        for low, high in stretches(own.size, _STRETCH):
            some = own.take(slice(low, high))
            pieces = attribute(unit, some, launches, labels, hosts)
            tables.add(pieces, low, high)
            if host_work is not None:
                host_work.add(pieces, stratum[some.period + first])
        period, cell, ns, count = tables.sums()
        by_cause = period * len(IDLE) + cells.causes()[cell]
        causes.append(sum_by(by_cause, len(unit.step) * len(IDLE), ns).reshape(-1, len(IDLE)))
        idle.append((period + first, cell, ns, count))
        worst.append(tables.worst(periods, names))
        moments.append(tables.longest(periods, timeline.api_names))
        by_neighbours.append(tables.gaps(names))
        first += len(unit.step)
    table, number = cells.in_order()
    idle_ns = _by_cell(number, len(table), *(np.concatenate(column) for column in zip(*idle, strict=True)))
    return IdleTables(causes, table, idle_ns, pl.concat(by_neighbours), pl.concat(worst), pl.concat(moments))


def _by_cell(number: Index, cells: int, period: Ints, cell: Ints, ns: Ints, count: Ints) -> pl.DataFrame:
    """period, cell -> ns, count, in order of both. `number`: of each cell its place in the order of words."""
    code, position = grouped(period * max(cells, 1) + number[cell])
    size = len(code)
    return pl.DataFrame(
        {
            "period": (code // max(cells, 1)).astype(np.int32),
            "cell": (code % max(cells, 1)).astype(np.int32),
            "ns": sum_by(position, size, ns),
            "count": sum_by(position, size, count),
        }
    )
