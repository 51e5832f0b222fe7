"""Every cell of every step: the step itself, the categories, the places of idle time, the kernel rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.measure.cells import Frame, Values, values_of_steps
from tracediff.measure.grouping import sum_by
from tracediff.measure.idle_rows import IdleRows
from tracediff.measure.intervals import Ints
from tracediff.measure.kernel_table import KernelCells
from tracediff.measure.sides import Side
from tracediff.model import CATEGORIES

# Categories that need GPU rows, and those that need CUDA calls, to be told at all.
_OF_GPU = ("compute", "comm", "memcpy", "launch_latency", "dependency", "graph_internal", "unattributed")
_OF_CALLS = ("launch_api", "host_sync", "host_api")


@dataclass(frozen=True)
class Layout:
    """Which columns of the estimates are what: 0 is the step, then categories, idle cells, kernel rows.

    idle_rows: idle time of the compared steps of the (first) two sides, side, run, rank, group, piece (number in the words of the
    idle rows), cell (column) -> ns, count.
    """

    categories: dict[str, int]
    idle: list[int]
    idle_keys: list[tuple[str, str, str, str, bool]]  # cause, thread, holder, where (see idle_groups), copy
    kernels: list[int]
    idle_rows: pl.DataFrame


def cell_table(
    frame: Frame, steps: pl.DataFrame, idle: IdleRows, kernels: KernelCells
) -> tuple[list[Values], list[str], Layout]:
    """What every step spends in every cell; then the accounting category of each cell, and what the cells are."""
    kinds = ["host_work", *CATEGORIES]  # of the step, whose noise is assumed apart
    categories = {name: column for column, name in enumerate(kinds) if column}
    values = [values_of_steps(frame, steps)]
    values += [
        values_of_steps(frame, steps, name, categories[name]) for name in ("compute", "comm", "memcpy")
    ]
    step, piece, ns = (
        frame.index.rows(idle.rows), idle.rows["cell"].to_numpy(), idle.rows["ns"].to_numpy(),
    )  # fmt: skip
    of_cause = np.array([categories[cause] for cause in idle.words["cause"]], np.int64)
    values.append(Values(step, of_cause[piece], ns))
    keys, group = idle_groups(idle, sum_by(piece, len(idle.words), ns))
    first = len(kinds)
    kinds += [key[0] for key in keys]
    values.append(Values(step, first + group[piece], ns))
    kernel_first = len(kinds)
    kinds += kernels.kinds
    values.append(
        Values(
            frame.index.rows(kernels.values),
            kernel_first + kernels.values["row"].to_numpy(),
            kernels.values["share_ns"].to_numpy(),
        )
    )
    inside = np.flatnonzero(step >= 0)
    located = frame.steps.select("side", "run", "rank", "group")[step[inside]].with_columns(
        piece=pl.Series(piece[inside]),
        cell=pl.Series(first + group[piece[inside]], dtype=pl.Int64),
        ns=pl.Series(ns[inside]),
        count=idle.rows["count"][inside],
    )
    layout = Layout(
        categories,
        list(range(first, kernel_first)),
        keys,
        list(range(kernel_first, len(kinds))),
        located.filter(pl.col("side") < 2),
    )
    return values, kinds, layout


def idle_groups(idle: IdleRows, ns: Ints) -> tuple[list[tuple[str, str, str, str, bool]], Ints]:
    """Idle time with the grain of a finding: (cause, thread, holder, where, copy), those with the most time first.

    Second, of each row of words its group. `ns`: time of each row of words. A wait for the GIL belongs to its holder and
    the holder's range, a collection to its thread: both strike wherever the waiting thread happens to be. Everything
    else belongs to its place.
    """
    by = ["cause", "thread", "holder", "where", "copy"]
    named = idle.words.with_columns(
        where=pl.when(pl.col("cause") == "gil_wait")
        .then(pl.col("holder_place"))
        .when(pl.col("cause") == "gc")
        .then(pl.lit(""))
        .otherwise(pl.col("place")),
        ns=pl.Series(ns),
    )
    order = named.group_by(by).agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)
    order = order.sort("ns", *by, descending=[True] + [False] * 5).with_row_index("number")
    number = named.join(order.drop("ns"), on=by, how="left", maintain_order="left")["number"]
    return list(order.select(by).iter_rows()), number.fill_null(0).to_numpy().astype(np.int64)


def told(side: Side, with_gil: bool) -> set[str]:
    """The categories that a side's traces can tell: the others are absent from its accounting, never zero."""
    held = {"gil_wait": side.captured("gil") and with_gil, "gc": side.captured("gc")}
    if not side.captured("kernels"):  # measured on the host alone
        held |= dict.fromkeys(_OF_GPU, False) | dict.fromkeys(_OF_CALLS, side.captured("cuda_api"))
    return {name for name in CATEGORIES if held.get(name, True)}
