"""NCCL across ranks: how much of each collective was waiting for the last rank, how much transfer."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracediff.accounting.sweep import Sweep
from tracediff.trace.periods import COMM, Unit

_SCHEMA = {"rank": pl.Int64, "stratum": pl.Int64, "wait_ns": pl.Int64, "transfer_ns": pl.Int64, "count": pl.Int64,
           "caused_ns": pl.Int64}  # fmt: skip


def collective_waits(units: list[Unit], swept: list[Sweep], periods: pl.DataFrame) -> pl.DataFrame:
    """stratum, rank -> wait_ns, transfer_ns, count, caused_ns (what the others waited while the rank was the last).

    The k-th communication kernel of a step is the same collective on every rank. A rank waits from its own
    start until the last rank's start; the rest is transfer. Needs all ranks of one export: their clocks agree, and the
    last one to come may be any of them.
    """
    frames = []
    first = 0
    if len({unit.rank for unit in units}) < 2:
        return pl.DataFrame(schema=_SCHEMA)
    for unit, one in zip(units, swept, strict=True):
        comm = np.flatnonzero(unit.kind[one.inside] == COMM)
        index = comm + one.inside.start
        frames.append(
            pl.DataFrame(
                {
                    "rank": np.full(len(index), unit.rank, np.int64),
                    "period": one.op_period[comm].astype(np.int64) + first,
                    "start": unit.start[index],
                    "end": unit.end[index],
                }
            )
        )
        first += len(unit.step)
    ops = pl.concat(frames)
    if not len(ops):
        return pl.DataFrame(schema=_SCHEMA)
    ops = ops.join(
        periods.select("period", "step", "stratum"), on="period", how="left", maintain_order="left"
    )
    ops = ops.sort("rank", "start").with_columns(ordinal=pl.int_range(pl.len()).over("rank", "step"))
    ranks = ops["rank"].n_unique()
    together = ["step", "ordinal"]
    ops = ops.with_columns(
        present=pl.col("rank").n_unique().over(together), last=pl.col("start").max().over(together)
    ).filter(pl.col("present") == ranks)
    ops = ops.with_columns(wait=(pl.min_horizontal("last", "end") - pl.col("start")))
    # of ranks that start together at the last moment, the first number stands for the late one
    late = (pl.col("start") == pl.col("last")) & (
        pl.col("rank") == pl.col("rank").filter(pl.col("start") == pl.col("last")).min().over(together)
    )
    ops = ops.with_columns(caused=pl.when(late).then(pl.col("wait").sum().over(together)).otherwise(0))
    return (
        ops.group_by("stratum", "rank")
        .agg(
            wait_ns=pl.col("wait").sum(),
            transfer_ns=(pl.col("end") - pl.col("start") - pl.col("wait")).sum(),
            count=pl.len().cast(pl.Int64),
            caused_ns=pl.col("caused").sum(),
        )
        .sort("stratum", "rank")
        .select("rank", "stratum", "wait_ns", "transfer_ns", "count", "caused_ns")
    )
