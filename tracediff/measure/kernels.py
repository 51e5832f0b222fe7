"""Tables of ops by key: time and counts a period, launches, and the typical order of kernels in a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.align.timeline import Timeline, Unit
from tracediff.measure.sweep import Sweep


def kernel_table(unit: Unit, swept: Sweep, first_period: int) -> pl.DataFrame:
    """period, key -> count (ops that start in the period), wall_ns (their length), share_ns (of the accounting)."""
    shares = (
        pl.DataFrame(
            {
                "period": swept.piece_period.astype(np.int64) + first_period,
                "key": unit.key[swept.piece_op].astype(np.int64),
                "share_ns": swept.piece_share,
            }
        )
        .group_by("period", "key")
        .agg(pl.col("share_ns").sum())
    )
    inside = swept.op_period >= 0
    counts = (
        pl.DataFrame(
            {
                "period": swept.op_period[inside].astype(np.int64) + first_period,
                "key": unit.key[inside].astype(np.int64),
                "wall_ns": (unit.end - unit.start)[inside],
            }
        )
        .group_by("period", "key")
        .agg(pl.len().cast(pl.Int64).alias("count"), pl.col("wall_ns").sum())
    )
    return (
        counts.join(shares, on=["period", "key"], how="full", coalesce=True)
        .with_columns(pl.col("count", "wall_ns").fill_null(0), pl.col("share_ns").fill_null(0.0))
        .select("period", "key", "count", "wall_ns", "share_ns")
        .sort("period", "key")
    )


def launch_table(
    unit: Unit, swept: Sweep, first_period: int, stratum: npt.NDArray[np.int64], timeline: Timeline
) -> pl.DataFrame:
    """Stratum -> launching calls, graph launches, kernels, kernels of graphs, queueing delay (launch return -> start).

    Summed over the steps of the stratum; the delay is that of the first op of each launch, negative where the op
    began before the call returned.
    """
    inside = np.flatnonzero(swept.op_period >= 0)
    launch = unit.launch[inside]
    kernel = unit.kind[inside] != 2
    frame = pl.DataFrame(
        {
            "stratum": stratum[swept.op_period[inside] + first_period],
            "launch": launch.astype(np.int64),
            "start": unit.start[inside],
            "graph": unit.graph[inside],
            "kernel": kernel,
        }
    )
    ops = frame.group_by("stratum").agg(
        kernels=pl.col("kernel").sum().cast(pl.Int64),
        graph_kernels=(pl.col("kernel") & pl.col("graph")).sum().cast(pl.Int64),
    )
    firsts = (
        frame.filter(pl.col("launch") >= 0)
        .group_by("launch")
        .agg(pl.col("stratum").first(), pl.col("start").min(), pl.col("graph").any())
    )
    returned = timeline.launches.end[firsts["launch"].to_numpy()] if len(firsts) else np.empty(0, np.int64)
    delay = firsts["start"] - pl.Series(returned, dtype=pl.Int64)
    calls = (
        firsts.with_columns(delay=delay)
        .group_by("stratum")
        .agg(
            calls=pl.len().cast(pl.Int64),
            graph_launches=pl.col("graph").sum().cast(pl.Int64),
            delay_mean_ns=pl.col("delay").mean(),
            delay_p50_ns=pl.col("delay").quantile(0.5, "linear"),
            delay_p99_ns=pl.col("delay").quantile(0.99, "linear"),
        )
    )
    return (
        ops.join(calls, on="stratum", how="left")
        .sort("stratum")
        .with_columns(pl.col("calls", "graph_launches").fill_null(0))
    )


def transition_table(
    unit: Unit, swept: Sweep, first_period: int, stratum: npt.NDArray[np.int64]
) -> pl.DataFrame:
    """stratum, key -> kernels launched on their own and by graphs."""
    inside = np.flatnonzero((swept.op_period >= 0) & (unit.kind != 2))
    return (
        pl.DataFrame(
            {
                "stratum": stratum[swept.op_period[inside] + first_period],
                "key": unit.key[inside].astype(np.int64),
                "graph": unit.graph[inside],
            }
        )
        .group_by("stratum", "key")
        .agg(
            eager=(~pl.col("graph")).sum().cast(pl.Int64),
            graph=pl.col("graph").sum().cast(pl.Int64),
        )
        .sort("stratum", "key")
    )


def modal_sequences(timeline: Timeline, swept: list[Sweep], periods: pl.DataFrame) -> dict[str, list[int]]:
    """Phase -> the most common sequence of op keys of a step, in order of start (rank 0; ties: the first seen)."""
    unit, one = timeline.units[0], swept[0]
    inside = np.flatnonzero(one.op_period >= 0)
    frame = pl.DataFrame(
        {"period": one.op_period[inside].astype(np.int64), "key": unit.key[inside].astype(np.int64)}
    )
    steps = frame.group_by("period", maintain_order=True).agg(pl.col("key"))
    steps = steps.join(periods.select("period", "phase"), on="period", how="left", maintain_order="left")
    steps = steps.with_columns(text=pl.col("key").cast(pl.List(pl.String)).list.join(","))
    modal = (
        steps.group_by("phase", "text", maintain_order=True)
        .agg(pl.len().alias("steps"), pl.col("key").first(), pl.col("period").min())
        .sort("steps", "period", descending=[True, False])
        .group_by("phase", maintain_order=True)
        .first()
    )
    return {phase: list(key) for phase, key in zip(modal["phase"], modal["key"], strict=True)}
