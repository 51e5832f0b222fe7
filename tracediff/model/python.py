"""What Python's interpreter did: the GIL and garbage collections."""

from __future__ import annotations

import msgspec


class GilRow(msgspec.Struct, frozen=True):
    """GIL time of a thread role. `exposed` is the part that kept a GPU idle; `hidden` the rest of the wait."""

    thread: str
    phase: str
    baseline_hold_ns: float | None
    baseline_wait_ns: float | None
    baseline_exposed_ns: float | None
    candidate_hold_ns: float | None
    candidate_wait_ns: float | None
    candidate_exposed_ns: float | None


class GilPairRow(msgspec.Struct, frozen=True):
    """Who waited for the GIL while whom held it; ns a step."""

    waiter: str
    holder: str
    holder_range: str
    baseline_ns: float | None
    candidate_ns: float | None


class Gil(msgspec.Struct, frozen=True):
    """GIL tables; empty where not captured (see coverage)."""

    rows: list[GilRow]
    matrix: list[GilPairRow]


class GcRow(msgspec.Struct, frozen=True):
    """Garbage-collection pauses of a thread role and generation ('?' where the range does not say)."""

    thread: str
    generation: str
    baseline_count: float | None
    baseline_ns: float | None
    baseline_exposed_ns: float | None
    candidate_count: float | None
    candidate_ns: float | None
    candidate_exposed_ns: float | None


class Gc(msgspec.Struct, frozen=True):
    """GC table; empty where no `Python GC` range was recorded (see coverage)."""

    rows: list[GcRow]
