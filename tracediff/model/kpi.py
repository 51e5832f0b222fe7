"""The benchmark's own figures."""

from __future__ import annotations

from typing import Literal

import msgspec


class KpiRow(msgspec.Struct, frozen=True):
    """One figure of a benchmark's own report."""

    metric: str
    unit: str
    better: Literal["lower", "higher"]
    baseline: float
    candidate: float
    delta: float
    explained: float | None = None  # share of the delta that the step-time delta explains


class Kpi(msgspec.Struct, frozen=True):
    """The benchmark's own figures beside the trace."""

    source_baseline: str
    source_candidate: str
    rows: list[KpiRow]
    note: str = ""
