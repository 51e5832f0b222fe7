"""A capture without GPU work, measured on the host alone: NVTX, GIL and garbage collections.

A step is the time from one step label to the next on the label's thread, and all of it is attributed to what
that thread did (see sql/measure/step_marks.sql). What a GPU would have hidden is not known: every pause counts.
"""

from __future__ import annotations

import dataclasses

import polars as pl

from tracediff.align.steps import find_steps
from tracediff.load.capture import Capture
from tracediff.load.database import run_sql
from tracediff.load.selection import ALL, Selection
from tracediff.measure.reduce import reduce_capture
from tracediff.measure.reduction import Reduction

_MARK = "[step]"


def is_host_only(capture: Capture) -> bool:
    """Return whether an export has no GPU kernels, so that only its host can be measured."""
    return capture.coverage["kernels"] == "not_captured"


def reduce_host(capture: Capture, *, step_regex: str | None = None, only: Selection = ALL) -> Reduction:
    """Measure the host of an export without kernels; copies and memsets in it are not looked at.

    Raises `TracediffError`: no-steps, one-step, no-whole-step, bad-step-regex.
    """
    capture.db.execute("DELETE FROM op_row")
    capture.db.execute("DELETE FROM op_sort")
    find_steps(capture, step_regex)
    run_sql(capture.db, "measure/step_marks")
    coverage = capture.coverage
    capture.coverage = {**coverage, "kernels": "captured"}  # of the marks
    reduction = reduce_capture(capture, step_regex=step_regex, only=only)
    no_launch = [
        pl.lit(0, pl.Int64).alias(name) for name in ("kernels", "graph_kernels", "calls", "graph_launches")
    ]
    no_delay = [
        pl.lit(None, pl.Float64).alias(name) for name in ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns")
    ]
    return dataclasses.replace(
        reduction,
        coverage=coverage,
        kernels=reduction.kernels.clear(),
        transitions=reduction.transitions.clear(),
        launch=reduction.launch.with_columns(*no_launch, *no_delay),
        apis=reduction.apis.filter(pl.col("api") != _MARK),
        sequences={phase: [] for phase in reduction.sequences},
    )
