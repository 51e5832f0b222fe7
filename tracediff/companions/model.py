"""What companions add to a result: a section each, and the reports of their own commands.

The core fills and reads `tracediff.model.Result`, where a companion's part is some `Section`. Here the parts have their types.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tracediff import model
from tracediff.model.common import Check, Evidence, Figure, Note, Section, Step, Tool, Verdict

# A benchmark's own figures.


KpiVerdict: TypeAlias = Verdict | Literal["mixed"]
"""That of a comparison; mixed: some figures are better and some are worse."""


class KpiRow(msgspec.Struct, frozen=True):
    """One figure of a benchmark's own report."""

    metric: str
    unit: str
    better: Literal["lower", "higher"]
    baseline: float
    candidate: float
    delta: float
    explained: float | None = None  # share of the delta that the step-time delta explains
    # with two reports or more on both sides: 95 % interval of the delta over reports; level over all rows (Benjamini-Hochberg)
    ci_low: float | None = None
    ci_high: float | None = None
    level: Evidence | None = None


class Kpi(Section, frozen=True):
    """The benchmark's own figures beside the trace."""

    renderer = "tracediff.companions.bench.render"

    source_baseline: str
    source_candidate: str
    rows: list[KpiRow]
    note: str = ""
    verdict: KpiVerdict = "inconclusive"  # with one report on a side: a repeat may differ as much
    named: tuple[str, ...] = ()  # metrics that say so, or those that users notice first where none moved

    def figure(self, measure: str) -> Figure | None:
        """`ttft`, `tpot.p99`, ...: the mean or a percentile; `throughput`: as the time per output token, or else per request."""
        what, _, statistic = measure.partition(".")
        names = [f"{what}_{statistic or 'mean'}_ms"]
        if what == "throughput":
            names = ["output_throughput_tok_s", "request_throughput_req_s"]
        row = next((row for name in names for row in self.rows if row.metric == name), None)
        if row is None or min(row.baseline, row.candidate) <= 0:
            return None

        def ns(value: float) -> float:
            return 1e6 * value if row.unit == "ms" else 1e9 / value

        before = ns(row.baseline)
        ends = [row.baseline + end for end in (row.ci_low, row.ci_high) if end is not None]
        known = len(ends) == 2 and min(ends) > 0
        low, high = sorted(ns(end) - before for end in ends) if known else (None, None)
        per = {"ms": measure, "req/s": f"time per request (1 / {measure})"}
        name = per.get(row.unit, f"time per output token (1 / {measure})")
        return Figure(name, before, ns(row.candidate) - before, low, high, row.level)


# Kernels by their hardware counters, alone and beside traces.


class NcuKernel(msgspec.Struct, frozen=True):
    """What Nsight Compute measured of one side of a row: means over its launches.

    A side of several kernels (`fused`, `split`) has the sums of one round, and only what adds up; one of several
    grids has the mean over all launches. Keys of `values` are those of docs/result.md#nsight-compute; what was not collected is absent.
    """

    names: list[str]
    grids: list[str]  # x,y,z
    blocks: list[str]
    launches: int  # profiled
    values: dict[str, float]
    duration_min_ns: float | None = None  # over the launches
    duration_max_ns: float | None = None
    bound: Literal["compute", "memory", "compute_and_memory", "latency"] | None = None
    # registers | shared_mem | warps | blocks | barriers; empty: at the hardware's most
    limited_by: list[str] = []
    stalls: dict[str, float] = {}  # warp state -> cycles per issued instruction
    summed: bool = False  # the sums of several kernels


class NcuReason(msgspec.Struct, frozen=True):
    """A rule that fired. `cause`: the program or the machine did something else; `effect`: how it shows."""

    rule: str  # see docs/result.md#nsight-compute
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
    source: Literal["report", "csv-raw"]
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
    """What `tracediff compare --json` writes of two such files; `ncu` is the same as in the result of a comparison of steps."""

    format_version: int = 1
    kind: Literal["ncu"] = "ncu"
    tool: Tool
    ncu: Ncu


# Engines by trtexec, alone and beside traces.


class TrtexecRun(msgspec.Struct, frozen=True):
    """One call of trtexec."""

    name: str
    files: list[str]  # log | build log | times | profile | layer info
    iterations: int | None = None  # measured, without those to warm up


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

    metric: Literal[
        "gpu_compute", "latency", "throughput", "end_to_end", "enqueue", "h2d", "d2h", "layers", "build"
    ]
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
    """One side of a row; `time_ns` is the sum of its layers per query, None where the profile has none of them.

    Of each layer: its name, its place in the order of the files, its time (ns) and its precision.
    """

    names: list[str]
    types: list[str]
    precisions: list[str]
    tactics: list[str]
    time_ns: float | None = None
    places: list[int] = []
    times_ns: list[float | None] = []
    each_precision: list[str] = []  # '' where the layer info does not say


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
    """What `tracediff compare --json` writes of two such files; `trtexec` is the same as in the result of a comparison of steps."""

    format_version: int = 1
    kind: Literal["trtexec"] = "trtexec"
    tool: Tool
    trtexec: Trtexec


# Latencies without a profiler, alone and beside traces.


class LatencyOutlier(msgspec.Struct, frozen=True):
    """One iteration far from the others of its run; counted from 1, as in the file."""

    iteration: int
    ns: float


class LatencyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One file of latencies: its figures over the iterations that were not trimmed."""

    name: str  # base name
    format: str
    column: str  # column, or keys with dots between them; '' where there is none
    unit: str  # as in the file
    unit_from: str
    iterations: int
    trimmed: int  # warm-up, before them
    mean_ns: float
    median_ns: float
    p90_ns: float
    p99_ns: float
    min_ns: float
    max_ns: float
    outliers: int
    largest: list[LatencyOutlier] = []  # those farthest from the median
    left_out: bool = False  # it lies far from the others of its side


class LatencySide(msgspec.Struct, frozen=True):
    """One side: its runs, each counted once, and the distribution of all their iterations."""

    label: str
    runs: list[LatencyRun]
    iterations: int
    quantiles_ns: list[float]  # at equal steps of probability from 0 to 1, for drawing


class LatencyRow(msgspec.Struct, frozen=True):
    """A figure of both sides: the mean over runs of what it is in each. Bounds are None where they cannot be said."""

    statistic: Literal["mean", "median", "p90", "p99", "min"]
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float | None
    ci_high_ns: float | None
    level: Evidence
    p_value: float | None = None
    q_value: float | None = None  # Benjamini-Hochberg over the rows but the mean, which the verdict tests


class LatencyTraced(msgspec.Struct, frozen=True):
    """The mean iteration beside the mean step of the trace; the cost is that of profiling, where the two correspond."""

    side: Literal["baseline", "candidate"]
    unprofiled_ns: float
    traced_ns: float
    corresponds: bool
    cost_ns: float | None = None
    share: float | None = None  # of the unprofiled iteration
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None


class Latencies(Section, frozen=True):
    """Latencies measured without a profiler. `step` is the mean iteration; noise and p are those of runs."""

    renderer = "tracediff.companions.latencies.render"

    baseline: LatencySide
    candidate: LatencySide
    verdict: Verdict
    verdict_reason: str
    step: Step
    rows: list[LatencyRow]
    checks: list[Check]
    traced: list[LatencyTraced] = msgspec.field(default_factory=list)
    note: str = ""  # what both, trace and latencies, say together


class LatencyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `tracediff compare --json` writes of two such files; `latencies` is the same as in the result of a comparison of steps."""

    format_version: int = 1
    kind: Literal["latencies"] = "latencies"
    tool: Tool
    latencies: Latencies


# The whole.


class Result(model.Result, frozen=True, kw_only=True):
    """Everything a report needs."""

    kpi: Kpi | None  # where a benchmark's reports were given, or are in the bundle
    ncu: Ncu | None = None  # where files of Nsight Compute were given
    trtexec: Trtexec | None = None  # where files of trtexec were given
    latencies: Latencies | None = None  # where latencies without a profiler were given


def complete(result: model.Result) -> Result:
    """The same result with room for the sections of companions."""
    return Result(**{name: getattr(result, name) for name in result.__struct_fields__})


def decode(data: bytes) -> Result:
    """Read a result back from JSON; raises `msgspec.ValidationError` where it is not one."""
    return msgspec.json.decode(data, type=Result)
