"""Rows of a comparison's tables, made of one side alone -> rows of the report of one side."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracediff.compare import tables
from tracediff.compare import tables as tables_python
from tracediff.compare import tables as tables_ranks
from tracediff.compare.frame import Frame
from tracediff.compare.sides import Side
from tracediff.model import GapRow, Launch, RangeRow, ResponseStage, StepSample, ThreadRow, WorstGap
from tracediff.model.show import (
    ShowApi,
    ShowGap,
    ShowGc,
    ShowGilPair,
    ShowGilThread,
    ShowLaunch,
    ShowPhase,
    ShowRange,
    ShowRank,
    ShowSample,
    ShowStage,
    ShowThread,
    ShowWorstGap,
)


def phases(steps: pl.DataFrame) -> list[ShowPhase]:
    """Step times by phase, over all whole steps."""
    runs = {phase: sorted(own["run"].unique()) for (phase,), own in steps.group_by("phase")}
    return [
        ShowPhase(
            row.phase,
            one.steps,
            one.mean_ns,
            one.p50_ns,
            one.p90_ns,
            one.p99_ns,
            runs[row.phase],
            one.run_means_ns,
        )
        for row in tables.phases(steps)
        if (one := row.baseline)
    ]


def samples(rows: list[StepSample]) -> list[ShowSample]:
    """Single steps."""
    return [ShowSample(row.run, row.rank, row.phase, row.number, row.period_ns) for row in rows]


def ranges(rows: list[RangeRow]) -> list[ShowRange]:
    """NVTX ranges, the most time first."""
    return [ShowRange(row.range, row.domain, row.thread, row.baseline) for row in rows if row.baseline]


def gaps(rows: list[GapRow]) -> list[ShowGap]:
    """Idle time by cause and kernels around, the most time first."""
    return [
        ShowGap(row.cause, row.thread, row.range, row.previous, row.next, row.baseline)
        for row in rows
        if row.baseline
    ]


def worst_gaps(rows: list[WorstGap]) -> list[ShowWorstGap]:
    """The longest single gaps."""
    return [
        ShowWorstGap(
            row.run, row.start_ns, row.duration_ns, row.cause, row.range, row.thread, row.previous, row.next,
            row.phase,
        )
        for row in rows
    ]  # fmt: skip


def launch(side: Side, found: Launch) -> ShowLaunch:
    """Launch overhead; calls with the most time first."""
    mode, _, nodes = tables.graph_use(side, found.baseline)
    apis = [ShowApi(row.api, row.kind, row.baseline_calls, row.baseline_ns) for row in found.apis]
    return ShowLaunch(found.baseline, mode, nodes, apis)


def gil(
    sides: Sequence[Side], weigher: tables.Weigher, idle: pl.DataFrame
) -> tuple[list[ShowGilThread], list[ShowGilPair]]:
    """GIL by thread role and phase, and who waited for whom; both empty where not captured. `idle`: see `gil_exposed`."""
    found = tables_python.gil(sides, weigher, idle)
    threads = [
        ShowGilThread(
            row.thread, row.phase, row.baseline_hold_ns or 0.0, row.baseline_wait_ns or 0.0, row.baseline_exposed_ns or 0.0
        )
        for row in found.rows
    ]  # fmt: skip
    pairs = [
        ShowGilPair(row.waiter, row.holder, row.holder_range, row.baseline_ns or 0.0) for row in found.matrix
    ]
    return threads, pairs


def gc(sides: Sequence[Side], weigher: tables.Weigher, idle: dict[str, tuple[float, float]]) -> list[ShowGc]:
    """Garbage collection by thread role and generation. `idle`: thread -> GPU idle ns a step, see `exposed`."""
    return [
        ShowGc(
            row.thread, row.generation, row.baseline_count or 0.0, row.baseline_ns or 0.0, row.baseline_exposed_ns or 0.0
        )
        for row in tables_python.gc(sides, weigher, idle).rows
    ]  # fmt: skip


def threads(rows: list[ThreadRow]) -> list[ShowThread]:
    """Thread roles."""
    return [ShowThread(row.role, row.process, row.baseline_ranges, row.baseline_range_ns) for row in rows]


def response_path(rows: list[ResponseStage]) -> list[ShowStage]:
    """Stages from the executor to the response."""
    return [
        ShowStage(row.stage, row.thread, row.range, row.baseline_ns, bool(row.keeps_up_baseline))
        for row in rows
        if row.baseline_ns is not None
    ]


def ranks(
    sides: Sequence[Side], located: pl.DataFrame, frame: Frame, weigher: tables.Weigher
) -> list[ShowRank]:
    """Step time of each rank and its collectives. `located`: the steps of the mean with their group."""
    joint = tables_ranks.joint_steps(located)
    rows = tables_ranks.ranks(sides, located, frame.weights, weigher, joint)
    return [
        ShowRank(
            row.rank, row.device, row.baseline_ns, row.baseline_comm_wait_ns, row.baseline_comm_transfer_ns,
            row.baseline_caused_wait_ns, row.baseline_own_ns, row.baseline_last, row.baseline_behind_ns, row.outlier,
        )
        for row in rows
        if row.baseline_ns is not None
    ]  # fmt: skip
