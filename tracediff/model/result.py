"""The result of a comparison of steps: all its sections in one object.

FORMAT_VERSION history
    1  first published form; `gates`, `ncu`, `trtexec`, `latencies`, `system` were added without a new version
"""

from __future__ import annotations

import msgspec

from tracediff.model.accounting import Accounting
from tracediff.model.common import Note, Tool, Verdict
from tracediff.model.comparability import Comparability, Coverage
from tracediff.model.findings import Finding
from tracediff.model.gaps import GapRow, WorstGap
from tracediff.model.gates import Gates
from tracediff.model.host import RangeRow, ResponseStage, ThreadRow
from tracediff.model.inputs import Inputs
from tracediff.model.kernels import KernelRow
from tracediff.model.kpi import Kpi
from tracediff.model.latencies import Latencies
from tracediff.model.launch import Graphs, Launch
from tracediff.model.ncu import Ncu
from tracediff.model.python import Gc, Gil
from tracediff.model.ranks import KernelRanks, RankRow, RankSkew
from tracediff.model.steps import Mix, Phase, Step, StepSample, Stratum
from tracediff.model.system import System
from tracediff.model.timelines import Timelines
from tracediff.model.trtexec import Trtexec

FORMAT_VERSION = 1


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report needs."""

    format_version: int = FORMAT_VERSION
    tool: Tool
    inputs: Inputs
    verdict: Verdict
    verdict_reason: str
    step: Step
    phases: list[Phase]
    accounting: Accounting
    mix: Mix
    findings: list[Finding]
    kernels: list[KernelRow]
    ranges: list[RangeRow]
    gaps: list[GapRow]
    worst_gaps: list[WorstGap]
    launch: Launch
    gil: Gil
    gc: Gc
    graphs: Graphs
    threads: list[ThreadRow]
    response_path: list[ResponseStage]
    strata: list[Stratum]
    ranks: list[RankRow]  # in order of ranks; reports show outliers first
    kpi: Kpi | None
    comparability: Comparability
    coverage: Coverage
    warnings: list[Note]
    samples: list[StepSample] = []
    samples_left_out: int = 0
    timelines: Timelines | None = None  # where asked for
    gates: Gates | None = None  # where any were judged
    rank_skew: list[RankSkew] = []  # a row a side with several ranks
    kernel_ranks: list[KernelRanks] = []  # the most time first
    ncu: Ncu | None = None  # where files of Nsight Compute were given
    trtexec: Trtexec | None = None  # where files of trtexec were given
    latencies: Latencies | None = None  # where latencies without a profiler were given
    system: System | None = (
        None  # where a side recorded OS calls, context switches, CUDA's memory or GPU metrics
    )


def decode(data: bytes) -> Result:
    """Read a result back from JSON; raises `msgspec.ValidationError` where it is not one."""
    from tracediff.model.reader import RESULT  # takes a while to make: not before a result is read

    return RESULT.decode(data)
