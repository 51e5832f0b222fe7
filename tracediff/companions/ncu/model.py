"""Kernels by their hardware counters: a section of the result, and what `tracediff ncu --json` writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Note, Section, Tool

NCU_VERSION = 1


class NcuKernel(msgspec.Struct, frozen=True):
    """What Nsight Compute measured of one side of a row: means over its launches.

    A side of several kernels (`fused`, `split`) has the sums of one round, and only what adds up; one of several
    grids has the mean over all launches. Keys of `values` are those of docs/ncu.md; what was not collected is absent.
    """

    names: list[str]
    grids: list[str]  # x,y,z
    blocks: list[str]
    launches: int  # profiled
    values: dict[str, float]
    duration_min_ns: float | None = None  # over the launches
    duration_max_ns: float | None = None
    bound: Literal["compute", "memory", "compute_and_memory", "latency"] | None = None
    limited_by: list[
        str
    ] = []  # registers | shared_mem | warps | blocks | barriers; empty: at the hardware's most
    stalls: dict[str, float] = {}  # warp state -> cycles an issued instruction
    instructions: dict[str, float] = {}  # class of SASS instructions -> warp instructions a launch
    # Of a side that is added up, what does not add up: what a launch has (of one kernel the mean over its launches, of
    # several what all have alike), None where the kernels differ. `stalls` among the keys: they were collected.
    per_launch: dict[str, float | None] = {}


class NcuReason(msgspec.Struct, frozen=True):
    """A rule that fired. `cause`: the program or the machine did something else; `effect`: how it shows."""

    rule: str  # see docs/ncu.md
    kind: Literal["cause", "effect"]
    text: str


class NcuRow(msgspec.Struct, frozen=True):
    """A kernel of both sides. `factors` multiply to candidate_ns / baseline_ns."""

    match: Literal["exact", "name", "template", "sequence", "fused", "split", "added", "removed"]
    confidence: float
    change: Literal["faster", "slower", "no_clear_change", "added", "removed", "not_collected"]
    baseline: NcuKernel | None
    candidate: NcuKernel | None
    delta_ns: float | None
    sentence: str
    reasons: list[NcuReason] = []
    factors: dict[str, float] = {}  # instructions, cycles_per_instruction, clock
    kernel: int | None = None  # index into Result.kernels
    note: str = ""


class NcuMissing(msgspec.Struct, frozen=True):
    """Keys that some launches lack, and the option of `ncu` that collects them."""

    keys: list[str]
    collect_with: str


class NcuSide(msgspec.Struct, frozen=True):
    """One file of Nsight Compute."""

    file: str  # base name, or the label that was given
    source: Literal["report", "csv-raw", "csv-details"]
    device: str
    launches: int
    kernels: int
    missing: list[NcuMissing] = []


class Ncu(Section, frozen=True):
    """Kernels compared by their hardware counters."""

    renderer = "tracediff.companions.ncu.render"

    baseline: NcuSide
    candidate: NcuSide
    rows: list[NcuRow]
    warnings: list[Note] = msgspec.field(default_factory=list)


class NcuReport(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff ncu`; `ncu` is the same as in the result of a comparison of steps."""

    format_version: int = NCU_VERSION
    kind: Literal["ncu"] = "ncu"
    tool: Tool
    ncu: Ncu
