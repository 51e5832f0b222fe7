"""What launches whose work is known reached of the hardware's peak rates; nothing of others."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import ABSENT


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
