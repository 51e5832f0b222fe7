"""Every cell of every step in one table: the step itself, the categories, the places of idle time, the kernel rows."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracediff.measure.kernel_table import KernelCells
from tracediff.measure.sides import Side
from tracediff.model import CATEGORIES

# Categories that need GPU rows, and those that need CUDA calls, to be told at all.
_OF_GPU = ("compute", "comm", "memcpy", "launch_latency", "dependency", "graph_internal", "unattributed")
_OF_CALLS = ("launch_api", "host_sync", "host_api")


@dataclass(frozen=True)
class Layout:
    """Which columns of the estimates are what: 0 is the step, then categories, idle cells, kernel rows."""

    categories: dict[str, int]
    idle: list[int]
    idle_keys: list[tuple[str, str, str, str, bool]]  # cause, thread, holder, where (see idle_groups), copy
    kernels: list[int]
    idle_cells: pl.DataFrame


def cell_table(
    steps: pl.DataFrame, idle: pl.DataFrame, kernels: KernelCells
) -> tuple[pl.DataFrame, list[str], Layout]:
    """side, run, part, period, cell -> ns; then the accounting category of each cell, and what the cells are."""
    keys = ["side", "run", "part", "period"]
    parts = [steps.select(*keys, pl.lit(0, pl.Int64).alias("cell"), pl.col("ns").cast(pl.Float64))]
    kinds = ["host_work"]  # of the step, whose noise is assumed apart
    categories: dict[str, int] = {}
    for name in CATEGORIES:
        categories[name] = len(kinds)
        kinds.append(name)
        source = steps.select(*keys, pl.col(name).alias("ns")) if name in ("compute", "comm", "memcpy") else idle.filter(
            pl.col("cause") == name
        ).group_by(keys).agg(pl.col("ns").sum())  # fmt: skip
        parts.append(
            source.select(
                *keys, pl.lit(categories[name], pl.Int64).alias("cell"), pl.col("ns").cast(pl.Float64)
            )
        )
    grouped = idle_groups(idle)
    by = ["cause", "thread", "holder", "where", "copy"]
    order = grouped.group_by(by).agg(pl.col("ns").sum()).sort("ns", *by, descending=[True] + [False] * 5)
    order = order.with_columns(cell=pl.int_range(pl.len()).cast(pl.Int64) + len(kinds))
    first = len(kinds)
    kinds += order["cause"].to_list()
    located = grouped.join(order.drop("ns"), on=by, how="left")
    parts.append(
        located.group_by(*keys, "cell").agg(pl.col("ns").sum().cast(pl.Float64)).select(*keys, "cell", "ns")
    )
    kernel_first = len(kinds)
    kinds += kernels.kinds
    parts.append(
        kernels.values.select(
            *keys, (pl.col("row") + kernel_first).alias("cell"), pl.col("share_ns").alias("ns")
        )
    )
    layout = Layout(
        categories,
        list(range(first, kernel_first)),
        list(order.select(by).iter_rows()),
        list(range(kernel_first, len(kinds))),
        located.filter(pl.col("side") < 2),
    )
    return pl.concat(parts), kinds, layout


def idle_groups(idle: pl.DataFrame) -> pl.DataFrame:
    """Idle pieces with the grain of a finding in `where`.

    A wait for the GIL belongs to its holder and the holder's range, a collection to its thread: both strike
    wherever the waiting thread happens to be. Everything else belongs to its place.
    """
    return idle.with_columns(
        where=pl.when(pl.col("cause") == "gil_wait")
        .then(pl.col("holder_place"))
        .when(pl.col("cause") == "gc")
        .then(pl.lit("", dtype=idle["place"].dtype))
        .otherwise(pl.col("place"))
    )


def told(side: Side, with_gil: bool) -> set[str]:
    """The categories that a side's traces can tell: the others are absent from its accounting, never zero."""
    held = {"gil_wait": side.captured("gil") and with_gil, "gc": side.captured("gc")}
    if not side.captured("kernels"):  # measured on the host alone
        held |= dict.fromkeys(_OF_GPU, False) | dict.fromkeys(_OF_CALLS, side.captured("cuda_api"))
    return {name for name in CATEGORIES if held.get(name, True)}
