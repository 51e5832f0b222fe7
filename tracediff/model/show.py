"""The report of one capture, or of repeated runs of one program: what is in the time of a step.

All times are ns a step (means over steps and runs) unless a field says otherwise. A list named `runs_ns` holds one
mean a run; `sd_ns` is their standard deviation, None with one run. This module imports nothing of the project but
the structs that it shares with the result of a comparison.

SHOW_VERSION history
    1  first published form
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tracediff.model import (
    Captured,
    GapSide,
    KernelSide,
    LaunchSide,
    MemorySide,
    Note,
    PayloadSide,
    RangeSide,
    SideInput,
    TimelineStep,
    Tool,
)

# What few captures hold, of one side: OS calls, communication, context switches, CUDA's memory, GPU metrics.


class ShowCall(msgspec.Struct, frozen=True):
    """Outermost calls of a thread role: host time a step, the GPU idle or not."""

    library: Literal["OS", "MPI", "NCCL"]
    call: str
    thread: str
    count: float
    ns: float
    bytes: float | None = None  # None: not in the capture
    bytes_per_call: float | None = None


class ShowOffCpu(msgspec.Struct, frozen=True):
    """How often and how long a thread role was on no CPU."""

    thread: str
    count: float
    ns: float


class ShowHostWork(msgspec.Struct, frozen=True):
    """A part of the host work of a place, as in `HostWorkRow`."""

    thread: str
    range: str
    kind: Literal["mpi_call", "os_call", "off_cpu", "rest"]
    call: str
    ns: float
    off_cpu_ns: float | None = None  # None without context switches


class ShowMemory(msgspec.Struct, frozen=True):
    """One kind of CUDA's memory."""

    kind: str
    memory: MemorySide


class ShowMetric(msgspec.Struct, frozen=True):
    """Means of one GPU metric that nsys sampled, on one device of a rank; None: too few samples in some run."""

    rank: int
    device: int
    metric: str
    unit: str  # % (of the peak) or MHz
    samples_per_step: float
    steps: float | None  # over whole steps
    busy: float | None  # while kernels run
    idle: float | None  # while nothing runs


class ShowPayload(msgspec.Struct, frozen=True):
    """Numeric NVTX payloads of a range of a thread role."""

    range: str
    domain: str
    thread: str
    payload: PayloadSide


class ShowSystem(msgspec.Struct, frozen=True):
    """What the OS, communication, CUDA's memory and the GPU's counters did in a step; empty where not captured."""

    host_work: list[ShowHostWork] = []
    calls: list[ShowCall] = []
    off_cpu: list[ShowOffCpu] = []
    memory: list[ShowMemory] = []
    gpu_metrics: list[ShowMetric] = []
    payloads: list[ShowPayload] = []


SHOW_VERSION = 1


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


class ShowCategory(msgspec.Struct, frozen=True):
    """A row of the accounting; the rows add up to the step."""

    category: str
    ns: float
    share: float  # of the step, 0 to 1
    sd_ns: float | None
    runs_ns: list[float]
    hidden_ns: float | None = None  # host time of the cause that fell behind GPU work, of gc and gil_wait


class ShowMoment(msgspec.Struct, frozen=True):
    """A place to jump to in nsys: trace time in ns of the named run."""

    run: str
    start_ns: int
    end_ns: int
    what: str = ""
    step: int | None = None  # its number, where the steps have one


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
    api: str  # the CUDA function that the longest piece lies in
    longest: ShowMoment | None
    sql: str
    on_rank: int | None = None  # the rank that has most of it, where there are several and one does
    on_rank_ns: float | None = None  # ns a step of that rank
    copies: bool = False  # launch calls that copy


class ShowPhase(msgspec.Struct, frozen=True):
    """Step times of one phase, all whole steps of all runs."""

    phase: str
    steps: int
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    runs: list[int]  # that have steps of it: index into Show.input.runs
    runs_ns: list[float]  # their means, in the same order


class ShowSample(msgspec.Struct, frozen=True):
    """One whole step, for distributions."""

    run: int
    rank: int
    phase: str
    number: int | None
    period_ns: int


class ShowStratum(msgspec.Struct, frozen=True):
    """Steps of like workload. `counted` says whether they are in the mean, `reason` why not."""

    phase: str
    ctx_reqs: str
    ctx_tokens: str
    gen_reqs: str
    level: Literal["exact", "bucket", "phase", "all"]
    steps: int
    ns: float
    weight: float  # in the mean, 0 to 1
    time_share: float  # its part of the time of all whole steps, 0 to 1
    counted: bool
    reason: str = ""


class ShowKernelStratum(msgspec.Struct, frozen=True):
    """A kernel in one stratum: ops and ns of the accounting a step of it."""

    stratum: int  # index into Show.strata
    count: float
    ns: float


class ShowKernel(msgspec.Struct, frozen=True):
    """A kernel with one launch shape. `kernel.ns_per_step` is its share of the category: rows add up to the busy time."""

    category: str  # gemm, attention, norm, ..., communication
    family: str
    accounting: str  # compute | comm | memcpy
    kernel: KernelSide
    share: float  # of the step
    sd_ns: float | None
    strata: list[ShowKernelStratum] = []


class ShowRange(msgspec.Struct, frozen=True):
    """An NVTX range (numbers masked) on a thread role: host wall time, inclusive of children."""

    range: str
    domain: str
    thread: str
    time: RangeSide


class ShowGap(msgspec.Struct, frozen=True):
    """Idle time by cause, launching thread, innermost range and the kernels around the gap."""

    cause: str
    thread: str
    range: str
    previous: str
    next: str
    time: GapSide


class ShowWorstGap(msgspec.Struct, frozen=True):
    """One of the longest single gaps."""

    run: str
    start_ns: int
    duration_ns: int
    cause: str  # the largest part
    range: str
    thread: str
    previous: str
    next: str
    phase: str


class ShowApi(msgspec.Struct, frozen=True):
    """Calls of one CUDA API function a step."""

    api: str
    kind: str  # launch | sync | other
    calls: float
    ns: float


class ShowLaunch(msgspec.Struct, frozen=True):
    """Launch overhead, how graphs were traced, and CUDA calls by function."""

    totals: LaunchSide
    graph_mode: str  # node | graph | none | unknown
    nodes_per_launch: float | None
    apis: list[ShowApi]


class ShowGilThread(msgspec.Struct, frozen=True):
    """GIL time of a thread role. `exposed`: the part of its waits that kept a GPU idle."""

    thread: str
    phase: str
    hold_ns: float
    wait_ns: float
    exposed_ns: float


class ShowGilPair(msgspec.Struct, frozen=True):
    """Who waited for the GIL while whom held it."""

    waiter: str
    holder: str
    holder_range: str
    ns: float


class ShowGc(msgspec.Struct, frozen=True):
    """Garbage-collection pauses of a thread role and generation."""

    thread: str
    generation: str
    count: float
    ns: float
    exposed_ns: float


class ShowThread(msgspec.Struct, frozen=True):
    """A thread role and the ranges that gave it."""

    role: str
    process: str
    ranges: list[str]
    range_ns: float | None  # top-level range time a step


class ShowStage(msgspec.Struct, frozen=True):
    """One stage of the response path; `keeps_up`: it takes no longer than a step."""

    stage: str
    thread: str
    range: str
    ns: float
    keeps_up: bool


class ShowRank(msgspec.Struct, frozen=True):
    """One rank. A rank that comes late makes the others wait: `caused_wait_ns` is their sum."""

    rank: int
    device: int
    ns: float
    comm_wait_ns: float | None
    comm_transfer_ns: float | None
    caused_wait_ns: float | None
    own_ns: float | None = None  # the step less exposed communication
    last: float | None = None  # share of the steps in which its own time was the longest
    behind_ns: float | None = None  # in those, after the median rank
    outlier: float | None = None  # how far own_ns is from the median rank's, in robust standard deviations


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


class ShowTimeline(msgspec.Struct, frozen=True):
    """A typical or the longest step of a stratum, event by event; `exact` as in `Timeline`."""

    stratum: int  # index into Show.strata
    kind: Literal["typical", "worst"]
    rank: int
    exact: bool
    step: TimelineStep


class ShowTimelines(msgspec.Struct, frozen=True):
    """Steps to look at event by event. `names` holds every text once; a lane's `row` indexes `Show.kernels`."""

    names: list[str]
    steps: list[ShowTimeline]
    strata_left_out: int = 0
    ranks_left_out: int = 0


class Show(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report of one capture needs."""

    kind: Literal["show"] = "show"
    format_version: int = SHOW_VERSION
    tool: Tool
    input: SideInput
    options: dict[str, Any] = {}
    machine: list[Fact]
    step: ShowStep
    accounting: list[ShowCategory]  # absent: not captured, never zero
    residual_ns: int  # the largest |period - sum of categories| over all periods of all runs: 0
    idle: list[IdleCause]
    idle_left_out: int = 0  # smaller rows
    idle_left_out_ns: float = 0.0  # of these together, ns a step
    kernels: list[ShowKernel]
    phases: list[ShowPhase]
    strata: list[ShowStratum]
    ranges: list[ShowRange]
    gaps: list[ShowGap]
    worst_gaps: list[ShowWorstGap]
    launch: ShowLaunch
    gil: list[ShowGilThread]
    gil_matrix: list[ShowGilPair]
    gc: list[ShowGc]
    threads: list[ShowThread]
    response_path: list[ShowStage]
    ranks: list[ShowRank]
    kpi: ShowKpi | None  # where a benchmark's reports were given
    coverage: dict[str, Captured]
    warnings: list[Note]
    system: ShowSystem | None = None  # where any of it was captured
    samples: list[ShowSample] = []
    samples_left_out: int = 0
    timelines: ShowTimelines | None = None
