"""The layer of each op: of the range under which it was launched, or its graph's node made; else by aligning its step with a labelled one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.intervals import Index, Ints, count_by, float_sum_by, grouped, innermost
from tracediff.accounting.sweep import Sweep
from tracediff.formats.capture import Capture
from tracediff.trace.layers import NO_LAYER, TENSORRT, LayerSequence, align, layer_of
from tracediff.trace.periods import Timeline, Unit
from tracediff.trace.threads import distinct

MOST_SEQUENCES = 64  # of one export: those of most steps are aligned, or lend their layers
LEAST = 0.5  # confidence below which a step keeps no layer of another program's

# How the layer of an op is known.
NOT_KNOWN, OF_RANGE, OF_GRAPH, ALIGNED, BETWEEN = range(5)
SOURCES = ("", "range", "graph_creation", "aligned", "between")

_TABLE = {"period": pl.Int64, "key": pl.Int64, "layer": pl.String, "count": pl.Int64, "share_ns": pl.Float64}
_SOURCES = {
    "graph": pl.Boolean,
    "source": pl.String,
    "count": pl.Int64,
    "ns": pl.Float64,
    "trusted_ns": pl.Float64,
}


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
    capture: Capture,
    ranges: LayerRanges,
    timeline: Timeline,
    swept: Sequence[Sweep],
    references: Sequence[LayerSequence],
    *,
    collect: bool = False,
) -> dict[str, Any]:
    """layers, layer_sources and layer_sequences of `Reduction`: the layer of every op of whole periods.

    `references`: labelled steps of the same program; `collect`: the sequences of this one.
    Where no step is like a reference, the sources alone say so, with the confidence.
    """
    nothing = {"layers": pl.DataFrame(schema=_TABLE), "layer_sources": pl.DataFrame(schema=_SOURCES)}
    if not ranges.any and not references:
        return nothing
    launches = timeline.launches
    of_launch = ranges.at(launches.tid, launches.start)
    of_node = _of_nodes(capture.db, ranges)
    names = list(ranges.names)
    number = {name: at for at, name in enumerate(names)}
    tables, sources, sequences = [], [], _Sequences(timeline.keys["name"].to_list())
    first = 0
    for unit, one in zip(timeline.units, swept, strict=True):
        layer, source = _own(unit, one.inside, of_launch, of_node)
        trust = (layer > 0).astype(np.float64)
        if collect or references:
            steps = _Steps(unit, one, launches.start)
            if references:
                _aligned(steps, timeline, references, names, number, layer, source, trust)
            if collect:
                sequences.add(steps, layer, names)
        tables.append(_table(unit, one, layer, names, first))
        sources.append(_sources(unit, one, source, trust))
        first += len(unit.step)
    found = pl.concat(sources).group_by("graph", "source").agg(pl.all().sum()).sort("graph", "source")
    if not found.filter(pl.col("source") != SOURCES[NOT_KNOWN])["count"].sum():
        return {**nothing, "layer_sources": found} if references else nothing
    return {"layers": pl.concat(tables), "layer_sources": found, "layer_sequences": sequences.most()}


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


class _Steps:
    """The ops of each whole period of a unit in the order in which they were launched: positions among those of `inside`."""

    def __init__(self, unit: Unit, swept: Sweep, launched: Ints) -> None:
        assert unit.node is not None
        inside = swept.inside
        launch = unit.launch[inside]
        when = np.where(launch >= 0, launched[launch] if len(launched) else 0, unit.start[inside])
        order = np.lexsort((unit.start[inside], unit.node[inside], when, swept.op_period))
        edges = np.searchsorted(swept.op_period[order], np.arange(len(unit.step) + 1)).tolist()
        self.positions = [order[low:high] for low, high in pairwise(edges)]
        self.key = unit.key[inside]
        self.ns = (unit.end - unit.start)[inside]


class _Sequences:
    """The steps of an export by what they launched in which layers."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._many: Counter[bytes] = Counter()
        self._found: dict[bytes, tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]] = {}

    def add(self, steps: _Steps, layer: npt.NDArray[np.int32], layers: list[str]) -> None:
        """Count the steps of a unit that have a layer."""
        for at in steps.positions:
            if not layer[at].any():
                continue
            same = steps.key[at].tobytes() + layer[at].tobytes()
            self._many[same] += 1
            if same not in self._found:
                names = tuple(self._names[key] for key in steps.key[at].tolist())
                of = tuple(layers[number] for number in layer[at].tolist())
                self._found[same] = names, of, tuple(steps.ns[at].tolist())

    def most(self) -> list[LayerSequence]:
        """Those of most steps."""
        found = [LayerSequence(self._many[same], *one) for same, one in self._found.items()]
        return sorted(found, key=lambda one: (-one.steps, one.names))[:MOST_SEQUENCES]


def _aligned(
    steps: _Steps,
    timeline: Timeline,
    references: Sequence[LayerSequence],
    names: list[str],
    number: dict[str, int],
    layer: npt.NDArray[np.int32],
    source: npt.NDArray[np.int8],
    trust: npt.NDArray[np.float64],
) -> None:
    """Give the ops that no range names the layers of the references, step by step; `names` and `number` grow."""
    texts = timeline.keys["name"].to_list()
    alike: dict[bytes, list[Ints]] = {}
    for at in steps.positions:
        if not layer[at].all():
            alike.setdefault(steps.key[at].tobytes(), []).append(at)
    for same in sorted(alike.values(), key=len, reverse=True)[:MOST_SEQUENCES]:
        ops = [texts[key] for key in steps.key[same[0]].tolist()]
        found = align(ops, steps.ns[same[0]].tolist(), references)
        if found is None:
            continue
        for name in found.layers:
            if name not in number:
                number[name] = len(names)
                names.append(name)
        of = np.array([number[name] for name in found.layers], np.int32)
        code = np.where(found.matched, ALIGNED, BETWEEN).astype(np.int8)
        for at in same:
            free = layer[at] == 0
            trust[at[free]] = found.confidence
            if found.confidence >= LEAST:
                layer[at[free]] = of[free]
                source[at[free]] = np.where(of[free] > 0, code[free], NOT_KNOWN)


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


def _sources(
    unit: Unit, swept: Sweep, source: npt.NDArray[np.int8], trust: npt.NDArray[np.float64]
) -> pl.DataFrame:
    """graph, source -> kernels and copies, their share_ns, and that times the confidence in their layer."""
    assert unit.node is not None
    share = float_sum_by(swept.piece_op, len(unit.key), swept.piece_share)[swept.inside]
    code, position = grouped((unit.node[swept.inside] >= 0) * len(SOURCES) + source.astype(np.int64))
    return pl.DataFrame(
        {
            "graph": code >= len(SOURCES),
            "source": pl.Series([SOURCES[at] for at in (code % len(SOURCES)).tolist()], dtype=pl.String),
            "count": count_by(position, len(code)),
            "ns": float_sum_by(position, len(code), share),
            "trusted_ns": float_sum_by(position, len(code), share * trust),
        },
        schema=_SOURCES,
    )
