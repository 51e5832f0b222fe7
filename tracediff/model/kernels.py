"""Kernels of both sides, matched to each other."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Evidence


class KernelSide(msgspec.Struct, frozen=True):
    """One side of a kernel row. `ns_per_step` is its share of the compute (or comm) time: rows sum to the total."""

    names: list[str]
    count_per_step: float
    ns_per_step: float
    mean_ns: float  # wall time of one op, overlaps not shared out
    grids: list[str] = []
    blocks: list[str] = []
    registers: int | None = None
    shared_bytes: int | None = None


class KernelStratum(msgspec.Struct, frozen=True):
    """A kernel row in one stratum: ops and ns of the accounting a step of it; 0 where a side has none."""

    stratum: int  # index into Result.strata
    baseline_count: float
    baseline_ns: float
    candidate_count: float
    candidate_ns: float


class KernelRow(msgspec.Struct, frozen=True):
    """Kernels of both sides matched to each other; every op is in exactly one row."""

    match: Literal["exact", "name", "template", "sequence", "fused", "split", "added", "removed"]
    confidence: float
    category: str  # gemm, attention, norm, ..., communication
    family: str  # cutlass, nvjet, cudnn, nccl, pytorch, ...
    baseline: KernelSide | None
    candidate: KernelSide | None
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence
    q_value: float | None = None
    range: str | None = None
    strata: list[KernelStratum] = []  # those with the most of its time, where steps are of several workloads
