"""The report of one capture, or of repeated runs of one program: a result with one side, and what only that has.

Its sections are those of a comparison; their fields of the candidate and of the difference are absent. All times are
ns per step (means over steps and runs) unless a field says otherwise. A list named `runs_ns` holds one mean per run;
`sd_ns` is their standard deviation, None with one run.

SHOW_VERSION history
    1  first published form
    2  the sections are those of a comparison, with one side; `chosen` was added without a new version
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tracediff.model.common import ABSENT, Coverage, Note, PhaseTimes, StepSample, Stratum, Tool
from tracediff.model.host import (
    Gc,
    Gil,
    HostTime,
    KernelRanks,
    RangeRow,
    RankClock,
    RankGroup,
    RankRow,
    RankSkew,
    ResponseStage,
    System,
    ThreadRow,
)
from tracediff.model.kernels import Graphs, KernelRow, Launch, Layers, Limits
from tracediff.model.observed import Stops
from tracediff.model.pictures import CauseNode, StepStrip, Timelines
from tracediff.model.result import GapRow, Moment, Rung, SideInput, WorstGap

SHOW_VERSION = 2


class Fact(msgspec.Struct, frozen=True):
    """Something that the captures say of the machine or of how they were made; `?`: they do not say."""

    name: str
    value: str


class ShowStep(msgspec.Struct, frozen=True):
    """The headline: mean step time, over workloads at their own mix and over runs."""

    mean_ns: float
    sd_ns: float | None  # of the runs' means
    runs_ns: list[float]
    idle_ns: float  # the part of it in which no GPU work ran
    steps: int  # in the mean
    all_steps: int  # whole steps; those not in the mean are of workloads too thin for one
    time_in_mean: float  # share of the time of all whole steps, 0 to 1
    median_ns: float = 0.0  # of all whole steps
    raw_runs_ns: list[float] = []  # of each run as it ran: `runs_ns` are at equal workload
    begins: int = (
        0  # long steps at the start of runs, which are in no mean, nor in the times of all whole steps above
    )
    begin_ns: float = 0.0  # mean of these


class ShowCategory(msgspec.Struct, frozen=True):
    """A row of the accounting; the rows add up to the step."""

    category: str
    ns: float
    share: float  # of the step, 0 to 1
    sd_ns: float | None
    runs_ns: list[float]
    hidden_ns: float | None = None  # host time of the cause that fell behind GPU work, of gc and gil_wait


class IdleCause(msgspec.Struct, frozen=True):
    """Idle time of the GPU by one cause at one place; rows add up to the idle categories of the accounting."""

    rank: int  # in this list
    cause: str
    title: str
    ns: float
    share: float  # of the step
    sd_ns: float | None
    runs_ns: list[float]
    count_per_step: float
    range: str
    thread: str
    holder_thread: str  # of a wait for the GIL
    holder_range: str
    api: str  # the CUDA function in which most of it lies
    longest: Moment | None
    query: str  # SQL for `tracediff query`: the steps that have most of it
    on_rank: int | None = None  # the rank that has most of it, where there are several and one does
    on_rank_ns: float | None = None  # ns per step of that rank
    copies: bool = False  # launch calls that copy
    other_calls: bool = False  # CUDA functions other than `api` have more than a trifle of the time


class ShowKernel(KernelRow, frozen=True, kw_only=True):
    """A kernel with one launch shape. Rows add up to the busy time of the accounting."""

    accounting: str  # compute | comm | memcpy
    share: float  # of the step
    sd_ns: float | None
    q_value: float | None = ABSENT


# Single steps that were asked for, each beside the typical step of its class.


class StepCategory(msgspec.Struct, frozen=True):
    """A category of the accounting of one step, ns. The rows of a step add up to its length, and so do those of the typical step."""

    category: str
    ns: int
    typical_ns: float
    delta_ns: float


class StepPlace(msgspec.Struct, frozen=True):
    """What one step spent at one place, ns: idle time by cause and place, or GPU work of the kernels of one name.

    All places of a step add up to its length.
    """

    cause: str  # a category of the accounting
    title: str
    ns: int
    typical_ns: float
    delta_ns: float
    count: int  # pieces of idle time, or launches
    typical_count: float
    range: str = ""
    thread: str = ""
    holder_thread: str = ""  # of a wait for the GIL
    holder_range: str = ""
    api: str = ""  # the CUDA function that most of it lies in
    kernel: str = ""
    copies: bool = False  # launch calls that copy
    other_calls: bool = False  # CUDA functions other than `api` have more than a trifle of the time
    longest: Moment | None = None  # where the longest piece of the run lies in this step


class StepRank(msgspec.Struct, frozen=True):
    """The same step on one rank, ns. own: without exposed communication, which is mostly waiting for another rank."""

    rank: int
    device: int
    ns: int
    delta_ns: float
    own_delta_ns: float


class StepDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One step beside the typical step of its class: the mean of its steps without the slowest and the fastest quarter.

    like: what the class is: `workload` (steps of the same phase, rank, requests and about as many tokens), `phase` (the phase on the
    rank, where fewer than five are alike), `all` (every regular step of the rank). Of a step of several ranks this is the rank whose
    own time is furthest above its typical step; `ranks` has them all.
    """

    asked: str  # as on the command line, or `worst 1`
    text: str  # the sentence
    run: str
    number: int  # of the label; where labels have none, the place in its process, from 1
    rank: int
    device: int
    phase: str
    ctx_reqs: int | None
    ctx_tokens: int | None
    gen_reqs: int | None
    start_up: bool  # kernels ran, CUDA graphs were made or code was loaded for the first time, or it is the first of the capture
    start_ns: int  # trace time of the named run
    end_ns: int
    ns: int
    typical_ns: float
    delta_ns: float
    like: Literal["workload", "phase", "all"]
    typical_steps: int  # that the typical step is the mean of
    accounting: list[StepCategory]
    places: list[StepPlace]  # those that differ most
    places_left_out: int = 0
    places_left_out_ns: float = 0.0  # difference of these together
    ranks: list[StepRank] = []  # where there are several


class ShowFigure(msgspec.Struct, frozen=True):
    """One figure of a benchmark's own report."""

    metric: str
    unit: str
    better: Literal["lower", "higher"]
    value: float


class ShowKpi(msgspec.Struct, frozen=True):
    """The benchmark's own figures beside the trace; with several reports the mean of those that have one."""

    source: str
    rows: list[ShowFigure]


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What would make a step shorter, or where to look; times are ns per step unless they say otherwise.

    graphs: `count_per_step` kernels are launched one by one, `share` of the step is GPU work. fuse: the kernels follow one another
    `count_per_step` times, in `ns` together. Both with the step of the phase with the most time, replayed with the change;
    `before_ns` is of the replayed steps, which are not all.
    long_kernel: the first of `kernels` takes `ns` per launch, the GEMM with the most time, the second, `other_ns`.
    range_waits: of the `ns` in the range, `wait_ns` are waits for the GIL, `calls_ns` CUDA calls.
    """

    kind: Literal["graphs", "fuse", "long_kernel", "range_waits"]
    text: str = ""  # the sentences
    kernels: list[str] = []
    category: str = ""
    range: str = ""
    thread: str = ""
    count_per_step: float
    share: float | None = None  # of the step, 0 to 1
    ns: float | None = None
    other_ns: float | None = None
    wait_ns: float | None = None
    calls_ns: float | None = None
    phase: str = ""
    before_ns: float | None = None
    after_ns: float | None = None
    low_ns: float | None = None  # 80 % range of after_ns
    high_ns: float | None = None


class Show(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report of one capture needs."""

    kind: Literal["show"] = "show"
    format_version: int = SHOW_VERSION
    sentence: str = ""  # the first one: how long a step is, and where most of its idle time goes
    tool: Tool
    input: SideInput
    options: dict[str, Any] = {}
    machine: list[Fact]
    step: ShowStep
    accounting: list[ShowCategory]  # absent: not captured, never zero
    residual_ns: int  # the largest |period - sum of categories| over all periods of all runs: 0
    idle: list[IdleCause]
    advice: list[Advice] = []
    idle_left_out: int = 0  # smaller rows
    idle_left_out_ns: float = 0.0  # of these together, ns per step
    kernels: list[ShowKernel]
    phases: list[PhaseTimes]
    strata: list[Stratum]  # `compared`: in the mean
    ranges: list[RangeRow]
    gaps: list[GapRow]
    worst_gaps: list[WorstGap]
    launch: Launch
    gil: Gil
    gc: Gc
    graphs: Graphs
    threads: list[ThreadRow]
    response_path: list[ResponseStage]
    ranks: list[RankRow]
    rank_skew: list[RankSkew] = []
    rank_groups: list[RankGroup] = []
    rank_clocks: list[
        RankClock | None
    ] = []  # of each side; null where it has no ranks apart, or they cannot be aligned
    kernel_ranks: list[KernelRanks] = []
    kpi: ShowKpi | None  # where a benchmark's reports were given
    coverage: Coverage
    warnings: list[Note]
    rung: Rung | None = None
    system: System | None = None  # where any of it was captured
    limits: Limits | None = None  # where the part of a peak that some kernel reached is known
    host: HostTime | None = None  # where there are no GPU kernels
    layers: Layers | None = None  # where they are known
    chosen: list[StepDiff] = []  # where single steps were asked for
    samples: list[StepSample] = []
    stops: Stops | None = None  # steps of the phase with the most time that stop
    samples_left_out: int = 0
    gaps_left_out: int = 0  # rows with the smallest changes
    kernel_ranks_left_out: int = 0
    timelines: Timelines | None = None
    cause_tree: list[CauseNode] = []  # the mean step, each node before its parts
    step_strip: StepStrip | None = None
