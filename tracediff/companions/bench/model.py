"""A benchmark's own figures: a section of the result."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Section


class KpiRow(msgspec.Struct, frozen=True):
    """One figure of a benchmark's own report."""

    metric: str
    unit: str
    better: Literal["lower", "higher"]
    baseline: float
    candidate: float
    delta: float
    explained: float | None = None  # share of the delta that the step-time delta explains


class Kpi(Section, frozen=True):
    """The benchmark's own figures beside the trace."""

    renderer = "tracediff.companions.bench.render"

    source_baseline: str
    source_candidate: str
    rows: list[KpiRow]
    note: str = ""
