"""Kernels of both sides: their times, who launches them, in which layer of the model they are, and what they reached of the hardware."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import ABSENT, Evidence, Interval


class KernelSide(msgspec.Struct, frozen=True):
    """One side of a kernel row. `ns_per_step` is its share of the compute (or comm) time: rows sum to the total."""

    names: list[str]
    count_per_step: float
    ns_per_step: float
    mean_ns: float  # wall time of one op, overlaps not shared out
    grids: list[str] = []
    blocks: list[str] = []
    registers: int | None = None
    shared_bytes: int | None = None
    launches: int = 0  # in the compared steps of all runs
    sd_ns: float | None = None  # of the wall time of one op among them; None of fewer than two
    ns_of: list[float] = []  # what of ns_per_step each of several names has


class LaunchChange(Interval, frozen=True):
    """One launch of a kernel on both sides, ns: means of every run's launches, where steps are too few to say anything."""

    p_value: float
    q_value: float
    level: Evidence


class KernelStratum(msgspec.Struct, frozen=True):
    """A kernel row in one stratum: ops and ns of the accounting a step of it; 0 where a side has none."""

    stratum: int  # index into Result.strata
    baseline_count: float
    baseline_ns: float
    candidate_count: float = ABSENT
    candidate_ns: float = ABSENT


class KernelTypical(msgspec.Struct, frozen=True):
    """A kernel row in the typical step of a phase, ns of the accounting, and its launches there."""

    phase: str
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence
    baseline_count: float = 0.0
    candidate_count: float = 0.0
    q_value: float | None = None  # None: not tested


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of both sides matched to each other, in the mean of all compared steps; every op is in exactly one row."""

    match: Literal["exact", "name", "template", "sequence", "fused", "split", "added", "removed"] = ABSENT
    confidence: float = ABSENT
    category: str  # gemm, attention, norm, ..., communication
    family: str  # cutlass, nvjet, cudnn, nccl, pytorch, ...
    baseline: KernelSide | None
    candidate: KernelSide | None = ABSENT
    delta_ns: float = ABSENT
    ci_low_ns: float = ABSENT
    ci_high_ns: float = ABSENT
    level: Evidence = ABSENT
    q_value: float | None = None
    block: int = -1  # rows of one changed block between kernels that stayed the same
    strata: list[KernelStratum] = []  # those with the most of its time, where steps are of several workloads
    per_launch: LaunchChange | None = None  # where no phase is judged, and each run has some launches
    phases: list[
        KernelTypical
    ] = []  # those in which it has 0.1 % of the typical step, or its launches differ in every compared step
    layers: list[str] = []  # the kinds of layer with the most of its time, where layers are known


# Kernels that were asked for by name.


class KernelPhase(msgspec.Struct, frozen=True):
    """The kernels of an answer in the typical step of a phase, ns of the accounting, and their launches there."""

    phase: str
    baseline_count: float
    candidate_count: float
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence  # the surest of its rows


class LaunchOrigin(msgspec.Struct, frozen=True):
    """Who launches the kernels of an answer: shares of their launches in all whole steps of a side, 0 to 1; '' not recorded."""

    thread: str
    range: str
    api: str
    baseline_share: float
    candidate_share: float


class KernelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of the kernels of a name, in a mean step. hidden: their time behind GPU work of another kind or each other."""

    asked: str
    text: str  # the sentence
    rows: list[int]  # of Result.kernels: a row per launch shape, the largest change first
    # those in which kernels of other names are too: of these rows only the kernels of the name are counted
    partly: list[int] = []
    instead: list[
        str
    ] = []  # kernels of other names that stand on one side for those of the name, and are counted
    baseline_count: float
    candidate_count: float
    baseline_ns: float  # of the accounting: exposed
    candidate_ns: float
    delta_ns: float
    baseline_mean_ns: float  # wall time of one launch
    candidate_mean_ns: float
    baseline_hidden_ns: float
    candidate_hidden_ns: float
    level: Evidence  # the surest of the rows
    phases: list[KernelPhase]
    origins: list[LaunchOrigin]  # the most launches first


# Launch overhead and CUDA graphs.


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
    copies_per_step: float | None = None  # without memsets
    copied_bytes_per_step: float | None = None
    syncs_per_step: float = 0.0  # synchronising calls


class ApiRow(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one CUDA API function per step."""

    api: str
    kind: str  # launch | sync | other
    baseline_calls: float
    candidate_calls: float = ABSENT
    baseline_ns: float
    candidate_ns: float = ABSENT
    delta_ns: float = ABSENT


class TransitionRow(msgspec.Struct, frozen=True):
    """Kernels that were launched one by one on one side and by a graph on the other."""

    kernel: str
    eager_per_step_baseline: float
    graph_per_step_baseline: float
    eager_per_step_candidate: float
    graph_per_step_candidate: float


class LaunchPhase(msgspec.Struct, frozen=True):
    """Launch overhead in the mean step of a phase."""

    phase: str
    baseline: LaunchSide
    candidate: LaunchSide
    apis: list[ApiRow]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Launch overhead of both sides, by API, and what moved between eager and graph; in the mean of all compared steps."""

    baseline: LaunchSide
    candidate: LaunchSide = ABSENT
    apis: list[ApiRow]
    transitions: list[TransitionRow] = ABSENT
    by_phase: list[LaunchPhase] = []


class Graphs(msgspec.Struct, frozen=True, kw_only=True):
    """CUDA graph use of both sides."""

    mode_baseline: str  # node | graph | none | unknown
    mode_candidate: str = ABSENT
    launches_per_step_baseline: float
    launches_per_step_candidate: float = ABSENT
    nodes_per_launch_baseline: float | None
    nodes_per_launch_candidate: float | None = ABSENT


# Kernel time by layer of the model: the modules or engine layers under which kernels were launched or captured.


class LayerRow(msgspec.Struct, frozen=True, kw_only=True):
    """GPU time of one layer, ns of the accounting per step; of a kind, of all layers that differ in their numbers.

    layer: '' what is in no layer, or in none that is known. Rows sum to the rows of the kernel table.
    """

    layer: str
    kind: str  # numbers as *
    baseline_ns: float
    candidate_ns: float = ABSENT
    delta_ns: float = ABSENT
    ci_low_ns: float = ABSENT
    ci_high_ns: float = ABSENT
    level: Evidence = ABSENT
    q_value: float | None = ABSENT


class LayerSide(msgspec.Struct, frozen=True, kw_only=True):
    """How the layers of one side are known: shares of its GPU time, 0 to 1.

    attributed: in a layer. of_graphs: of what CUDA graphs launched; None without such.
    """

    attributed: float
    of_graphs: float | None
    by_range: float  # under whose range they were launched
    by_graph: float  # under whose range their graph's node was made


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """kinds: a row a kind of layer; rows: a row a layer. Both sum to the kernel rows, the largest change first."""

    baseline: LayerSide
    candidate: LayerSide = ABSENT
    kinds: list[LayerRow]
    rows: list[LayerRow]


# What launches whose work is known reached of the hardware's peak rates; nothing of others.


class Gpu(msgspec.Struct, frozen=True):
    """A GPU's peak rates by its data sheet: dense, at boost clock. FLOP/s by data type (OP/s of int8), bytes/s. host: one direction, None unknown."""

    name: str
    source: str
    flops: dict[str, float]
    memory: float
    host: float | None


class Reached(msgspec.Struct, frozen=True):
    """Rates of one side of a kernel row, over its launches whose work is known, in all whole steps of compared workloads.

    known: part of the row's time that these take. shapes: M x N x K of GEMMs, the most frequent first. dtype: '' unknown. bytes: each operand
    moved once. of_flops, of_bandwidth: parts of the peaks, None where they are not known: so it is of operands that fit into the L2 cache.
    link: what the bytes pass. least: the part of its time below which no kernel comes that does this work.
    """

    launches: int
    known: float
    shapes: list[str]
    dtype: str
    flop_per_s: float | None
    of_flops: float | None
    bytes_per_s: float | None
    of_bandwidth: float | None
    link: Literal["memory", "host"]
    least: float | None


class LimitsRow(msgspec.Struct, frozen=True):
    """A row of `kernels` (its index) of which the FLOP or a part of a peak are known on some side."""

    kernel: int
    baseline: Reached | None
    candidate: Reached | None = ABSENT


class Utilisation(msgspec.Struct, frozen=True):
    """mfu: FLOP of GEMMs and attention in a phase by what the GPU could do in its time.

    known: part of the time in GEMMs, attention, MoE and unknown kernels whose FLOP are known.
    """

    mfu: float
    known: float


class PhaseUse(msgspec.Struct, frozen=True):
    """Model FLOP utilisation of a phase; None where less than 90 % of the time in GEMMs and attention is known."""

    phase: str
    baseline: Utilisation | None
    candidate: Utilisation | None = ABSENT


class Limits(msgspec.Struct, frozen=True):
    """Limits of the hardware. gpus: of the baseline and the candidate, None not listed."""

    gpus: list[Gpu | None]
    rows: list[LimitsRow]
    phases: list[PhaseUse]
