"""What the system did where it was recorded: OS calls, communication, context switches, memory, GPU metrics."""

from __future__ import annotations

from typing import Literal

import msgspec


class OsCallRow(msgspec.Struct, frozen=True):
    """Outermost calls of one OS function on a thread role, a step, whether the GPU was idle or not."""

    call: str
    thread: str
    baseline_count: float | None
    baseline_ns: float | None
    candidate_count: float | None
    candidate_ns: float | None


class CommCallRow(msgspec.Struct, frozen=True):
    """Outermost calls of a thread role into a library of communication, host time a step, the GPU idle or not."""

    library: Literal["MPI", "NCCL"]
    call: str
    thread: str
    baseline_count: float | None  # None: not captured
    baseline_ns: float | None
    candidate_count: float | None
    candidate_ns: float | None
    baseline_bytes: float | None = None  # as the capture counts them; None where it does not hold them
    candidate_bytes: float | None = None
    baseline_bytes_per_call: float | None = None  # mean of the calls whose bytes are known
    candidate_bytes_per_call: float | None = None


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
    candidate: PayloadSide | None
    delta_mean: float | None = None


class OffCpuRow(msgspec.Struct, frozen=True):
    """How often and how long a thread role was on no CPU, a step, whether the GPU was idle or not."""

    thread: str
    baseline_count: float | None
    baseline_ns: float | None
    candidate_count: float | None
    candidate_ns: float | None


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
    candidate_ns: float | None
    baseline_off_cpu_ns: float | None = None  # the part of it on no CPU; None without context switches
    candidate_off_cpu_ns: float | None = None


class MemorySide(msgspec.Struct, frozen=True):
    """Memory that CUDA allocated and freed: of a step, and the most that a process had on a device within any step."""

    allocations_per_step: float
    bytes_per_step: float
    frees_per_step: float
    freed_bytes_per_step: float
    peak_bytes: int


class MemoryRow(msgspec.Struct, frozen=True):
    """One kind of memory: device, pinned, managed, ..."""

    kind: str
    baseline: MemorySide | None
    candidate: MemorySide | None


class GpuMetricMean(msgspec.Struct, frozen=True):
    """Means of samples, in the unit of the metric; None: some run of the side has fewer than 20 samples of the kind.

    The interval is of one row alone, at 95 % over runs; None with fewer than two runs a side, where nothing says how much runs differ.
    """

    baseline: float | None
    candidate: float | None
    delta: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None


class GpuMetricSide(msgspec.Struct, frozen=True):
    """Samples of a metric in the compared steps of a side: in a step, and in all by what the GPU did around them."""

    samples_per_step: float
    busy_samples: int
    idle_samples: int
    mixed_samples: int  # in neither mean
    refused_samples: int  # values that cannot be (a percentage above 100), in no mean


class GpuMetricRow(msgspec.Struct, frozen=True):
    """One metric that nsys sampled on one device of a rank: the GPU's, whichever process used it."""

    rank: int
    device: int
    metric: str
    unit: str  # % (of the peak) or MHz
    baseline: GpuMetricSide | None
    candidate: GpuMetricSide | None
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
    candidate: GpuSamplingSide | None


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
