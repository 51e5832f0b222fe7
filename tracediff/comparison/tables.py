"""The descriptive tables of a result: ranges, gaps, launches, threads, Python, ranks, what few captures record.

Tables that reductions keep by exact stratum are weighed like the mean step (frame.py), so they add up to it where the steps of a
stratum count alike.

Both sides are put side by side by SQL: the views of alignment.py, with columns `baseline_X` and `candidate_X`. One side alone
has no columns, and its rows no fields, of a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import picked_at
from tracediff.accounting.kernels import EXCHANGES, SENDS
from tracediff.accounting.system import STATES
from tracediff.arrays import Floats
from tracediff.comparison.alignment import Alignment
from tracediff.comparison.frame import Frame
from tracediff.comparison.kernel_table import KernelCells
from tracediff.comparison.shown import PARTS, ROWS
from tracediff.execution.sides import Side, parts_of, stacked, tagged
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
    LaunchPhase,
    LaunchSide,
    MemoryRow,
    OffCpuRow,
    OsCallRow,
    PayloadRow,
    Phase,
    RangeRow,
    RankGroup,
    RankRow,
    RankSkew,
    ResponseStage,
    StepSample,
    System,
    ThreadRow,
    TransitionRow,
    WorstGap,
)
from tracediff.model.common import SIDES
from tracediff.stats.rules import ENOUGH, LEAST, LITTLE, MATERIAL
from tracediff.stats.tests import robust, trimmed

# of a step: a thread that works longer is not done before the next one begins; more than all of it nobody can work
BUSY = 1 - LITTLE
MAX_SAMPLES = 4000  # steps of a distribution: its last percent has forty
_PART = ["side", "run", "part"]
_STRATUM = [*_PART, "stratum"]
# Tables of reductions that the aligned views read as they are.
_REDUCED = (
    "ranges", "gaps", "launch", "transitions", "keys", "gil", "gil_pairs", "gc", "strata", "collectives", "os_calls",
    "off_cpu", "comm_calls", "host_work", "memory", "memory_peaks", "payloads",
)  # fmt: skip
Row = TypeVar("Row", bound=msgspec.Struct)


class StandardisedMeans:
    """Turns sums by exact stratum into ns (or counts) per step, and puts both sides side by side.

    The weights are made here once; the views of `aligned` use the same, see alignment.py.
    """

    def __init__(
        self, sides: Sequence[Side], frame: Frame, more: Mapping[str, Callable[[], pl.DataFrame]]
    ) -> None:
        """`more`: what the views read beside the reductions: kernels, idle time, settings."""
        self._sides = sides
        self._frame = frame
        self._weights = frame.named_weights
        self._factor = self._of_strata(frame.weight)
        self.aligned = Alignment({**self._tables(), **more})

    def _tables(self) -> dict[str, Callable[[], pl.DataFrame]]:
        """What the views of comparison/sql read."""
        reduced = {name: partial(stacked, self._sides, name) for name in _REDUCED}
        return {
            **reduced,
            "apis": lambda: stacked(self._sides, "apis").select(
                *_PART, "period", "api", "kind", "count", "ns"
            ),
            "stratum_weight": lambda: self._factor.select(*_STRATUM, weight="factor"),
            "step_weight": self._step_weights,
            "launch_weight": self._launch_weights,
            "thread_share": self._shares,
            "step": self._steps,
            "joint_step": lambda: self.joint,
            "first_rank": self._first_ranks,
            "copies": partial(self._counted, "copies", "name", "memory"),
            "messages": partial(self._counted, "messages", "name"),
            "entered": self._entered,
            "thread": self._threads,
            "captured": self._captured,
        }

    def _of_strata(self, weight: Floats) -> pl.DataFrame:
        """Side, run, part, stratum -> factor: steps of one stratum may count differently (see frame.py), and tables that know strata only take their mean."""
        return (
            self._frame.steps.with_columns(weight=pl.Series(weight))
            .group_by(*_STRATUM, maintain_order=True)
            .agg(factor=pl.col("weight").sum() / pl.len())
            .filter(pl.col("factor") > 0)
        )

    def _launch_weights(self) -> pl.DataFrame:
        """A row per weighting, by its name, and stratum that counts in it."""
        return pl.concat(
            self._of_strata(weight).select(*_STRATUM, steps=pl.lit(name), weight="factor")
            for name, weight in self._weights.items()
        )

    def _step_weights(self) -> pl.DataFrame:
        """A row per weighting, by its name, and step that counts in it."""
        steps = self._frame.steps.select(*_PART, "period")
        return pl.concat(
            steps.with_columns(steps=pl.lit(name), weight=pl.Series(weight)).filter(
                (pl.col("weight") > 0) & (pl.col("side") < 2)
            )
            for name, weight in self._weights.items()
        )

    def _shares(self) -> pl.DataFrame:
        """Side, run, part, stratum, thread -> share: as if every step of every rank had its own threads.

        A thread that serves several ranks works once in what are several steps, and sums are divided by all steps.
        """
        steps = stacked(self._sides, "strata").select(*_STRATUM, "steps")
        windows = stacked(self._sides, "active_windows").join(steps, on=_STRATUM)
        return windows.select(*_STRATUM, "thread", share=pl.col("steps") / pl.col("windows"))

    def _steps(self) -> pl.DataFrame:
        """Every whole step of both sides, but what runs begin with, with its weight in the mean and the rounds in it."""
        return (
            with_own(self._frame.regular)
            .filter(pl.col("side") < 2)
            .select(*_PART, "period", *_UNIT, "phase", "ns", "own_ns", "weight", "units")
        )

    def _first_ranks(self) -> pl.DataFrame:
        """Side, run, part -> the number of the part's first rank in its run."""
        firsts = [first for side in self._sides for run in side.runs for first in run.firsts()]
        rows = [(*one[:3], first) for one, first in zip(parts_of(self._sides), firsts, strict=True)]
        return pl.DataFrame(rows, schema=dict.fromkeys((*_PART, "first_rank"), pl.Int64), orient="row")

    def _counted(self, kind: str, *names: str) -> pl.DataFrame:
        """Side, run, part, period -> count and bytes of one kind of what is counted in each step, and `names` of it."""
        found = []
        for *place, part in parts_of(self._sides):
            what = part.counted.with_row_index("what").cast({"what": pl.Int64}).filter(kind=kind)
            mine = part.counts.join(what, on="what").select("period", *names, "count", "bytes")
            found.append(tagged(mine, *place))
        return pl.concat(found)

    def _entered(self) -> pl.DataFrame:
        """Side, run, part, period, thread: the steps in which each thread begins ranges."""
        found = []
        for *place, part in parts_of(self._sides):
            thread = part.counted.select(pl.when(kind="ranges").then("thread")).to_series()
            what, number = part.counts["what"].to_numpy(), thread.rank("dense").fill_null(0).to_numpy()
            at, _ = picked_at(part.counts["period"].to_numpy(), number[what])
            rows = pl.DataFrame({"period": part.counts["period"][at], "thread": thread[what[at]]})
            found.append(tagged(rows.drop_nulls(), *place))
        return pl.concat(found)

    def _threads(self) -> pl.DataFrame:
        """Side, number (of the thread) -> role, process, places."""
        rows = [
            (at, number, one.role, one.process, sorted(one.places))
            for at, side in enumerate(self._sides)
            for number, one in enumerate(one for part in side.parts for one in part.threads)
        ]
        schema = {"side": pl.Int64, "number": pl.Int64, "role": pl.String, "process": pl.String}
        return pl.DataFrame(rows, schema={**schema, "places": pl.List(pl.String)}, orient="row")

    def _captured(self) -> pl.DataFrame:
        """Kind of trace -> whether each side captured it."""
        rows = [
            (kind, *(side.captured(kind) for side in self._sides), False)[:3]
            for kind in ("gil", "gc", "cuda_api", *KINDS)
        ]
        return pl.DataFrame(
            rows, schema={"kind": pl.String, **dict.fromkeys(SIDES, pl.Boolean)}, orient="row"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The sides that there are."""
        return SIDES[: len(self._sides)]

    def rows(self, view: str) -> list[dict[str, Any]]:
        """The rows of an aligned view; of one side without columns of a candidate, and of changes."""
        rows = self.aligned.rows(view)
        if len(self._sides) == 1:
            alone = (
                [name for name in rows[0] if not name.startswith(("candidate_", "delta_"))] if rows else []
            )
            rows = [{name: row[name] for name in alone} for row in rows]
        return rows

    @cached_property
    def joint(self) -> pl.DataFrame:
        """See `joint_steps`."""
        return joint_steps(self._frame.compared.filter(pl.col("side") < 2))

    @cached_property
    def calls(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of `aligned_call` by what steps they are of."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows("aligned_call"):
            found.setdefault(row["steps"], []).append(row)
        return found

    def any_of(self, table: str) -> bool:
        """Whether a table of some reduction has rows."""
        return any(len(getattr(part, table)) for side in self._sides for part in side.parts)

    def of_host(self, table: pl.DataFrame, value: str = "ns") -> pl.DataFrame:
        """A stacked table of host threads, as if every step of every rank had its own threads."""
        scaled = table.join(self._shares(), on=[*_STRATUM, "thread"], how="left", maintain_order="left")
        return scaled.with_columns(pl.col(value) * pl.col("share").fill_null(1.0)).drop("share")

    def by_run(self, table: str, value: str, threads: Sequence[str]) -> tuple[Floats, Floats]:
        """A value of some threads per compared step, in each run that has such steps: (runs, threads) a side."""
        rows = self.of_host(stacked(self._sides, table), value).join(
            self._factor, on=_STRATUM, how="inner", maintain_order="left"
        )
        spent = rows.group_by("side", "run", "thread").agg((pl.col(value) * pl.col("factor")).sum())
        sums = {(side, run, thread): ns for side, run, thread, ns in spent.iter_rows()}
        strata = stacked(self._sides, "strata").join(
            self._factor, on=_STRATUM, how="inner", maintain_order="left"
        )
        steps = (
            strata.group_by("side", "run").agg((pl.col("steps") * pl.col("factor")).sum()).sort("side", "run")
        )
        one, other = (
            np.array([
                [sums.get((side, run, thread), 0.0) / count for thread in threads]
                for (at, run, count) in steps.iter_rows() if at == side
            ])
            for side in (0, 1)
        )  # fmt: skip
        return one, other

    def ranked(self, table: str) -> pl.DataFrame:
        """A table of all exports with the rank counted over those of a run, and the device over those of the rank, of devices with whole steps."""
        devices = self._frame.steps.select(*_PART, "rank", device="gpu", nth="device").unique()
        firsts = stacked(self._sides, table).join(self._first_ranks(), on=_PART, maintain_order="left")
        ranked = firsts.with_columns(pl.col("rank") + pl.col("first_rank")).drop("first_rank")
        known = ranked.join(devices, on=[*_PART, *_UNIT], maintain_order="left")
        return known.with_columns(device="nth").drop("nth")

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

    def compared(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table by exact stratum that lie in compared steps."""
        return table.join(self._factor, on=_STRATUM, how="semi", maintain_order="left")


def _rows(kind: type[Row], rows: Sequence[Mapping[str, Any]], **renamed: str) -> list[Row]:
    """Rows of an aligned view as those of the result. `renamed`: field -> the column that it has there."""
    named = [{**row, **{field: row[column] for field, column in renamed.items()}} for row in rows]
    return msgspec.convert(named, list[kind])  # type: ignore[valid-type]


def _with_sides(rows: list[dict[str, Any]], there: str, fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows with `baseline` and `candidate`: structs of `fields` (field -> column), None without `there`."""
    for row in rows:
        for side in SIDES:
            if f"{side}_{there}" in row:
                values = {field: row[f"{side}_{column}"] for field, column in fields.items()}
                row[side] = values if row[f"{side}_{there}"] else None
    return rows


def _held(sides: Sequence[Side], kind: str) -> dict[str, bool]:
    """Side -> whether it captured a kind of trace."""
    return {name: side.captured(kind) for name, side in zip(SIDES, sides, strict=False)}


# Ranges, idle gaps, launches.


def range_rows(standardised: StandardisedMeans) -> list[RangeRow]:
    """Ranges by place and thread role, largest change first."""
    rows = standardised.rows("aligned_range")
    return _of_places(RangeRow, rows, standardised, gil_wait_ns="wait_ns", calls_ns="call_ns")


def gap_rows(standardised: StandardisedMeans) -> tuple[list[GapRow], int]:
    """Idle time by cause, thread, place and neighbours; second, how many rows were left out."""
    rows = standardised.rows("aligned_gap")
    shown = _of_places(GapRow, rows[:ROWS], standardised, p50_ns="p50_ns", p99_ns="p99_ns")
    return shown, max(len(rows) - ROWS, 0)


def _of_places(
    kind: type[Row], rows: list[dict[str, Any]], standardised: StandardisedMeans, **more: str
) -> list[Row]:
    """Rows of places, each side with its count, its time and that of one. `more`: field -> column."""
    for row in rows:
        for side in standardised.names:
            count = row[f"{side}_count"]
            row[f"{side}_mean_ns"] = row[f"{side}_ns"] / count if count else None
    fields = {"count_per_step": "count", "ns_per_step": "ns", "mean_ns": "mean_ns", **more}
    return _rows(kind, _with_sides(rows, "count", fields), range="place")


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


Books: TypeAlias = Sequence[Mapping[str, float]]  # of each side, category -> ns


def launch(standardised: StandardisedMeans, books: Books, of_phases: Mapping[str, Books]) -> Launch:
    """Launch overhead of the mean step, and of that of each phase, by their accounting."""
    rows = {row["steps"]: row for row in standardised.rows("aligned_launch")}
    counts = {(row["steps"], row["what"]): row for row in standardised.rows("aligned_structure")}
    nothing: dict[str, float] = dict.fromkeys(SIDES, 0.0)  # captures without kernels have no rows

    def sides(steps: str, books: Books) -> dict[str, Any]:
        found: dict[str, Any] = {}
        row = rows[steps]
        calls = standardised.calls.get(steps, [])
        for side, of_side in zip(standardised.names, books, strict=True):
            kernels, launching, graphs, syncs = (
                counts.get((steps, what), nothing)[side]
                for what in ("kernels", "launch_calls", "graph_launches", "syncs")
            )
            of_strata = row[f"{side}_kernels"]
            found[side] = LaunchSide(
                calls_per_step=launching,
                graph_launches_per_step=graphs,
                kernels_per_step=kernels,
                graph_coverage=row[f"{side}_graph_kernels"] / of_strata if of_strata else 0.0,
                api_ns_per_step=sum(one[f"{side}_ns"] for one in calls if one["kind"] == "launch"),
                exposed_ns_per_step=sum(of_side.get(name, 0.0) for name in ("launch_api", "launch_latency")),
                queue_delay_mean_ns=row[f"{side}_delay_mean_ns"],
                queue_delay_p50_ns=row[f"{side}_delay_p50_ns"],
                queue_delay_p99_ns=row[f"{side}_delay_p99_ns"],
                copies_per_step=row[f"{side}_copies"],
                copied_bytes_per_step=row[f"{side}_copied_bytes"],
                syncs_per_step=syncs,
            )
        return found

    more: dict[str, Any] = {}
    if len(standardised.names) > 1:
        more["transitions"] = transitions(standardised)
    return Launch(
        **sides("", books),
        apis=api_rows(standardised),
        by_phase=[
            LaunchPhase(phase, **sides(phase, books), apis=api_rows(standardised, phase))
            for phase, books in of_phases.items()
        ],
        **more,
    )


def api_rows(standardised: StandardisedMeans, steps: str = "") -> list[ApiRow]:
    """CUDA calls by function, largest change first. `steps`: a phase, for its mean step; '': that of all."""
    return _rows(ApiRow, standardised.calls.get(steps, []))


def transitions(standardised: StandardisedMeans) -> list[TransitionRow]:
    """Kernels that were launched one by one on one side and by graphs on the other."""
    names = {f"{how}_per_step_{side}": f"{side}_{how}" for side in SIDES for how in ("eager", "graph")}
    moved = standardised.rows("aligned_transition") if standardised.any_of("transitions") else []
    return _rows(TransitionRow, moved, **names)


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


def threads(standardised: StandardisedMeans) -> list[ThreadRow]:
    """Thread roles and, of both sides, how alike their ranges are."""
    rows = standardised.rows("aligned_thread")
    for row in rows:
        row |= {f"{side}_ranges": (row[f"{side}_places"] or [])[:PARTS] for side in standardised.names}
        if len(standardised.names) == 1:
            del row["score"]
    return _rows(ThreadRow, rows)


def load(row: ThreadRow, side: str) -> float:
    """What a thread works per step, ns; where its work comes every n-th step, that of n steps divided by n, whatever a capture cuts off."""
    every, burst = getattr(row, f"{side}_every"), getattr(row, f"{side}_burst_ns")
    return float(burst / every if every else getattr(row, f"{side}_range_ns") or 0.0)


# facts: life of a response in TensorRT-LLM, in its order. `send` holds pickling too; nothing has a range for unpickling
_STAGES: tuple[tuple[str, str], ...] = (
    ("submit: tokenise", "tokenize prompt"),
    ("submit: request", "LLM.generate_async"),
    ("submit: queue", "request_queue.put"),
    ("executor: handle responses", "_handle_responses"),
    ("executor: enqueue responses", "_enqueue_responses"),
    ("await response", "await_response-N"),
    ("serialise and send", "send"),
    ("handle response", "handle_response"),
    ("detokenise", "decode_incrementally"),
    ("post-process", "handle_input"),
    ("post-process", "chat_stream_post_processor"),
)


def response_path(
    ranges: Sequence[RangeRow],
    threads: Sequence[ThreadRow],
    launching: Collection[str],
    step_ns: Sequence[float],
) -> list[ResponseStage]:
    """Count and host time per step of each stage of the response path; it keeps up while its thread is not busy until its next work.

    A thread that launches sets the pace of the steps itself: nothing is said of it.
    """
    work = {row.role: row for row in threads}
    rows = []
    for stage, row in ((stage, row) for stage, name in _STAGES for row in ranges if row.range == name):
        fields: dict[str, Any] = {}
        for side, step in zip(SIDES, step_ns, strict=False):
            ns = one.ns_per_step if (one := getattr(row, side)) else None
            thread = work.get(row.thread)
            done = (load(thread, side) if thread and ns is not None else None) or ns
            fields |= {
                f"{side}_count": one.count_per_step if one else None,
                f"{side}_ns": ns,
                f"keeps_up_{side}": None if done is None or row.thread in launching else done < BUSY * step,
            }
        if len(step_ns) > 1:
            fields["delta_ns"] = row.delta_ns if row.baseline and row.candidate else None
        rows.append(ResponseStage(stage=stage, thread=row.thread, range=row.range, **fields))
    return rows


# Step times.


def phases(standardised: StandardisedMeans) -> list[Phase]:
    """Mean and tails of step time by phase over all whole steps."""
    fields = ("steps", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "run_means_ns")
    rows = _with_sides(standardised.rows("aligned_step"), "steps", {name: name for name in fields})
    return _rows(Phase, rows)


def samples(steps: pl.DataFrame) -> tuple[list[StepSample], int]:
    """Step times for distributions, evenly thinned where there are too many."""
    ordered = steps.sort("side", "run", "rank", "device", "part", "start_ns")
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


def gil(sides: Sequence[Side], standardised: StandardisedMeans) -> Gil:
    """GIL by thread role and phase, and who waited for whom."""
    if not any(_held(sides, "gil").values()):
        return Gil([], [])
    pairs = standardised.rows("aligned_gil_pair")
    return Gil(
        _rows(GilRow, standardised.rows("aligned_gil"), phase="steps"),
        _rows(GilPairRow, pairs, holder_range="holder_place"),
    )


def gc(sides: Sequence[Side], standardised: StandardisedMeans) -> Gc:
    """Garbage collection by thread role and generation."""
    if not any(_held(sides, "gc").values()):
        return Gc([])
    return Gc(_rows(GcRow, standardised.rows("aligned_gc")))


# Ranks: step time of each, which one the others wait for, and kernels that are not alike on all of them.

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
    ordered = with_own(steps).sort(*unit, "part", "start_ns")
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
    """How far the ranks of each side are apart, a row per side with joint steps; devices of one rank are none."""
    rows = []
    for (side,), mine in joint.sort("side").group_by("side", maintain_order=True):
        if mine["rank"].n_unique() < 2:
            continue
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


def ranks(standardised: StandardisedMeans) -> list[RankRow]:
    """Step time, own time and collective waits of each rank, in order of ranks."""
    rows = standardised.rows("aligned_rank")
    for row, outlier in zip(rows, _outliers(rows), strict=True):
        row["outlier"] = outlier
    return _rows(RankRow, rows)


def groups(standardised: StandardisedMeans) -> list[RankGroup]:
    """Groups of ranks by their communicators, in order of their ranks; none where the captures do not say."""
    rows = standardised.rows("aligned_group") if standardised.any_of("collectives") else []
    return _rows(RankGroup, [row | {"kind": _group_kind(row["calls"])} for row in rows])


def _group_kind(calls: str) -> Literal["pipeline", "all-to-all", ""]:
    """What a group is for, where its calls tell."""
    if calls == SENDS:
        return "pipeline"
    return "all-to-all" if calls == EXCHANGES or "alltoall" in calls.lower() else ""


def _outliers(rows: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """How far each rank's change of own time is from the median change, in robust standard deviations.

    With one side alone, or no rank on both, its own time takes the place of the change. The deviation is 1.4826 times the
    median distance from the median, and at least 0.01 % of the step: of ranks that are all alike, a rounding is no outlier.
    """
    values = [row.get("delta_own_ns") for row in rows]
    if all(value is None for value in values):
        values = [
            next((row[name] for name in _of_sides(row, "own_ns") if row[name] is not None), None)
            for row in rows
        ]
    array = np.array([value for value in values if value is not None])
    if len(array) < LEAST:
        return [None] * len(rows)
    middle = float(np.median(array))
    step = max(row[name] for row in rows for name in _of_sides(row, "ns") if row[name] is not None)
    spread = max(robust(array - middle), 1e-4 * step, 1.0)
    return [None if value is None else (value - middle) / spread for value in values]


def _of_sides(row: Mapping[str, Any], name: str) -> list[str]:
    return [f"{side}_{name}" for side in SIDES if f"{side}_{name}" in row]


def kernel_ranks(kernels: KernelCells, steps: pl.DataFrame) -> tuple[list[KernelRanks], int]:
    """Kernels that take longer on one rank than on the others, the most time first; second, how many were left out.

    `steps`: the compared ones with side, run, part, period, rank, ns. Of programs with two ranks or more; by 0.1 % of the step or
    more. Communication is not here: a rank's time in it is the other ranks' doing.
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
    of_side = steps.group_by("side").agg(step=pl.col("ns").mean())
    every = sums.select(by).unique().join(of_rank, on="side").join(sums, on=[*by, "rank"], how="left")
    ns = pl.col("ns")
    found = (
        every.select(*by, "rank", ns=pl.col("share_ns").fill_null(0.0) / pl.col("steps"))
        .sort(*by, "rank")
        .group_by(by, maintain_order=True)
        .agg(mean=ns.mean(), most=ns.max(), at=pl.col("rank").get(ns.arg_max()))
        .join(of_side, on="side")
        .filter((pl.col("mean") > 0) & (pl.col("most") - pl.col("mean") >= MATERIAL * pl.col("step")))
        .drop("step")
        .sort(pl.col("most") - pl.col("mean"), *by, descending=[True, False, False])
    )
    rows = []
    for side, row, mean, most, at in found.head(ROWS).iter_rows():
        match = kernels.rows[row]
        ops = match.candidate if side and match.candidate else match.baseline or match.candidate
        rows.append(
            KernelRanks(SIDES[side], [op.name for op in ops], kernels.kinds[row], mean, most, at, most / mean)
        )
    return rows, max(len(found) - ROWS, 0)


# What few captures hold: OS calls, context switches, communication, CUDA's memory, GPU metrics, payloads of ranges.

KINDS = ("os_calls", "context_switches", "gpu_memory", "gpu_metrics", "mpi", "nccl")


def system(sides: Sequence[Side], standardised: StandardisedMeans) -> System | None:
    """All of them; None where no side recorded any."""
    calls, switches, memory, metrics, mpi, nccl = (any(_held(sides, kind).values()) for kind in KINDS)
    payloads = _payloads(standardised)
    if not payloads and not any((calls, switches, memory, metrics, mpi, nccl)):
        return None
    metric_rows, sampling = _metrics(sides, standardised) if metrics else ([], [])
    called = standardised.any_of("comm_calls")
    work = standardised.rows("aligned_host_work") if calls or switches or mpi else []
    return System(
        _rows(OsCallRow, standardised.rows("aligned_os_call") if calls else []),
        _rows(OffCpuRow, standardised.rows("aligned_off_cpu") if switches else []),
        _rows(HostWorkRow, work, range="place"),
        _memory(standardised) if memory else [],
        gpu_metrics=metric_rows,
        gpu_sampling=sampling,
        comm_calls=_rows(CommCallRow, standardised.rows("aligned_comm_call") if called else []),
        payloads=payloads,
    )


def _memory(standardised: StandardisedMeans) -> list[MemoryRow]:
    fields = {f"{name}_per_step": name for name in ("allocations", "bytes", "frees", "freed_bytes")}
    fields |= {name: name for name in ("peak_bytes", "steady_bytes")}
    rows = standardised.rows("aligned_memory")
    for row in rows:
        row |= {f"{side}_there": row[f"{side}_peak_bytes"] is not None for side in standardised.names}
    return _rows(MemoryRow, _with_sides(rows, "there", fields))


def _payloads(standardised: StandardisedMeans) -> list[PayloadRow]:
    """Rows by range and thread role, those whose mean changed most (as a part of it) first; empty where no side has any."""
    fields = {"count_per_step": "count", "sum_per_step": "sum", "mean": "mean", "min": "low", "max": "high"}
    rows = standardised.rows("aligned_payload") if standardised.any_of("payloads") else []
    return _rows(PayloadRow, _with_sides(rows, "count", fields), range="place")


# GPU metrics that nsys sampled: a row per metric and device, and how each device was sampled.

# Samples that a run needs for its mean to be given: of 20, its standard error is about a fifth of their scatter.
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
    table = standardised.compared(standardised.ranked("gpu_metrics"))
    key = ["run", *_METRIC, "state"]
    counted = table.group_by("side", *key).agg(pl.col("samples").sum().alias("raw"), pl.col("refused").sum())
    found = standardised.weigh(table, key, ["samples", "sum"]).join(
        counted, on=["side", *key], how="left", maintain_order="left"
    )
    periods = standardised.compared(standardised.ranked("periods").select(*_STRATUM, *_UNIT))
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
    return sorted(rows, key=_order), _sampling(standardised, held)


def _order(row: GpuMetricRow) -> tuple[int, str, int, int]:
    name = row.metric.lower()
    place = next((at for at, start in enumerate(KEY) if name.startswith(start)), len(KEY))
    return place, row.metric, row.rank, row.device


def _run_means(mine: pl.DataFrame, number: int, states: Collection[str], side: Side) -> list[float]:
    """The mean of the samples in these states, of each run; empty where some run has fewer than `ENOUGH`."""
    sums = (
        mine.filter((pl.col("side") == number) & pl.col("state").is_in(states))
        .group_by("run", maintain_order=True)
        .agg(pl.col("raw", "samples", "sum").sum())
        .filter(pl.col("raw") >= ENOUGH)
    )
    means = {run: total / samples for run, _, samples, total in sums.iter_rows()}
    return [means[run] for run in sorted(means)] if len(means) == len(side.runs) else []


def _mean(runs: Sequence[list[float]]) -> GpuMetricMean:
    """A side's mean is that of its runs, where each has enough samples; the interval needs two runs per side."""
    means = [float(np.mean(values)) if values else None for values in runs]
    if len(means) == 1:
        return GpuMetricMean(means[0])
    one, other = means
    delta = None if one is None or other is None else other - one
    change = trimmed(np.array(runs[0]), np.array(runs[1]))
    return GpuMetricMean(one, other, delta, *(change.interval if change else (None, None)))


def _sampling(standardised: StandardisedMeans, held: Mapping[str, bool]) -> list[GpuSampling]:
    rows = []
    for of, mine in standardised.ranked("gpu_sampling").sort(_UNIT).group_by(_UNIT, maintain_order=True):
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
