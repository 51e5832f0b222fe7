"""Cells: the places where time goes, measured at every whole step, and their estimates.

Cell 0 is the step; then the categories, the (cause, place) of idle time, the rows of the kernel table. ns per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tracediff.accounting.grouping import sum_by
from tracediff.accounting.intervals import Ints
from tracediff.comparison import tables
from tracediff.comparison.frame import Frame, Values, build_frame, values_of_steps
from tracediff.comparison.kernel_table import KernelCells, kernel_cells
from tracediff.comparison.strata import Strata
from tracediff.execution.sides import Side, parts_of, tagged
from tracediff.model.causes import BUSY, CATEGORIES, CAUSES
from tracediff.stats.bootstrap import bootstrap_ci, run_values, side_means
from tracediff.stats.estimates import Estimates
from tracediff.stats.noise import assumed_half_width, moderated_noise
from tracediff.stats.tests import run_level_p


@dataclass(frozen=True)
class Measured:
    """Two sides, their compared steps, and the estimates of every cell."""

    sides: tuple[Side, Side]
    steps: pl.DataFrame  # every whole step
    compared: pl.DataFrame  # those that are compared, with their group
    strata: Strata
    frame: Frame
    idle: IdleRows
    with_gil: bool  # both sides traced it, or none
    kernels: KernelCells
    cells: Estimates
    layout: Layout

    @property
    def step_ns(self) -> float:
        """Mean step time of the slower side."""
        return float(max(self.cells.baseline[0], self.cells.candidate[0]))


def measure(
    sides: tuple[Side, Side], noise: Side | None, steps: pl.DataFrame, strata: Strata, seed: int = 0
) -> Measured:
    """All cells in one pass, so that they are resampled together. `steps`: of the sides and of `noise`, its repeats."""
    every = sides if noise is None else (*sides, noise)
    frame = build_frame(steps, strata, tuple(len(side.runs) for side in every))
    with_gil = len({side.captured("gil") for side in every}) == 1
    idle = idle_rows(every, with_gil=with_gil)
    kernels = kernel_cells(every, frame)
    values, kinds, layout = cell_table(frame, steps, idle, kernels)
    two = steps.filter(pl.col("side") < 2)
    keys = ["side", "run", "part", "period"]
    return Measured(
        sides, two, two.join(frame.steps.select(*keys, "group"), on=keys, maintain_order="left"), strata, frame, idle.of_sides(2), with_gil, kernels,
        _estimate(frame, values, kinds, seed), layout,
    )  # fmt: skip


def _estimate(frame: Frame, values: Sequence[Values], kinds: list[str], seed: int) -> Estimates:
    """Means, interval, p and noise of each cell; `kinds`: its category, for the noise where it is assumed."""
    one, other, *given = frame.sums(values, len(kinds))
    baseline, candidate = side_means(one, frame.weights), side_means(other, frame.weights)
    low, high = bootstrap_ci(one, other, frame.weights, seed=seed)
    runs_b, runs_c = run_values(one, frame.weights), run_values(other, frame.weights)
    repeats = [run_values(runs, frame.weights) for runs in given] or [runs_b, runs_c]
    repeats = [runs for runs in repeats if len(runs) >= 2]
    noise = np.array(
        [float(assumed_half_width(kind, b, c)) for kind, b, c in zip(kinds, baseline, candidate, strict=True)]
    )
    source = "assumed"
    if repeats:
        source = "given" if given else "repeats"
        noise = moderated_noise(repeats, noise, len(runs_b), len(runs_c))
    return Estimates(
        baseline, candidate, low, high, run_level_p(runs_b, runs_c), runs_b, runs_c, noise, source, repeats
    )


class IdleKey(NamedTuple):
    """Idle time with the grain of a finding. `where`: the place; of a wait for the GIL the holder's; of gc ''."""

    cause: str
    thread: str
    holder: str
    where: str
    copy: bool  # inside a call that copies


@dataclass(frozen=True)
class Layout:
    """Which columns of the estimates are what: 0 is the step, then categories, idle cells, kernel rows.

    idle_rows: idle time of the compared steps of the (first) two sides, side, run, rank, group, piece (number in the words of the
    idle rows), cell (column) -> ns, count.
    """

    categories: dict[str, int]
    idle: list[int]
    idle_keys: list[IdleKey]
    kernels: list[int]
    idle_rows: pl.DataFrame


def cell_table(
    frame: Frame, steps: pl.DataFrame, idle: IdleRows, kernels: KernelCells
) -> tuple[list[Values], list[str], Layout]:
    """What every step spends in every cell; then the accounting category of each cell, and what the cells are."""
    kinds = ["host_work", *CATEGORIES]  # of the step, whose noise is assumed apart
    categories = {name: column for column, name in enumerate(kinds) if column}
    values = [values_of_steps(frame, steps)]
    values += [values_of_steps(frame, steps, name, categories[name]) for name in BUSY]
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


def observable(side: Side, with_gil: bool) -> set[str]:
    """The categories that a side's traces can tell: the others are absent from its accounting, never zero."""
    missing = {kind for kind in ("gil", "gc") if not side.captured(kind)} | (set() if with_gil else {"gil"})
    if not side.captured("kernels"):  # measured on the host alone
        missing |= {"kernels"} if side.captured("cuda_api") else {"kernels", "cuda_api"}
    return {name for name in CATEGORIES if CAUSES[name].needs not in missing}


# Idle time of all runs, by the numbers of one list of places: there may be millions of rows.

WORDS = ("cause", "thread", "place", "holder", "holder_place", "copy")


@dataclass(frozen=True)
class IdleRows:
    """rows: side, run, part, period, cell -> ns, count. words: a row a cell: WORDS, in their order."""

    rows: pl.DataFrame
    words: pl.DataFrame

    def of_sides(self, sides: int) -> IdleRows:
        """Those of the first sides."""
        return IdleRows(self.rows.filter(pl.col("side") < sides), self.words)

    def spelled(self, which: pl.Expr, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """The rows whose words fulfil a condition, with these words."""
        rows = self.rows if rows is None else rows
        chosen = self.words.select(which).to_series().to_numpy()
        mine = rows.filter(pl.Series(chosen[rows["cell"].to_numpy()], dtype=pl.Boolean))
        return pl.concat([mine, self.words[mine["cell"]]], how="horizontal")

    def threads(self) -> set[str]:
        """The threads that any of the rows is of."""
        return set(self.words[self.rows["cell"].unique()]["thread"].unique())


def idle_rows(sides: Sequence[Side], *, with_gil: bool) -> IdleRows:
    """The idle time of all runs.

    Without `with_gil` (one side was captured without it) waits for the GIL are counted as what they would be called had
    the GIL not been traced, on both sides.
    """
    parts = parts_of(sides)
    named = []
    for *_, part in parts:
        cells = part.cells
        if not with_gil:
            cells = cells.with_columns(cause=pl.col("under"), holder=pl.lit(""), holder_place=pl.lit(""))
        named.append(cells.select(WORDS))
    words = pl.concat(named).unique().sort(WORDS)
    numbered = words.with_row_index("number")
    frames = []
    for (side, run, number, part), cells in zip(parts, named, strict=True):
        place = cells.join(numbered, on=WORDS, how="left", maintain_order="left")["number"].to_numpy()
        cell = place.astype(np.int32)[part.idle_ns["cell"].to_numpy()]
        frames.append(
            tagged(part.idle_ns.with_columns(cell=pl.Series(cell, dtype=pl.Int32)), side, run, number)
        )
    return IdleRows(pl.concat(frames), words)


def idle_groups(idle: IdleRows, ns: Ints) -> tuple[list[IdleKey], Ints]:
    """Idle time with the grain of a finding: (cause, thread, holder, where, copy), those with the most time first.

    Second, of each row of words its group. `ns`: time of each row of words. A wait for the GIL belongs to its holder and
    the holder's range, a collection to its thread: both strike wherever the waiting thread happens to be. Everything
    else belongs to its place.
    """
    by = list(IdleKey._fields)
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
    return [IdleKey(*row) for row in order.select(IdleKey._fields).iter_rows()], number.fill_null(
        0
    ).to_numpy().astype(np.int64)


# Garbage collection and GIL waits of launching threads: what kept a GPU idle, and what fell behind its work.


def exposed(frame: Frame, idle: IdleRows) -> dict[str, dict[str, tuple[float, float]]]:
    """Cause -> thread -> (baseline, candidate) idle ns a step, for gc and gil_wait."""
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for cause in ("gc", "gil_wait"):
        table = _weighed(frame, idle.spelled(pl.col("cause") == cause), ["thread"])
        out[cause] = {row["thread"]: (row["b"], row["c"]) for row in table.iter_rows(named=True)}
    return out


def gil_exposed(frame: Frame, idle: IdleRows, steps: pl.DataFrame) -> pl.DataFrame:
    """thread, phase -> exposed_b, exposed_c: waits for the GIL that kept a GPU idle, ns a step."""
    waits = idle.spelled(pl.col("cause") == "gil_wait").join(
        steps.select("side", "run", "part", "period", "phase"),
        on=["side", "run", "part", "period"],
        how="left",
    )
    return _weighed(frame, waits, ["thread", "phase"]).rename({"b": "exposed_b", "c": "exposed_c"})


def _weighed(frame: Frame, idle: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Mean ns a compared step by some columns, both sides: *by, b, c."""
    located = idle.join(frame.steps, on=["side", "run", "part", "period"], how="inner", maintain_order="left")
    summed = (
        located.join(frame.factors(), on=["side", "run", "group"], how="inner", maintain_order="left")
        .with_columns(value=pl.col("ns") * pl.col("factor"))
        .group_by(by, maintain_order=True)  # added up in a fixed order: the same input gives the same bits
        .agg(
            b=pl.col("value").filter(pl.col("side") == 0).sum(),
            c=pl.col("value").filter(pl.col("side") == 1).sum(),
        )
    )
    return summed.sort(by)


def hidden_time(
    sides: Sequence[Side],
    standardised: tables.StandardisedMeans,
    exposed: dict[str, dict[str, tuple[float, float]]],
) -> list[dict[str, float]]:
    """Time of launching threads in GC and in GIL waits that fell behind GPU work, a side: host total - idle part."""
    hidden: list[dict[str, float]] = [{} for _ in sides]
    for cause, table, column in (("gc", "gc", "ns"), ("gil_wait", "gil", "wait_ns")):
        totals = standardised.weigh(
            standardised.of_host(table, values=(column,)).fill_null(0), ["thread"], [column]
        )
        for side, captures in enumerate(sides):
            if not captures.captured("gil" if cause == "gil_wait" else "gc"):
                continue
            launching = {"executor", *exposed[cause]}
            value = sum(
                max(row[column] - exposed[cause].get(row["thread"], (0.0, 0.0))[side], 0.0)
                for row in totals.filter(pl.col("side") == side).iter_rows(named=True)
                if row["thread"] in launching
            )
            hidden[side][cause] = value
    return hidden
