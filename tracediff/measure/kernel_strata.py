"""Kernel rows workload by workload: what a step of each stratum holds of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from tracediff.align.strata import ROW, Strata
from tracediff.measure.grouping import float_sum_by, grouped
from tracediff.measure.kernel_table import KernelCells
from tracediff.measure.step_index import StepIndex
from tracediff.model import KernelRow, KernelStratum

STRATA = 4  # of a kernel row: those with the most of its time


def with_strata(
    rows: Sequence[tuple[int, KernelRow]], kernels: KernelCells, steps: pl.DataFrame, strata: Strata
) -> list[tuple[int, KernelRow]]:
    """Add to each row its counts and times a step in every stratum, compared or not; nothing where there is one stratum."""
    found = strata_of_rows(kernels, steps, strata)
    return [(row, msgspec.structs.replace(one, strata=found.get(row, []))) for row, one in rows]


def strata_of_rows(
    kernels: KernelCells, steps: pl.DataFrame, strata: Strata
) -> dict[int, list[KernelStratum]]:
    """Row of the matching -> its counts and times by stratum; empty where there is one stratum.

    `steps`: every whole step of the sides. A mean is over all steps of the side in the stratum, as in its row.
    """
    if len(strata.rows) < 2:
        return {}
    number = {key: place for place, key in enumerate(strata.keys)}
    located = strata.locate(steps).with_columns(pl.col("group").fill_null(-1)).with_columns(stratum=ROW)
    steps_of = located.group_by("side", "stratum").agg(pl.len())
    many = {(number[key], side): count for side, key, count in steps_of.iter_rows()}
    values = kernels.values.filter(pl.col("side") < 2)
    place = located["stratum"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
    place = place[StepIndex(located).rows(values)]
    code = (values["row"].to_numpy() * len(number) + place) * 2 + values["side"].to_numpy()
    distinct, position = grouped(code)
    counts, shares = (
        float_sum_by(position, len(distinct), values[name].to_numpy()) for name in ("count", "share_ns")
    )
    total: dict[tuple[int, int], float] = {}
    cells: dict[tuple[int, int], list[float]] = {}
    for one, count, ns in zip(distinct.tolist(), counts.tolist(), shares.tolist(), strict=True):
        key, side = divmod(one, 2)
        row, stratum = divmod(key, len(number))
        size = many[stratum, side]
        cell = cells.setdefault((row, stratum), [0.0, 0.0, 0.0, 0.0])
        cell[2 * side : 2 * side + 2] = [round(count / size, 9), ns / size]
        total[row, stratum] = total.get((row, stratum), 0.0) + ns
    found: dict[int, list[KernelStratum]] = {}
    for row, stratum in sorted(cells, key=lambda one: (one[0], -total[one], one[1])):
        parts = found.setdefault(row, [])
        if len(parts) < STRATA:
            parts.append(KernelStratum(stratum, *cells[row, stratum]))
    return found
