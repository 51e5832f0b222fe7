"""Idle time of one side by cause and place: what the GPU waited for, the most time first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tracediff.measure.cell_table import Layout
from tracediff.measure.cells import Frame
from tracediff.measure.evidence import api_sql, idle_sql
from tracediff.measure.finding_drafts import longest_first, main_place
from tracediff.measure.findings import IdleCell, idle_words
from tracediff.measure.sides import Side, stacked
from tracediff.model.show import IdleCause, ShowMoment

if TYPE_CHECKING:
    from tracediff.measure.show import Means

MOST = 200  # rows
_MAINLY = 0.75  # of a cause's time on one rank, from which it is that rank's
_CALLS = ("host_sync", "host_api", "launch_api")


def idle_causes(
    side: Side, frame: Frame, means: Means, layout: Layout, words: pl.DataFrame
) -> tuple[list[IdleCause], int, float]:
    """Rows of the idle cells of the step; then how many with less time are left out, and their ns a step together.

    `words`: of the pieces of the layout's rows.
    """
    moments = stacked([side], "moments").sort("end", descending=True)
    located = layout.idle_rows
    weighed = located.join(frame.factors(), on=["side", "run", "group"], how="inner", maintain_order="left")
    events = dict(
        weighed.group_by("cell", maintain_order=True)
        .agg((pl.col("count") * pl.col("factor")).sum())
        .sort("cell")
        .iter_rows()
    )
    ranks = _main_ranks(weighed, frame)
    lost = "GPU idle time" if side.captured("kernels") else "time"
    order = sorted(
        (place for place, cell in enumerate(layout.idle) if means.mean[cell]),
        key=lambda place: (-means.mean[layout.idle[place]], layout.idle_keys[place]),
    )
    traces = all(side.by_torch())  # no export of nsys to ask
    rows = []
    for rank, place in enumerate(order[:MOST], 1):
        cell = layout.idle[place]
        cause, thread, holder, where, copy = layout.idle_keys[place]
        at = (
            main_place(located.filter(pl.col("cell") == cell), words)
            if cause in ("gc", "gil_wait")
            else where
        )
        found = longest_first(
            moments.filter(pl.col("copy") == copy), cause, thread, holder, at if cause != "gil_wait" else None, where
        ).head(1).to_dicts()  # fmt: skip
        api = found[0]["api"] if found and cause in _CALLS else ""
        what = IdleCell(cause, thread, at, holder, where if cause == "gil_wait" else "", copy)
        rows.append(
            IdleCause(
                rank=rank,
                cause=cause,
                title=idle_words(what, api, lost),
                ns=float(means.mean[cell]),
                share=means.share(cell),
                sd_ns=means.sd(cell),
                runs_ns=means.of_runs(cell),
                count_per_step=round(float(events.get(cell, 0.0)), 9),
                range=at,
                thread=thread,
                holder_thread=holder,
                holder_range=what.holder_place,
                api=api,
                longest=_moment(side, found[0], cause) if found else None,
                sql="" if traces else api_sql("cu%Mem%") if copy else idle_sql(cause, at, what.holder_place),
                on_rank=ranks.get(cell, (None, None))[0],
                on_rank_ns=ranks.get(cell, (None, None))[1],
            )
        )
    left = order[MOST:]
    return rows, len(left), float(sum(means.mean[layout.idle[place]] for place in left))


def _main_ranks(weighed: pl.DataFrame, frame: Frame) -> dict[int, tuple[int, float]]:
    """Cell -> the rank that has most of its time, and ns a step of that rank; empty where there is one rank."""
    ranks = frame.steps["rank"].n_unique()
    if ranks < 2:
        return {}
    # the factors divide by the steps of all ranks, of which a rank has its part
    part = frame.steps.group_by("side", "run", "group", "rank").agg(own=pl.len()).join(
        frame.steps.group_by("side", "run", "group").agg(all=pl.len()), on=["side", "run", "group"]
    )  # fmt: skip
    sums = (
        weighed.join(part, on=["side", "run", "group", "rank"], maintain_order="left")
        .group_by("cell", "rank", maintain_order=True)
        .agg(
            (pl.col("ns") * pl.col("factor")).sum(),
            own_ns=(pl.col("ns") * pl.col("factor") * pl.col("all") / pl.col("own")).sum(),
        )
        .with_columns(total=pl.col("ns").sum().over("cell"))
        .filter(pl.col("ns") >= _MAINLY * pl.col("total"))
        .sort("cell", "rank")
    )
    return {cell: (rank, ns) for cell, rank, ns in sums.select("cell", "rank", "own_ns").iter_rows()}


def _moment(side: Side, row: dict[str, int], cause: str) -> ShowMoment:
    number = f"step {row['number']}" if row["number"] is not None else "a step"
    return ShowMoment(side.runs[row["run"]].name, row["start"], row["end"], f"{number}, longest {cause}")
