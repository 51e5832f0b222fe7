"""What the hosts did: their threads, CUDA calls and ranges, the GIL, and what of the system was recorded; and how far ranks are apart."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import ABSENT, Evidence

# Host threads: their roles, their NVTX ranges, the response path.


class RangeSide(msgspec.Struct, frozen=True):
    """One side of a range row."""

    count_per_step: float
    ns_per_step: float
    mean_ns: float
    # of ns_per_step; the rest is the thread's own work. None: not captured
    gil_wait_ns: float | None = None
    calls_ns: float | None = None  # in CUDA calls, outside of waits for the GIL


class RangeRow(msgspec.Struct, frozen=True):
    """An NVTX range (numbers masked) on a thread role: host wall time, inclusive of children."""

    range: str
    domain: str
    thread: str
    baseline: RangeSide | None
    candidate: RangeSide | None = ABSENT
    delta_ns: float = ABSENT


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A thread role on both sides, why it has that role, and how alike the two are (0 to 1)."""

    role: str
    process: str
    score: float | None = ABSENT
    baseline_ranges: list[str]
    candidate_ranges: list[str] = ABSENT
    baseline_range_ns: float | None  # time per step in which one of its ranges is open
    candidate_range_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT
    # n where its work comes every n-th step only, and what it then works in n steps; None where in every step, or at no one distance
    baseline_every: int | None = None
    candidate_every: int | None = ABSENT
    baseline_burst_ns: float | None = None
    candidate_burst_ns: float | None = ABSENT
    # of delta_ns, where the thread launches nothing and both sides have it
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None
    level: Evidence | None = None


class ResponseStage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the path of a request and its response (submit -> executor -> ... -> respond), host time per step."""

    stage: str
    thread: str
    range: str
    baseline_count: float | None = None  # ranges per step
    candidate_count: float | None = ABSENT
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT
    # its thread is busy for less than `tables.BUSY` of the time until its next work; None: it launches, and so sets the pace
    keeps_up_baseline: bool | None
    keeps_up_candidate: bool | None = ABSENT


# Host time by CUDA call and by NVTX range: what captures without GPU kernels are compared by.


class HostSide(msgspec.Struct, frozen=True):
    """One side of a row: calls, or ranges, and their time, of a step or of a capture (`HostTime.per`)."""

    count: float
    ns: float
    mean_ns: float  # of one call or range


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A CUDA function on all threads, an NVTX range (numbers masked) on a thread role, or an OS function on one; children included.

    ci_low_ns, ci_high_ns: of delta_ns, over runs; None with one run on a side. mean_ci_*: of the change of one call, over runs, or with
    one run on a side over its calls, where nothing says how much runs differ. level: never surer than likely, and within_noise
    with one run on a side.
    """

    kind: Literal["call", "range", "os_call"]
    name: str
    domain: str = ""
    thread: str = ""
    baseline: HostSide | None
    candidate: HostSide | None = ABSENT
    delta_ns: float = ABSENT
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None
    mean_delta_ns: float | None = ABSENT  # None: on one side only
    mean_ci_low_ns: float | None = None
    mean_ci_high_ns: float | None = None
    level: Evidence = ABSENT


class HostTime(msgspec.Struct, frozen=True):
    """All rows, the largest change first (of one side the longest). Steps: all whole ones, whatever their workload."""

    per: Literal["step", "capture"]
    rows: list[HostRow]


# What Python's interpreter did: the GIL and garbage collections.


class GilRow(msgspec.Struct, frozen=True):
    """GIL time of a thread role. `exposed` is the part that kept a GPU idle; `hidden` the rest of the wait."""

    thread: str
    phase: str
    baseline_hold_ns: float | None
    baseline_wait_ns: float | None
    baseline_exposed_ns: float | None
    candidate_hold_ns: float | None = ABSENT
    candidate_wait_ns: float | None = ABSENT
    candidate_exposed_ns: float | None = ABSENT


class GilPairRow(msgspec.Struct, frozen=True):
    """Who waited for the GIL while whom held it; ns per step."""

    waiter: str
    holder: str
    holder_range: str
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT


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
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT
    candidate_exposed_ns: float | None = ABSENT


class Gc(msgspec.Struct, frozen=True):
    """GC table; empty where no `Python GC` range was recorded (see coverage)."""

    rows: list[GcRow]


# Ranks: how far they are apart, and who waits for whom.


class RankRow(msgspec.Struct, frozen=True):
    """One rank (process with a GPU)."""

    rank: int
    device: int
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT
    baseline_comm_wait_ns: float | None = None  # NCCL time spent waiting for the last rank to arrive
    candidate_comm_wait_ns: float | None = ABSENT
    baseline_comm_transfer_ns: float | None = None
    candidate_comm_transfer_ns: float | None = ABSENT
    # what the other ranks waited, in sum, while this one was the last
    baseline_caused_wait_ns: float | None = None
    candidate_caused_wait_ns: float | None = ABSENT
    # that it sends to single ranks, in sends and all-to-alls
    baseline_sent_bytes: float | None = None
    candidate_sent_bytes: float | None = ABSENT
    baseline_own_ns: float | None = None  # the step less exposed communication: what the rank itself took
    candidate_own_ns: float | None = ABSENT
    delta_own_ns: float | None = ABSENT
    # share of the steps of all ranks in which its own time was the longest
    baseline_last: float | None = None
    candidate_last: float | None = ABSENT
    baseline_behind_ns: float | None = None  # in those, by how much it was longer than the median rank's
    candidate_behind_ns: float | None = ABSENT
    # how far delta_own_ns is from the median rank's, in robust standard deviations
    outlier: float | None = None


class RankClock(msgspec.Struct, frozen=True):
    """How the clocks of ranks were aligned that were exported apart, of the run where they agree least."""

    exports: int
    by: Literal[
        "sessions", "collectives"
    ]  # the start times of the sessions, which are of one clock; the ends of shared collectives
    kind: Literal["all-reduces", "collectives"]  # whose ends `apart_ns` is of
    shared: int  # how many they are
    apart_ns: int  # so near are 95 % of their ends on all their ranks


class RankGroup(msgspec.Struct, frozen=True):
    """Ranks that share a communicator of NCCL, where the capture says so: how long they wait for each other, ns per step, sum of the ranks."""

    members: list[int]
    name: str  # how the program calls them, as group_desc of torch.distributed; '' not at all
    calls: str  # of NCCL
    # pipeline: each of its ranks sends to another, and waits are its bubble; all-to-all: of experts, and waits are their imbalance
    kind: Literal["pipeline", "all-to-all", ""]
    baseline_wait_ns: float | None
    candidate_wait_ns: float | None = ABSENT
    baseline_late: int | None = None  # the rank for which the others waited longest
    candidate_late: int | None = ABSENT
    baseline_caused_ns: float | None = None  # what they waited for it
    candidate_caused_ns: float | None = ABSENT


class RankSkew(msgspec.Struct, frozen=True):
    """How far the ranks of a side are apart, by their own time of the steps that they share."""

    side: Literal["baseline", "candidate"]
    ranks: int
    steps: int
    late_ns: float  # the last rank after the median one, mean of the steps
    slowest: int | None  # the rank that was last most often; None where all are alike
    slowest_share: float  # in which part of the steps


class KernelRanks(msgspec.Struct, frozen=True):
    """A kernel that takes longer on one rank than on the others; ns per step."""

    side: Literal["baseline", "candidate"]
    names: list[str]
    kind: str  # compute | comm | memcpy
    mean_ns: float  # over all ranks
    most_ns: float
    most_on: int  # the rank
    imbalance: float  # most / mean, 1: alike


# What the system did where it was recorded: OS calls, communication, context switches, memory, GPU metrics.


class OsCallRow(msgspec.Struct, frozen=True):
    """Outermost calls of one OS function on a thread role per step, whether the GPU was idle or not."""

    call: str
    thread: str
    baseline_count: float | None
    baseline_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT


class CommCallRow(msgspec.Struct, frozen=True):
    """Outermost calls of a thread role into a library of communication, host time per step, the GPU idle or not."""

    library: Literal["MPI", "NCCL"]
    call: str
    thread: str
    baseline_count: float | None  # None: not captured
    baseline_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT
    baseline_bytes: float | None = None  # as the capture counts them; None where it does not hold them
    candidate_bytes: float | None = ABSENT
    baseline_bytes_per_call: float | None = None  # mean of the calls whose bytes are known
    candidate_bytes_per_call: float | None = ABSENT


class PayloadSide(msgspec.Struct, frozen=True):
    """Numbers that a range carried in the compared steps of a side, in the program's own unit."""

    count_per_step: float
    sum_per_step: float
    mean: float
    min: float
    max: float


class PayloadRow(msgspec.Struct, frozen=True):
    """Numeric NVTX payloads of a range of a thread role; None: no such payload there, which is not zero."""

    range: str
    domain: str
    thread: str
    baseline: PayloadSide | None
    candidate: PayloadSide | None = ABSENT
    delta_mean: float | None = ABSENT


class OffCpuRow(msgspec.Struct, frozen=True):
    """How often and how long a thread role was on no CPU per step, whether the GPU was idle or not."""

    thread: str
    baseline_count: float | None
    baseline_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT


class HostWorkRow(msgspec.Struct, frozen=True):
    """A part of the host work of a place: idle time of the GPU by what the launching thread's system recorded.

    mpi_call: inside the named call into MPI, with the OS calls that it makes. os_call: inside the named call and in none
    of MPI. off_cpu: in no recorded call and on no CPU. rest: neither. The rows of a place add up to its host work on a
    side that recorded any of it; None: not recorded on that side.
    """

    thread: str
    range: str
    kind: Literal["mpi_call", "os_call", "off_cpu", "rest"]
    call: str  # of mpi_call, os_call
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    baseline_off_cpu_ns: float | None = None  # the part of it on no CPU; None without context switches
    candidate_off_cpu_ns: float | None = ABSENT


class MemorySide(msgspec.Struct, frozen=True):
    """Memory that CUDA allocated and freed: of a step, and the most and the least that a process had on a device within any step."""

    allocations_per_step: float
    bytes_per_step: float
    frees_per_step: float
    freed_bytes_per_step: float
    peak_bytes: int
    steady_bytes: int


class MemoryRow(msgspec.Struct, frozen=True):
    """One kind of memory: device, pinned, managed, ...; of torch.profiler what PyTorch's allocator handed out, and what it reserved."""

    kind: str
    baseline: MemorySide | None
    candidate: MemorySide | None = ABSENT


class GpuMetricMean(msgspec.Struct, frozen=True):
    """Means of samples, in the unit of the metric; None: some run of the side has fewer than 20 samples of the kind.

    The interval is of one row alone, at 95 % over runs; None with fewer than two runs a side, where nothing says how much runs differ.
    """

    baseline: float | None
    candidate: float | None = ABSENT
    delta: float | None = ABSENT
    ci_low: float | None = ABSENT
    ci_high: float | None = ABSENT


class GpuMetricSide(msgspec.Struct, frozen=True):
    """Samples of a metric in the compared steps of a side: in a step, and in all by what the GPU did around them."""

    samples_per_step: float
    busy_samples: int
    idle_samples: int
    mixed_samples: int  # in neither mean
    refused_samples: int  # values that cannot be (a percentage above 100), in no mean


class GpuMetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric that nsys sampled on one device of a rank: the GPU's, whichever process used it."""

    rank: int
    device: int
    metric: str
    unit: str  # % (of the peak) or MHz
    baseline: GpuMetricSide | None
    candidate: GpuMetricSide | None = ABSENT
    steps: GpuMetricMean  # over the compared steps
    busy: GpuMetricMean  # while kernels ran
    idle: GpuMetricMean  # while nothing ran


class GpuSamplingSide(msgspec.Struct, frozen=True):
    """How a device was sampled on a side."""

    told: bool  # whether the export holds samples and says which are of this device; else its metrics are not shown
    gpu: int | None  # nsys's number of the GPU; None where not told, or where runs differ
    interval_ns: int | None  # between samples: median, the longest of the runs
    unread_metrics: int = 0  # in a unit whose scale is documented nowhere


class GpuSampling(msgspec.Struct, frozen=True):
    """How GPU metrics of a rank's device were sampled; None: not captured."""

    rank: int
    device: int
    baseline: GpuSamplingSide | None
    candidate: GpuSamplingSide | None = ABSENT


class System(msgspec.Struct, frozen=True):
    """What the operating system, communication, CUDA's memory and the GPU's counters did in a step; empty where not captured (see coverage)."""

    os_calls: list[OsCallRow] = []
    off_cpu: list[OffCpuRow] = []
    host_work: list[HostWorkRow] = []
    memory: list[MemoryRow] = []
    gpu_metrics: list[GpuMetricRow] = []
    gpu_sampling: list[GpuSampling] = []
    comm_calls: list[CommCallRow] = []
    payloads: list[PayloadRow] = []
