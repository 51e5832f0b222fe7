"""Garbage collection and GIL waits of launching threads: what kept a GPU idle, and what fell behind its work."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

from tracediff.measure import tables
from tracediff.measure.cells import Frame
from tracediff.measure.idle_rows import IdleRows
from tracediff.measure.sides import Side
from tracediff.model import Accounting


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


def with_hidden(
    accounting: Accounting,
    sides: Sequence[Side],
    weigher: tables.Weigher,
    exposed: dict[str, dict[str, tuple[float, float]]],
) -> Accounting:
    """The accounting with its hidden time."""
    one, other = hidden_time(sides, weigher, exposed)
    return msgspec.structs.replace(accounting, hidden_baseline=one, hidden_candidate=other)


def hidden_time(
    sides: Sequence[Side], weigher: tables.Weigher, exposed: dict[str, dict[str, tuple[float, float]]]
) -> list[dict[str, float]]:
    """Time of launching threads in GC and in GIL waits that fell behind GPU work, a side: host total - idle part."""
    hidden: list[dict[str, float]] = [{} for _ in sides]
    for cause, table, column in (("gc", "gc", "ns"), ("gil_wait", "gil", "wait_ns")):
        totals = weigher.weigh(weigher.of_host(table, values=(column,)).fill_null(0), ["thread"], [column])
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
