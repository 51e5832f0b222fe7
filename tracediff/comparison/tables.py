"""The descriptive tables of a result: ranges, gaps, launches, threads, Python, ranks, what few captures record.

Tables that reductions keep by exact stratum are weighed like the mean step (frame.py), so they add up to it where the steps of a
stratum count alike.

Every table is one expression over columns `baseline_X` and `candidate_X`, named as the fields of its rows are. One side
alone has no columns, and its rows no fields, of a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.accounting.system import STATES
from tracediff.comparison.frame import Frame
from tracediff.comparison.kernel_table import KernelCells
from tracediff.execution.sides import Side, exact_strata, parts_of, stacked, tagged
from tracediff.model import (
    ApiRow,
    CommCallRow,
    GapRow,
    Gc,
    GcRow,
    Gil,
    GilPairRow,
    GilRow,
    GpuMetricMean,
    GpuMetricRow,
    GpuMetricSide,
    GpuSampling,
    GpuSamplingSide,
    Graphs,
    HostWorkRow,
    KernelRanks,
    Launch,
    LaunchCounts,
    LaunchSide,
    LaunchTypical,
    MemoryRow,
    OffCpuRow,
    OsCallRow,
    PayloadRow,
    Phase,
    RangeRow,
    RankRow,
    RankSkew,
    ResponseStage,
    StepSample,
    System,
    ThreadRow,
    TransitionRow,
    WorstGap,
)
from tracediff.stats.tests import trimmed_interval
from tracediff.trace.threads import similarity

MAX_SAMPLES = 4000
MAX_GAP_ROWS = 400
SIDES: tuple[Literal["baseline", "candidate"], ...] = ("baseline", "candidate")
_PART = ["side", "run", "part"]
_STRATUM = [*_PART, "stratum"]
_COUNT = ("count", "ns")
_Held = Mapping[
    str, pl.Expr | bool
]  # of each side: whether it captured a kind of trace, or which rows it did
Row = TypeVar("Row", bound=msgspec.Struct)


class StandardisedMeans:
    """Turns sums by exact stratum into ns (or counts) per step."""

    def __init__(self, sides: Sequence[Side], frame: Frame) -> None:
        self._sides = sides
        self._frame = frame
        # steps of one stratum may count differently (see frame.py): tables that know strata only take their mean
        self._factor = (
            frame.steps.with_columns(weight=pl.Series(frame.weight))
            .group_by(*_STRATUM, maintain_order=True)
            .agg(factor=pl.col("weight").sum() / pl.len())
            .filter(pl.col("factor") > 0)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The sides that there are."""
        return SIDES[: len(self._sides)]

    def of_host(self, table: str, role: str = "thread", values: Sequence[str] = ("ns",)) -> pl.DataFrame:
        """A table of host threads of all reductions, as if every step of every rank had its own threads.

        Sums are divided by all steps; a thread that serves several ranks works once in what are several steps.
        `role`: the column that says whose time it is.
        """
        steps = exact_strata(self._sides).select(*_STRATUM, "steps")
        scale = (
            stacked(self._sides, "active_windows")
            .join(steps, on=_STRATUM)
            .select(*_STRATUM, pl.col("thread").alias(role), scale=pl.col("steps") / pl.col("windows"))
        )
        scaled = stacked(self._sides, table).join(
            scale, on=[*_STRATUM, role], how="left", maintain_order="left"
        )
        return scaled.with_columns(pl.col(*values) * pl.col("scale").fill_null(1.0)).drop("scale")

    def weigh(self, table: pl.DataFrame, by: Sequence[str], values: Sequence[str]) -> pl.DataFrame:
        """Sum `values` per step for each side and `by`: columns side, *by, *values."""
        # in the order of the table: sums of floats in another order would differ in their last bits from run to run
        joined = table.join(self._factor, on=_STRATUM, how="inner", maintain_order="left")
        return (
            joined.group_by("side", *by, maintain_order=True)
            # nine digits: what is once in every step is 1, whatever the weights add up to
            .agg(*((pl.col(value).cast(pl.Float64) * pl.col("factor")).sum().round(9) for value in values))
            .sort("side", *by)
        )

    def of_steps(
        self, table: pl.DataFrame, by: Sequence[str], values: Sequence[str], weight: Floats | None = None
    ) -> pl.DataFrame:
        """As `pivot`, of a table that knows the step of each row. `weight`: of `Frame.steps`; None: that of the mean step."""
        step = self._frame.index.rows(table)
        factor = np.where(step >= 0, (self._frame.weight if weight is None else weight)[step], 0.0)
        counted = table.with_columns(pl.col(*values) * pl.Series(factor)).filter(pl.Series(factor > 0))
        sums = counted.group_by("side", *by, maintain_order=True).agg(pl.col(*values).sum().round(9))
        return wide(sums.sort("side", *by), by, len(self._sides))

    def compared(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table by exact stratum that lie in compared steps."""
        return table.join(self._factor, on=_STRATUM, how="semi", maintain_order="left")

    def pivot(self, table: pl.DataFrame, by: Sequence[str], values: Sequence[str]) -> pl.DataFrame:
        """The same with all sides in one row: *by, baseline_X, candidate_X (null where a side has no such row)."""
        return wide(self.weigh(table, by, values), by, len(self._sides))

    def pivot_host(
        self, table: str, by: Sequence[str], values: Sequence[str], role: str = "thread"
    ) -> pl.DataFrame:
        """As `pivot`, of a table of host threads (see `of_host`)."""
        return self.pivot(self.of_host(table, role, values), by, values)


def wide(table: pl.DataFrame, by: Sequence[str], sides: int) -> pl.DataFrame:
    """A row per `by` and side -> a row per `by`, the other columns as SIDE_X."""
    parts = [
        table.filter(pl.col("side") == number)
        .drop("side")
        .rename({name: f"{side}_{name}" for name in table.columns if name not in ("side", *by)})
        for number, side in enumerate(SIDES[:sides])
    ]
    out = parts[0]
    for other in parts[1:]:
        out = out.join(other, on=list(by), how="full", coalesce=True, nulls_equal=True)
    return out


def _rows(kind: type[Row], table: pl.DataFrame) -> list[Row]:
    """The rows of a table: its columns have the names of the fields."""
    return msgspec.convert(table.to_dicts(), list[kind])  # type: ignore[valid-type]


def _sides_of(table: pl.DataFrame, value: str) -> list[pl.Expr]:
    return [pl.col(f"{side}_{value}") for side in SIDES if f"{side}_{value}" in table.columns]


def _by_delta(table: pl.DataFrame, value: str, *then: str) -> pl.DataFrame:
    """With `delta_ns`, candidate - baseline, a side without the row counting 0; the largest first, of one side the longest."""
    one, *other = (part.fill_null(0.0) for part in _sides_of(table, value))
    if not other:
        return _largest(table, one, *then)
    return _largest(table.with_columns(delta_ns=other[0] - one), (other[0] - one).abs(), *then)


def _most(table: pl.DataFrame, value: str) -> pl.Expr:
    """The larger of both sides."""
    return pl.max_horizontal(part.fill_null(0.0) for part in _sides_of(table, value))


def _by_size(table: pl.DataFrame, value: str, *then: str) -> pl.DataFrame:
    """What changed most first, where both sides know it; then what is longest."""
    sides = _sides_of(table, value)
    sizes = [(sides[1] - sides[0]).abs().fill_null(0.0)] if len(sides) > 1 else []
    sizes.append(_most(table, value))
    return table.sort(*sizes, *then, descending=[True] * len(sizes) + [False] * len(then))


def _largest(table: pl.DataFrame, size: pl.Expr, *then: str) -> pl.DataFrame:
    return table.sort(size, *then, descending=[True, *(False for _ in then)])


def _known(table: pl.DataFrame, values: Sequence[str], held: _Held) -> pl.DataFrame:
    """Null where a side did not record it, 0 where it did and has no such row."""
    return table.with_columns(
        pl.when(known).then(pl.col(f"{side}_{value}").fill_null(0.0)).otherwise(None).alias(f"{side}_{value}")
        for side, known in held.items()
        for value in values
    )


def _held(sides: Sequence[Side], kind: str) -> _Held:
    return {name: side.captured(kind) for name, side in zip(SIDES, sides, strict=False)}


def _structs(table: pl.DataFrame, there: str, fields: Mapping[str, Any]) -> pl.DataFrame:
    """Columns `baseline` and `candidate`: structs of `fields` (name -> column, or (column, divisor)), null without `there`."""

    def value(side: str, of: Any) -> pl.Expr:
        if isinstance(of, str):
            return pl.col(f"{side}_{of}")
        return pl.col(f"{side}_{of[0]}") / pl.col(f"{side}_{of[1]}")

    return table.with_columns(
        pl.when(pl.col(f"{side}_{there}") > 0)
        .then(pl.struct([value(side, of).alias(name) for name, of in fields.items()]))
        .otherwise(None)
        .alias(side)
        for side in SIDES
        if f"{side}_{there}" in table.columns
    )


# Ranges, idle gaps, launches.


def range_rows(sides: Sequence[Side], standardised: StandardisedMeans) -> list[RangeRow]:
    """Ranges by place and thread role, largest change first."""
    table = standardised.pivot_host("ranges", ["place", "domain", "thread"], _COUNT)
    table = table.rename({"place": "range"})
    fields = {"count_per_step": "count", "ns_per_step": "ns", "mean_ns": ("ns", "count")}
    return _rows(RangeRow, _by_delta(_structs(table, "count", fields), "ns", "range", "thread", "domain"))


def gap_rows(
    sides: Sequence[Side], standardised: StandardisedMeans, with_gil: bool
) -> tuple[list[GapRow], int]:
    """Idle time by cause, thread, place and neighbours; second, how many rows were left out."""
    by = ["cause", "thread", "range", "previous", "next"]
    gaps = stacked(sides, "gaps").with_columns(
        # without a GIL trace on one side, its waits are called what the thread did otherwise, as in the accounting
        cause=pl.col("cause") if with_gil else pl.col("under"),
        range="place",
        p50=pl.col("p50_ns") * pl.col("count"),
        p99=pl.col("p99_ns") * pl.col("count"),
    )
    table = standardised.pivot(gaps, by, ["count", "ns", "p50", "p99"])
    # quantiles are those of the runs and strata, averaged with their gaps as weights
    fields = {
        "count_per_step": "count", "ns_per_step": "ns", "mean_ns": ("ns", "count"), "p50_ns": ("p50", "count"),
        "p99_ns": ("p99", "count"),
    }  # fmt: skip
    rows = _rows(GapRow, _by_delta(_structs(table, "count", fields), "ns", *by).head(MAX_GAP_ROWS))
    return rows, len(table) - len(rows)


def worst_gaps(sides: Sequence[Side], top: int = 10) -> list[WorstGap]:
    """The longest single gaps of each side."""
    table = stacked(sides, "worst").sort("side", "ns", "run", "start", descending=[False, True, False, False])
    return [
        WorstGap(
            SIDES[row["side"]], sides[row["side"]].runs[row["run"]].name, row["start"], row["ns"], row["cause"],
            row["place"], row["thread"], row["previous"], row["next"], row["phase"],
        )
        for row in table.group_by("side", maintain_order=True).head(top).iter_rows(named=True)
    ]  # fmt: skip


def launch(
    sides: Sequence[Side], standardised: StandardisedMeans, accounting: Sequence[Mapping[str, float]]
) -> Launch:
    """Launch overhead. `accounting`: of each side, category -> ns."""
    delays = ["delay_mean", "delay_p50", "delay_p99"]
    calls = stacked(sides, "launch").with_columns(
        (pl.col(f"{name}_ns") * pl.col("calls")).fill_null(0.0).alias(name) for name in delays
    )
    columns = ["calls", "graph_launches", "kernels", "graph_kernels", *delays]
    counts = {row.pop("side"): row for row in standardised.weigh(calls, [], columns).to_dicts()}
    rows = api_rows(sides, standardised)
    found: dict[str, Any] = {}
    for number, side in enumerate(standardised.names):
        row = counts.get(number, dict.fromkeys(columns, 0.0))
        many, kernels = row["calls"], row["kernels"]
        mean, p50, p99 = (row[name] / many if many else 0.0 for name in delays)
        exposed = (accounting[number].get(name, 0.0) for name in ("launch_api", "launch_latency"))
        found[side] = LaunchSide(
            calls_per_step=many,
            graph_launches_per_step=row["graph_launches"],
            kernels_per_step=kernels,
            graph_coverage=row["graph_kernels"] / kernels if kernels else 0.0,
            api_ns_per_step=sum(getattr(one, f"{side}_ns") for one in rows if one.kind == "launch"),
            exposed_ns_per_step=sum(exposed),
            queue_delay_mean_ns=mean,
            queue_delay_p50_ns=p50,
            queue_delay_p99_ns=p99,
        )
    if len(sides) > 1:
        found["transitions"] = transitions(sides, standardised)
    return Launch(**found, apis=rows)


def api_rows(
    sides: Sequence[Side], standardised: StandardisedMeans, weight: Floats | None = None
) -> list[ApiRow]:
    """CUDA calls by function, largest change first. `weight`: of `Frame.steps`; None: that of the mean step."""
    calls = stacked(sides, "apis").rename({"count": "calls"})
    table = standardised.of_steps(calls, ["api", "kind"], ["calls", "ns"], weight)
    return _rows(ApiRow, _by_delta(table.fill_null(0.0), "ns", "api"))


def typical_launches(
    sides: Sequence[Side], standardised: StandardisedMeans, frame: Frame, kernels: KernelCells
) -> list[LaunchTypical]:
    """What the typical step of each phase launches."""
    kernel = np.array([kind != "memcpy" for kind in kernels.kinds], np.bool_)
    found = []
    for phase in frame.phases:
        apis = api_rows(sides, standardised, phase.typical)
        counts = kernels.of_phase[phase.phase, "typical"][kernel].sum(axis=0).tolist()

        def calls(side: str, kind: str, name: str = "", apis: list[ApiRow] = apis) -> float:
            rows = [one for one in apis if one.kind == kind and name in one.api]
            return math.fsum(getattr(one, f"{side}_calls") for one in rows)

        one, other = (
            LaunchCounts(
                many, calls(side, "launch"), calls(side, "launch", "GraphLaunch"), calls(side, "sync")
            )
            for side, many in zip(SIDES, counts, strict=True)
        )
        found.append(LaunchTypical(phase.phase, one, other, apis))
    return found


def transitions(sides: Sequence[Side], standardised: StandardisedMeans) -> list[TransitionRow]:
    """Kernels that were launched one by one on one side and by graphs on the other."""
    named = [
        tagged(
            part.transitions.join(
                part.keys.select("name", key=pl.col("id").cast(pl.Int64)), on="key", how="left"
            ).select("stratum", "name", "eager", "graph"),
            *place,
        )
        for *place, part in parts_of(sides)
    ]
    table = standardised.pivot(pl.concat(named), ["name"], ["eager", "graph"]).fill_null(0.0)
    eager, graph = _sides_of(table, "eager"), _sides_of(table, "graph")
    moved = table.filter(
        ((eager[0] > 0) & (graph[1] > 0) & (graph[0] < graph[1]))
        | ((graph[0] > 0) & (eager[1] > 0) & (graph[1] < graph[0]))
    )
    names = {f"{side}_{how}": f"{how}_per_step_{side}" for side in SIDES for how in ("eager", "graph")}
    return _rows(TransitionRow, moved.sort("name").rename({"name": "kernel", **names}))


def graphs(sides: Sequence[Side], launches: Launch) -> Graphs:
    """CUDA graph use: how graphs were traced (node | graph | none | unknown), launches per step, nodes per launch."""
    found: dict[str, Any] = {}
    for name, side in zip(SIDES, sides, strict=False):
        own: LaunchSide = getattr(launches, name)
        per_step = own.graph_launches_per_step
        found[f"mode_{name}"] = " | ".join(sorted({part.graph_mode for part in side.parts}))
        found[f"launches_per_step_{name}"] = per_step
        found[f"nodes_per_launch_{name}"] = (
            own.kernels_per_step * own.graph_coverage / per_step if per_step else None
        )
    return Graphs(**found)


# Host threads: their roles and the response path.


def threads(sides: Sequence[Side], ranges: Sequence[RangeRow]) -> list[ThreadRow]:
    """Thread roles and, of both sides, how alike their ranges are."""
    seen: list[dict[str, tuple[str, frozenset[str]]]] = [{} for _ in sides]
    for number, side in enumerate(sides):
        for thread in (thread for part in side.parts for thread in part.threads):
            process, places = seen[number].get(thread.role, (thread.process, frozenset()))
            seen[number][thread.role] = (process, places | thread.places)
    rows = []
    for role in sorted(set().union(*seen)):
        own = [roles.get(role) for roles in seen]
        fields: dict[str, Any] = {}
        for name, known in zip(SIDES, own, strict=False):
            times = [one.ns_per_step for row in ranges if row.thread == role and (one := getattr(row, name))]
            fields[f"{name}_ranges"] = sorted(known[1])[:20] if known else []
            fields[f"{name}_range_ns"] = sum(times, 0.0) if known else None
        if len(sides) > 1:
            one, other = own
            fields["score"] = similarity(one[1], other[1]) if one and other else None
            fields["delta_ns"] = _less(fields["candidate_range_ns"], fields["baseline_range_ns"])
        rows.append(ThreadRow(role=role, process=next(known[0] for known in own if known), **fields))
    return rows


# facts: life of a response in TensorRT-LLM, in its order
_STAGES: tuple[tuple[str, str], ...] = (
    ("executor: handle responses", "_handle_responses"),
    ("executor: enqueue responses", "_enqueue_responses"),
    ("await response", "await_response-N"),
    ("send to the main process", "send"),
    ("handle response", "handle_response"),
    ("detokenise", "decode_incrementally"),
    ("post-process", "chat_stream_post_processor"),
)


def response_path(ranges: Sequence[RangeRow], step_ns: Sequence[float]) -> list[ResponseStage]:
    """Host time per step of each stage of the response path; a stage longer than the step cannot keep up."""
    rows = []
    for stage, row in ((stage, row) for stage, name in _STAGES for row in ranges if row.range == name):
        fields: dict[str, Any] = {}
        for side, step in zip(SIDES, step_ns, strict=False):
            ns = one.ns_per_step if (one := getattr(row, side)) else None
            fields |= {f"{side}_ns": ns, f"keeps_up_{side}": None if ns is None else ns <= step}
        if len(step_ns) > 1:
            fields["delta_ns"] = row.delta_ns if row.baseline and row.candidate else None
        rows.append(ResponseStage(stage=stage, thread=row.thread, range=row.range, **fields))
    return rows


# Step times.


def phases(steps: pl.DataFrame) -> list[Phase]:
    """Mean and tails of step time by phase over all whole steps."""
    ns = pl.col("ns")
    runs = steps.group_by("phase", "side", "run").agg(ns.mean()).sort("phase", "side", "run")
    quantiles = {f"p{name}_ns": ns.quantile(name / 100, "linear") for name in (50, 90, 99)}
    table = steps.group_by("phase", "side").agg(
        steps=pl.len(), mean_ns=ns.cast(pl.Float64).sum() / pl.len(), **quantiles
    )
    table = table.join(
        runs.group_by("phase", "side", maintain_order=True).agg(run_means_ns="ns"), on=["phase", "side"]
    )
    fields = ("steps", "mean_ns", *quantiles, "run_means_ns")
    both = wide(table, ["phase"], 2 if steps["side"].max() else 1)
    both = _structs(both, "steps", {name: name for name in fields})
    if "candidate" in both.columns:
        both = both.with_columns(
            (pl.col(f"candidate_{name}_ns") - pl.col(f"baseline_{name}_ns")).alias(f"delta_{name}_ns")
            for name in ("mean", "p50", "p99")
        )
    return _rows(Phase, both.sort("phase"))


def samples(steps: pl.DataFrame) -> tuple[list[StepSample], int]:
    """Step times for distributions, evenly thinned where there are too many."""
    ordered = steps.sort("side", "run", "rank", "device", "start_ns")
    every = max(-(-len(ordered) // MAX_SAMPLES), 1)
    kept = ordered.gather_every(every)
    rows = [
        StepSample(SIDES[side], run, rank, phase, number, ns)
        for side, run, rank, phase, number, ns in kept.select(
            "side", "run", "rank", "phase", "number", "ns"
        ).iter_rows()
    ]
    return rows, len(ordered) - len(kept)


# Python's own costs: who held and awaited the GIL, and garbage collection.


def gil(sides: Sequence[Side], standardised: StandardisedMeans, idle: pl.DataFrame) -> Gil:
    """GIL by thread role and phase, and who waited for whom. `idle`: thread, phase, exposed_b, exposed_c of gil_wait."""
    held = _held(sides, "gil")
    if not any(held.values()):
        return Gil([], [])
    phases = exact_strata(sides).select(*_STRATUM, "phase")
    times = standardised.of_host("gil", values=("hold_ns", "wait_ns")).join(phases, on=_STRATUM, how="left")
    table = standardised.pivot(times.fill_null(0), ["thread", "phase"], ["hold_ns", "wait_ns"])
    exposed = idle.rename({"exposed_b": "baseline_exposed_ns", "exposed_c": "candidate_exposed_ns"})
    table = _known(
        table.join(exposed, on=["thread", "phase"], how="left"), ["hold_ns", "wait_ns", "exposed_ns"], held
    )
    pairs = standardised.pivot_host("gil_pairs", ["waiter", "holder", "holder_place"], ["ns"], "waiter")
    pairs = _known(pairs.rename({"holder_place": "holder_range"}), ["ns"], held)
    table = table.select(
        name for name in table.columns if name.partition("_")[0] in (*held, "thread", "phase")
    )
    return Gil(
        _rows(GilRow, _largest(table, _most(table, "wait_ns"), "thread", "phase")),
        _rows(GilPairRow, _largest(pairs, _most(pairs, "ns"), "waiter", "holder", "holder_range")),
    )


def gc(
    sides: Sequence[Side], standardised: StandardisedMeans, exposed: Mapping[str, tuple[float, float]]
) -> Gc:
    """Garbage collection by thread role and generation. `exposed`: thread -> GPU idle ns of both sides."""
    held = _held(sides, "gc")
    if not any(held.values()):
        return Gc([])
    table = standardised.pivot_host("gc", ["thread", "generation"], _COUNT)
    idle = pl.DataFrame(
        [(thread, *ns) for thread, ns in exposed.items()],
        schema={"thread": pl.String, **dict.fromkeys(SIDES, pl.Float64)}, orient="row",
    )  # fmt: skip
    table = table.join(idle, on="thread", how="left").with_columns(
        # the accounting knows the thread; generations share its idle time by their length
        (pl.col(side).fill_null(0.0) * ns / pl.when(ns.sum().over("thread") > 0).then(ns.sum().over("thread")))
        .alias(f"{side}_exposed_ns")
        for side in standardised.names
        for ns in [pl.col(f"{side}_ns")]
    ).drop(SIDES)  # fmt: skip
    table = _known(table, ["count", "ns", "exposed_ns"], held)
    return Gc(_rows(GcRow, _largest(table, _most(table, "ns"), "thread", "generation")))


# Ranks: step time of each, which one the others wait for, and kernels that are not alike on all of them.

MOST_KERNELS = 50
_FEWEST = 4  # ranks of which one can be called an outlier
_UNIT = ["rank", "device"]


def with_own(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with their `own_ns`."""
    return steps.with_columns(own_ns=pl.col("ns") - pl.col("comm"))


def joint_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that several ranks share: side, run, step, rank, device, own_ns, last, behind_ns.

    Steps of one number belong together; where labels have none, or repeat, those of one place in the run do. Of the steps that at
    least half of the devices have. last: the device with the most own time, of equal ones the first, none where that is the
    median; behind_ns: by how much it is more than the median, 0 for the others.
    """
    run, unit = ["side", "run"], ["side", "run", *_UNIT]
    ordered = with_own(steps).sort(*unit, "start_ns")
    place = pl.int_range(pl.len()).over(unit)
    counted = pl.col("number").is_not_null().all().over(run) & pl.struct(
        *unit, "number"
    ).is_unique().all().over(run)
    ordered = ordered.with_columns(
        step=pl.when(counted).then(pl.col("number")).otherwise(place),
        of=pl.struct(_UNIT).n_unique().over(run),
    )
    together = [*run, "step"]
    shared = ordered.filter((pl.len().over(together) >= 2) & (2 * pl.len().over(together) >= pl.col("of")))
    own = pl.col("own_ns")
    late = (own - own.median()).over(together)
    first = pl.int_range(pl.len()).over(together) == own.arg_max().over(together)
    return (
        shared.with_columns(last=first & (late > 0), late=late)
        .with_columns(behind_ns=pl.when("last").then("late").otherwise(0.0))
        .select(*run, "step", *_UNIT, "own_ns", "last", "behind_ns")
    )


def skews(joint: pl.DataFrame) -> list[RankSkew]:
    """How far the ranks of each side are apart, a row per side with joint steps."""
    rows = []
    for (side,), mine in joint.sort("side").group_by("side", maintain_order=True):
        steps = mine.group_by("run", "step").agg(pl.col("behind_ns").sum())["behind_ns"]
        often = (
            mine.filter("last").group_by("rank").len().sort("len", "rank", descending=[True, False]).rows()
        )
        rank, times = often[0] if often else (None, 0)
        late = float(steps.sum()) / len(steps)
        rows.append(
            RankSkew(SIDES[side], mine["rank"].n_unique(), len(steps), late, rank, times / len(steps))
        )
    return rows


def ranks(
    sides: Sequence[Side], steps: pl.DataFrame, standardised: StandardisedMeans, joint: pl.DataFrame
) -> list[RankRow]:
    """Step time, own time and collective waits of each rank, in order of ranks.

    `steps`: the compared ones with their weight; `joint`: of these, see `joint_steps`.
    """
    weighed = ((pl.col(name) * pl.col("weight")).sum() / pl.col("weight").sum() for name in ("ns", "own_ns"))
    times = (
        with_own(steps)
        .group_by("side", "run", *_UNIT, maintain_order=True)
        .agg(weighed)
        .sort("side", "run", *_UNIT)
        .group_by("side", *_UNIT, maintain_order=True)
        .agg(pl.col("ns", "own_ns").mean())
    )
    late = joint.group_by("side", *_UNIT).agg(
        pl.col("last").mean(), pl.col("behind_ns").filter(pl.col("last")).mean()
    )
    found = times.join(late, on=["side", *_UNIT], how="left").join(
        _waits(sides, standardised), on=["side", "rank"], how="left"
    )
    table = wide(found, _UNIT, len(sides)).sort(_UNIT)
    if len(sides) > 1:
        table = table.with_columns(
            (pl.col(f"candidate_{name}") - pl.col(f"baseline_{name}")).alias(f"delta_{name}")
            for name in ("ns", "own_ns")
        )
    return _rows(RankRow, table.with_columns(outlier=_outliers(table)))


def _less(value: float | None, than: float | None) -> float | None:
    return None if value is None or than is None else value - than


def _waits(sides: Sequence[Side], standardised: StandardisedMeans) -> pl.DataFrame:
    """Of ranks in one export: waiting, transfer, what the others waited for the rank, ns per step."""
    values = ["comm_wait_ns", "comm_transfer_ns", "caused_wait_ns"]
    collectives = _ranked(sides, "collectives").rename(
        {"wait_ns": values[0], "transfer_ns": values[1], "caused_ns": values[2]}
    )
    weighed = standardised.weigh(collectives, ["rank"], values)
    # the standardised divides by the steps of all ranks; a rank's own are their share
    return weighed.with_columns(pl.col(values) * pl.len().over("side"))


def _ranked(sides: Sequence[Side], table: str) -> pl.DataFrame:
    """A table of all exports with the rank counted over those of a run."""
    firsts = [first for side in sides for run in side.runs for first in run.firsts()]
    parts = pl.DataFrame(
        [(*one[:3], first) for one, first in zip(parts_of(sides), firsts, strict=True)],
        schema=dict.fromkeys((*_PART, "first"), pl.Int64), orient="row",
    )  # fmt: skip
    joined = stacked(sides, table).join(parts, on=_PART, how="left", maintain_order="left")
    return joined.with_columns(pl.col("rank") + pl.col("first")).drop("first")


def _outliers(table: pl.DataFrame) -> pl.Series:
    """How far each rank's change of own time is from the median change, in robust standard deviations.

    With one side alone, or no rank on both, its own time takes the place of the change. The deviation is 1.4826 times the
    median distance from the median, and at least 0.01 % of the step: of ranks that are all alike, a rounding is no outlier.
    """
    none = pl.Series([None] * len(table), dtype=pl.Float64)
    values = table["delta_own_ns"] if "delta_own_ns" in table.columns else none
    if values.is_null().all():
        values = table.select(pl.coalesce(_sides_of(table, "own_ns"))).to_series()
    array = values.drop_nulls().to_numpy()
    if len(array) < _FEWEST:
        return none
    middle = float(np.median(array))
    step = float(table.select(pl.max_horizontal(_sides_of(table, "ns")).max()).item())
    spread = max(1.4826 * float(np.median(np.abs(array - middle))), 1e-4 * step, 1.0)
    return (values - middle) / spread


def kernel_ranks(kernels: KernelCells, steps: pl.DataFrame) -> tuple[list[KernelRanks], int]:
    """Kernels that take longer on one rank than on the others, the most time first; second, how many were left out.

    `steps`: the compared ones with side, run, part, period, rank. Of programs with two ranks or more. Communication is not
    here: a rank's time in it is the other ranks' doing.
    """
    of_rank = steps.group_by("side", "rank").agg(pl.len().alias("steps"))
    if of_rank["rank"].n_unique() < 2:
        return [], 0
    by = ["side", "row"]
    sums = (
        kernels.values.join(steps.select(*_PART, "period", "rank"), on=[*_PART, "period"])
        .filter(pl.col("row").is_in([row for row, kind in enumerate(kernels.kinds) if kind != "comm"]))
        .sort(*_PART, "period", "row")
        .group_by(*by, "rank", maintain_order=True)
        .agg(pl.col("share_ns").sum())
    )
    every = sums.select(by).unique().join(of_rank, on="side").join(sums, on=[*by, "rank"], how="left")
    ns = pl.col("ns")
    found = (
        every.select(*by, "rank", ns=pl.col("share_ns").fill_null(0.0) / pl.col("steps"))
        .sort(*by, "rank")
        .group_by(by, maintain_order=True)
        .agg(mean=ns.mean(), most=ns.max(), at=pl.col("rank").get(ns.arg_max()))
        .filter((pl.col("mean") > 0) & (pl.col("most") > pl.col("mean")))
        .sort(pl.col("most") - pl.col("mean"), *by, descending=[True, False, False])
    )
    rows = []
    for side, row, mean, most, at in found.head(MOST_KERNELS).iter_rows():
        match = kernels.rows[row]
        ops = match.candidate if side and match.candidate else match.baseline or match.candidate
        rows.append(
            KernelRanks(SIDES[side], [op.name for op in ops], kernels.kinds[row], mean, most, at, most / mean)
        )
    return rows, max(len(found) - MOST_KERNELS, 0)


# What few captures hold: OS calls, context switches, communication, CUDA's memory, GPU metrics, payloads of ranges.

KINDS = ("os_calls", "context_switches", "gpu_memory", "gpu_metrics", "mpi", "nccl")


def system(sides: Sequence[Side], standardised: StandardisedMeans, with_gil: bool) -> System | None:
    """All of them; None where no side recorded any."""
    calls, switches, memory, metrics, mpi, nccl = found = [_held(sides, kind) for kind in KINDS]
    payloads = _payloads(sides, standardised)
    if not payloads and not any(any(one.values()) for one in found):
        return None
    metric_rows, sampling = _metrics(sides, standardised) if any(metrics.values()) else ([], [])

    def counted(kind: type[Row], name: str, by: Sequence[str], recorded: _Held) -> list[Row]:
        table = _known(standardised.pivot_host(name, by, _COUNT), _COUNT, recorded)
        return _rows(kind, _by_size(table, "ns", *by)) if any(recorded.values()) else []

    recorded = any((*calls.values(), *switches.values(), *mpi.values()))
    return System(
        counted(OsCallRow, "os_calls", ["thread", "call"], calls),
        counted(OffCpuRow, "off_cpu", ["thread"], switches),
        _host_work(sides, standardised, with_gil) if recorded else [],
        _memory(sides, standardised, memory) if any(memory.values()) else [],
        gpu_metrics=metric_rows,
        gpu_sampling=sampling,
        comm_calls=_comm_calls(standardised, {"MPI": mpi, "NCCL": nccl}),
        payloads=payloads,
    )


def _comm_calls(standardised: StandardisedMeans, held: Mapping[str, _Held]) -> list[CommCallRow]:
    by = ["library", "thread", "call"]
    table = standardised.pivot_host("comm_calls", by, (*_COUNT, "sized", "bytes"))
    known: _Held = {
        side: pl.col("library").is_in([name for name, sides in held.items() if sides[side]])
        for side in standardised.names
    }
    for side in standardised.names:
        size, sized = pl.col(f"{side}_bytes"), pl.col(f"{side}_sized") > 0
        table = table.with_columns(
            pl.when(sized).then(size.round(3)).alias(f"{side}_bytes"),
            pl.when(sized).then((size / pl.col(f"{side}_sized")).round(3)).alias(f"{side}_bytes_per_call"),
        )
    return _rows(CommCallRow, _by_size(_known(table, _COUNT, known), "ns", *by))


def _host_work(sides: Sequence[Side], standardised: StandardisedMeans, with_gil: bool) -> list[HostWorkRow]:
    """What is in no call is told apart by switches only on a side that has them; a call is known of a side with calls."""
    work = stacked(sides, "host_work")
    if with_gil:  # a wait for the GIL is no host work then
        work = work.filter(~pl.col("gil"))
    off_cpu = pl.col("off_cpu")
    kind = (
        pl.when("mpi").then(pl.lit("mpi_call"))
        .when(pl.col("call") != "").then(pl.lit("os_call"))
        .when(off_cpu).then(pl.lit("off_cpu"))
        .otherwise(pl.lit("rest"))
    )  # fmt: skip
    work = work.with_columns(kind=kind, range="place", off_cpu_ns=pl.when(off_cpu).then("ns").otherwise(0))
    by = ["thread", "range", "kind", "call"]
    table = standardised.pivot(work, by, ["ns", "off_cpu_ns"])
    known: dict[str, pl.Expr] = {}
    for name, side in zip(SIDES, sides, strict=False):
        calls, switches, mpi = (side.captured(kind) for kind in ("os_calls", "context_switches", "mpi"))
        told = {"mpi_call": mpi, "os_call": calls, "off_cpu": switches, "rest": calls or switches or mpi}
        known[name] = pl.col("kind").is_in([kind for kind, there in told.items() if there])
    table = _known(table, ["ns"], known)
    switched = {name: known[name] & held for name, held in _held(sides, "context_switches").items()}
    return _rows(HostWorkRow, _by_size(_known(table, ["off_cpu_ns"], switched), "ns", *by))


def _memory(sides: Sequence[Side], standardised: StandardisedMeans, held: _Held) -> list[MemoryRow]:
    flows = ("allocations", "bytes", "frees", "freed_bytes")
    flow = standardised.weigh(stacked(sides, "memory"), ["kind"], flows)
    peaks = stacked(sides, "memory_peaks").group_by("side", "kind").agg(peak_bytes=pl.col("bytes").max())
    both = flow.join(peaks, on=["side", "kind"], how="full", coalesce=True)
    table = wide(both, ["kind"], len(sides)).sort("kind")

    def of_side(side: str) -> pl.Expr:
        fields = [pl.col(f"{side}_{name}").fill_null(0.0).alias(f"{name}_per_step") for name in flows]
        peak = pl.col(f"{side}_peak_bytes").fill_null(0).alias("peak_bytes")
        return pl.when(held[side]).then(pl.struct(*fields, peak)).otherwise(None).alias(side)

    return _rows(MemoryRow, table.select("kind", *map(of_side, held)))


def _payloads(sides: Sequence[Side], standardised: StandardisedMeans) -> list[PayloadRow]:
    """Rows by range and thread role, those whose mean changed most (as a part of it) first; empty where no side has any.

    Count and sum are weighed as times of host threads are; the mean is their quotient, least and most are of the compared steps.
    """
    by = ["place", "domain", "thread"]
    sums = standardised.weigh(standardised.of_host("payloads", values=("count", "sum")), by, ["count", "sum"])
    compared = standardised.compared(stacked(sides, "payloads"))
    bounds = compared.group_by("side", *by).agg(pl.col("low").min(), pl.col("high").max())
    both = sums.join(bounds, on=["side", *by], how="left", nulls_equal=True)
    mean = pl.min_horizontal(pl.max_horizontal(pl.col("sum") / pl.col("count"), "low"), "high")
    table = wide(both.with_columns(mean=mean), by, len(sides)).rename({"place": "range"})
    fields = {"count_per_step": "count", "sum_per_step": "sum", "mean": "mean", "min": "low", "max": "high"}
    table = _structs(table, "count", fields)
    order = ("range", "domain", "thread")
    if len(sides) == 1:
        return _rows(PayloadRow, table.sort(order))
    table = table.with_columns(delta_mean=pl.col("candidate_mean") - pl.col("baseline_mean"))
    size = pl.max_horizontal(part.abs() for part in _sides_of(table, "mean"))
    moved = pl.col("delta_mean").abs() / pl.when(size > 0).then(size).otherwise(1.0)
    return _rows(PayloadRow, _largest(table, moved.fill_null(0.0), *order))


# GPU metrics that nsys sampled: a row per metric and device, and how each device was sampled.

# Samples that a run needs for its mean to be given: of 20, its standard error is about a fifth of their scatter.
MIN_SAMPLES = 20
# What is looked at first, as the beginning of a name in small letters.
KEY = (
    "sms active", "sm active", "sm issue", "tensor active", "dram read", "dram write", "nvlink", "pcie", "gpc clock",
)  # fmt: skip
_METRIC = [*_UNIT, "metric", "unit"]
_STATES: dict[str, Collection[str]] = {"steps": STATES, "busy": ("busy",), "idle": ("idle",)}


def _metrics(
    sides: Sequence[Side], standardised: StandardisedMeans
) -> tuple[list[GpuMetricRow], list[GpuSampling]]:
    """Rows of metrics, the well-known ones first, and of how each rank's device was sampled."""
    held = _held(sides, "gpu_metrics")
    table = standardised.compared(_ranked(sides, "gpu_metrics"))
    key = ["run", *_METRIC, "state"]
    counted = table.group_by("side", *key).agg(pl.col("samples").sum().alias("raw"), pl.col("refused").sum())
    found = standardised.weigh(table, key, ["samples", "sum"]).join(
        counted, on=["side", *key], how="left", maintain_order="left"
    )
    periods = standardised.compared(_ranked(sides, "periods").select(*_STRATUM, *_UNIT))
    steps = {row[:3]: row[3] for row in periods.group_by("side", *_UNIT).len().iter_rows()}
    rows = []
    for of, mine in found.group_by(_METRIC, maintain_order=True):
        fields: dict[str, Any] = dict(zip(_METRIC, of, strict=True))
        for number, side in enumerate(held):
            its = mine.filter(pl.col("side") == number)
            raw = dict(its.group_by("state").agg(pl.col("raw").sum()).iter_rows())
            fields[side] = GpuMetricSide(
                samples_per_step=sum(raw.values()) / max(steps.get((number, *of[:2]), 0), 1),
                busy_samples=raw.get("busy", 0),
                idle_samples=raw.get("idle", 0),
                mixed_samples=raw.get("mixed", 0),
                refused_samples=int(its["refused"].sum()),
            ) if held[side] else None  # fmt: skip
        for name, states in _STATES.items():
            fields[name] = _mean(
                [_run_means(mine, number, states, side) for number, side in enumerate(sides)]
            )
        rows.append(GpuMetricRow(**fields))
    return sorted(rows, key=_order), _sampling(sides, held)


def _order(row: GpuMetricRow) -> tuple[int, str, int, int]:
    name = row.metric.lower()
    place = next((at for at, start in enumerate(KEY) if name.startswith(start)), len(KEY))
    return place, row.metric, row.rank, row.device


def _run_means(mine: pl.DataFrame, number: int, states: Collection[str], side: Side) -> list[float]:
    """The mean of the samples in these states, of each run; empty where some run has fewer than `MIN_SAMPLES`."""
    sums = (
        mine.filter((pl.col("side") == number) & pl.col("state").is_in(states))
        .group_by("run", maintain_order=True)
        .agg(pl.col("raw", "samples", "sum").sum())
        .filter(pl.col("raw") >= MIN_SAMPLES)
    )
    means = {run: total / samples for run, _, samples, total in sums.iter_rows()}
    return [means[run] for run in sorted(means)] if len(means) == len(side.runs) else []


def _mean(runs: Sequence[list[float]]) -> GpuMetricMean:
    """A side's mean is that of its runs, where each has enough samples; the interval needs two runs per side."""
    means = [float(np.mean(values)) if values else None for values in runs]
    if len(means) == 1:
        return GpuMetricMean(means[0])
    bounds = trimmed_interval(np.array(runs[0]), np.array(runs[1]))
    return GpuMetricMean(means[0], means[1], _less(means[1], means[0]), *(bounds or (None, None)))


def _sampling(sides: Sequence[Side], held: _Held) -> list[GpuSampling]:
    rows = []
    for of, mine in _ranked(sides, "gpu_sampling").sort(_UNIT).group_by(_UNIT, maintain_order=True):
        found: dict[str, GpuSamplingSide | None] = {}
        for number, side in enumerate(held):
            its = mine.filter(pl.col("side") == number)
            gpus = set(its["gpu"].to_list())
            known = len(its) > 0 and None not in gpus
            found[side] = GpuSamplingSide(
                known,
                gpus.pop() if known and len(gpus) == 1 else None,
                int(its["interval_ns"].max()) if known else None,  # type: ignore[arg-type]
                int(its["unread"].max()) if known else 0,  # type: ignore[arg-type]
            ) if held[side] else None  # fmt: skip
        rows.append(GpuSampling(*of, **found))  # type: ignore[arg-type]
    return rows
