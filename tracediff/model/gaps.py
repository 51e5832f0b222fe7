"""Idle gaps of the GPU."""

from __future__ import annotations

from typing import Literal

import msgspec


class GapSide(msgspec.Struct, frozen=True):
    """One side of an idle-gap row. A gap with several causes counts once in each, with that cause's part."""

    count_per_step: float
    ns_per_step: float
    mean_ns: float
    p50_ns: float
    p99_ns: float


class GapRow(msgspec.Struct, frozen=True):
    """Idle time by cause, launching thread, innermost range and the kernels around the gap."""

    cause: str
    thread: str
    range: str
    previous: str
    next: str
    baseline: GapSide | None
    candidate: GapSide | None
    delta_ns: float


class WorstGap(msgspec.Struct, frozen=True):
    """One of the longest single gaps."""

    side: Literal["baseline", "candidate"]
    run: str
    start_ns: int
    duration_ns: int
    cause: str  # the largest part
    range: str
    thread: str
    previous: str
    next: str
    phase: str
