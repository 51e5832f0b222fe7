"""The descriptive tables of a result: ranges, gaps, launches, graphs, threads, ranks, phases.

Tables that reductions keep by exact stratum are weighed like the headline: for each compared group, sums over
its steps divided by their number, averaged over runs, weighted by the baseline's mix. So they add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracediff.align.strata import Strata
from tracediff.align.threads import similarity
from tracediff.measure.sides import Side, exact_strata, stacked
from tracediff.model import (
    ApiRow,
    GapRow,
    GapSide,
    Graphs,
    Launch,
    LaunchSide,
    Phase,
    PhaseSide,
    RangeRow,
    RangeSide,
    ResponseStage,
    StepSample,
    ThreadRow,
    TransitionRow,
    WorstGap,
)

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
