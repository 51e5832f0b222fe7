"""Launch overhead and CUDA graphs."""

from __future__ import annotations

import msgspec


class LaunchSide(msgspec.Struct, frozen=True):
    """Launch overhead of one side."""

    calls_per_step: float  # launching API calls
    graph_launches_per_step: float
    kernels_per_step: float
    graph_coverage: float  # share of kernels that came from a graph launch, 0 to 1
    api_ns_per_step: float  # host time inside launching calls
    exposed_ns_per_step: float  # launch_api + launch_latency of the accounting
    queue_delay_mean_ns: float  # API return -> op start; negative where the op began first
    queue_delay_p50_ns: float
    queue_delay_p99_ns: float


class ApiRow(msgspec.Struct, frozen=True):
    """Calls of one CUDA API function a step."""

    api: str
    kind: str  # launch | sync | other
    baseline_calls: float
    candidate_calls: float
    baseline_ns: float
    candidate_ns: float
    delta_ns: float


class TransitionRow(msgspec.Struct, frozen=True):
    """Kernels that were launched one by one on one side and by a graph on the other."""

    kernel: str
    eager_per_step_baseline: float
    graph_per_step_baseline: float
    eager_per_step_candidate: float
    graph_per_step_candidate: float


class Launch(msgspec.Struct, frozen=True):
    """Launch overhead of both sides, by API, and what moved between eager and graph."""

    baseline: LaunchSide
    candidate: LaunchSide
    apis: list[ApiRow]
    transitions: list[TransitionRow] = []


class Graphs(msgspec.Struct, frozen=True):
    """CUDA graph use of both sides."""

    mode_baseline: str  # node | graph | none | unknown
    mode_candidate: str
    launches_per_step_baseline: float
    launches_per_step_candidate: float
    nodes_per_launch_baseline: float | None
    nodes_per_launch_candidate: float | None
