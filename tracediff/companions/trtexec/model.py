"""Engines by trtexec: a section of the result, and what `tracediff trtexec --json` writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Evidence, Note, Section, Tool, Verdict

TRTEXEC_VERSION = 1


class TrtexecRun(msgspec.Struct, frozen=True):
    """One call of trtexec."""

    name: str
    files: list[str]  # log | times | profile | layer info
    iterations: int | None = None  # measured, without those to warm up
    warmups: int | None = None  # that the file of times held as well, and that were left out
    profiled_iterations: int | None = None


class TrtexecSide(msgspec.Struct, frozen=True):
    """One side: its runs, and what the logs say of them."""

    label: str
    runs: list[TrtexecRun]
    version: str  # of TensorRT, '' where no log says it
    device: str
    layers: int
    reformats: int  # of the layers
    total_ns: float | None  # sum of the layers per query
    reformat_ns: float | None


class TrtexecFigure(msgspec.Struct, frozen=True):
    """A figure of the performance summary, means over the runs of a side.

    Keys: mean, min, max, median, p90, ...; ns per query, of `throughput` queries a second (mean alone). `delta` has the keys
    of both sides; interval, p and level are of the mean, those of `throughput` of its reciprocal, ns per query.
    """

    metric: Literal["gpu_compute", "latency", "throughput", "enqueue", "h2d", "d2h", "layers"]
    baseline: dict[str, float]
    candidate: dict[str, float]
    delta: dict[str, float]
    source: list[str]  # times | log | profile, of each side
    level: Evidence | None = None  # None where only one side has the figure
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None
    p_value: float | None = None
    noise_ns: float | None = None  # half-width of run-to-run noise, assumed with one run a side


class TrtexecChange(msgspec.Struct, frozen=True):
    """What is another in the layer info."""

    what: Literal["type", "precision", "tactic", "format"]
    before: str
    after: str


class TrtexecLayers(msgspec.Struct, frozen=True):
    """One side of a row; `time_ns` is the sum of its layers per query, None where the profile has none of them."""

    names: list[str]
    types: list[str]
    precisions: list[str]
    tactics: list[str]
    time_ns: float | None = None
    median_ns: float | None = None  # of a single layer


class TrtexecRow(msgspec.Struct, frozen=True):
    """Layers that do the same work on both sides."""

    match: Literal["exact", "normalised", "similar", "fused", "split", "regrouped", "added", "removed"]
    confidence: float
    reformat: bool
    baseline: TrtexecLayers | None
    candidate: TrtexecLayers | None
    delta_ns: float | None  # None without times on both sides, or on the one that has the layers
    level: Evidence | None
    sentence: str
    changes: list[TrtexecChange] = []


class TrtexecGroup(msgspec.Struct, frozen=True):
    """Layers of one type or precision; the groups of a kind add up to all layers."""

    kind: Literal["type", "precision"]
    name: str  # '' where the layer info does not say
    baseline_layers: int
    candidate_layers: int
    baseline_ns: float | None
    candidate_ns: float | None
    delta_ns: float | None


class Trtexec(Section, frozen=True):
    """Two engines of TensorRT compared by what trtexec measured."""

    renderer = "tracediff.companions.trtexec.render"

    baseline: TrtexecSide
    candidate: TrtexecSide
    verdict: Verdict
    verdict_reason: str
    figures: list[TrtexecFigure]
    rows: list[TrtexecRow]
    groups: list[TrtexecGroup]
    warnings: list[Note] = msgspec.field(default_factory=list)


class TrtexecReport(msgspec.Struct, frozen=True, kw_only=True):
    """The object of `tracediff trtexec`; `trtexec` is the same as in the result of a comparison of steps."""

    format_version: int = TRTEXEC_VERSION
    kind: Literal["trtexec"] = "trtexec"
    tool: Tool
    trtexec: Trtexec
