"""One loaded export -> its `Reduction`: steps, sweep, attribution, then tables by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.counts import count_tables, read_copies
from tracediff.accounting.host import awaited_table, host_tables, payload_table
from tracediff.accounting.idle import idle_tables
from tracediff.accounting.kernels import (
    LayerRanges,
    arrivals,
    collective_waits,
    common_sequences,
    communicators,
    first_uses,
    launch_table,
    layer_tables,
    loading_periods,
    new_kernels,
    op_bags,
    op_columns,
    op_sums,
    origin_table,
    transition_table,
)
from tracediff.accounting.reduction import EventGraph, Reduction, SampledStep
from tracediff.accounting.sweep import Sweep, sweep
from tracediff.accounting.system import HostWork, OsTrace, metric_tables, system_tables
from tracediff.accounting.walk import Hosts, Names, host_windows, read_gil
from tracediff.errors import TracediffError
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame, run_sql, sql
from tracediff.formats.selection import ALL, Selection
from tracediff.limits.work import launches_with_work, work_table
from tracediff.model import Captured, Repeats
from tracediff.model.causes import BUSY, IDLE
from tracediff.trace.periods import Timeline, Unit, build_timeline, select, starts_profiler
from tracediff.trace.steps import WHOLE_CAPTURE, StepRule, find_steps
from tracediff.trace.threads import Places, Thread, thread_roles
from tracediff.trace.workloads import SHAPE, STEP, class_name, classes_of

# Makes the graph of events that a what-if replays (see whatif/graph.py). The timeline has streams.
Recorder = Callable[[Timeline, pl.DataFrame, Places, dict[int, Thread], Hosts], EventGraph]
# Chooses steps of the table of periods and reads what it needs of the capture's tables, which are dropped soon after;
# called again with what is known of the threads it returns those steps with their events (see steps/sample.py).
StepSampler = Callable[
    [Capture, Timeline, list[Sweep], pl.DataFrame],
    Callable[[Places, dict[int, Thread], Hosts], list[SampledStep]],
]


def reduce_capture(
    capture: Capture,
    *,
    step_regex: str | None = None,
    whole_capture: bool = False,
    infer: Repeats | None = None,
    only: Selection = ALL,
    sampler: StepSampler | None = None,
    recorder: Recorder | None = None,
) -> Reduction:
    """Measure one export.

    `infer`: from what repeats, whatever labels there are. `only`: the ranks and steps that are measured; those of the export alone count. `sampler`: of some steps every event.
    `recorder`: the graph of their events.
    Raises `TracediffError`: no-kernels, no-steps, one-step, no-whole-step, bad-step-regex, nothing-selected, step-numbers-repeat.
    """
    if whole_capture:
        rule = WHOLE_CAPTURE
        capture.db.execute(_NO_STEPS)
    else:
        if capture.coverage["kernels"] == "not_captured":
            build_timeline(capture)  # raises no-kernels before anything is said of steps
        rule = find_steps(capture, step_regex, infer=infer)
    return _measure(capture, rule, only, sampler, recorder)


def _measure(
    capture: Capture,
    rule: StepRule,
    only: Selection,
    sampler: StepSampler | None = None,
    recorder: Recorder | None = None,
) -> Reduction:
    """`reduce_capture` with the steps found."""
    whole_capture = rule == WHOLE_CAPTURE
    steps = _whole_capture(capture) if whole_capture else frame(capture.db, _STEPS)
    graph_mode, work, ranges = _graph_mode(capture), launches_with_work(capture), LayerRanges(capture.db)
    copies = read_copies(capture)
    timeline = build_timeline(capture, whole_capture=whole_capture, with_nodes=ranges.any)
    first_steps = {int(unit.bounds[0]) for unit in timeline.units}
    timeline, unmeasured, counts = select(capture.name, timeline, steps, only)
    places = Places(capture.db)
    threads = thread_roles(capture, places, timeline.launchers)
    swept = [sweep(timeline, unit) for unit in timeline.units]
    periods = _periods(timeline.units, swept, steps)
    first_of = np.cumsum([0, *(len(unit.step) for unit in timeline.units)]).tolist()
    sums = [op_sums(*each) for each in zip(timeline.units, swept, first_of, strict=False)]
    kernels = pl.concat(sums).drop("graph")
    periods = _with_classes(periods, kernels, timeline.keys)
    windows = host_windows(periods, timeline.units[0].pid, threads, unmeasured)
    once = first_uses(loading_periods(timeline, windows, threads))
    loads = pl.col("period").is_in(once).any().over(_STEP)
    periods, strata = _with_strata(
        periods.with_columns(start_up=pl.lit(new_kernels(timeline, swept, first_steps)) | loads)
    )
    stratum = periods["stratum"].to_numpy()
    windows = replace(windows, strata=stratum)
    launch = [
        launch_table(unit, one, first, stratum, timeline)
        for unit, one, first in zip(timeline.units, swept, first_of, strict=False)
    ]
    transitions = pl.concat([transition_table(one, timeline.keys, stratum) for one in sums])
    copy_keys = timeline.keys.filter(pl.col("kind").is_in((1, 2)))["id"].to_list()
    graph_kernels = pl.concat(
        one.filter(~pl.col("key").is_in(copy_keys)).group_by("period").agg(count=pl.col("graph").sum())
        for one in sums
    )
    del sums
    periods = periods.with_columns(*op_columns(kernels, timeline.keys, len(periods)))
    sequences = common_sequences(timeline, swept, periods)
    layers = layer_tables(capture, ranges, timeline, swept)
    groups = communicators(capture, timeline.launches)
    arrived = arrivals(timeline.units, swept, periods, groups, timeline.keys)
    arrived = arrived.clear() if unmeasured else arrived
    sample = sampler(capture, timeline, swept, periods) if sampler is not None else None
    gil = read_gil(capture.db, windows, threads, timeline.launchers)
    hosts = Hosts(capture.db, timeline.calls, gil)
    sampled = sample(places, threads, hosts) if sample is not None else []
    del sample
    events = recorder(timeline, periods, places, threads, hosts) if recorder is not None else None
    gaps = [one.gaps for one in swept]
    inside, op_periods = [one.inside for one in swept], [one.op_period for one in swept]
    del swept  # from here on only gaps are looked at: a third of the arrays goes
    names, trace = Names(threads, places, hosts), OsTrace(capture)
    host_work = HostWork(trace, names) if trace.any else None
    labels = hosts.labels(timeline.launches)
    origins = origin_table(timeline, inside, labels, names)
    causes, idle = idle_tables(
        timeline, gaps, periods, names, hosts, labels, host_work.add if host_work else None
    )
    del gaps
    periods = periods.with_columns(pl.Series(name, causes[:, number]) for number, name in enumerate(IDLE))
    host = host_tables(capture, timeline, periods, windows, gil, places, threads, hosts)
    counted = count_tables(
        timeline, inside, op_periods, graph_kernels, copies, labels, names, windows, host.pop("counts")
    )
    tables: dict[str, Any] = {
        **counted,
        **layers,
        **idle,
        **host,
        **system_tables(capture, trace, windows, threads, host_work),
        **metric_tables(capture, timeline.units, periods),
        "awaited": awaited_table(trace.os, windows, names, places, threads, hosts, timeline.launchers),
        "payloads": payload_table(capture, windows, places, threads),
        "work": work_table(capture, work, timeline.units, periods),
    }
    return Reduction(
        name=capture.name,
        fingerprint=capture.fingerprint,
        bytes=capture.bytes,
        duration_ns=max(int(unit.end.max()) for unit in timeline.units)
        - min(int(unit.start.min()) for unit in timeline.units),
        step_source=rule.source,
        step_rule=rule,
        graph_mode=graph_mode,
        meta=capture.meta,
        schema_version=capture.schema.version,
        coverage=capture.coverage,
        devices=_devices(capture),
        threads=list(threads.values()),
        warnings=[*capture.warnings, *timeline.warnings],
        residual_ns=_residual(periods),
        lost=timeline.lost,
        by_program=any(map(starts_profiler, (name for name, _ in timeline.api_names.values()))),
        measured=counts,
        periods=periods.drop("window_start", "window_end"),
        strata=strata,
        keys=timeline.keys,
        sequences=sequences,
        arrivals=arrived,
        collectives=collective_waits(arrived),
        origins=origins,
        sampled=sampled,
        events=events,
        kernels=kernels,
        launch=pl.concat(launch),
        transitions=transitions,
        **tables,
    )


# Of a whole capture there are no labels: empty tables of the same shape.
_NO_STEPS = """
CREATE OR REPLACE TABLE step_text (label INTEGER, number BIGINT, ctx_reqs INTEGER, ctx_tokens INTEGER, gen_reqs INTEGER);
CREATE OR REPLACE TABLE step (pid INTEGER, step INTEGER, tid BIGINT, number BIGINT, ctx_reqs INTEGER,
    ctx_tokens INTEGER, gen_reqs INTEGER, start_ns BIGINT, label_end_ns BIGINT, next_ns BIGINT);
"""


def _graph_mode(capture: Capture) -> str:
    said = capture.meta.get("CUDA_GRAPH_TRACE_OPTIONS:MODE", ())
    if said:
        return "+".join(sorted({mode.lower() for mode in said}))
    return "node" if capture.count("op_descriptor", "graph_node IS NOT NULL") else "unknown"


def _devices(capture: Capture) -> list[tuple[int, str, int, int]]:
    rows = capture.db.execute(
        "SELECT device, coalesce(name, ''), coalesce(sm_count, 0), coalesce(clock_hz, 0) FROM device ORDER BY device"
    ).fetchall()
    return [(int(row[0]), str(row[1]), int(row[2]), int(row[3])) for row in rows]


_STEPS = """
SELECT pid::BIGINT AS pid, step::BIGINT AS step, number, ctx_reqs::BIGINT AS ctx_reqs, ctx_tokens::BIGINT AS ctx_tokens,
    gen_reqs::BIGINT AS gen_reqs, start_ns AS window_start, coalesce(next_ns, label_end_ns) AS window_end, phase AS said
FROM step ORDER BY pid, step
"""
_STEP_SCHEMA = {
    **dict.fromkeys(("pid", "step", "number", "ctx_reqs", "ctx_tokens", "gen_reqs", "window_start", "window_end"), pl.Int64),
    "said": pl.String,  # the phase, where the source of the steps knows it
}  # fmt: skip


def _whole_capture(capture: Capture) -> pl.DataFrame:
    """The columns of `_STEPS`: each process with GPU work is one step."""
    row = capture.db.execute(
        "SELECT min(start_ns), max(end_ns) FROM (SELECT start_ns, end_ns FROM api_call UNION ALL FROM"
        " (SELECT start_ns, end_ns FROM op_row))"
    ).fetchone()
    assert row is not None
    pids = capture.db.execute("SELECT DISTINCT pid FROM op_descriptor ORDER BY pid").fetchall()
    if (None,) in pids:
        raise TracediffError(
            "no-process",
            f"{capture.name}: GPU work does not say which process it is of (globalPid)",
            fix="export it again with the nsys that recorded it",
        )
    rows = [(pid, 0, None, None, None, None, row[0], row[1] + 1, None) for (pid,) in pids]
    return pl.DataFrame(rows, schema=_STEP_SCHEMA, orient="row")


def _periods(units: list[Unit], swept: list[Sweep], steps: pl.DataFrame) -> pl.DataFrame:
    """The table of whole periods of all units, without idle time by cause and strata."""
    frames = []
    for unit, one in zip(units, swept, strict=True):
        frames.append(
            pl.DataFrame(
                {
                    "rank": np.full(len(unit.step), unit.rank, np.int64),
                    "pid": np.full(len(unit.step), unit.pid, np.int64),
                    "device": np.full(len(unit.step), unit.device, np.int64),
                    "step": unit.step.astype(np.int64),
                    "start_ns": unit.bounds[:-1],
                    "end_ns": unit.bounds[1:],
                    **{name: one.busy[:, number] for number, name in enumerate(BUSY)},
                }
            )
        )
    table = pl.concat(frames).join(steps, on=["pid", "step"], how="left", maintain_order="left")
    ctx, gen = pl.col("ctx_reqs"), pl.col("gen_reqs")
    table = table.with_columns(
        phase=pl.when(pl.col("said").is_not_null())
        .then(pl.col("said"))
        .when(ctx.is_null() & gen.is_null())
        .then(pl.lit(STEP))
        .when((ctx > 0) & (gen == 0))
        .then(pl.lit("context"))
        .when(ctx == 0)
        .then(pl.lit("generation"))
        .otherwise(pl.lit("mixed"))
    ).drop("said")
    return table.with_row_index("period").with_columns(pl.col("period").cast(pl.Int64))


def _with_classes(periods: pl.DataFrame, kernels: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The periods whose labels count nothing, in classes of what they launch: `step`, `class-2`, ... in order of their steps."""
    mine = np.flatnonzero((periods["phase"] == STEP).to_numpy())
    if len(mine) < 2:
        return periods
    bags, _, content = op_bags(kernels, keys, len(periods))
    there, steps = np.unique(content[mine], return_counts=True)
    found = dict(zip(there.tolist(), classes_of(bags[there], steps.astype(np.float64)).tolist(), strict=True))
    phase = periods["phase"].to_list()
    for row in mine.tolist():
        phase[row] = class_name(found[int(content[row])])
    return periods.with_columns(phase=pl.Series(phase))


_STEP = ["pid", "step"]  # of all devices of a rank


def _with_strata(periods: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The periods with their exact stratum, and the table of strata.

    What a step starts up is no part of the work of its shape: such steps have strata of their own, and so has the first of each
    device, on all devices of the rank.
    """
    first = pl.col("start_ns") == pl.col("start_ns").min().over("rank", "device")
    started = periods.with_columns(starts=pl.col("start_up").any().over(_STEP), first=first.any().over(_STEP))
    by = [*SHAPE, "starts", "first"]
    strata = started.group_by(by).len("steps").sort(by, nulls_last=True).with_row_index("stratum")
    strata = strata.with_columns(pl.col("stratum").cast(pl.Int64), pl.col("steps").cast(pl.Int64))
    table = started.join(strata.drop("steps"), on=by, how="left", nulls_equal=True, maintain_order="left")
    return table.drop("starts", "first"), strata.drop("starts", "first")


def _residual(periods: pl.DataFrame) -> int:
    """Largest |period - sum of categories| over all periods, ns."""
    total = pl.sum_horizontal(*BUSY, *IDLE)
    value = periods.select(((pl.col("end_ns") - pl.col("start_ns")) - total).abs().max()).item()
    return int(value or 0)


# A capture that lacks GPU kernels, measured on the host alone: CUDA calls, NVTX, GIL and garbage collections.

_MARK = "[step]"
_NO_OS_CALLS = "CREATE OR REPLACE TABLE os_call (tid BIGINT, start_ns BIGINT, end_ns BIGINT, name BIGINT)"
_NODES = 100  # about as many kernels one graph launches: 41 and 149 in recorded programs
_OPS = {"op_key": pl.UInt64, "ops": pl.Int64, "copies": pl.Int64}


def is_host_only(capture: Capture) -> bool:
    """Return whether only the host of an export can be measured: it has no GPU kernels, or few beside those of its CUDA graphs.

    Between the kernels that graphs leave out the GPU looks idle. Where nodes were asked for, their rows are a loss that a warning tells.
    """
    if capture.coverage["kernels"] == "not_captured":
        return True
    if capture.coverage["graphs"] == "captured" or _graph_mode(capture) == "node":
        return False
    ((_, bare),) = capture.db.execute(sql("formats/graph_launches")).fetchall()
    return bool(_NODES * bare > capture.count("op_row"))


def reduce_host(
    capture: Capture,
    *,
    step_regex: str | None = None,
    whole_capture: bool = False,
    infer: Repeats | None = None,
    only: Selection = ALL,
) -> Reduction:
    """Measure the host of an export; kernels, copies and memsets in it only tell its steps.

    Where no steps are found, the whole capture counts as one step. Raises `TracediffError`: nothing-recorded, bad-step-regex;
    no-steps, one-step with a `step_regex`; nothing-selected, step-numbers-repeat.
    """
    os_calls = capture.coverage["os_calls"] == "captured"
    if not capture.count("range") and not capture.count("api_call") and not os_calls:
        there = f" (it holds {', '.join(capture.schema.events)})" if capture.schema.events else ""
        if said := capture.reasons():
            there += f". nsys says what it could not record: {'; '.join(map(ascii, said))}"
        raise TracediffError(
            "nothing-recorded",
            f"{capture.name}: no GPU kernels, no CUDA calls, no NVTX ranges and no OS calls, so there is nothing to compare{there}",
            fix=f"{capture.recording.gpu_work}, with the program's work inside the capture range",
        )
    db = capture.db
    rule = WHOLE_CAPTURE
    if not whole_capture:
        run_sql(db, "accounting/bare_launches")
        try:
            rule = find_steps(capture, step_regex, infer=infer)
        except TracediffError as error:
            if step_regex is not None or error.slug not in ("no-steps", "one-step", "no-whole-step"):
                raise
    db.execute("DELETE FROM op_row; DELETE FROM op_descriptor; DELETE FROM op_key")
    if rule == WHOLE_CAPTURE:
        if not os_calls:
            db.execute(_NO_OS_CALLS)
        run_sql(db, "accounting/host_capture")
    run_sql(db, "accounting/step_marks")
    if rule == WHOLE_CAPTURE:
        db.execute(_NO_STEPS)
    coverage: dict[str, Captured] = {**capture.coverage, "kernels": "not_captured"}
    capture.coverage = {**coverage, "kernels": "captured"}  # of the marks
    reduction = _measure(capture, rule, only)
    no_launch = [
        pl.lit(0, pl.Int64).alias(name) for name in ("kernels", "graph_kernels", "calls", "graph_launches")
    ]
    no_delay = [
        pl.lit(None, pl.Float64).alias(name) for name in ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns")
    ]
    no_ops = [pl.lit(0, dtype).alias(name) for name, dtype in _OPS.items()]
    return replace(
        reduction,
        coverage=coverage,
        periods=reduction.periods.with_columns(*no_ops),
        kernels=reduction.kernels.clear(),
        transitions=reduction.transitions.clear(),
        layers=reduction.layers.clear(),
        layer_sources=reduction.layer_sources.clear(),
        launch=reduction.launch.with_columns(*no_launch, *no_delay),
        apis=reduction.apis.filter(pl.col("api") != _MARK),
        counts=_of_host(reduction),
        sequences={phase: [] for phase in reduction.sequences},
    )


def _of_host(reduction: Reduction) -> pl.DataFrame:
    """The rows of `counts` of what threads did, without those of the marks."""
    kind = reduction.counted["kind"].gather(reduction.counts["what"])
    return reduction.counts.filter(kind.is_in(("collections", "ranges")))
