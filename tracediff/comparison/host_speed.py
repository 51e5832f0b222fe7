"""How fast the host of each step was, from the CUDA calls that block on nothing.

The speed of a step is the mean over its calls of log(duration / that function's mean), durations being medians of the step. Functions
that a side calls twice as often as the other would mix what changed into it and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.comparison.frame import Frame
from tracediff.execution.sides import Side, stacked

LEAST_FUNCTIONS = 3
_OFTEN = 2.0


def host_speed(sides: Sequence[Side], frame: Frame) -> Floats | None:
    """Log ratio of each row of `Frame.steps`, nan where it made no such call; None where too few functions can be compared."""
    table = stacked(sides, "host_speed")
    step = frame.index.rows(table)
    table = table.with_columns(step=pl.Series(step)).filter(pl.col("step") >= 0)
    compared = pl.Series(frame.weight > 0)
    table = table.filter(compared.gather(table["step"]))
    if not len(table):
        return None
    steps = [int((frame.compared["side"] == side).sum()) for side in range(2)]
    often = table.filter(pl.col("side") < 2).group_by("api").agg(
        *((pl.col("count").filter(pl.col("side") == side).sum() / max(steps[side], 1)).alias(f"side{side}") for side in range(2))
    )  # fmt: skip
    one, other = pl.col("side0"), pl.col("side1")
    alike = often.filter((one > 0) & (other > 0) & (one < _OFTEN * other) & (other < _OFTEN * one))
    if len(alike) < LEAST_FUNCTIONS:
        return None
    table = table.join(alike.select("api"), on="api", how="semi", maintain_order="left")
    mean = (pl.col("log_ns") * pl.col("count")).sum() / pl.col("count").sum()
    # of both sides alike: the side with more calls must not decide what a function usually takes
    usual = (
        table.filter(pl.col("side") < 2)
        .group_by("api", "side", maintain_order=True)
        .agg(usual=mean)
        .group_by("api", maintain_order=True)
        .agg(pl.col("usual").mean())
    )
    of_steps = (
        table.join(usual, on="api", maintain_order="left")
        .group_by("step", maintain_order=True)
        .agg(speed=((pl.col("log_ns") - pl.col("usual")) * pl.col("count")).sum() / pl.col("count").sum())
    )
    found = np.full(len(frame.steps), np.nan)
    found[of_steps["step"].to_numpy()] = of_steps["speed"].to_numpy()
    return found
