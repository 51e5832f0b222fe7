"""What few captures hold, of one side: OS calls, communication, context switches, CUDA's memory, GPU metrics.

A part of the report of one capture (`model.show`). All times are ns a step.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model import MemorySide, PayloadSide


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
