"""The result of a comparison, a module a section of it: one object (`Result`), every report and the JSON file are made from it.

All times are ns a step (floats, because they are means over steps) unless a field says otherwise; `delta_ns` is candidate -
baseline, so positive is slower. The package imports nothing of the project. What is no part of a comparison of steps has
a module of its own, which is imported by its name: `show` (one capture), `contents` (what a file holds).
"""

from __future__ import annotations

from tracediff.model.accounting import CATEGORIES, Accounting
from tracediff.model.common import (
    Captured,
    Cause,
    Evidence,
    Note,
    Outcome,
    Pair,
    Severity,
    Tool,
    Verdict,
    encode,
)
from tracediff.model.comparability import Check, Comparability, Coverage
from tracediff.model.findings import Finding, FindingEvidence, Moment, Where
from tracediff.model.gaps import GapRow, GapSide, WorstGap
from tracediff.model.gates import GateOutcome, Gates, GateWaiver
from tracediff.model.host import RangeRow, RangeSide, ResponseStage, ThreadRow
from tracediff.model.inputs import Inputs, LeftOut, RunInput, SideInput
from tracediff.model.kernels import KernelRow, KernelSide, KernelStratum
from tracediff.model.kpi import Kpi, KpiRow
from tracediff.model.latencies import (
    Latencies,
    LatencyOutlier,
    LatencyRow,
    LatencyRun,
    LatencySide,
    LatencyTraced,
)
from tracediff.model.launch import ApiRow, Graphs, Launch, LaunchSide, TransitionRow
from tracediff.model.ncu import Ncu, NcuKernel, NcuMissing, NcuReason, NcuRow, NcuSide
from tracediff.model.python import Gc, GcRow, Gil, GilPairRow, GilRow
from tracediff.model.ranks import KernelRanks, RankRow, RankSkew
from tracediff.model.result import FORMAT_VERSION, Result, decode
from tracediff.model.steps import Mix, Phase, PhaseSide, Step, StepSample, Stratum
from tracediff.model.system import (
    CommCallRow,
    GpuMetricMean,
    GpuMetricRow,
    GpuMetricSide,
    GpuSampling,
    GpuSamplingSide,
    HostWorkRow,
    MemoryRow,
    MemorySide,
    OffCpuRow,
    OsCallRow,
    PayloadRow,
    PayloadSide,
    System,
)
from tracediff.model.timelines import Timeline, TimelineLane, Timelines, TimelineStep
from tracediff.model.trtexec import (
    Trtexec,
    TrtexecChange,
    TrtexecFigure,
    TrtexecGroup,
    TrtexecLayers,
    TrtexecRow,
    TrtexecRun,
    TrtexecSide,
)

__all__ = [
    "CATEGORIES",
    "FORMAT_VERSION",
    "Accounting",
    "ApiRow",
    "Captured",
    "Cause",
    "Check",
    "CommCallRow",
    "Comparability",
    "Coverage",
    "Evidence",
    "Finding",
    "FindingEvidence",
    "GapRow",
    "GapSide",
    "GateOutcome",
    "GateWaiver",
    "Gates",
    "Gc",
    "GcRow",
    "Gil",
    "GilPairRow",
    "GilRow",
    "GpuMetricMean",
    "GpuMetricRow",
    "GpuMetricSide",
    "GpuSampling",
    "GpuSamplingSide",
    "Graphs",
    "HostWorkRow",
    "Inputs",
    "KernelRanks",
    "KernelRow",
    "KernelSide",
    "KernelStratum",
    "Kpi",
    "KpiRow",
    "Latencies",
    "LatencyOutlier",
    "LatencyRow",
    "LatencyRun",
    "LatencySide",
    "LatencyTraced",
    "Launch",
    "LaunchSide",
    "LeftOut",
    "MemoryRow",
    "MemorySide",
    "Mix",
    "Moment",
    "Ncu",
    "NcuKernel",
    "NcuMissing",
    "NcuReason",
    "NcuRow",
    "NcuSide",
    "Note",
    "OffCpuRow",
    "OsCallRow",
    "Outcome",
    "Pair",
    "PayloadRow",
    "PayloadSide",
    "Phase",
    "PhaseSide",
    "RangeRow",
    "RangeSide",
    "RankRow",
    "RankSkew",
    "ResponseStage",
    "Result",
    "RunInput",
    "Severity",
    "SideInput",
    "Step",
    "StepSample",
    "Stratum",
    "System",
    "ThreadRow",
    "Timeline",
    "TimelineLane",
    "TimelineStep",
    "Timelines",
    "Tool",
    "TransitionRow",
    "Trtexec",
    "TrtexecChange",
    "TrtexecFigure",
    "TrtexecGroup",
    "TrtexecLayers",
    "TrtexecRow",
    "TrtexecRun",
    "TrtexecSide",
    "Verdict",
    "Where",
    "WorstGap",
    "decode",
    "encode",
]
