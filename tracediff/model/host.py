"""Host threads: their roles, their NVTX ranges, the response path."""

from __future__ import annotations

import msgspec


class RangeSide(msgspec.Struct, frozen=True):
    """One side of a range row."""

    count_per_step: float
    ns_per_step: float
    mean_ns: float


class RangeRow(msgspec.Struct, frozen=True):
    """An NVTX range (numbers masked) on a thread role: host wall time, inclusive of children."""

    range: str
    domain: str
    thread: str
    baseline: RangeSide | None
    candidate: RangeSide | None
    delta_ns: float


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread role on both sides, why it has that role, and how alike the two are (0 to 1)."""

    role: str
    process: str
    score: float | None
    baseline_ranges: list[str]
    candidate_ranges: list[str]
    baseline_range_ns: float | None  # top-level range time a step
    candidate_range_ns: float | None
    delta_ns: float | None


class ResponseStage(msgspec.Struct, frozen=True):
    """One stage of the response path (executor -> ... -> respond), host time a step."""

    stage: str
    thread: str
    range: str
    baseline_ns: float | None
    candidate_ns: float | None
    delta_ns: float | None
    keeps_up_baseline: bool | None  # stage time <= step time
    keeps_up_candidate: bool | None
