"""How fast the host of each step was, from the CUDA calls that block on nothing.

The speed of a step is the mean over its calls of log(duration / that function's mean), durations being medians of the step. Functions
that a side calls twice as often as the other would mix what changed into it and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.intervals import Floats, Ints, sum_by
from tracediff.comparison import tables
from tracediff.comparison.frame import CellSums, Frame, PhaseSteps, Sums, Values
from tracediff.comparison.kernel_table import KernelCells, kernel_cells
from tracediff.comparison.layers import LayerCells, layer_cells
from tracediff.execution.sides import Side, parts_of, stacked, tagged
from tracediff.model import OddRun
from tracediff.model.causes import BUSY, CATEGORIES, CAUSES, IDLE
from tracediff.model.causes import STEP as USUAL_STEP
from tracediff.stats.estimator import (
    FEW_RUNS,
    Estimate,
    Lone,
    Sample,
    estimate,
    paired,
    permuted_t,
    slopes,
    splits,
)
from tracediff.stats.workload import TRIMMED_VARIANCE

LEAST_FUNCTIONS = 3
_FEW_FUNCTIONS = 2  # of programs of CUDA graphs that call no others
_OFTEN = 2.0
_RARELY = 0.5  # calls a step


def host_speed(sides: Sequence[Side], frame: Frame) -> Floats | None:
    """Log ratio of each row of `Frame.steps`, nan where it made no such call; None where too few functions can be compared."""
    table = stacked(sides, "host_speed")
    step = frame.index.rows(table)
    table = table.with_columns(step=pl.Series(step)).filter(pl.col("step") >= 0)
    compared = pl.Series(frame.weight > 0)
    table = table.filter(compared.gather(table["step"]))
    if not len(table):
        return None
    steps = [int((frame.compared["side"] == side).sum()) for side in range(2)]
    often = table.filter(pl.col("side") < 2).group_by("api").agg(
        *((pl.col("count").filter(pl.col("side") == side).sum() / max(steps[side], 1)).alias(f"side{side}") for side in range(2))
    )  # fmt: skip
    one, other = pl.col("side0"), pl.col("side1")
    alike = often.filter((one > 0) & (other > 0) & (one < _OFTEN * other) & (other < _OFTEN * one))
    others = often.filter(pl.max_horizontal(one, other) >= _RARELY).join(alike, on="api", how="anti")
    # where one side calls many others, such as launches of every kernel, the few that both call lie in other work
    if len(alike) < (LEAST_FUNCTIONS if len(others) else _FEW_FUNCTIONS):
        return None
    table = table.join(alike.select("api"), on="api", how="semi", maintain_order="left")
    mean = (pl.col("log_ns") * pl.col("count")).sum() / pl.col("count").sum()
    # of both sides alike: the side with more calls must not decide what a function usually takes
    usual = (
        table.filter(pl.col("side") < 2)
        .group_by("api", "side", maintain_order=True)
        .agg(usual=mean)
        .group_by("api", maintain_order=True)
        .agg(pl.col("usual").mean())
    )
    of_steps = (
        table.join(usual, on="api", maintain_order="left")
        .group_by("step", maintain_order=True)
        .agg(speed=((pl.col("log_ns") - pl.col("usual")) * pl.col("count")).sum() / pl.col("count").sum())
    )
    found = np.full(len(frame.steps), np.nan)
    found[of_steps["step"].to_numpy()] = of_steps["speed"].to_numpy()
    return found


# Cells: the places where time goes, measured at every whole step, and their estimates.
#
# Cell 0 is the step; then the categories, the (cause, place) of idle time, the rows of the kernel table, layers and kinds of layer where they are
# known. ns per step.


class IdleKey(NamedTuple):
    """Idle time with the grain of a finding. `where`: the place; of a wait for the GIL the holder's; of gc ''."""

    cause: str
    thread: str
    holder: str
    where: str
    copy: bool  # inside a call that copies


@dataclass(frozen=True)
class Layout:
    """Which cells are what: 0 is the step, then categories, idle cells, kernel rows, layers, kinds of layer.

    kinds: the category of each cell, `step` of the first. sums: cells that are the sum of idle cells, for their slope.
    idle_rows: idle time of the first two sides, side, run, part, rank, period, step (row of the frame), piece (row of the words of
    the idle rows), cell -> ns, count.
    """

    kinds: list[str]
    categories: dict[str, int]
    idle: list[int]
    idle_keys: list[IdleKey]
    kernels: list[int]
    idle_rows: pl.DataFrame
    layers: list[int] = field(default_factory=list)
    layer_kinds: list[int] = field(default_factory=list)  # in the order of their names

    def sums(self) -> dict[int, npt.NDArray[np.intp]]:
        """The step and the idle categories, each with the idle cells that it is made of."""
        members: dict[int, list[int]] = {STEP: list(self.idle)}
        for cell, key in zip(self.idle, self.idle_keys, strict=True):
            members.setdefault(self.categories[key.cause], []).append(cell)
        return {cell: np.array(parts, np.intp) for cell, parts in members.items() if parts}


@dataclass(frozen=True)
class Part:
    """The typical steps of a phase, or what rare ones add to its mean (tail): its sample and the estimate of every cell."""

    name: Literal["typical", "tail"]
    sample: Sample
    scatter: Floats  # what each cell usually scatters, ns
    slope: Floats  # what it usually gains per unit of host speed; nan: nothing
    sums: dict[int, npt.NDArray[np.intp]]  # cells that are sums of others
    lone: Lone | None  # with one run a side: instead of `scatter`
    estimate: Estimate

    def grouped(self, groups: Sequence[Sequence[int]]) -> Part:
        """Every group of cells as one."""
        member = np.array([cell for group in groups for cell in group], np.intp)
        of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])

        def added(values: Floats) -> Floats:
            found = np.zeros((len(values), len(groups)))
            np.add.at(found.T, of, values[:, member].T)
            return found

        one, other = self.sample.values
        variance = self.sample.step_variance
        sample = Sample(
            (added(one), added(other)),
            self.sample.speed,
            None if variance is None else (added(variance[0][None])[0], added(variance[1][None])[0]),
            None if self.sample.more is None else added(self.sample.more),
            self.sample.paired,
            self.sample.step_df,
        )
        scatter, *lone = (np.sqrt(added(one[None] ** 2)[0]) for one in (self.scatter, *(self.lone or ())))
        slope = added(np.nan_to_num(self.slope)[None])[0]
        slope[added((~np.isnan(self.slope))[None].astype(float))[0] == 0] = np.nan
        return _part(self.name, sample, scatter, slope, {}, Lone(*lone) if lone else None)

    def together(self, groups: Sequence[Sequence[int]]) -> Estimate:
        """All groups as one, then each: what the speed of the host explains of one is the sum of what it explains of each."""
        part = self.grouped([[cell for group in groups for cell in group], *groups])
        sums = {0: np.arange(1, len(groups) + 1)}
        return estimate(part.sample, part.scatter, slopes(part.sample, part.slope, sums), part.lone)

    def grouped_t(self, cells: npt.NDArray[np.intp], dealt: npt.NDArray[np.bool_]) -> Floats:
        """|t| of some cells with the runs dealt out anew, (splits, cells)."""
        part = self.grouped([[int(cell)] for cell in cells])
        return permuted_t(part.sample, part.scatter, part.slope, {}, dealt)

    def dealt(self) -> npt.NDArray[np.bool_] | None:
        """The ways to deal the runs out; None where so few cannot show anything."""
        one, other = self.sample.runs
        if self.sample.paired:
            return splits((one, other), pairs=True) if one >= _LEAST_PAIRS else None
        return splits((one, other)) if min(one, other) >= _LEAST_DEALT else None

    def permuted_step(self, dealt: npt.NDArray[np.bool_]) -> Floats:
        """|t| of the whole step with the runs dealt out anew, (splits,)."""
        parts = self.sums.get(STEP, np.empty(0, np.intp))
        part = self.grouped([[int(cell)] for cell in (STEP, *parts)])
        sums = {0: np.arange(1, len(parts) + 1)} if len(parts) else {}
        return np.asarray(permuted_t(part.sample, part.scatter, part.slope, sums, dealt)[:, 0])


def _part(
    name: Literal["typical", "tail"],
    sample: Sample,
    scatter: Floats,
    slope: Floats,
    sums: dict[int, npt.NDArray[np.intp]],
    lone: Lone | None = None,
) -> Part:
    found = estimate(sample, scatter, slopes(sample, slope, sums), lone)
    return Part(name, sample, scatter, slope, sums, lone, found)


@dataclass(frozen=True)
class PhaseCells:
    """The cells of one phase. start: (sides, cells) of its start, 0 where it has none; start_runs: of every run."""

    steps: PhaseSteps
    typical: Part
    tail: Part
    mean: Floats  # (sides, cells) of the whole phase, start included
    start: Floats
    start_runs: list[Floats]
    run_numbers: tuple[Ints, Ints]  # of those of each side that have such steps

    @property
    def runs(self) -> tuple[int, int]:
        """Runs of each side that have such steps."""
        return len(self.run_numbers[0]), len(self.run_numbers[1])

    @property
    def parts(self) -> tuple[Part, Part]:
        """Typical and tail."""
        return self.typical, self.tail

    @property
    def step_ns(self) -> float:
        """Mean step time of the slower side."""
        return float(self.mean[:2, STEP].max())

    @property
    def speed(self) -> float | None:
        """Log ratio of the candidate's host to the baseline's; positive: slower."""
        speed = self.typical.sample.speed
        return None if speed is None else float(speed[1].mean() - speed[0].mean())


@dataclass(frozen=True)
class Measured:
    """Two sides, their compared steps, and the estimates of every cell, by phase and over all."""

    sides: tuple[Side, Side]
    frame: Frame
    idle: IdleRows
    with_gil: bool  # both sides traced it, or none
    kernels: KernelCells
    layers: LayerCells | None  # where both sides have them
    layout: Layout
    phases: list[PhaseCells]
    whole: Estimate  # of the mean over all compared steps
    odd: list[OddRun]  # runs that were left out, for they lie apart

    @property
    def steps(self) -> pl.DataFrame:
        """Every whole step of the two sides."""
        return self.frame.steps.filter(pl.col("side") < 2)


STEP = 0  # the cell of the whole step
_LEAST_DEALT, _LEAST_PAIRS = (
    4,
    7,
)  # runs a side, and pairs, from which a permutation can reach 3 % (2 of 70, 2 of 128)
_TAIL_OF_FEW = 0.1
_TAIL = 0.3  # of its time: what rare steps add to the mean scatters far more than the typical step
_TWICE = 1.9  # times as many launches in a typical step, of which a part may be cut off
_NEXT_TO_NOTHING = 5_000.0  # ns of idle time: a factor between less is chance
_UNKNOWN = 0.25  # of its time: what a phase may vary from run to run where its steps are too few to say
_HOSTS_APART = 0.2  # log ratio: what hosts this far apart hide behind the GPU differs by more than they do
_ANY_HOST = 0.15  # log ratio: what the speed of the host varies from run to run, where it is not known


def measure(
    sides: tuple[Side, Side], noise: Side | None, frame: Frame, odd: list[OddRun] | None = None
) -> Measured:
    """Every cell in one pass. `noise`: further repeats of the baseline's program, the third side of the frame."""
    every = sides if noise is None else (*sides, noise)
    with_gil = len({side.captured("gil") for side in every}) == 1
    idle = idle_rows(every, with_gil=with_gil)
    kernels = kernel_cells(every, frame)
    layers = layer_cells(every, frame, kernels)
    values, layout = cell_table(frame, idle, kernels, layers)
    speed = host_speed(every, frame)
    cells = len(layout.kinds)
    if speed is not None:
        values.append(_known_speed(frame, speed, cells))
    table = CellSums.of(values, cells + (speed is not None))
    phases = [
        _phase_cells(frame, table, layout, one, _ops(kernels, one.phase), speed is not None)
        for one in frame.phases
    ]
    return Measured(
        sides, frame, idle.of_sides(2), with_gil, kernels, layers, layout, [one for one, _ in phases], _whole(phases, frame, layout), odd or [],
    )  # fmt: skip


def _known_speed(frame: Frame, speed: Floats, cell: int) -> Values:
    """Host speed of each step; of one without calls, the mean of its run."""
    run, known = frame.run_number, ~np.isnan(speed)
    count = np.bincount(run[known], minlength=sum(frame.runs))
    mean = np.bincount(run[known], weights=speed[known], minlength=sum(frame.runs)) / np.maximum(count, 1)
    return Values(
        np.arange(len(speed)), np.full(len(speed), cell), np.where(known, np.nan_to_num(speed), mean[run])
    )


def _phase_cells(
    frame: Frame, table: CellSums, layout: Layout, phase: PhaseSteps, ops: Floats, with_speed: bool
) -> tuple[PhaseCells, Sums]:
    """The estimates of a phase, and the sums of its mean over all but the start. `ops`: as `_ops` gives them."""
    cells = len(layout.kinds)
    typical = frame.sums(table, phase.typical, phase.klass, variance=True)
    rest = frame.sums(table, phase.rest, phase.klass, variance=True)
    start, start_runs = np.zeros((len(frame.runs), cells)), [np.zeros((many, cells)) for many in frame.runs]
    if phase.start_share:
        of_start = frame.sums(table, phase.start, phase.klass * 0, variance=False)
        start = of_start.means[:, :cells]
        for side, own in enumerate(of_start.values):
            # what a run without such steps would have taken, is the mean of its side
            start_runs[side][:] = start[side]
            start_runs[side][of_start.runs[side]] = own[:, :cells]
    of_sides = np.abs(typical.means[:2, :cells])
    larger = of_sides.max(axis=0)
    rows = [CAUSES[kind].scatter if kind != "step" else USUAL_STEP for kind in layout.kinds]
    relative, plus, slope = (
        np.array([np.nan if value is None else value for value in column], float)
        for column in zip(*((row.relative, row.plus_ns, row.slope) for row in rows), strict=True)
    )
    scatter = relative * larger + plus
    if not phase.judged:
        scatter = np.maximum(scatter, _UNKNOWN * larger)
    # of the smaller side: what one side has more is the change, and need not move with the host's speed
    usual = slope * of_sides.min(axis=0)
    tail_means = (rest.means - typical.means)[:2, :cells]
    usual_tail = slope * np.abs(tail_means).min(axis=0)
    gap = float(np.diff(typical.means[:2, cells])[0]) if with_speed else 0.0
    usual[_mostly_new(typical.means[:2, :cells], gap)] = np.nan
    usual_tail[_mostly_new(tail_means, gap)] = np.nan
    sums = layout.sums()
    for one in (usual, usual_tail):
        one[[*sums]] = 0.0  # the sum of their parts
    any_host = np.zeros(cells) if with_speed else _of_any_host(usual, sums)
    scatter = np.hypot(scatter, any_host)
    speed = None
    if with_speed:
        speed = typical.values[0][:, cells], typical.values[1][:, cells]
    before, after = _variances(typical, cells)
    of_steps = TRIMMED_VARIANCE * before, TRIMMED_VARIANCE * after
    step_df = float(max(min(phase.steps[:2]) - 1, 1))
    sample = Sample(_of_sides(typical, cells), speed, of_steps, _more(typical, cells), step_df=step_df)
    sample = _paired(frame, sample)
    unmeasured = phase.judged and min(sample.runs) == 1 and sample.more is None
    lone = _lone(layout, of_sides, ops, gap, any_host) if unmeasured else None
    tail_values = [
        one[:, :cells] - other[:, :cells] for one, other in zip(rest.values, typical.values, strict=True)
    ]
    tail_mean = np.abs(tail_means).max(axis=0)
    tail = Sample(
        (tail_values[0], tail_values[1]),
        speed,
        _variances(rest, cells),
        tail_values[2] if len(tail_values) > 2 else None,
        step_df=step_df,
    )
    tail = _paired(frame, tail)
    # of few runs, the scatter of steps says itself how much rare ones vary
    tail_scatter = plus + (_TAIL if min(tail.runs) > FEW_RUNS else _TAIL_OF_FEW) * tail_mean
    if not with_speed:
        tail_scatter = np.hypot(tail_scatter, _of_any_host(usual_tail, sums))
    mean = (1 - phase.start_share) * rest.means[:, :cells] + phase.start_share * start
    cells_of = PhaseCells(
        phase,
        _part("typical", sample, scatter, usual, sums, lone),
        _part("tail", tail, tail_scatter, usual_tail, sums),
        mean,
        start,
        start_runs,
        (typical.runs[0], typical.runs[1]),
    )
    return cells_of, rest


def _of_any_host(usual: Floats, sums: dict[int, npt.NDArray[np.intp]]) -> Floats:
    """What a host of unknown speed makes each cell vary from run to run: in a sum, all of its parts together."""
    slope = np.abs(np.nan_to_num(usual))
    for cell, parts in sums.items():
        slope[cell] = slope[parts].sum()
    return np.asarray(_ANY_HOST * slope)


def _ops(kernels: KernelCells, phase: str) -> Floats:
    """Ops of each row per typical step of the larger side, and the part of them that may be a matter of the work, (rows, 2)."""
    one, other = kernels.of_phase[phase, "typical"].astype(np.float64).T  # no rows are of integers
    most = np.maximum(one, other)
    # a matter of the work: not where each step launches twice as many
    certain = kernels.differs[phase] | (
        (np.minimum(one, other) >= 1) & (most >= _TWICE * np.minimum(one, other))
    )
    unsure = np.where(certain, 0.0, np.abs(other - one))
    return np.stack([most, np.divide(unsure, most, out=np.zeros_like(most), where=most > 0)], axis=1)


def _lone(layout: Layout, of_sides: Floats, ops: Floats, gap: float, any_host: Floats) -> Lone:
    """What cells scatter where a side has one run. `of_sides`: (sides, cells) ns.

    `gap`: log ratio of host speed. `any_host`: as of `_of_any_host`.
    Runs of one program differ in idle time by a factor: sides that are a large one apart are not alike. Kernels differ by some ns
    of every op, however long it takes.
    """
    rows = [CAUSES[kind].scatter if kind != "step" else USUAL_STEP for kind in layout.kinds]
    relative, plus, times = np.array([(row.relative, row.plus_ns, row.lone) for row in rows]).T
    larger, host_of_lone = of_sides.max(axis=0), times * any_host
    apart = times * (relative * larger + plus)
    gpu = np.array([cell for cell in layout.kernels if layout.kinds[cell] != "comm"], np.intp)
    if len(gpu):
        many, unsure = ops[gpu - layout.kernels[0]].T
        apart[gpu] = (relative[gpu] + unsure) * larger[gpu] + plus[gpu] * np.maximum(many, 1.0)
    alike = apart.copy()
    idle = np.array([cell for cell, kind in enumerate(layout.kinds) if kind in IDLE], np.intp)
    one, other = of_sides[:, idle] + _NEXT_TO_NOTHING
    relative, times = relative[idle], times[idle]
    # of host work that a GPU hides, a slower host exposes more than it is slower: at most, by two standard deviations of the
    # difference, what it is slower by over the whole step
    exposed = _mostly_new(of_sides[:, idle], gap) & ((other - one) * gap > 0) & (abs(gap) > _HOSTS_APART)
    most = np.minimum(np.maximum(one, other), of_sides[:, STEP].min())
    host = np.where(exposed, np.abs(gap) * most / (2 * math.sqrt(2)), 0.0)
    apart[idle] = np.hypot(times * relative * np.sqrt((one**2 + other**2) / 2), host)
    alike[idle] = np.hypot(times * relative * _logarithmic_mean(one, other), host)
    return Lone(np.hypot(apart, host_of_lone), np.hypot(alike, host_of_lone))


def _logarithmic_mean(one: Floats, other: Floats) -> Floats:
    """Of positive times: (other - one) / log(other / one); so a difference in these units is the log of the ratio."""
    low, high = np.minimum(one, other), np.maximum(one, other)  # the same bits whichever side is first
    ratio = np.log(high / low)
    near = ratio < 1e-6
    return np.where(near, (low + high) / 2, (high - low) / np.where(near, 1.0, ratio))


def _mostly_new(means: Floats, gap: float) -> npt.NDArray[np.bool_]:
    """Cells of which one side has less than half of what the other would have on its host: that does not come of a slower host.

    `gap`: log ratio of host speed, positive where the candidate's host is slower.
    """
    one, other = np.abs(means)
    return np.asarray(
        (2 * math.exp(max(gap, 0.0)) * one < other) | (2 * math.exp(max(-gap, 0.0)) * other < one)
    )


def _paired(frame: Frame, sample: Sample) -> Sample:
    """The sample by pairs, where all runs of both sides have one."""
    every = len(frame.kept(0)), len(frame.kept(1))
    return paired(sample) if frame.paired and sample.runs == every else sample


def _of_sides(sums: Sums, cells: int) -> tuple[Floats, Floats]:
    return sums.values[0][:, :cells], sums.values[1][:, :cells]


def _variances(sums: Sums, cells: int) -> tuple[Floats, Floats]:
    return sums.variance[0][:cells], sums.variance[1][:cells]


def _more(sums: Sums, cells: int) -> Floats | None:
    return sums.values[2][:, :cells] if len(sums.values) > 2 else None


_START_SCATTER = (
    0.3  # of what first uses take in a run: runs of one serving loop, each with its own requests, on an H200
)


def host_of_start(found: PhaseCells, layout: Layout) -> Floats:
    """What the speed of the hosts explains of first uses, (sides, cells): as large a part of each category as in typical steps."""
    usual, even = (
        np.stack([one.mean(axis=0) for one in values])
        for values in (found.typical.sample.values, found.typical.estimate.values)
    )
    share = np.clip(np.divide(usual - even, usual, out=np.zeros_like(usual), where=usual > 0), -1.0, 1.0)
    host = np.zeros_like(usual)
    for cell, parts in layout.sums().items():
        if cell != STEP:
            host[:, parts] = share[:, [cell]] * found.start[:2, parts]
            host[:, cell] = host[:, parts].sum(axis=1)
            host[:, STEP] += host[:, cell]
    return host


def _whole(phases: Sequence[tuple[PhaseCells, Sums]], frame: Frame, layout: Layout) -> Estimate:
    """The mean over all compared steps: its difference is the sum of those of the phases, weighted by their shares."""
    cells, runs = len(layout.kinds), frame.runs
    values = [np.zeros((many, cells)) for many in runs]
    means = np.zeros((len(runs), cells))
    host, scatter2 = np.zeros(cells), np.zeros(cells)
    variance = [np.zeros(cells) for _ in runs]
    for found, rest in phases:
        share, ordinary = found.steps.share, 1 - found.steps.start_share
        means += share * found.mean
        host += share * ordinary * (found.typical.estimate.host_speed + found.tail.estimate.host_speed)
        of_start = host_of_start(found, layout)
        host += share * found.steps.start_share * (of_start[1] - of_start[0])
        scatter2 += (share * ordinary) ** 2 * (found.typical.scatter**2 + found.tail.scatter**2)
        # first uses of kernels: which steps have them, and how long they take, differs from run to run
        scatter2 += (
            share * found.steps.start_share * _START_SCATTER * np.abs(found.start[:2]).max(axis=0)
        ) ** 2
        for side, (there, own) in enumerate(zip(rest.runs, rest.values, strict=True)):
            of_runs = own[:, :cells]
            if side < 2:  # without what a slower host costs
                for part in found.parts:
                    of_runs = of_runs - (part.sample.values[side] - part.estimate.values[side])
            # what a run without such steps would have taken, is the mean of its side
            middle = of_runs.mean(axis=0) if len(there) else np.zeros(cells)
            filled = np.repeat(middle[None], runs[side], axis=0)
            filled[there] = of_runs
            start = found.start_runs[side] - (of_start[side] if side < 2 else 0.0)
            values[side] += share * (ordinary * filled + found.steps.start_share * start)
            variance[side] += (share * ordinary) ** 2 * rest.variance[side][:cells]
    kept = [values[side][frame.kept(side)] for side in range(len(runs))]
    sample = Sample(
        (kept[0], kept[1]), None, (variance[0], variance[1]), kept[2] if len(runs) > 2 else None,
        step_df=float(max(sum(min(one.steps.steps[:2]) - 1 for one, _ in phases), 1)),
    )  # fmt: skip
    found_all = estimate(_paired(frame, sample), np.sqrt(scatter2), np.zeros(cells))
    return replace(
        found_all, baseline=means[0], candidate=means[1], delta=means[1] - means[0] - host, host_speed=host
    )


def cell_table(
    frame: Frame, idle: IdleRows, kernels: KernelCells, layers: LayerCells | None
) -> tuple[list[Values], Layout]:
    """What every step spends in every cell; and what the cells are."""
    kinds = ["step", *CATEGORIES]
    categories = {name: column for column, name in enumerate(kinds) if column}
    every = np.arange(len(frame.steps))
    values = [
        Values(every, np.full(len(every), cell), frame.steps[column].to_numpy())
        for column, cell in [("ns", STEP), *((name, categories[name]) for name in BUSY)]
    ]
    step, piece, ns = (
        frame.index.rows(idle.rows), idle.rows["cell"].to_numpy(), idle.rows["ns"].to_numpy(),
    )  # fmt: skip
    of_cause = np.array([categories[cause] for cause in idle.words["cause"]], np.int64)
    values.append(Values(step, of_cause[piece], ns))
    keys, group = idle_groups(idle, sum_by(piece, len(idle.words), ns))
    first = len(kinds)
    kinds += [key[0] for key in keys]
    values.append(Values(step, first + group[piece], ns))
    kernel_first = len(kinds)
    kinds += kernels.kinds
    values.append(
        Values(
            frame.index.rows(kernels.values),
            kernel_first + kernels.values["row"].to_numpy(),
            kernels.values["share_ns"].to_numpy(),
        )
    )
    layer_first = kind_first = len(kinds)
    if layers is not None:
        kind_names = {name: at for at, name in enumerate(sorted(set(layers.kinds)))}
        kind_first += len(layers.names)
        kinds += ["compute"] * (len(layers.names) + len(kind_names))
        kind_of = np.array([kind_names[kind] for kind in layers.kinds], np.int64)
        spent, layer = layers.values["share_ns"].to_numpy(), layers.values["layer"].to_numpy()
        at = frame.index.rows(layers.values)
        values += [Values(at, layer_first + layer, spent), Values(at, kind_first + kind_of[layer], spent)]
    inside = np.flatnonzero((step >= 0) & (idle.rows["side"].to_numpy() < 2))
    located = frame.steps.select("side", "run", "part", "rank", "period")[step[inside]].with_columns(
        step=pl.Series(step[inside]),
        piece=pl.Series(piece[inside]),
        cell=pl.Series(first + group[piece[inside]], dtype=pl.Int64),
        ns=pl.Series(ns[inside]),
        count=idle.rows["count"][inside],
    )
    layout = Layout(
        kinds,
        categories,
        list(range(first, kernel_first)),
        keys,
        list(range(kernel_first, layer_first)),
        located,
        list(range(layer_first, kind_first)),
        list(range(kind_first, len(kinds))),
    )
    return values, layout


def observable(side: Side, with_gil: bool) -> set[str]:
    """The categories that a side's traces can tell: the others are absent from its accounting, never zero."""
    missing = {kind for kind in ("gil", "gc") if not side.captured(kind)} | (set() if with_gil else {"gil"})
    if not side.captured("kernels"):  # measured on the host alone
        missing |= {"kernels"} if side.captured("cuda_api") else {"kernels", "cuda_api"}
    return {name for name in CATEGORIES if CAUSES[name].needs not in missing}


# Idle time of all runs, by the numbers of one list of places: there may be millions of rows.

WORDS = ("cause", "thread", "place", "holder", "holder_place", "copy")


@dataclass(frozen=True)
class IdleRows:
    """rows: side, run, part, period, cell -> ns, count. words: a row a cell: WORDS, in their order."""

    rows: pl.DataFrame
    words: pl.DataFrame

    def of_sides(self, sides: int) -> IdleRows:
        """Those of the first sides."""
        return IdleRows(self.rows.filter(pl.col("side") < sides), self.words)

    def spelled(self, which: pl.Expr, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """The rows whose words fulfil a condition, with these words."""
        rows = self.rows if rows is None else rows
        chosen = self.words.select(which).to_series().to_numpy()
        mine = rows.filter(pl.Series(chosen[rows["cell"].to_numpy()], dtype=pl.Boolean))
        return pl.concat([mine, self.words[mine["cell"]]], how="horizontal")

    def threads(self) -> set[str]:
        """The threads that any of the rows is of."""
        return set(self.words[self.rows["cell"].unique()]["thread"].unique())


def idle_rows(sides: Sequence[Side], *, with_gil: bool) -> IdleRows:
    """The idle time of all runs.

    Without `with_gil` (one side was captured without it) waits for the GIL are counted as what they would be called had
    the GIL not been traced, on both sides.
    """
    parts = parts_of(sides)
    named = []
    for *_, part in parts:
        cells = part.cells
        if not with_gil:
            cells = cells.with_columns(cause=pl.col("under"), holder=pl.lit(""), holder_place=pl.lit(""))
        named.append(cells.select(WORDS))
    words = pl.concat(named).unique().sort(WORDS)
    numbered = words.with_row_index("number")
    frames = []
    for (side, run, number, part), cells in zip(parts, named, strict=True):
        place = cells.join(numbered, on=WORDS, how="left", maintain_order="left")["number"].to_numpy()
        cell = place.astype(np.int32)[part.idle_ns["cell"].to_numpy()]
        frames.append(
            tagged(part.idle_ns.with_columns(cell=pl.Series(cell, dtype=pl.Int32)), side, run, number)
        )
    return IdleRows(pl.concat(frames), words)


def idle_groups(idle: IdleRows, ns: Ints) -> tuple[list[IdleKey], Ints]:
    """Idle time with the grain of a finding: (cause, thread, holder, where, copy), those with the most time first.

    Second, of each row of words its group. `ns`: time of each row of words. A wait for the GIL belongs to its holder and
    the holder's range, a collection to its thread: both strike wherever the waiting thread happens to be. Everything
    else belongs to its place.
    """
    by = list(IdleKey._fields)
    named = idle.words.with_columns(
        where=pl.when(pl.col("cause") == "gil_wait")
        .then(pl.col("holder_place"))
        .when(pl.col("cause") == "gc")
        .then(pl.lit(""))
        .otherwise(pl.col("place")),
        ns=pl.Series(ns),
    )
    order = named.group_by(by).agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)
    order = order.sort("ns", *by, descending=[True] + [False] * 5).with_row_index("number")
    number = named.join(order.drop("ns"), on=by, how="left", maintain_order="left")["number"]
    return [IdleKey(*row) for row in order.select(IdleKey._fields).iter_rows()], number.fill_null(
        0
    ).to_numpy().astype(np.int64)


# Garbage collection and GIL waits of launching threads: what kept a GPU idle, and what fell behind its work.


def exposed(frame: Frame, idle: IdleRows) -> dict[str, dict[str, tuple[float, float]]]:
    """Cause -> thread -> (baseline, candidate) idle ns per step, for gc and gil_wait."""
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for cause in ("gc", "gil_wait"):
        table = _weighed(frame, idle.spelled(pl.col("cause") == cause), ["thread"])
        out[cause] = {row["thread"]: (row["b"], row["c"]) for row in table.iter_rows(named=True)}
    return out


def gil_exposed(frame: Frame, idle: IdleRows) -> pl.DataFrame:
    """thread, phase -> exposed_b, exposed_c: waits for the GIL that kept a GPU idle, ns per step."""
    waits = idle.spelled(pl.col("cause") == "gil_wait")
    return _weighed(frame, waits, ["thread", "phase"]).rename({"b": "exposed_b", "c": "exposed_c"})


def _weighed(frame: Frame, idle: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Mean ns a compared step by some columns, both sides: *by, b, c."""
    step = frame.index.rows(idle)
    located = idle.filter(pl.Series(step >= 0))
    step = step[step >= 0]
    located = located.with_columns(
        phase=frame.steps["phase"].gather(step), value=pl.col("ns") * pl.Series(frame.weight[step])
    )
    return (
        located.group_by(
            by, maintain_order=True
        )  # added up in a fixed order: the same input gives the same bits
        .agg(
            b=pl.col("value").filter(pl.col("side") == 0).sum(),
            c=pl.col("value").filter(pl.col("side") == 1).sum(),
        )
        .sort(by)
    )


def hidden_time(
    sides: Sequence[Side],
    standardised: tables.StandardisedMeans,
    exposed: dict[str, dict[str, tuple[float, float]]],
) -> list[dict[str, float]]:
    """Time of launching threads in GC and in GIL waits that fell behind GPU work, a side: host total - idle part."""
    hidden: list[dict[str, float]] = [{} for _ in sides]
    for cause, table, column in (("gc", "gc", "ns"), ("gil_wait", "gil", "wait_ns")):
        totals = standardised.weigh(
            standardised.of_host(table, values=(column,)).fill_null(0), ["thread"], [column]
        )
        for side, captures in enumerate(sides):
            if not captures.captured("gil" if cause == "gil_wait" else "gc"):
                continue
            launching = {"executor", *exposed[cause]}
            value = sum(
                max(row[column] - exposed[cause].get(row["thread"], (0.0, 0.0))[side], 0.0)
                for row in totals.filter(pl.col("side") == side).iter_rows(named=True)
                if row["thread"] in launching
            )
            hidden[side][cause] = round(value, 6)  # sums of the same numbers in another order differ by less
    return hidden
