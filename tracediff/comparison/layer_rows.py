"""Kernel time by layer and by kind of layer, as rows of the result: estimated with all other cells, tested apart."""

from __future__ import annotations

import numpy as np

from tracediff.comparison.cells import Layout, Measured
from tracediff.comparison.layers import LayerCells, layer_side
from tracediff.comparison.places import Place, judge
from tracediff.execution.sides import Side
from tracediff.model.layers import LayerRow, Layers


def compared_layers(measured: Measured) -> Layers | None:
    """Rows of both sides, the largest change first; None where layers are not known."""
    if measured.layers is None:
        return None
    layout, whole = measured.layout, measured.whole
    judged = judge(measured, [Place("layers", (cell,)) for cell in (*layout.layers, *layout.layer_kinds)])
    half = whole.half

    def row(cell: int, layer: str, kind: str) -> LayerRow:
        level, q = judged.levels(cell)
        delta = float(whole.delta[cell])
        return LayerRow(
            layer=layer,
            kind=kind,
            baseline_ns=float(whole.baseline[cell]),
            candidate_ns=float(whole.candidate[cell]),
            delta_ns=delta,
            ci_low_ns=delta - float(half[cell]),
            ci_high_ns=delta + float(half[cell]),
            level=level,
            q_value=None if np.isnan(q) else q,
        )

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
