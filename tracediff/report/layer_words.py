"""GPU time by layer of the model, as tables and a sentence for every output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracediff.model import KernelRow, Result
from tracediff.model.kernels import LayerRow, Layers, LayerSide
from tracediff.report import units, words
from tracediff.report.document import TableOf

TITLE = "Time by layer"
NONE = "in no known layer"


def tables(layers: Layers | None, *, two: bool) -> list[TableOf]:
    """By kind of layer, then each layer; none where layers are not known. `two`: of a comparison."""
    if layers is None:
        return []
    per_kind: dict[str, int] = {}
    for row in layers.rows:
        per_kind[row.kind] = per_kind.get(row.kind, 0) + 1
    return [
        _table(
            f"{TITLE}, mean step",
            ("Kind of layer", "Layers"),
            layers.kinds,
            lambda row: [str(per_kind[row.kind]) if row.kind else "-"],
            "layers.kinds",
            two=two,
        ),
        _table("Each layer, mean step", ("Layer",), layers.rows, lambda row: [], "layers.rows", two=two),
    ]


def _table(
    title: str,
    heads: tuple[str, ...],
    rows: list[LayerRow],
    more: Callable[[Any], list[str]],
    field: str,
    *,
    two: bool,
) -> TableOf:
    total = sum(row.baseline_ns for row in rows)

    def figures(row: LayerRow, scale: units.Scale) -> list[str]:
        if not two:
            return [scale.number(row.baseline_ns), units.share(row.baseline_ns, total)]
        half = scale.number((row.ci_high_ns - row.ci_low_ns) / 2)
        return [
            scale.number(row.baseline_ns),
            scale.number(row.candidate_ns),
            f"{scale.signed(row.delta_ns)} ± {half}",
            words.LEVELS[level][0] if (level := words.tested_level(row)) else "not tested",
        ]

    columns = (
        ("Baseline, {}", "Candidate, {}", "Change, {}", "Certainty")
        if two
        else ("{} per step", "% of GPU time")
    )
    return TableOf(
        title,
        (*heads, *columns),
        "n" + "f" * (len(heads) - 1) + ("fffp" if two else "ff"),
        rows,
        lambda row, scale: [row.layer or NONE, *more(row), *figures(row, scale)],
        field,
        lambda row: [row.baseline_ns, row.candidate_ns] if two else [row.baseline_ns],
        on_terminal=field == "layers.kinds",
    )


def notes(layers: Layers | None, result: Result | None = None) -> list[str]:
    """What the rows of a comparison say (`result`), and how the layers of each side are known."""
    if layers is None:
        return []
    if result is None:
        return [_side("", layers.baseline)]
    judged = "within noise: judged with all rows tested at once, or under 0.1 % of the step"
    return [
        f"± {words.interval_name(result)}; {judged}.",
        _side("baseline", layers.baseline),
        _side("candidate", layers.candidate),
    ]


def _side(name: str, side: LayerSide) -> str:
    trust = "" if side.confidence is None else f" (confidence {side.confidence:.2f})"
    known = [
        (share, how)
        for share, how in (
            (side.by_range, "by the range of their launch"),
            (side.by_graph, "by the range in which their graph was captured"),
            (side.aligned, f"by alignment with the labelled capture{trust}"),
        )
        if share
    ]
    said = "; ".join(how if len(known) == 1 else f"{units.share(share)} {how}" for share, how in known)
    of = f"of the {name}'s GPU time" if name else "of GPU time"
    graphs = "" if side.of_graphs is None else f" (in CUDA graphs {units.share(side.of_graphs)})"
    return f"{units.share(side.attributed)} {of} is in a known layer{graphs}, {said}."


def of_kernel(row: KernelRow) -> str:
    """The kinds of layer that a kernel runs in."""
    return ", ".join(row.layers) or "-"
