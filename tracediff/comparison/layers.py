"""Kernel time by layer: what every step spends in every layer, and the layers of the rows of the kernel table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec
import polars as pl

from tracediff.accounting.intervals import float_sum_by, grouped
from tracediff.accounting.kernels import NOT_KNOWN, OF_GRAPH, OF_RANGE, SOURCES
from tracediff.accounting.reduction import Reduction
from tracediff.arrays import Ints
from tracediff.comparison.frame import Frame
from tracediff.comparison.kernel_table import KernelCells, in_mean
from tracediff.comparison.shown import FIRST
from tracediff.execution.sides import Side, parts_of, tagged
from tracediff.model import Note
from tracediff.model.kernels import LayerSide
from tracediff.stats.rules import LITTLE, NEARLY
from tracediff.trace.layers import NO_LAYER, kind_of


class LayerCells(msgspec.Struct, frozen=True):
    """names: layers; kinds: of each its kind. values: side, run, part, period, layer (place in names) -> share_ns.

    of_rows: row of the kernel table -> ns of each layer, in the compared steps.
    """

    names: list[str]
    values: pl.DataFrame
    of_rows: dict[int, dict[str, float]]

    @property
    def kinds(self) -> list[str]:
        """The kind of each layer."""
        return [kind_of(name) for name in self.names]

    def kinds_of(self, row: int) -> list[str]:
        """The kinds of layer of a kernel row, the most time first."""
        found = _summed({name: ns for name, ns in self.of_rows.get(row, {}).items() if name}, kinds=True)
        total = sum(self.of_rows.get(row, {}).values())
        return [kind for kind, ns in found if ns >= LITTLE * total][:FIRST]

    def main(self, rows: Sequence[int]) -> str | None:
        """The layer, else the kind of layer, that has most of the time of some kernel rows."""
        ns: dict[str, float] = defaultdict(float)
        for row in rows:
            for name, value in self.of_rows.get(row, {}).items():
                ns[name] += value
        for found in (_summed(ns, kinds=False), _summed(ns, kinds=True)):
            if found and found[0][0] and found[0][1] >= NEARLY * sum(ns.values()):
                return found[0][0]
        return None

    def more_in(self, rows: Collection[int]) -> set[str]:
        """The layers, and kinds of layer, that spend more in some kernel rows than in the others."""
        more: dict[str, float] = defaultdict(float)
        for row, ns in self.of_rows.items():
            for name, value in ns.items():
                for one in {name, kind_of(name)}:
                    more[one] += value if row in rows else -value
        return {name for name, value in more.items() if value > 0}


def _summed(ns: dict[str, float], *, kinds: bool) -> list[tuple[str, float]]:
    sums: dict[str, float] = defaultdict(float)
    for name, value in ns.items():
        sums[kind_of(name) if kinds else name] += value
    return sorted(sums.items(), key=lambda one: (-one[1], one[0]))


def layer_cells(sides: Sequence[Side], frame: Frame, kernels: KernelCells) -> LayerCells | None:
    """The layers of all sides; None where those of one are not known."""
    if not all(map(_known, sides)):
        return None
    parts = parts_of(sides)
    names = sorted({name for *_, part in parts for name in part.layers["layer"].unique()} | {NO_LAYER})
    number = {name: at for at, name in enumerate(names)}

    def place_of(part: Reduction) -> Ints:
        return part.layers["layer"].replace_strict(number, return_dtype=pl.Int64).to_numpy()

    frames = []
    for side, run, part_number, part in parts:
        code, position = grouped(part.layers["period"].to_numpy() * len(names) + place_of(part))
        sums = {
            "period": code // len(names),
            "layer": code % len(names),
            "share_ns": float_sum_by(position, len(code), part.layers["share_ns"].to_numpy()),
        }
        frames.append(tagged(pl.DataFrame(sums), side, run, part_number))
    of_rows: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _, part, op, row, weight in in_mean(sides, kernels.matching, frame, "layers"):
        code, position = grouped(row * len(names) + place_of(part)[op])
        ns = float_sum_by(position, len(code), part.layers["share_ns"].to_numpy()[op] * weight)
        for one, value in zip(code.tolist(), ns.tolist(), strict=True):
            of_rows[one // len(names)][names[one % len(names)]] += value
    return LayerCells(names, pl.concat(frames), of_rows)


def _known(side: Side) -> bool:
    """Whether each export of a side has layers, and they hold more than little of its kernel time."""
    return all(len(part.layers) for part in side.parts) and layer_side(side).attributed >= LITTLE


def layer_side(side: Side) -> LayerSide:
    """How the layers of a side are known."""
    table = pl.concat([part.layer_sources for part in side.parts])

    def ns(*which: pl.Expr) -> float:
        return float(table.filter(*which)["ns"].sum())

    source, graph = pl.col("source"), pl.col("graph")
    known = source != SOURCES[NOT_KNOWN]
    total, of_graphs = max(ns(), 1.0), ns(graph)
    return LayerSide(
        attributed=ns(known) / total,
        of_graphs=ns(graph, known) / of_graphs if of_graphs else None,
        by_range=ns(source == SOURCES[OF_RANGE]) / total,
        by_graph=ns(source == SOURCES[OF_GRAPH]) / total,
    )


def layer_notes(sides: Sequence[Side]) -> list[Note]:
    """That one side alone has layers, so that no table is made of them."""
    known = [_known(side) for side in sides]
    if all(known) or not any(known):
        return []
    without = sides[known.index(False)]
    text = f"{without.label} has no known layers, the other side has: time by layer is not compared"
    return [Note("layers-one-side", text)]
