"""The table of ranks: step time of each, and what it waited for in collectives."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracediff.measure.sides import Side, stacked
from tracediff.measure.tables import Weigher
from tracediff.model import RankRow


def ranks(
    sides: Sequence[Side], steps: pl.DataFrame, weights: dict[int, float], weigher: Weigher
) -> list[RankRow]:
    """Step time and collective waits of each rank at the baseline's mix; `steps`: the compared ones with their group."""
    means = (
        steps.group_by("side", "run", "rank", "device", "group")
        .agg(pl.col("ns").mean())
        .with_columns(weight=pl.col("group").replace_strict(weights, return_dtype=pl.Float64))
        .group_by("side", "run", "rank", "device")
        .agg((pl.col("ns") * pl.col("weight")).sum() / pl.col("weight").sum())
        .group_by("side", "rank", "device")
        .agg(pl.col("ns").mean())
    )
    waits: dict[tuple[int, int], tuple[float, float, float]] = {}
    collectives = stacked(sides, "collectives")
    if len(collectives):
        weighed = weigher.weigh(collectives, ["rank"], ["wait_ns", "transfer_ns", "caused_ns"])
        for side, rank, wait, transfer, caused in weighed.iter_rows():
            # the weigher divides by the steps of all ranks; a rank's own are their share
            many = len({row[1] for row in weighed.iter_rows() if row[0] == side})
            waits[side, rank] = (wait * many, transfer * many, caused * many)
    rows = []
    for rank, device in sorted({(row[1], row[2]) for row in means.iter_rows()}):
        values = [
            next((row[3] for row in means.iter_rows() if row[:3] == (side, rank, device)), None)
            for side in (0, 1)
        ]
        one, other = waits.get((0, rank)), waits.get((1, rank))
        rows.append(
            RankRow(
                rank, device, values[0], values[1],
                values[1] - values[0] if values[0] is not None and values[1] is not None else None,
                one[0] if one else None, other[0] if other else None,
                one[1] if one else None, other[1] if other else None,
                one[2] if one else None, other[2] if other else None,
            )
        )  # fmt: skip
    return rows
