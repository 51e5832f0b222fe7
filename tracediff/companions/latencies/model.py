"""Latencies without a profiler: a section of the result, and what `tracediff latencies --json` writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Check, Evidence, Section, Step, Tool, Verdict

LATENCIES_VERSION = 1


class LatencyOutlier(msgspec.Struct, frozen=True):
    """One iteration far from the others of its run; counted from 1, as in the file."""

    iteration: int
    ns: float


class LatencyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One file of latencies: its figures over the iterations that were not trimmed."""

    name: str  # base name
    format: str
    column: str  # column, key, benchmark or command; '' where there is none
    unit: str  # as in the file
    unit_from: str
    iterations: int
    trimmed: int  # warm-up, before them
    mean_ns: float
    median_ns: float
    p90_ns: float
    p99_ns: float
    min_ns: float
    max_ns: float
    outliers: int
    largest: list[LatencyOutlier] = []  # those farthest from the median
    note: str = ""
    left_out: bool = False  # it lies far from the others of its side


class LatencySide(msgspec.Struct, frozen=True):
    """One side: its runs, each counted once, and the distribution of all their iterations."""

    label: str
    runs: list[LatencyRun]
    iterations: int
    quantiles_ns: list[float]  # at equal steps of probability from 0 to 1, for drawing


class LatencyRow(msgspec.Struct, frozen=True):
    """A figure of both sides: the mean over runs of what it is in each. Bounds are None where they cannot be said."""

    statistic: Literal["mean", "median", "p90", "p99", "min"]
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float | None
    ci_high_ns: float | None
    level: Evidence
    p_value: float | None = None
    q_value: float | None = None  # Benjamini-Hochberg over the rows but the mean, which the verdict tests
    baseline_runs_ns: list[float] = []
    candidate_runs_ns: list[float] = []


class LatencyTraced(msgspec.Struct, frozen=True):
    """The mean iteration beside the mean step of the trace; the cost is that of profiling, where the two correspond."""

    side: Literal["baseline", "candidate"]
    unprofiled_ns: float
    traced_ns: float
    corresponds: bool
    cost_ns: float | None = None
    share: float | None = None  # of the unprofiled iteration
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None


class Latencies(Section, frozen=True):
    """Latencies measured without a profiler. `step` is the mean iteration; noise and p are those of runs."""

    renderer = "tracediff.companions.latencies.render"

    baseline: LatencySide
    candidate: LatencySide
    verdict: Verdict
    verdict_reason: str
    step: Step
    rows: list[LatencyRow]
    checks: list[Check]
    traced: list[LatencyTraced] = msgspec.field(default_factory=list)
    note: str = ""  # what both, trace and latencies, say together


class LatencyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff latencies`; `latencies` is the same as in the result of a comparison of steps."""

    format_version: int = LATENCIES_VERSION
    kind: Literal["latencies"] = "latencies"
    tool: Tool
    latencies: Latencies
