"""Kernel time by layer of the model: the modules or engine layers under which kernels were launched or captured."""

from __future__ import annotations

import msgspec

from tracediff.model.common import ABSENT, Evidence


class LayerRow(msgspec.Struct, frozen=True, kw_only=True):
    """GPU time of one layer, ns of the accounting per step; of a kind, of all layers that differ in their numbers.

    layer: '' what is in no layer, or in none that is known. Rows sum to the rows of the kernel table.
    """

    layer: str
    kind: str  # numbers as *
    baseline_ns: float
    candidate_ns: float = ABSENT
    delta_ns: float = ABSENT
    ci_low_ns: float = ABSENT
    ci_high_ns: float = ABSENT
    level: Evidence = ABSENT
    q_value: float | None = ABSENT


class LayerSide(msgspec.Struct, frozen=True, kw_only=True):
    """How the layers of one side are known: shares of its GPU time, 0 to 1.

    attributed: in a layer. of_graphs: of what CUDA graphs launched; None without such. confidence: that of the alignment with a labelled
    capture (docs/layers.md); None where nothing was aligned.
    """

    attributed: float
    of_graphs: float | None
    by_range: float  # under whose range they were launched
    by_graph: float  # under whose range their graph's node was made
    aligned: float
    confidence: float | None


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """kinds: a row a kind of layer; rows: a row a layer. Both sum to the kernel rows, the largest change first."""

    baseline: LayerSide
    candidate: LayerSide = ABSENT
    kinds: list[LayerRow]
    rows: list[LayerRow]
