"""Idle time by place, kernels by phase and time by layer as rows of the result; measures of one of them are taken from these."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import polars as pl

from tracediff.comparison.cells import IdleKey, Layout, Measured
from tracediff.comparison.layers import LayerCells, layer_side
from tracediff.comparison.places import LEVELS, MATERIAL, Judged, Place, judge
from tracediff.execution.sides import Side, stacked
from tracediff.model import Evidence, KernelTypical, PlaceRow
from tracediff.model.causes import CAUSES
from tracediff.model.kernels import LayerRow, Layers

_MOST = 200  # places
_KEY = ("cause", "thread", "holder", "where", "copy")


def calls_of(sides: Sequence[Side], keys: Sequence[IdleKey]) -> list[list[str]]:
    """The CUDA functions that the longest pieces of idle cells lie in; none of causes that are not inside a call."""
    moments = stacked(sides, "moments").with_columns(
        where=pl.when(pl.col("cause") == "gil_wait")
        .then(pl.col("holder_place"))
        .when(pl.col("cause") == "gc")
        .then(pl.lit(""))
        .otherwise(pl.col("place"))
    )
    found: dict[IdleKey, set[str]] = defaultdict(set)
    for *key, call in moments.select(*_KEY, "api").unique().iter_rows():
        if call:
            found[IdleKey(*key)].add(call)
    return [sorted(found.get(key, ())) if CAUSES[key.cause].calls else [] for key in keys]


def place_rows(measured: Measured, judged: Judged) -> tuple[list[PlaceRow], int]:
    """Idle cells over all compared steps and in the typical step of each phase; second, how many places were left out."""
    layout = measured.layout
    calls = calls_of(measured.sides, layout.idle_keys)
    levels: dict[tuple[str, int], Evidence] = {
        (one.phase.steps.phase, one.place.cells[0]): one.level
        for one in judged.rows
        if one.place.kind == "idle" and one.part == "typical"
    }
    parts = [("", measured.whole), *((one.steps.phase, one.typical.estimate) for one in measured.phases)]
    size = [max(float(max(of.baseline[cell], of.candidate[cell])) for _, of in parts) for cell in layout.idle]
    kept = sorted(range(len(size)), key=lambda at: (-size[at], at))[:_MOST]
    rows = []
    for phase, of in parts:
        for at in kept:
            cell, key = layout.idle[at], layout.idle_keys[at]
            if not of.baseline[cell] and not of.candidate[cell]:
                continue
            level = levels.get((phase, cell), "within_noise")
            if not phase:  # a level is of a phase; here only where the mean of all shows the same
                delta = float(of.delta[cell])
                level = _of_all(judged, cell, delta) if abs(delta) > of.half[cell] else "within_noise"
            place, holder_place = ("", key.where) if key.cause == "gil_wait" else (key.where, "")
            where = (phase, key.cause, key.thread, place, key.holder, holder_place, calls[at])
            rows.append(PlaceRow(*where, **of.change(cell), level=level))
    return rows, len(size) - len(kept)


def kernel_phases(measured: Measured, judged: Judged) -> dict[int, list[KernelTypical]]:
    """Kernel row of the matching -> its typical step in each phase where it is more than a trifle.

    Launches are counted where kernels are tested: elsewhere they are a matter of the requests.
    """
    levels: dict[tuple[str, int], tuple[Evidence, float]] = {
        (one.phase.steps.phase, cell): (one.level, one.q)
        for one in judged.rows
        if one.place.kind == "kernels" and one.part == "typical"
        for cell in one.place.cells
    }
    found: dict[int, list[KernelTypical]] = defaultdict(list)
    for phase in measured.phases:
        of, name = phase.typical.estimate, phase.steps.phase
        counts = measured.kernels.of_phase[name, "typical"].tolist()
        tested = phase.steps.judged and phase.steps.steady
        for number, cell in enumerate(measured.layout.kernels):
            counted = tested and bool(measured.kernels.counted[name][number])
            if counted or max(of.baseline[cell], of.candidate[cell]) >= MATERIAL * phase.step_ns:
                level, q = levels.get((name, cell), ("within_noise", math.nan))
                before, after = counts[number]
                found[number].append(
                    KernelTypical(
                        name, **of.change(cell), level=level, baseline_count=before, candidate_count=after,
                        q_value=None if math.isnan(q) else q, counted=counted,
                    )
                )  # fmt: skip
    return found


def _of_all(judged: Judged, cell: int, delta: float) -> Evidence:
    """The best level of a place over phases in which it changed as it did over all."""
    return min(
        (
            one.level
            for one in judged.rows
            if one.place.kind == "idle" and one.place.cells[0] == cell and one.delta * delta > 0
        ),
        key=LEVELS.index,
        default="within_noise",
    )


# Kernel time by layer and by kind of layer, as rows of the result: estimated with all other cells, tested apart.


def compared_layers(measured: Measured) -> Layers | None:
    """Rows of both sides, the largest change first; None where layers are not known."""
    if measured.layers is None:
        return None
    layout, whole = measured.layout, measured.whole
    judged = judge(measured, [Place("layers", (cell,)) for cell in (*layout.layers, *layout.layer_kinds)])

    def row(cell: int, layer: str, kind: str) -> LayerRow:
        level, q = judged.levels(cell)
        q_value = None if math.isnan(q) else q
        return LayerRow(layer=layer, kind=kind, **whole.change(cell), level=level, q_value=q_value)

    found = [[row(*one) for one in cells] for cells in _cells(layout, measured.layers)]
    kinds, rows = (sorted(part, key=lambda one: (-abs(one.delta_ns), one.layer)) for part in found)
    one, other = map(layer_side, measured.sides)
    return Layers(baseline=one, candidate=other, kinds=kinds, rows=rows)


def shown_layers(side: Side, layers: LayerCells | None, layout: Layout, mean: np.ndarray) -> Layers | None:
    """Rows of one side, the most time first. `mean`: of each cell."""
    if layers is None:
        return None
    found = [
        [LayerRow(layer=layer, kind=kind, baseline_ns=float(mean[cell])) for cell, layer, kind in cells]
        for cells in _cells(layout, layers)
    ]
    kinds, rows = (sorted(part, key=lambda one: (-one.baseline_ns, one.layer)) for part in found)
    return Layers(baseline=layer_side(side), kinds=kinds, rows=rows)


def _cells(
    layout: Layout, layers: LayerCells
) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
    """Cell, layer and kind of the kinds, then of the layers."""
    kinds = sorted(set(layers.kinds))
    return (
        list(zip(layout.layer_kinds, kinds, kinds, strict=True)),
        list(zip(layout.layers, layers.names, layers.kinds, strict=True)),
    )
