"""The descriptive tables of a result: ranges, gaps, launches, graphs, threads, ranks, phases.

Tables that reductions keep by exact stratum are weighed like the headline: for each compared group, sums over
its steps divided by their number, averaged over runs, weighted by the baseline's mix. So they add up to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tracediff.accounting.metrics import STATES
from tracediff.compare.kernel_table import KernelCells
from tracediff.compare.sides import Side, exact_strata, parts_of, stacked
from tracediff.compare.strata import Strata
from tracediff.model import (
    ApiRow,
    CommCallRow,
    GapRow,
    GapSide,
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
    LaunchSide,
    MemoryRow,
    MemorySide,
    OffCpuRow,
    OsCallRow,
    PayloadRow,
    PayloadSide,
    Phase,
    PhaseSide,
    RangeRow,
    RangeSide,
    RankRow,
    RankSkew,
    ResponseStage,
    StepSample,
    System,
    ThreadRow,
    TransitionRow,
    WorstGap,
)
from tracediff.stats.tests import run_level_interval
from tracediff.trace.threads import similarity

MAX_SAMPLES = 4000
MAX_GAP_ROWS = 400
_SIDES = ("baseline", "candidate")


class Weigher:
    """Turns sums by exact stratum into ns (or counts) a step."""

    def __init__(self, sides: Sequence[Side], strata: Strata) -> None:
        self._sides = sides
        located = strata.locate(exact_strata(sides)).filter(pl.col("group") >= 0)
        steps = located.group_by("side", "run", "group").agg(pl.col("steps").sum().alias("group_steps"))
        runs = steps.group_by("side", "group").agg(pl.len().alias("runs"))
        weights = pl.DataFrame(
            {"group": list(strata.weights), "weight": list(strata.weights.values())},
            schema={"group": pl.Int64, "weight": pl.Float64},
        )
        self._factor = (
            located.join(steps, on=["side", "run", "group"])
            .join(runs, on=["side", "group"])
            .join(weights, on="group")
            .select(
                "side", "run", "part", "stratum", "phase",
                factor=pl.col("weight") / (pl.col("group_steps") * pl.col("runs")),
            )
        )  # fmt: skip

    def of_host(self, table: str, role: str = "thread", values: Sequence[str] = ("ns",)) -> pl.DataFrame:
        """A table of host threads of all reductions, as if every step of every rank had its own threads.

        Sums are divided by all steps; a thread that serves several ranks works once in what are several steps.
        `role`: the column that says whose time it is.
        """
        keys = ["side", "run", "part", "stratum"]
        steps = exact_strata(self._sides).select(*keys, "steps")
        scale = (
            stacked(self._sides, "served")
            .join(steps, on=keys)
            .select(*keys, pl.col("thread").alias(role), scale=pl.col("steps") / pl.col("windows"))
        )
        scaled = stacked(self._sides, table).join(scale, on=[*keys, role], how="left", maintain_order="left")
        return scaled.with_columns(pl.col(*values) * pl.col("scale").fill_null(1.0)).drop("scale")

    def weigh(self, table: pl.DataFrame, by: Sequence[str], values: Sequence[str]) -> pl.DataFrame:
        """Sum `values` a step for each side and `by`: columns side, *by, *values."""
        # in the order of the table: sums of floats in another order would differ in their last bits from run to run
        joined = table.join(
            self._factor, on=["side", "run", "part", "stratum"], how="inner", maintain_order="left"
        )
        return (
            joined.group_by("side", *by, maintain_order=True)
            .agg(*((pl.col(value).cast(pl.Float64) * pl.col("factor")).sum() for value in values))
            .sort("side", *by)
        )

    def compared(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table by exact stratum that lie in compared steps."""
        return table.join(
            self._factor, on=["side", "run", "part", "stratum"], how="semi", maintain_order="left"
        )

    def pivot(self, table: pl.DataFrame, by: Sequence[str], values: Sequence[str]) -> pl.DataFrame:
        """The same with both sides in one row: *by, value_b, value_c (null where a side has no such row)."""
        weighed = self.weigh(table, by, values)
        one = (
            weighed.filter(pl.col("side") == 0).drop("side").rename({value: f"{value}_b" for value in values})
        )
        other = (
            weighed.filter(pl.col("side") == 1).drop("side").rename({value: f"{value}_c" for value in values})
        )
        return one.join(other, on=list(by), how="full", coalesce=True, nulls_equal=True)


def range_rows(sides: Sequence[Side], weigher: Weigher) -> list[RangeRow]:
    """Ranges by place and thread role, largest change first."""
    table = weigher.pivot(
        weigher.of_host("ranges", values=("count", "ns")), ["place", "domain", "thread"], ["count", "ns"]
    )
    rows = [
        RangeRow(
            row["place"], row["domain"], row["thread"],
            _range_side(row["count_b"], row["ns_b"]), _range_side(row["count_c"], row["ns_c"]),
            (row["ns_c"] or 0.0) - (row["ns_b"] or 0.0),
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-abs(row.delta_ns), row.range, row.thread, row.domain))


def _range_side(count: float | None, ns: float | None) -> RangeSide | None:
    return None if not count else RangeSide(count, ns or 0.0, (ns or 0.0) / count)


def gap_rows(sides: Sequence[Side], weigher: Weigher, with_gil: bool) -> tuple[list[GapRow], int]:
    """Idle time by cause, thread, place and neighbours; second, how many rows were left out."""
    by = ["cause", "thread", "place", "previous", "next"]
    # without a GIL trace on one side, its waits are called what the thread did otherwise, as in the accounting
    cause = pl.col("cause") if with_gil else pl.col("under")
    gaps = stacked(sides, "gaps").with_columns(
        cause=cause,
        p50=pl.col("p50_ns") * pl.col("count"),
        p99=pl.col("p99_ns") * pl.col("count"),
    )
    table = weigher.pivot(gaps, by, ["count", "ns", "p50", "p99"])
    rows = [
        GapRow(
            row["cause"], row["thread"], row["place"], row["previous"], row["next"],
            _gap_side(row, "_b"), _gap_side(row, "_c"), (row["ns_c"] or 0.0) - (row["ns_b"] or 0.0),
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip
    rows.sort(
        key=lambda row: (
            -abs(row.delta_ns),
            *(getattr(row, name) for name in ("cause", "thread", "range", "previous", "next")),
        )
    )
    return rows[:MAX_GAP_ROWS], max(len(rows) - MAX_GAP_ROWS, 0)


def _gap_side(row: dict[str, float], suffix: str) -> GapSide | None:
    count = row["count" + suffix]
    if not count:
        return None
    # Quantiles are those of the runs and strata, averaged with their gaps as weights.
    return GapSide(
        count,
        row["ns" + suffix],
        row["ns" + suffix] / count,
        row["p50" + suffix] / count,
        row["p99" + suffix] / count,
    )


def worst_gaps(sides: Sequence[Side], top: int = 10) -> list[WorstGap]:
    """The longest single gaps of each side."""
    table = stacked(sides, "worst").sort("side", "ns", "run", "start", descending=[False, True, False, False])
    out = []
    for side, label in enumerate(_SIDES):
        for row in table.filter(pl.col("side") == side).head(top).iter_rows(named=True):
            out.append(
                WorstGap(
                    label, sides[side].runs[row["run"]].name, row["start"], row["ns"], row["cause"], row["place"],  # type: ignore[arg-type]
                    row["thread"], row["previous"], row["next"], row["phase"],
                )
            )  # fmt: skip
    return out


def launch(
    sides: Sequence[Side], weigher: Weigher, accounting: tuple[dict[str, float], dict[str, float]]
) -> Launch:
    """Launch overhead of both sides."""
    counts = weigher.weigh(
        stacked(sides, "launch").with_columns(
            delay_mean=pl.col("delay_mean_ns") * pl.col("calls"),
            delay_p50=pl.col("delay_p50_ns") * pl.col("calls"),
            delay_p99=pl.col("delay_p99_ns") * pl.col("calls"),
        ).with_columns(pl.col("delay_mean", "delay_p50", "delay_p99").fill_null(0.0)),
        [],
        ["calls", "graph_launches", "kernels", "graph_kernels", "delay_mean", "delay_p50", "delay_p99"],
    )  # fmt: skip
    apis = weigher.pivot(stacked(sides, "apis"), ["api", "kind"], ["count", "ns"]).fill_null(0.0)
    rows = [
        ApiRow(
            row["api"],
            row["kind"],
            row["count_b"],
            row["count_c"],
            row["ns_b"],
            row["ns_c"],
            row["ns_c"] - row["ns_b"],
        )
        for row in apis.iter_rows(named=True)
    ]
    rows.sort(key=lambda row: (-abs(row.delta_ns), row.api))
    launching = [sum(getattr(row, f"{side}_ns") for row in rows if row.kind == "launch") for side in _SIDES]
    built = []
    for side in (0, 1):
        found = counts.filter(pl.col("side") == side).to_dicts()
        row = found[0] if found else dict.fromkeys(counts.columns, 0.0)
        calls = row["calls"] or 0.0
        built.append(
            LaunchSide(
                calls_per_step=calls,
                graph_launches_per_step=row["graph_launches"],
                kernels_per_step=row["kernels"],
                graph_coverage=row["graph_kernels"] / row["kernels"] if row["kernels"] else 0.0,
                api_ns_per_step=launching[side],
                exposed_ns_per_step=sum(
                    accounting[side].get(name, 0.0) for name in ("launch_api", "launch_latency")
                ),
                queue_delay_mean_ns=row["delay_mean"] / calls if calls else 0.0,
                queue_delay_p50_ns=row["delay_p50"] / calls if calls else 0.0,
                queue_delay_p99_ns=row["delay_p99"] / calls if calls else 0.0,
            )
        )
    return Launch(built[0], built[1], rows, transitions(sides, weigher))


def transitions(sides: Sequence[Side], weigher: Weigher) -> list[TransitionRow]:
    """Kernels that were launched one by one on one side and by graphs on the other."""
    frames = []
    for side, one in enumerate(sides):
        for run_number, run in enumerate(one.runs):
            for part_number, part in enumerate(run.parts):
                names = part.keys.select(pl.col("id").cast(pl.Int64).alias("key"), "name")
                frames.append(
                    part.transitions.join(names, on="key", how="left").select(
                        pl.lit(side, pl.Int64).alias("side"), pl.lit(run_number, pl.Int64).alias("run"),
                        pl.lit(part_number, pl.Int64).alias("part"), "stratum", "name", "eager", "graph",
                    )
                )  # fmt: skip
    table = weigher.pivot(pl.concat(frames), ["name"], ["eager", "graph"]).fill_null(0.0)
    moved = table.filter(
        ((pl.col("eager_b") > 0) & (pl.col("graph_c") > 0) & (pl.col("graph_b") < pl.col("graph_c")))
        | ((pl.col("graph_b") > 0) & (pl.col("eager_c") > 0) & (pl.col("graph_c") < pl.col("graph_b")))
    ).sort("name")
    return [
        TransitionRow(row["name"], row["eager_b"], row["graph_b"], row["eager_c"], row["graph_c"])
        for row in moved.iter_rows(named=True)
    ]


def graphs(sides: Sequence[Side], result: Launch) -> Graphs:
    """CUDA graph use."""
    one, other = (graph_use(*pair) for pair in zip(sides, (result.baseline, result.candidate), strict=True))
    return Graphs(one[0], other[0], one[1], other[1], one[2], other[2])


def graph_use(side: Side, launches: LaunchSide) -> tuple[str, float, float | None]:
    """How graphs were traced (node | graph | none | unknown), launches of graphs a step, nodes a launch."""
    a_step = launches.graph_launches_per_step
    nodes = launches.kernels_per_step * launches.graph_coverage / a_step if a_step else None
    return " | ".join(sorted({part.graph_mode for part in side.parts})), a_step, nodes


def threads(sides: Sequence[Side], ranges: list[RangeRow]) -> list[ThreadRow]:
    """Thread roles of both sides and how alike their ranges are."""
    seen: list[dict[str, tuple[str, frozenset[str]]]] = [{}, {}]
    for side, one in enumerate(sides):
        for part in one.parts:
            for thread in part.threads:
                process, places = seen[side].get(thread.role, (thread.process, frozenset()))
                seen[side][thread.role] = (process, places | thread.places)
    time: dict[str, list[float]] = {}
    for row in ranges:
        sums = time.setdefault(row.thread, [0.0, 0.0])
        sums[0] += row.baseline.ns_per_step if row.baseline else 0.0
        sums[1] += row.candidate.ns_per_step if row.candidate else 0.0
    rows = []
    for role in sorted(seen[0].keys() | seen[1].keys()):
        mine, theirs = seen[0].get(role), seen[1].get(role)
        score = similarity(mine[1], theirs[1]) if mine and theirs else None
        base, cand = time.get(role, [0.0, 0.0])
        known = mine or theirs
        rows.append(
            ThreadRow(
                role, known[0] if known else "", score,
                sorted(mine[1])[:20] if mine else [], sorted(theirs[1])[:20] if theirs else [],
                base if mine else None, cand if theirs else None, cand - base if mine and theirs else None,
            )
        )  # fmt: skip
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


def response_path(ranges: list[RangeRow], step_ns: tuple[float, float]) -> list[ResponseStage]:
    """Host time a step of each stage of the response path; a stage longer than the step cannot keep up."""
    rows = []
    for stage, name in _STAGES:
        for row in ranges:
            if row.range != name:
                continue
            one = row.baseline.ns_per_step if row.baseline else None
            other = row.candidate.ns_per_step if row.candidate else None
            rows.append(
                ResponseStage(
                    stage, row.thread, row.range, one, other, row.delta_ns if one is not None and other is not None else None,
                    None if one is None else one <= step_ns[0], None if other is None else other <= step_ns[1],
                )
            )  # fmt: skip
    return rows


def phases(steps: pl.DataFrame) -> list[Phase]:
    """Mean and tails of step time by phase over all whole steps."""
    rows = []
    for phase in sorted(steps["phase"].unique()):
        built: list[PhaseSide | None] = []
        for side in (0, 1):
            mine = steps.filter((pl.col("phase") == phase) & (pl.col("side") == side))
            if not len(mine):
                built.append(None)
                continue
            ns = mine["ns"]
            quantiles = [float(ns.quantile(q, "linear") or 0.0) for q in (0.5, 0.9, 0.99)]
            means = mine.group_by("run").agg(pl.col("ns").mean()).sort("run")["ns"].to_list()
            mean = float(ns.cast(pl.Float64).sum()) / len(mine)
            built.append(PhaseSide(len(mine), mean, quantiles[0], quantiles[1], quantiles[2], means))
        one, other = built
        both = one is not None and other is not None
        rows.append(
            Phase(
                phase, one, other,
                other.mean_ns - one.mean_ns if both and one and other else None,
                other.p50_ns - one.p50_ns if both and one and other else None,
                other.p99_ns - one.p99_ns if both and one and other else None,
            )
        )  # fmt: skip
    return rows


def samples(steps: pl.DataFrame) -> tuple[list[StepSample], int]:
    """Step times for distributions, evenly thinned where there are too many."""
    ordered = steps.sort("side", "run", "rank", "device", "start_ns")
    every = max(-(-len(ordered) // MAX_SAMPLES), 1)
    kept = ordered.gather_every(every)
    rows = [
        StepSample(_SIDES[side], run, rank, phase, number, ns)  # type: ignore[arg-type]
        for side, run, rank, phase, number, ns in kept.select(
            "side", "run", "rank", "phase", "number", "ns"
        ).iter_rows()
    ]
    return rows, len(ordered) - len(kept)


# The tables of Python's own costs: who held and awaited the GIL, and garbage collection.


def gil(sides: Sequence[Side], weigher: Weigher, idle: pl.DataFrame) -> Gil:
    """GIL by thread role and phase, and who waited for whom. `idle`: thread, phase, ns_b, ns_c of gil_wait."""
    if not any(side.captured("gil") for side in sides):
        return Gil([], [])
    table = weigher.of_host("gil", values=("hold_ns", "wait_ns"))
    phases = exact_strata(sides).select("side", "run", "part", "stratum", "phase")
    held = weigher.pivot(
        table.join(phases, on=["side", "run", "part", "stratum"], how="left").fill_null(0),
        ["thread", "phase"], ["hold_ns", "wait_ns"],
    ).join(idle, on=["thread", "phase"], how="left")  # fmt: skip
    shown = _both(sides, "gil")

    def value(row: dict[str, float | None], name: str, side: int) -> float | None:
        return (row[name] or 0.0) if shown[side] else None

    rows = [
        GilRow(
            row["thread"], row["phase"],
            value(row, "hold_ns_b", 0), value(row, "wait_ns_b", 0), value(row, "exposed_b", 0),
            value(row, "hold_ns_c", 1), value(row, "wait_ns_c", 1), value(row, "exposed_c", 1),
        )
        for row in held.iter_rows(named=True)
    ]  # fmt: skip
    rows.sort(
        key=lambda row: (-max(row.baseline_wait_ns or 0, row.candidate_wait_ns or 0), row.thread, row.phase)
    )
    pairs = weigher.pivot(
        weigher.of_host("gil_pairs", "waiter"), ["waiter", "holder", "holder_place"], ["ns"]
    )
    matrix = [
        GilPairRow(
            row["waiter"], row["holder"], row["holder_place"], value(row, "ns_b", 0), value(row, "ns_c", 1)
        )
        for row in pairs.iter_rows(named=True)
    ]
    matrix.sort(
        key=lambda row: (
            -max(row.baseline_ns or 0, row.candidate_ns or 0),
            row.waiter,
            row.holder,
            row.holder_range,
        )
    )
    return Gil(rows, matrix)


def _both(sides: Sequence[Side], kind: str) -> tuple[bool, bool]:
    """Whether each side captured a kind of trace; a side that there is not did not."""
    one, other = [*(side.captured(kind) for side in sides), False][:2]
    return one, other


def gc(sides: Sequence[Side], weigher: Weigher, exposed: dict[str, tuple[float, float]]) -> Gc:
    """Garbage collection by thread role and generation. `exposed`: thread -> GPU idle ns of both sides."""
    if not any(side.captured("gc") for side in sides):
        return Gc([])
    table = weigher.pivot(
        weigher.of_host("gc", values=("count", "ns")), ["thread", "generation"], ["count", "ns"]
    )
    total = table.group_by("thread", maintain_order=True).agg(pl.col("ns_b", "ns_c").sum())
    shown = _both(sides, "gc")
    rows = []
    for row in table.join(total, on="thread", suffix="_all").iter_rows(named=True):
        numbers: list[float | None] = []
        for side, suffix in enumerate(("_b", "_c")):
            if not shown[side]:
                numbers += [None, None, None]
                continue
            ns = row["ns" + suffix] or 0.0
            whole = row[f"ns{suffix}_all"]
            # the accounting knows the thread; generations share its idle time by their length
            idle = exposed.get(row["thread"], (0.0, 0.0))[side]
            numbers += [row["count" + suffix] or 0.0, ns, idle * ns / whole if whole else 0.0]
        rows.append(GcRow(row["thread"], row["generation"], *numbers))
    rows.sort(key=lambda row: (-max(row.baseline_ns or 0, row.candidate_ns or 0), row.thread, row.generation))
    return Gc(rows)


# The tables of ranks: step time of each, which one the others wait for, and kernels that are not alike on all of them.

MOST_KERNELS = 50
_FEWEST = 4  # ranks of which one can be called an outlier
_UNIT = ("side", "rank", "device")


def with_own(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with their `own_ns`."""
    return steps.with_columns(own_ns=pl.col("ns") - pl.col("comm"))


def joint_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that several ranks share: side, run, step, rank, device, own_ns, last, behind_ns.

    Steps of one number belong together; where labels have none, or repeat, those of one place in the run do. Of the steps that at
    least half of the devices have. last: the device with the most own time, of equal ones the first, none where that is the
    median; behind_ns: by how much it is more than the median, 0 for the others.
    """
    run, unit = ["side", "run"], ["side", "run", "rank", "device"]
    ordered = with_own(steps).sort(*unit, "start_ns")
    place = pl.int_range(pl.len()).over(unit)
    counted = pl.col("number").is_not_null().all().over(run) & pl.struct(
        *unit, "number"
    ).is_unique().all().over(run)
    ordered = ordered.with_columns(
        step=pl.when(counted).then(pl.col("number")).otherwise(place),
        of=pl.struct("rank", "device").n_unique().over(run),
    )
    together = [*run, "step"]
    shared = ordered.filter((pl.len().over(together) >= 2) & (2 * pl.len().over(together) >= pl.col("of")))
    own = pl.col("own_ns")
    late = (own - own.median()).over(together)
    first = pl.int_range(pl.len()).over(together) == own.arg_max().over(together)
    return (
        shared.with_columns(last=first & (late > 0), late=late)
        .with_columns(behind_ns=pl.when("last").then("late").otherwise(0.0))
        .select(*run, "step", "rank", "device", "own_ns", "last", "behind_ns")
    )


def skews(joint: pl.DataFrame) -> list[RankSkew]:
    """How far the ranks of each side are apart, a row a side with joint steps."""
    rows = []
    for side, name in enumerate(("baseline", "candidate")):
        mine = joint.filter(pl.col("side") == side)
        if not len(mine):
            continue
        steps = mine.group_by("run", "step").agg(pl.col("behind_ns").sum())["behind_ns"]
        often = (
            mine.filter("last").group_by("rank").len().sort("len", "rank", descending=[True, False]).rows()
        )
        rank, times = often[0] if often else (None, 0)
        late = float(steps.sum()) / len(steps)
        rows.append(RankSkew(name, mine["rank"].n_unique(), len(steps), late, rank, times / len(steps)))  # type: ignore[arg-type]
    return rows


def ranks(
    sides: Sequence[Side],
    steps: pl.DataFrame,
    weights: dict[int, float],
    weigher: Weigher,
    joint: pl.DataFrame,
) -> list[RankRow]:
    """Step time, own time and collective waits of each rank at the baseline's mix, in order of ranks.

    `steps`: the compared ones with their group; `joint`: of these, see `joint_steps`.
    """
    means = (
        with_own(steps)
        .group_by("side", "run", "rank", "device", "group")
        .agg(pl.col("ns", "own_ns").mean())
        .sort("side", "run", "rank", "device", "group")  # floats are added up in a fixed order
        .with_columns(weight=pl.col("group").replace_strict(weights, return_dtype=pl.Float64))
        .group_by("side", "run", "rank", "device", maintain_order=True)
        .agg((pl.col(name) * pl.col("weight")).sum() / pl.col("weight").sum() for name in ("ns", "own_ns"))
        .group_by(_UNIT, maintain_order=True)
        .agg(pl.col("ns", "own_ns").mean())
    )
    of = {row[:3]: row[3:] for row in means.iter_rows()}
    late = {
        row[:3]: row[3:]
        for row in joint.group_by(_UNIT)
        .agg(pl.col("last").mean(), pl.col("behind_ns").filter(pl.col("last")).mean())
        .iter_rows()
    }
    waits = _waits(sides, weigher)
    units = sorted({row[1:3] for row in of})
    outlier = _outliers({unit: (of.get((0, *unit)), of.get((1, *unit))) for unit in units})
    rows = []
    for rank, device in units:
        (one_ns, one_own), (other_ns, other_own) = (
            of.get((side, rank, device), (None, None)) for side in (0, 1)
        )
        one, other = (waits.get((side, rank), (None,) * 3) for side in (0, 1))
        (one_last, one_behind), (other_last, other_behind) = (
            late.get((side, rank, device), (None, None)) for side in (0, 1)
        )
        rows.append(
            RankRow(
                rank, device, one_ns, other_ns, _less(other_ns, one_ns),
                one[0], other[0], one[1], other[1], one[2], other[2],
                one_own, other_own, _less(other_own, one_own), one_last, other_last, one_behind, other_behind,
                outlier.get((rank, device)),
            )
        )  # fmt: skip
    return rows


def _less(value: float | None, than: float | None) -> float | None:
    return None if value is None or than is None else value - than


def _waits(sides: Sequence[Side], weigher: Weigher) -> dict[tuple[int, int], tuple[float | None, ...]]:
    """Side and rank -> waiting, transfer, what the others waited for it, ns a step. Of ranks in one export."""
    firsts = [one for side in sides for run in side.runs for one in run.firsts()]
    collectives = stacked(sides, "collectives")
    parts = pl.DataFrame(
        [(*one[:3], first) for one, first in zip(parts_of(sides), firsts, strict=True)],
        schema=dict.fromkeys(("side", "run", "part", "first"), pl.Int64), orient="row",
    )  # fmt: skip
    collectives = collectives.join(parts, on=["side", "run", "part"], how="left", maintain_order="left")
    collectives = collectives.with_columns(pl.col("rank") + pl.col("first")).drop("first")
    if not len(collectives):
        return {}
    weighed = weigher.weigh(collectives, ["rank"], ["wait_ns", "transfer_ns", "caused_ns"])
    # the weigher divides by the steps of all ranks; a rank's own are their share
    many = dict(weighed.group_by("side").len().iter_rows())
    return {(row[0], row[1]): tuple(value * many[row[0]] for value in row[2:]) for row in weighed.iter_rows()}


_Own = tuple[float, float] | None


def _outliers(own: dict[tuple[int, int], tuple[_Own, _Own]]) -> dict[tuple[int, int], float]:
    """How far each rank's change of own time is from the median change, in robust standard deviations.

    With one side alone, or a rank on one side only, its own time takes the place of the change. The deviation is 1.4826 times the
    median distance from the median, and at least 0.01 % of the step: of ranks that are all alike, a rounding is no outlier.
    """
    both = {unit: (one[1], other[1]) for unit, (one, other) in own.items() if one and other}
    values = {unit: other - one for unit, (one, other) in both.items()}
    if not both:
        values = {unit: one[1] for unit, pair in own.items() if (one := pair[0] or pair[1])}
    if len(values) < _FEWEST:
        return {}
    array = np.array(list(values.values()))
    middle = float(np.median(array))
    step = max(pair[0] for pairs in own.values() for pair in pairs if pair is not None)
    spread = max(1.4826 * float(np.median(np.abs(array - middle))), 1e-4 * step, 1.0)
    return {unit: (value - middle) / spread for unit, value in values.items()}


def kernel_ranks(kernels: KernelCells, steps: pl.DataFrame) -> tuple[list[KernelRanks], int]:
    """Kernels that take longer on one rank than on the others, the most time first; second, how many were left out.

    `steps`: the compared ones with side, run, part, period, rank. Of programs with two ranks or more. Communication is not
    here: a rank's time in it is the other ranks' doing.
    """
    of_rank = steps.group_by("side", "rank").agg(pl.len().alias("steps"))
    if of_rank["rank"].n_unique() < 2:
        return [], 0
    located = kernels.values.join(
        steps.select("side", "run", "part", "period", "rank"), on=["side", "run", "part", "period"]
    )
    own = [row for row, kind in enumerate(kernels.kinds) if kind != "comm"]
    sums = (
        located.filter(pl.col("row").is_in(own))
        .sort("side", "run", "part", "period", "row")
        .group_by("side", "row", "rank", maintain_order=True)
        .agg(pl.col("share_ns").sum())
    )
    by = ["side", "row"]
    every = sums.select(by).unique().join(of_rank, on="side").join(sums, on=[*by, "rank"], how="left")
    ns = (pl.col("share_ns").fill_null(0.0) / pl.col("steps")).alias("ns")
    found = (
        every.select(*by, "rank", ns)
        .sort(*by, "rank")
        .group_by(by, maintain_order=True)
        .agg(pl.col("ns").mean().alias("mean"), pl.col("ns").max().alias("most"), pl.col("rank").get(pl.col("ns").arg_max()).alias("at"))
        .filter((pl.col("mean") > 0) & (pl.col("most") > pl.col("mean")))
        .with_columns(excess=pl.col("most") - pl.col("mean"))
    )  # fmt: skip
    rows = [
        KernelRanks(
            ("baseline", "candidate")[row["side"]],
            _names(kernels, row["row"], row["side"]), kernels.kinds[row["row"]], row["mean"], row["most"], row["at"],
            row["most"] / row["mean"],
        )
        for row in found.sort("excess", "side", "row", descending=[True, False, False]).head(MOST_KERNELS).iter_rows(named=True)
    ]  # fmt: skip
    return rows, max(len(found) - MOST_KERNELS, 0)


def _names(kernels: KernelCells, row: int, side: int) -> list[str]:
    match = kernels.rows[row]
    ops = match.candidate if side and match.candidate else match.baseline or match.candidate
    return [op.name for op in ops]


# The tables of GPU metrics that nsys sampled: a row a metric and device, and how each device was sampled.

# Samples that a run needs for its mean to be given: of 20, its standard error is about a fifth of their scatter.
MIN_SAMPLES = 20
# What is looked at first, as the beginning of a name in small letters.
KEY = (
    "sms active", "sm active", "sm issue", "tensor active", "dram read", "dram write", "nvlink", "pcie", "gpc clock",
)  # fmt: skip
_UNIT_tables_metrics = ["rank", "device"]
_ROW = [*_UNIT_tables_metrics, "metric", "unit"]
_PARTS = {"steps": STATES, "busy": ("busy",), "idle": ("idle",)}
_Means = dict[int, list[float | None]]  # side -> of each run, None with too few samples


def metric_rows(
    sides: Sequence[Side], weigher: Weigher, held: tuple[bool, bool]
) -> tuple[list[GpuMetricRow], list[GpuSampling]]:
    """Rows of metrics, the well-known ones first, and of how each rank's device was sampled."""
    both = sides[:2]
    table = weigher.compared(_ranked(both, "gpu_metrics"))
    weighed = weigher.weigh(table, ["run", *_ROW, "state"], ["samples", "sum"])
    counted = table.group_by("side", "run", *_ROW, "state").agg(pl.col("samples", "refused").sum())
    found = weighed.join(
        counted.rename({"samples": "raw"}),
        on=["side", "run", *_ROW, "state"],
        how="left",
        maintain_order="left",
    )
    rows: dict[tuple[int, int, str, str], list[dict[str, object]]] = defaultdict(list)
    for row in found.iter_rows(named=True):
        rows[row["rank"], row["device"], row["metric"], row["unit"]].append(row)
    runs = [len(side.runs) for side in both]
    periods = weigher.compared(
        _ranked(both, "periods").select("side", "run", "part", "stratum", *_UNIT_tables_metrics)
    )
    steps = {row[:3]: row[3] for row in periods.group_by("side", *_UNIT_tables_metrics).len().iter_rows()}
    metrics = [
        _row(key, pl.DataFrame(mine, infer_schema_length=None), runs, held, steps)
        for key, mine in rows.items()
    ]
    return sorted(metrics, key=_order), _sampling(both, held)


def _order(row: GpuMetricRow) -> tuple[int, str, int, int]:
    name = row.metric.lower()
    place = next((at for at, start in enumerate(KEY) if name.startswith(start)), len(KEY))
    return place, row.metric, row.rank, row.device


def _ranked(sides: Sequence[Side], table: str) -> pl.DataFrame:
    """A table of all exports with the rank counted over those of a run."""
    firsts = pl.DataFrame(
        [
            (side, run, part, first)
            for side, one in enumerate(sides)
            for run, its in enumerate(one.runs)
            for part, first in enumerate(its.firsts())
        ],
        schema=dict.fromkeys(("side", "run", "part", "first"), pl.Int64),
        orient="row",
    )
    joined = stacked(sides, table).join(firsts, on=["side", "run", "part"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("rank") + pl.col("first")).drop("first")


def _row(
    key: tuple[int, int, str, str],
    mine: pl.DataFrame,
    runs: list[int],
    held: tuple[bool, bool],
    steps: Mapping[tuple[int, ...], int],
) -> GpuMetricRow:
    means = {name: _means(mine, states, runs) for name, states in _PARTS.items()}
    sides = []
    for side, shown in enumerate(held):
        its = mine.filter(pl.col("side") == side)
        raw = {state: int(its.filter(pl.col("state") == state)["raw"].sum()) for state in STATES}
        sides.append(
            GpuMetricSide(
                sum(raw.values()) / max(steps.get((side, *key[:2]), 0), 1),
                raw["busy"],
                raw["idle"],
                raw["mixed"],
                int(its["refused"].sum()),
            )
            if shown
            else None
        )
    parts = [_mean(means[name]) for name in _PARTS]
    return GpuMetricRow(*key, sides[0], sides[1], *parts)


def _means(mine: pl.DataFrame, states: Sequence[str], runs: list[int]) -> _Means:
    """The mean of each run's samples in these states; None for a run with fewer than `MIN_SAMPLES`."""
    found: _Means = {0: [], 1: []} | {side: [None] * count for side, count in enumerate(runs)}
    sums = (
        mine.filter(pl.col("state").is_in(states))
        .group_by("side", "run", maintain_order=True)
        .agg(pl.col("raw", "samples", "sum").sum())
    )
    for side, run, raw, samples, total in sums.iter_rows():
        if raw >= MIN_SAMPLES:
            found[side][run] = total / samples
    return found


def _mean(means: _Means) -> GpuMetricMean:
    """A side's mean is that of its runs, where each has enough samples; the interval needs two runs a side."""
    one, other = (
        [value for value in means[side] if value is not None] if None not in means[side] else []
        for side in (0, 1)
    )
    values = [float(np.mean(runs)) if runs else None for runs in (one, other)]
    delta = None if values[0] is None or values[1] is None else values[1] - values[0]
    low = high = None
    if min(len(one), len(other)) >= 2:
        bounds = run_level_interval(np.array(one)[:, None], np.array(other)[:, None])
        if not np.isnan(bounds[0][0]):
            low, high = float(bounds[0][0]), float(bounds[1][0])
    return GpuMetricMean(values[0], values[1], delta, low, high)


def _sampling(sides: Sequence[Side], held: tuple[bool, bool]) -> list[GpuSampling]:
    table = _ranked(sides, "gpu_sampling")
    rows = []
    for (rank, device), mine in sorted(
        table.group_by(_UNIT_tables_metrics), key=lambda one: tuple(map(int, map(str, one[0])))
    ):
        found: list[GpuSamplingSide | None] = []
        for side, shown in enumerate(held):
            its = mine.filter(pl.col("side") == side)
            gpus = set(its["gpu"].to_list())
            known = len(its) > 0 and None not in gpus
            gpu = gpus.pop() if known and len(gpus) == 1 else None
            found.append(
                GpuSamplingSide(
                    known, gpu, int(its["interval_ns"].max()) if known else None, int(its["unread"].max()) if known else 0  # type: ignore[arg-type]
                )
                if shown
                else None
            )  # fmt: skip
        rows.append(GpuSampling(int(str(rank)), int(str(device)), found[0], found[1]))
    return rows


# The table of numbers that a program gave to its NVTX ranges.

_BY = ["place", "domain", "thread"]


def payload_rows(sides: Sequence[Side], weigher: Weigher) -> list[PayloadRow]:
    """Rows by range and thread role, those whose mean changed most (as a part of it) first; empty where no side has any.

    Count and sum are weighed as times of host threads are; the mean is their quotient, least and most are of the compared steps.
    """
    table = weigher.pivot(weigher.of_host("payloads", values=("count", "sum")), _BY, ["count", "sum"])
    bounds = (
        weigher.compared(stacked(sides, "payloads"))
        .group_by("side", *_BY)
        .agg(pl.col("low").min(), pl.col("high").max())
    )
    known = {(row[0], *row[1:4]): row[4:] for row in bounds.iter_rows()}
    rows = []
    for row in table.iter_rows(named=True):
        found: list[PayloadSide | None] = []
        for side, suffix in enumerate(("_b", "_c")):
            count, total = row["count" + suffix], row["sum" + suffix]
            low, high = known.get((side, *(row[name] for name in _BY)), (0.0, 0.0))
            found.append(
                PayloadSide(count, total, min(max(total / count, low), high), low, high) if count else None
            )
        one, other = found
        delta = None if one is None or other is None else other.mean - one.mean
        rows.append(PayloadRow(row["place"], row["domain"], row["thread"], one, other, delta))
    return sorted(rows, key=lambda row: (-_moved(row), row.range, row.domain, row.thread))


def _moved(row: PayloadRow) -> float:
    if row.baseline is None or row.candidate is None or row.delta_mean is None:
        return 0.0
    return abs(row.delta_mean) / (max(abs(row.baseline.mean), abs(row.candidate.mean)) or 1.0)


# The tables of what few captures hold: OS calls, context switches, communication, CUDA's memory, GPU metrics.

KINDS = ("os_calls", "context_switches", "gpu_memory", "gpu_metrics", "mpi", "nccl")
_MEMORY = ("allocations", "bytes", "frees", "freed_bytes")
_Row = dict[str, float | None]


def system(sides: Sequence[Side], weigher: Weigher, with_gil: bool) -> System | None:
    """All of them; None where no side recorded any. Of one side alone: as if the other had not recorded them."""
    held = {kind: _both_tables_system(sides, kind) for kind in KINDS}
    payloads = payload_rows(sides, weigher)
    if not payloads and not any(any(one) for one in held.values()):
        return None
    calls, switches, memory, metrics, mpi, nccl = (held[kind] for kind in KINDS)
    metric_table, sampling = metric_rows(sides, weigher, metrics) if any(metrics) else ([], [])
    return System(
        _os_calls(weigher, calls) if any(calls) else [],
        _off_cpu(weigher, switches) if any(switches) else [],
        _host_work(sides, weigher, (calls, switches, mpi), with_gil) if any(calls + switches + mpi) else [],
        _memory(sides, weigher, memory) if any(memory) else [],
        gpu_metrics=metric_table,
        gpu_sampling=sampling,
        comm_calls=_comm_calls(weigher, {"MPI": mpi, "NCCL": nccl}),
        payloads=payloads,
    )


def _both_tables_system(sides: Sequence[Side], kind: str) -> tuple[bool, bool]:
    one, *other = (side.captured(kind) for side in sides[:2])
    return one, other == [True]


def _values(row: _Row, names: Sequence[str], held: tuple[bool, bool]) -> list[float | None]:
    """Baseline's values, then the candidate's: None where not captured, 0 where there is no such row."""
    return [
        (row[name + suffix] or 0.0) if shown else None
        for suffix, shown in zip(("_b", "_c"), held, strict=True)
        for name in names
    ]


def _os_calls(weigher: Weigher, held: tuple[bool, bool]) -> list[OsCallRow]:
    table = weigher.pivot(
        weigher.of_host("os_calls", values=("count", "ns")), ["call", "thread"], ["count", "ns"]
    )
    rows = [
        OsCallRow(row["call"], row["thread"], *_values(row, ("count", "ns"), held))
        for row in table.iter_rows(named=True)
    ]
    return sorted(rows, key=lambda row: (*_size(row.baseline_ns, row.candidate_ns), row.thread, row.call))


def _comm_calls(weigher: Weigher, held: dict[str, tuple[bool, bool]]) -> list[CommCallRow]:
    values = ("count", "ns", "sized", "bytes")
    table = weigher.pivot(
        weigher.of_host("comm_calls", values=values), ["library", "call", "thread"], list(values)
    )
    rows = [
        CommCallRow(
            row["library"], row["call"], row["thread"], *_values(row, ("count", "ns"), held[row["library"]]),
            *(row["bytes" + suffix] if row["sized" + suffix] else None for suffix in ("_b", "_c")),
            *(row["bytes" + suffix] / row["sized" + suffix] if row["sized" + suffix] else None for suffix in ("_b", "_c")),
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip
    return sorted(
        rows,
        key=lambda row: (*_size(row.baseline_ns, row.candidate_ns), row.library, row.thread, row.call),
    )


def _off_cpu(weigher: Weigher, held: tuple[bool, bool]) -> list[OffCpuRow]:
    table = weigher.pivot(weigher.of_host("off_cpu", values=("count", "ns")), ["thread"], ["count", "ns"])
    rows = [
        OffCpuRow(row["thread"], *_values(row, ("count", "ns"), held)) for row in table.iter_rows(named=True)
    ]
    return sorted(rows, key=lambda row: (*_size(row.baseline_ns, row.candidate_ns), row.thread))


def _size(baseline: float | None, candidate: float | None) -> tuple[float, float]:
    """What changed most comes first, then what is longest."""
    one, other = baseline or 0.0, candidate or 0.0
    changed = abs(other - one) if baseline is not None and candidate is not None else 0.0
    return -changed, -max(one, other)


def _host_work(
    sides: Sequence[Side],
    weigher: Weigher,
    held: tuple[tuple[bool, bool], tuple[bool, bool], tuple[bool, bool]],
    with_gil: bool,
) -> list[HostWorkRow]:
    """What is in no call is told apart by switches only on a side that has them; a call is known of a side with calls.

    `held`: which sides have OS calls, switches, MPI calls.
    """
    calls, switches, mpi = held
    work = stacked(sides, "host_work")
    if with_gil:  # a wait for the GIL is no host work then
        work = work.filter(~pl.col("gil"))
    kind = (
        pl.when(pl.col("mpi")).then(pl.lit("mpi_call"))
        .when(pl.col("call") != "").then(pl.lit("os_call"))
        .when(pl.col("off_cpu")).then(pl.lit("off_cpu"))
        .otherwise(pl.lit("rest"))
    )  # fmt: skip
    work = work.with_columns(kind=kind, off_ns=pl.when(pl.col("off_cpu")).then(pl.col("ns")).otherwise(0))
    table = weigher.pivot(work, ["thread", "place", "kind", "call"], ["ns", "off_ns"])
    rows = []
    for row in table.iter_rows(named=True):
        known = {
            "mpi_call": mpi,
            "os_call": calls,
            "off_cpu": switches,
            "rest": (calls[0] or switches[0] or mpi[0], calls[1] or switches[1] or mpi[1]),
        }[row["kind"]]
        off = tuple(one and other for one, other in zip(known, switches, strict=True))
        times, offs = _values(row, ("ns",), known), _values(row, ("off_ns",), (off[0], off[1]))
        rows.append(HostWorkRow(row["thread"], row["place"], row["kind"], row["call"], *times, *offs))
    return sorted(
        rows,
        key=lambda row: (
            *_size(row.baseline_ns, row.candidate_ns), row.thread, row.range, row.kind, row.call,
        ),
    )  # fmt: skip


def _memory(sides: Sequence[Side], weigher: Weigher, held: tuple[bool, bool]) -> list[MemoryRow]:
    table = weigher.pivot(stacked(sides, "memory"), ["kind"], list(_MEMORY))
    flow = {row["kind"]: row for row in table.iter_rows(named=True)}
    peaks: list[dict[str, int]] = [{}, {}]
    for side, _, _, part in parts_of(sides[:2]):
        for kind, size in part.memory_peaks.iter_rows():
            peaks[side][kind] = max(size, peaks[side].get(kind, 0))
    return [
        MemoryRow(
            kind,
            *(
                _memory_side(flow.get(kind, {}), suffix, peak.get(kind, 0)) if shown else None
                for suffix, shown, peak in zip(("_b", "_c"), held, peaks, strict=True)
            ),
        )
        for kind in sorted(flow.keys() | peaks[0].keys() | peaks[1].keys())
    ]


def _memory_side(row: _Row, suffix: str, peak: int) -> MemorySide:
    allocations, size, frees, freed = (row.get(name + suffix) or 0.0 for name in _MEMORY)
    return MemorySide(allocations, size, frees, freed, peak)
