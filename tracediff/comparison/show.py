"""One side of reduced runs -> the report of what is in the time of its steps.

The same tables, cells and means as of a comparison, of one side matched to itself: every number is the one that
`compare` gives for these captures, where it counts the same workloads.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

import tracediff
from tracediff.arrays import Floats
from tracediff.comparison import tables
from tracediff.comparison.advice import advice
from tracediff.comparison.cells import (
    Layout,
    cell_table,
    exposed,
    hidden_time,
    idle_rows,
    observable,
    side_by_side,
)
from tracediff.comparison.chosen import Cells, chosen_steps, described
from tracediff.comparison.classes import build_strata, notes_of_classes, one_phase, with_classes
from tracediff.comparison.comparability import facts, need_one_program, repeated_captures
from tracediff.comparison.compare import KINDS, Options
from tracediff.comparison.evidence import Idle
from tracediff.comparison.frame import CellSums, Frame, build_frame
from tracediff.comparison.host_time import host_only_notes, host_time
from tracediff.comparison.kernel_table import KernelCells, kernel_cells, kernel_side, strata_of_rows
from tracediff.comparison.ladder import rung_notes, rung_of
from tracediff.comparison.launches import Launches, launches_of
from tracediff.comparison.layers import layer_cells
from tracediff.comparison.limits import limits
from tracediff.comparison.observed import stops_of_one
from tracediff.comparison.pictures import one_side, step_strip
from tracediff.comparison.places import shown_layers
from tracediff.comparison.shown import ROWS
from tracediff.errors import TracediffError
from tracediff.execution.clocks import with_waits
from tracediff.execution.sides import Side, side_input, stacked, steps_table, warnings_of
from tracediff.formats.selection import Pick
from tracediff.kernels.names import category, family
from tracediff.model import Coverage, KernelStratum, Note, PhaseTimes, Tool
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.model.show import Fact, IdleCause, Show, ShowCategory, ShowKernel, ShowStep
from tracediff.stats.rules import NEARLY
from tracediff.steps.timelines import StepWriter, timelines

_NO_CANDIDATE = dict.fromkeys(("candidate_steps", "candidate_ns", "candidate_share", "delta_ns"), ABSENT)


def _main_phase(steps: pl.DataFrame) -> str:
    """The phase with the most time."""
    sums = steps.group_by("phase").agg(pl.col("ns").sum()).sort("ns", "phase", descending=[True, False])
    return str(sums["phase"][0])


def show(side: Side, options: Options | None = None, picks: Sequence[Pick] = (), worst: int = 0) -> Show:
    """Report on one side. `picks`, `worst`: single steps to look at, see `comparison.chosen`.

    Raises `TracediffError`: mixed-programs, run-without-steps, and those of `chosen_steps`.
    """
    options = options or Options()
    need_one_program([side])
    (side,) = with_classes([with_waits(side)])
    side, frame = _frame(side)
    sides, rung = (side,), rung_of((side,), frame)
    strata = build_strata(frame)
    steps, located = frame.regular, frame.compared
    begun = frame.steps.filter(pl.Series(frame.begins))["ns"]
    idle = idle_rows(sides, with_gil=True)
    kernels = kernel_cells(sides, frame)
    layers = layer_cells(sides, frame, kernels)
    values, layout = cell_table(frame, idle, kernels, layers)
    sums = CellSums.of(values, len(layout.kinds))
    means = _means(frame, sums)
    known = observable(side, with_gil=True)
    standardised = side_by_side(sides, frame, idle, with_gil=True, kernels=kernels)
    accounting = {name: float(means.mean[cell]) for name, cell in layout.categories.items() if name in known}
    of_python = exposed(frame, idle)
    hidden = hidden_time(sides, standardised, of_python)[0] if side.captured("kernels") else {}
    causes, idle_left_out, idle_left_out_ns = idle_causes(side, frame, means, layout, idle.words)
    launches = launches_of(frame, kernels.values, len(kernels.rows))
    cells = Cells(frame, sums, layout, idle.words, kernels)
    chosen, said = chosen_steps(side, cells, known, picks, worst) if picks or worst else ([], [])
    kernel_list = _kernels(kernels, means, layout, strata_of_rows(kernels, strata), launches)
    ranges = [row for row in tables.range_rows(standardised) if row.baseline]
    gaps, gaps_left_out = tables.gap_rows(standardised)
    samples, samples_left_out = tables.samples(frame.steps)
    threads = tables.threads(standardised)
    launch = tables.launch(standardised, (accounting,), {})
    uneven, uneven_left_out = tables.kernel_ranks(kernels, located)
    drawn, selected = timelines(
        [[run.parts for run in side.runs]],
        strata.steps,
        strata.keys,
        StepWriter(kernels.matching, [row for row, _ in kernel_list], with_gil=True),
    )
    busy = sum(accounting.get(name, 0.0) for name in BUSY)
    step_ns = float(means.mean[0])
    return Show(
        tool=Tool("tracediff", tracediff.__version__),
        input=side_input(side),
        options=options.extra,
        machine=[Fact(name, value) for name, value in facts(side)],
        step=ShowStep(
            mean_ns=step_ns,
            sd_ns=means.sd(0),
            runs_ns=means.of_runs(0),
            idle_ns=step_ns - busy,
            steps=len(located),
            all_steps=len(steps),
            time_in_mean=float(located["ns"].sum()) / float(steps["ns"].sum()),
            median_ns=float(np.median(steps["ns"].to_numpy())),
            raw_runs_ns=steps.group_by("run").agg(pl.col("ns").mean()).sort("run")["ns"].to_list(),
            begins=len(begun),
            begin_ns=float(begun.to_numpy().mean()) if len(begun) else 0.0,
        ),
        accounting=[
            ShowCategory(
                name, value, means.share(cell), means.sd(cell), means.of_runs(cell), hidden.get(name)
            )
            for name, value in accounting.items()
            for cell in [layout.categories[name]]
        ],
        residual_ns=max(part.residual_ns for part in side.parts),
        stops=stops_of_one(frame.steps.filter(phase=_main_phase(steps))),
        idle=causes,
        advice=advice(
            side, [row for _, row in kernel_list], ranges, launch.baseline, step_ns, step_ns - busy
        ),
        idle_left_out=idle_left_out,
        idle_left_out_ns=idle_left_out_ns,
        kernels=[
            msgspec.structs.replace(row, layers=layers.kinds_of(number) if layers else [])
            for number, row in kernel_list
        ],
        layers=shown_layers(side, layers, layout, means.mean),
        phases=[PhaseTimes(one.phase, one.baseline) for one in tables.phases(standardised)],
        strata=[msgspec.structs.replace(row, **_NO_CANDIDATE) for row in strata.rows],
        ranges=ranges,
        gaps=gaps,
        worst_gaps=tables.worst_gaps(sides),
        launch=launch,
        gil=tables.gil(sides, standardised),
        gc=tables.gc(sides, standardised),
        graphs=tables.graphs(sides, launch),
        threads=threads,
        response_path=tables.response_path(ranges, threads, idle.threads(), (step_ns,)),
        ranks=tables.ranks(standardised),
        rank_skew=tables.skews(standardised.joint),
        rank_groups=tables.groups(standardised),
        rank_clocks=[side.clock],
        kernel_ranks=uneven,
        kpi=None,
        coverage=Coverage({kind: "captured" if side.captured(kind) else "not_captured" for kind in KINDS}),
        warnings=said + rung_notes(rung) + _warnings(side),
        rung=rung,
        system=tables.system(sides, standardised),
        limits=limits(sides, standardised, kernels, kernel_list, step_ns),
        host=host_time(sides),
        chosen=chosen,
        samples=samples,
        samples_left_out=samples_left_out,
        gaps_left_out=gaps_left_out,
        kernel_ranks_left_out=uneven_left_out,
        timelines=drawn,
        cause_tree=one_side(layout, kernels.rows, means.mean),
        step_strip=step_strip(frame, layout, selected, sides=1),
    )


def _frame(side: Side) -> tuple[Side, Frame]:
    """A side and its steps; where no two of them have about the same work, all are one phase. Raises `TracediffError`: run-without-steps."""
    runs = (len(side.runs),)
    try:
        return side, build_frame(steps_table((side,)), runs)
    except TracediffError as error:
        if error.slug != "no-common-strata":
            raise
    (side,) = one_phase([side])
    return side, build_frame(steps_table((side,)), runs)


def _means(frame: Frame, table: CellSums) -> Means:
    mean, runs = np.zeros(table.cells), np.zeros((frame.runs[0], table.cells))
    for phase in frame.phases:
        found = frame.sums(table, phase.mean, phase.klass, variance=False)
        own = np.repeat(found.means, frame.runs[0], axis=0)  # what a run without such steps would have taken
        own[found.runs[0]] = found.values[0]
        mean += phase.share * found.means[0]
        runs += phase.share * own
    return Means(mean, runs)


class Means(msgspec.Struct, frozen=True):
    """Cells of the step: their means and each run's, ns per step."""

    mean: Floats  # (cells,)
    runs: Floats  # (runs, cells)

    def sd(self, cell: int) -> float | None:
        """Standard deviation of the runs' means; None with one run."""
        return float(self.runs[:, cell].std(ddof=1)) if len(self.runs) > 1 else None

    def of_runs(self, cell: int) -> list[float]:
        """One mean a run."""
        return [float(value) for value in self.runs[:, cell]]

    def share(self, cell: int) -> float:
        """Of the step, 0 to 1."""
        return float(self.mean[cell] / self.mean[0]) if self.mean[0] else 0.0


def idle_causes(
    side: Side, frame: Frame, means: Means, layout: Layout, words: pl.DataFrame
) -> tuple[list[IdleCause], int, float]:
    """Rows of the idle cells of the step; then how many with less time are left out, and their ns per step together.

    `words`: of the pieces of the layout's rows.
    """
    moments = stacked([side], "moments").sort("end", descending=True)
    located = layout.idle_rows
    weighed = located.with_columns(factor=pl.Series(frame.weight[located["step"].to_numpy()]))
    events = dict(
        weighed.group_by("cell", maintain_order=True)
        .agg((pl.col("count") * pl.col("factor")).sum())
        .sort("cell")
        .iter_rows()
    )
    ranks = _main_ranks(weighed, frame)
    order = sorted(
        (place for place, cell in enumerate(layout.idle) if means.mean[cell]),
        key=lambda place: (-means.mean[layout.idle[place]], layout.idle_keys[place]),
    )
    rows = []
    for rank, number in enumerate(order[:ROWS], 1):
        cell, key = layout.idle[number], layout.idle_keys[number]
        place = described(side, key, located.filter(pl.col("cell") == cell), words, moments)
        on_rank, on_rank_ns = ranks.get(cell, (None, None))
        rows.append(
            IdleCause(
                **place,
                rank=rank,
                ns=float(means.mean[cell]),
                share=means.share(cell),
                sd_ns=means.sd(cell),
                runs_ns=means.of_runs(cell),
                count_per_step=round(float(events.get(cell, 0.0)), 9),
                query=Idle(key.cause, key.thread, [key.where], key.holder, key.copy).of_steps(),
                on_rank=on_rank,
                on_rank_ns=on_rank_ns,
            )
        )
    left = order[ROWS:]
    return rows, len(left), float(sum(means.mean[layout.idle[place]] for place in left))


def _main_ranks(weighed: pl.DataFrame, frame: Frame) -> dict[int, tuple[int, float]]:
    """Cell -> the rank that has most of its time, and ns per step of that rank; empty where there is one rank."""
    ranks = frame.steps["rank"].n_unique()
    if ranks < 2:
        return {}
    # the factors of all ranks sum to 1, of which a rank has its part
    part = frame.compared.group_by("rank").agg(part=pl.col("weight").sum())
    sums = (
        weighed.group_by("cell", "rank", maintain_order=True)
        .agg((pl.col("ns") * pl.col("factor")).sum())
        .join(part, on="rank", maintain_order="left")
        .with_columns(own_ns=pl.col("ns") / pl.col("part"), total=pl.col("ns").sum().over("cell"))
        .filter(pl.col("ns") >= NEARLY * pl.col("total"))
        .sort("cell", "rank")
    )
    return {cell: (rank, ns) for cell, rank, ns in sums.select("cell", "rank", "own_ns").iter_rows()}


def _kernels(
    kernels: KernelCells,
    means: Means,
    layout: Layout,
    strata: dict[int, list[KernelStratum]],
    launches: Launches,
) -> list[tuple[int, ShowKernel]]:
    """Rows of the matching and what they are in the report, the most time first."""
    rows = []
    for number, cell in enumerate(layout.kernels):
        found = kernel_side(kernels, number, 0, float(means.mean[cell]), launches)
        if found is None:
            continue  # seen only in steps that are not in the mean
        row = ShowKernel(
            category=category(found.names[0]),
            family=family(found.names[0]),
            accounting=kernels.kinds[number],
            baseline=found,
            share=means.share(cell),
            sd_ns=means.sd(cell),
            strata=[
                KernelStratum(one.stratum, one.baseline_count, one.baseline_ns)
                for one in strata.get(number, [])
            ],
        )
        rows.append((number, row))
    return sorted(rows, key=lambda one: (-means.mean[layout.kernels[one[0]]], repr(one[1].baseline)))


def _warnings(side: Side) -> list[Note]:
    notes = warnings_of([side]) + notes_of_classes([side])
    notes += host_only_notes([side])
    return notes + repeated_captures([side])
