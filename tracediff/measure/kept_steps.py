"""Which steps of an export are kept event by event, to be drawn: chosen before anybody knows the other side.

Of every rank and device, for each of its workloads with the most time: the median step and the longest. Workloads
are taken at the three levels at which sides may be matched (see align/strata.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tracediff.align.strata import SHAPE, bucket
from tracediff.measure.intervals import Ints

WORKLOADS = 6  # of a rank and level, those with the most time
LONGEST_STEP = 100_000  # ops; a step with more is not kept, nor is anything of it read


@dataclass(frozen=True)
class Lane:
    """One row of a step: arrays of one length in order of start, ns from the step's start, clipped to the step.

    kind: gpu, idle, api, range, gil, holders or gc. `what` indexes `texts` (of gpu: the row of `Reduction.keys`),
    `group` indexes `groups`: what the colour says. `inside`: ns really covered, less than end - start where events
    were merged; `count`: events in it. `under`: of idle, the group had the GIL not been traced.
    """

    kind: str
    name: str
    start: Ints
    end: Ints
    what: Ints
    group: Ints
    texts: list[str]
    groups: tuple[str, ...]
    under: Ints | None = None
    inside: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    count: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class KeptStep:
    """One period with its events. `period`: row of `Reduction.periods`; `thread`: role of the launching thread."""

    period: int
    thread: str
    lanes: list[Lane]
    events: int  # before any were merged
    merged_below_ns: int = 0  # neighbours of one group shorter than this were merged; 0: none were


def choose_steps(periods: pl.DataFrame, ops: Ints) -> list[int]:
    """Rows of the table of periods that are kept, in order. `ops`: how many each has."""
    table = periods.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
        bucket("ctx_tokens").alias("wide_tokens"),
        bucket("gen_reqs").alias("wide_gen"),
    )
    chosen: set[int] = set()
    for level in (SHAPE, ["phase", "ctx_reqs", "wide_tokens", "wide_gen"], ["phase"]):
        by = ["rank", "device", *level]
        groups = (
            in_order(table)
            .group_by(by, maintain_order=True)
            .agg(
                typical=pl.col("period").get((pl.len() - 1) // 2),
                worst=pl.col("period").last(),
                total=pl.col("ns").sum(),
            )
            .sort("total", *by, descending=[True, *[False] * len(by)], nulls_last=True)
            .group_by("rank", "device", maintain_order=True)
            .head(WORKLOADS)
        )
        chosen |= {*groups["typical"].to_list(), *groups["worst"].to_list()}
    return sorted(one for one in chosen if ops[one] <= LONGEST_STEP)


def in_order(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps from the shortest to the longest, of equal ones the latest first: so that the last is the earliest longest."""
    return steps.sort("ns", "start_ns", descending=[False, True])


def typical(ordered: list[int]) -> int:
    """The (lower) median."""
    return ordered[(len(ordered) - 1) // 2]
