"""Rows in every output: their order, and those of a phase."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tracediff.model import (
    Accounting,
    GapRow,
    KernelRow,
    KernelSide,
    KernelTypical,
    RangeRow,
    RankRow,
    Result,
)
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.report.names import kernel as kernel_name
from tracediff.stats.rules import OUTLIER


class PhaseKernels(msgspec.Struct, frozen=True):
    """Kernel rows, the largest change first, per typical step of a phase as causes are; phase '': per mean of all compared steps.

    places: of `id(row)` the row of `Result.kernels`. gpu_ns: GPU time of each side in that step, of which a typical step's rows leave
    trifles out.
    """

    phase: str
    rows: list[KernelRow]
    places: dict[int, int]
    gpu_ns: dict[str, float]


def kernels_by_phase(result: Result) -> list[PhaseKernels]:
    """The kernels of each judged phase, that of the verdict first; where there is none, of all compared steps."""
    order = sorted(result.phases, key=lambda one: (one.phase != result.verdict_facts.phase, -one.share))
    found = []
    for phase in (one for one in order if one.judged):
        mine = [
            (place, _typical(row, one))
            for place, row in enumerate(result.kernels)
            for one in row.phases
            if one.phase == phase.phase
        ]
        if mine:
            of = of_phase(phase.phase, mine)
            found.append(replace(of, gpu_ns=_busy(phase.accounting)) if phase.accounting else of)
    return found or [of_phase("", list(enumerate(result.kernels)))]


def of_phase(phase: str, rows: list[tuple[int, KernelRow]]) -> PhaseKernels:
    """Kernels of a phase, each with its row in the result."""
    mine = sorted((row for _, row in rows), key=kernel_order)
    return PhaseKernels(phase, mine, {id(row): place for place, row in rows}, kernel_time(mine))


def kernel_time(rows: Sequence[KernelRow]) -> dict[str, float]:
    """The time of all kernels of each side, ns per step."""
    return {
        side: math.fsum(own.ns_per_step for row in rows if (own := getattr(row, side)) and own is not ABSENT)
        for side in ("baseline", "candidate")
    }


def _busy(accounting: Accounting) -> dict[str, float]:
    sides = (("baseline", accounting.baseline), ("candidate", accounting.candidate))
    return {side: math.fsum(ns.get(key, 0.0) for key in BUSY) for side, ns in sides}


def _typical(row: KernelRow, one: KernelTypical) -> KernelRow:
    def side(of: KernelSide | None, ns: float, count: float) -> KernelSide | None:
        return replace(of, ns_per_step=ns, count_per_step=count) if of else None

    return replace(
        row,
        baseline=side(row.baseline, one.baseline_ns, one.baseline_count),
        candidate=side(row.candidate, one.candidate_ns, one.candidate_count),
        delta_ns=one.delta_ns,
        ci_low_ns=one.ci_low_ns,
        ci_high_ns=one.ci_high_ns,
        level=one.level,
        q_value=one.q_value,
    )


def size_of(row: KernelRow | GapRow | RangeRow) -> float:
    """The size of a row's change, or its time where there is one side."""
    if row.delta_ns is not ABSENT:
        return abs(row.delta_ns)
    return row.baseline.ns_per_step if row.baseline else 0.0


def kernel_order(row: KernelRow) -> tuple[float, str, str]:
    """Order kernel rows by the size of their change, then by name."""
    return -size_of(row), kernel_name(row, shortened=False), row.match


def rank_order(row: RankRow) -> tuple[float, int, int]:
    """Order ranks: outliers first, those that are furthest from the others; then by their number."""
    far = abs(row.outlier or 0.0)
    return (-far if far >= OUTLIER else 0.0), row.rank, row.device
