"""Cells: the places where time goes, measured at every whole step, and their estimates (stats/noise.py).

The speed of the host is read from CUDA calls that block on nothing: of a step, the mean over its calls of log(duration / that
function's mean), durations being medians of the step. Functions that a side calls twice as often as the other would mix what changed into
it; and a thread that waits for the GIL has slow calls on any host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import sum_by
from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison import tables
from tracediff.comparison.frame import CellSums, Frame, PhaseSteps, Sums, Values
from tracediff.comparison.kernel_table import KernelCells, kernel_cells
from tracediff.comparison.layers import LayerCells, layer_cells
from tracediff.execution.sides import Side, parts_of, stacked, tagged
from tracediff.model import OddRun
from tracediff.model.causes import BUSY, CAPTURE, CATEGORIES, CAUSES, GPU, HOST, NODE_NS, OWN, SURELY, WAIT
from tracediff.model.causes import STEP as STEP_SCATTER
from tracediff.stats.noise import (
    LEVER,
    Estimate,
    Groups,
    Hosts,
    Noise,
    Sample,
    estimate,
    paired,
    permuted_t,
    splits,
)
from tracediff.stats.rules import LITTLE, MOSTLY, PAIRS, PERMUTE, RUNS_TELL
from tracediff.stats.tests import ALPHA

_LEAST_FUNCTIONS = 2  # programs of CUDA graphs call no more, and one may be slower for its own reason


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
    alike = often.filter((one > 0) & (one > MOSTLY * other) & (other > MOSTLY * one))
    held = alike.select("side0", "side1").sum().row(0)
    total = often.select("side0", "side1").sum().row(0)
    if len(alike) < _LEAST_FUNCTIONS or any(
        (one or 0.0) < MOSTLY * (all_of or 0.0) for one, all_of in zip(held, total, strict=True)
    ):
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


# Cell 0 is the step; then the categories, the (cause, place) of idle time, the rows of the kernel table, layers and kinds of layer where they are
# known. ns per step.


class IdleKey(NamedTuple):
    """Idle time with the grain of a finding. `where`: the place; of a wait for the GIL the holder's; of gc ''."""

    cause: str
    thread: str
    holder: str
    where: str
    copy: bool  # inside a call that copies


WHERE = (
    pl.when(pl.col("cause") == "gil_wait")
    .then("holder_place")
    .when(pl.col("cause") == "gc")
    .then(pl.lit(""))
    .otherwise("place")
)  # of idle time by its words


class Layout(msgspec.Struct, frozen=True, dict=True):
    """Which cells are what: 0 is the step, then categories, idle cells, kernel rows, layers, kinds of layer.

    kinds: the category of each cell, `step` of the first. sums: cells that are the sum of idle cells, for their slope.
    idle_rows: idle time of the first two sides, side, rank, step (row of the frame), piece (row of the words of
    the idle rows), cell -> ns, count.
    """

    kinds: list[str]
    categories: dict[str, int]
    idle: list[int]
    idle_keys: list[IdleKey]
    kernels: list[int]
    idle_rows: pl.DataFrame
    layers: list[int] = msgspec.field(default_factory=list)
    layer_kinds: list[int] = msgspec.field(default_factory=list)  # in the order of their names
    # cells with copies of pageable memory, which waits for the host -> the part of them that is of such, on each side
    pageable: dict[int, Floats] = msgspec.field(default_factory=dict)

    @cached_property
    def sums(self) -> dict[int, list[int]]:
        """The step and the idle categories, each with the cells that it is made of."""
        members: dict[int, list[int]] = {STEP: [*(self.categories[name] for name in BUSY), *self.idle]}
        for cell, key in zip(self.idle, self.idle_keys, strict=True):
            members.setdefault(self.categories[key.cause], []).append(cell)
        return members

    @cached_property
    def groups(self) -> Groups:
        """Every cell as the sum of what it is made of."""
        return Groups.build([self.sums.get(cell, [cell]) for cell in range(len(self.kinds))])

    @cached_property
    def least(self) -> Floats:
        """What a run of each cell scatters at least, as a part of it: the step, where runs tell it."""
        return np.where(np.arange(len(self.kinds)) == STEP, STEP_SCATTER, 0.0)


PartName = Literal["typical", "tail", "mean"]


class Part(msgspec.Struct, frozen=True):
    """The typical steps of a phase, what rare ones add to the mean of all its steps (tail), or that mean: its sample and the estimate of every cell."""

    name: PartName
    sample: Sample
    noise: Noise
    estimate: Estimate

    @classmethod
    def of(cls, name: PartName, sample: Sample, noise: Noise, layout: Layout) -> Part:
        """With the estimate."""
        least = layout.least if min(sample.runs) >= RUNS_TELL and name != "tail" else None
        return cls(name, sample, noise, estimate(sample, noise, layout.groups, least))

    def grouped(self, groups: Sequence[Sequence[int]]) -> Estimate:
        """Every group of cells as one."""
        return estimate(self.sample, self.noise, Groups.build(groups))

    def dealt(self) -> Bools | None:
        """The ways to deal the runs out; None where so few cannot show anything."""
        one, other = self.sample.runs
        if self.sample.paired:
            return splits((one, other), pairs=True) if one >= PAIRS else None
        return splits((one, other)) if min(one, other) >= PERMUTE else None

    def permuted(self, found: Estimate, dealt: Bools) -> Floats:
        """|t| of some sums of this part with the runs dealt out anew, (splits, sums)."""
        return permuted_t(found, dealt, pairs=self.sample.paired)


class PhaseCells(msgspec.Struct, frozen=True, dict=True):
    """The cells of one phase. mean: start included; start: (sides, cells) of its start, 0 where it has none.

    whole: of the mean over all compared steps, of which rare ones fall now into one phase, now into another.
    """

    steps: PhaseSteps
    typical: Part
    tail: Part
    mean: Part
    start: Floats
    run_numbers: tuple[Ints, Ints]  # of those of each side that have such steps
    whole: Estimate | None = None  # where there are other phases

    @property
    def runs(self) -> tuple[int, int]:
        """Runs of each side that have such steps."""
        return len(self.run_numbers[0]), len(self.run_numbers[1])

    @cached_property
    def rare(self) -> bool:
        """Whether rare steps hold the change: the mean moved far more than the typical step, and that of all phases moved with it."""
        delta = float(self.mean.estimate.delta[STEP])
        most = abs(float(self.typical.estimate.delta[STEP])) < MOSTLY * abs(delta)
        return most and abs(delta) > OWN * self.step_ns and self._moved_all(delta)

    def _moved_all(self, delta: float) -> bool:
        """Whether other phases take back no half of a change of the mean, and it is sure by its runs, surely one of all steps, or a tenth of them."""
        if self.whole is None:
            return True
        own, both = self.steps.share * delta, (self.whole.baseline[STEP], self.whole.candidate[STEP])
        sure = self.whole.p[STEP] < ALPHA or (
            min(self.runs) >= RUNS_TELL and self.mean.estimate.p[STEP] < ALPHA
        )
        large = sure or abs(own) >= LITTLE * min(both)
        return bool(large and self.whole.delta[STEP] * delta >= MOSTLY * own * delta)

    @property
    def parts(self) -> tuple[Part, Part]:
        """What is judged: the typical step, and the mean where rare steps hold the change, else what they add to it."""
        return self.typical, self.mean if self.rare else self.tail

    def part(self, name: PartName) -> Part:
        """The part of a name."""
        return {"typical": self.typical, "tail": self.tail, "mean": self.mean}[name]

    @property
    def step_ns(self) -> float:
        """Mean step time of the slower side."""
        found = self.mean.estimate
        return float(max(found.baseline[STEP], found.candidate[STEP]))

    @property
    def speed(self) -> float | None:
        """Log ratio of the candidate's host to the baseline's; positive: slower."""
        sample = self.typical.sample
        return None if sample.speed is None else sample.gap


class Measured(msgspec.Struct, frozen=True, dict=True):
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
    one_host: bool  # no host is faster than the other side's

    def tested(self, phase: PhaseCells) -> bool:
        """Whether anything may be sure in a phase: beside phases of many steps, one of a few says nothing."""
        return phase.steps.judged or not any(one.steps.judged for one in self.phases)

    @property
    def steps(self) -> pl.DataFrame:
        """Every whole step of the two sides."""
        return self.frame.steps.filter(pl.col("side") < 2)

    @cached_property
    def waits(self) -> IdleRows:
        """The idle time with waits for the GIL as such: known of a side that traced it, whatever they count as."""
        return self.idle if self.with_gil else idle_rows(self.sides, with_gil=True)


STEP = 0  # the cell of the whole step
# Columns of sums beside the cells: time in calls that wait, kernels of graphs, host speed (0 where it is not known); and how many.
WAITED, NODES, SPEED, BESIDE = range(4)
_PHI = 1.4  # error of a typical step, and so of the tail, over that of its blocks: variance x 1.7 to 3, as the middle half is cut out
# Events that no step of many shows may still be expected (Garwood's bound of 0).
_NONE_SEEN = -math.log(ALPHA / 2)


def measure(
    sides: tuple[Side, Side],
    noise: Side | None,
    frame: Frame,
    odd: list[OddRun] | None = None,
    *,
    in_turns: bool = False,
) -> Measured:
    """Every cell in one pass. `noise`: further repeats of the baseline's program, the third side of the frame.

    `in_turns`: both sides were recorded in turns on one machine, so that no host is faster, which fewer runs than tell their own scatter do not show.
    """
    every = sides if noise is None else (*sides, noise)
    with_gil = len({side.captured("gil") for side in every}) == 1
    idle = idle_rows(every, with_gil=with_gil)
    kernels = kernel_cells(every, frame)
    layers = layer_cells(every, frame, kernels)
    values, layout = cell_table(frame, idle, kernels, layers)
    one_host = in_turns and min(frame.runs[:2]) + sum(frame.runs[2:]) >= RUNS_TELL
    speed = None if one_host else host_speed(every, frame)
    cells = len(layout.kinds)
    if speed is not None:
        values.append(_known_speed(frame, speed, cells + SPEED))
    values += [_waits(every, frame, idle, cells + WAITED), _graph_kernels(every, frame, cells + NODES)]
    table = CellSums.of(values, cells + BESIDE)
    hosts: Hosts = "one" if one_host else "unknown" if speed is None else "measured"
    phases, whole = _estimates(frame, table, layout, hosts, _loose(kernels))
    return Measured(
        sides, frame, idle.of_sides(2), with_gil, kernels, layers, layout, phases, whole, odd or [], one_host,
    )  # fmt: skip


def _estimates(
    frame: Frame, table: CellSums, layout: Layout, hosts: Hosts, loose: Bools
) -> tuple[list[PhaseCells], Estimate]:
    """Those of every phase, and of the mean over all compared steps."""
    found = [_phase_cells(frame, table, layout, one, hosts, loose) for one in frame.phases]
    shares = [(one.steps.share, weighted) for one, weighted in found]
    whole = _mean(frame, layout, shares, hosts).estimate
    return [replace(one, whole=whole if len(found) > 1 else None) for one, _ in found], whole


def _waits(sides: Sequence[Side], frame: Frame, idle: IdleRows, cell: int) -> Values:
    """The time that launching threads of each step spend in calls that wait for the GPU, copies among them."""
    calls = stacked(sides, "apis").filter(
        (pl.col("kind") == "sync") | pl.col("api").str.contains("Memcpy"),
        pl.col("thread").is_in(idle.threads()),
    )
    step, ns = frame.index.rows(calls), calls["ns"].to_numpy()
    return Values(step, np.full(len(step), cell), ns)


def _graph_kernels(sides: Sequence[Side], frame: Frame, cell: int) -> Values:
    """How many kernels of CUDA graphs each step has."""
    rows = pl.concat([tagged(part.counts_of("graph_kernels"), *place) for *place, part in parts_of(sides)])
    return Values(frame.index.rows(rows), np.full(len(rows), cell), rows["count"].to_numpy())


def _lever(layout: Layout, means: Floats) -> tuple[float, float]:
    """Of each side, the host's time in which it did not wait for the GPU, by what is seen of it while the GPU is idle."""
    cells = len(layout.kinds)
    seen = means[:, [cell for name, cell in layout.categories.items() if CAUSES[name].host]].sum(axis=1)
    busy = means[:, STEP] - means[:, cells + WAITED]
    one, other = np.maximum(busy / np.maximum(seen, 1.0), 1.0).tolist()
    return one, other


def _loose(kernels: KernelCells) -> Bools:
    """Copies that lie in part behind other work, (sides, rows): what is seen of these differs from run to run as waits do."""
    copies = np.array([kind == "memcpy" for kind in kernels.kinds], np.bool_)
    return np.asarray((kernels.hidden > SURELY * kernels.walls).T & copies)


def _known_speed(frame: Frame, speed: Floats, cell: int) -> Values:
    """Host speed of each step; of one without calls, the mean of its run."""
    run, known = frame.run_number, ~np.isnan(speed)
    count = np.bincount(run[known], minlength=sum(frame.runs))
    mean = np.bincount(run[known], weights=speed[known], minlength=sum(frame.runs)) / np.maximum(count, 1)
    return Values(
        np.arange(len(speed)), np.full(len(speed), cell), np.where(known, np.nan_to_num(speed), mean[run])
    )


class _Weighted(msgspec.Struct, frozen=True):
    """The steps of a phase under its three weightings; start: None where it has none. seen: see `_seen`; usual: see `_usual`."""

    phase: PhaseSteps
    typical: Sums
    rest: Sums
    start: Sums | None
    seen: tuple[Floats, Floats]
    usual: Floats


def _phase_cells(
    frame: Frame, table: CellSums, layout: Layout, phase: PhaseSteps, hosts: Hosts, loose: Bools
) -> tuple[PhaseCells, _Weighted]:
    """The estimates of a phase, and the sums that they are made of."""
    cells, table = len(layout.kinds), table.within(phase.inside)
    typical = frame.sums(table, phase.typical, phase.klass, variance=True)
    rest = frame.sums(table, phase.rest, phase.klass, variance=True)
    start = frame.sums(table, phase.start, phase.klass * 0, variance=False) if phase.start_share else None
    host = np.array([kind != "step" and CAUSES[kind].host for kind in layout.kinds], np.bool_)
    lever = _lever(layout, typical.means[:2])
    usual = _usual(layout, few=not phase.judged)
    usual = np.where(host, np.minimum(usual * np.minimum(lever, LEVER)[:, None], WAIT), usual)
    usual[:, layout.kernels] = np.where(
        loose, _loosened(layout, typical.means[:2, :cells], usual, host), usual[:, layout.kernels]
    )
    weighted = _Weighted(phase, typical, rest, start, _seen(frame, table, phase), usual)
    gil = layout.categories["gil_wait"]
    if hosts == "measured" and (typical.means[:2, gil] > OWN * typical.means[:2, STEP]).any():
        hosts = "unknown"
    speed = (
        (typical.values[0][:, cells + SPEED], typical.values[1][:, cells + SPEED])
        if hosts == "measured"
        else None
    )
    variance = [_PHI**2 * one[:cells] for one in typical.variance]
    sample = _sample(typical.values, speed, variance, _unseen(layout, typical, weighted, cells), hosts)
    noise = Noise(usual * np.abs(typical.means[:2, :cells]), host, lever)
    part = 1 - phase.start_share  # the mean of all steps has the first ones too
    tail_values = [part * (one - other) for one, other in zip(rest.values, typical.values, strict=True)]
    tail_means = part * (rest.means - typical.means)[:2, :cells]
    variance = [(part * _PHI) ** 2 * one[:cells] for one in rest.variance]
    unseen = _unseen(layout, rest, weighted, cells)
    tail = _sample(tail_values, speed, variance, (part * unseen[0], part * unseen[1]), hosts)
    found = PhaseCells(
        phase,
        Part.of("typical", _paired(frame, sample), noise, layout),
        # what rare steps take differs from run to run as waits do
        Part.of("tail", _paired(frame, tail), Noise(WAIT * np.abs(tail_means), host), layout),
        _mean(frame, layout, [(1.0, weighted)], hosts),
        start.means[:, :cells] if start is not None else np.zeros((len(frame.runs), cells)),
        (typical.runs[0], typical.runs[1]),
    )
    return found, weighted


def _usual(layout: Layout, *, few: bool) -> Floats:
    """The usual scatter of each cell of both sides, as a part of it, (2, cells).

    `few`: so few steps that they do not tell how far they are apart.
    """
    usual = np.array([[HOST if kind == "step" else CAUSES[kind].scatter for kind in layout.kinds]] * 2)
    for cell, part in layout.pageable.items():
        usual[:, cell] += part * np.maximum(WAIT - usual[:, cell], 0.0)
    return np.where(usual == GPU, CAPTURE, WAIT) if few else usual


def _loosened(layout: Layout, means: Floats, usual: Floats, host: Bools) -> Floats:
    """The scatter of copies that lie in part behind other work, (2, rows): as waits, but no more than the step and all else in it leave to them."""
    others = [cell for name, cell in layout.categories.items() if name != "memcpy"]
    apart = means[:, others] * np.where(host[others], WAIT, usual[:, others])
    left = np.hypot(STEP_SCATTER * means[:, [STEP]], np.sqrt((apart**2).sum(axis=1, keepdims=True)))
    own = np.abs(means[:, layout.kernels])
    return np.asarray(np.minimum(WAIT, np.divide(left, own, out=np.full(own.shape, WAIT), where=own > 0)))


def _seen(frame: Frame, table: CellSums, phase: PhaseSteps) -> tuple[Floats, Floats]:
    """The part of the steps of each side that have a cell at all, (sides, cells); and how many steps these are, (sides,)."""
    inside = phase.inside
    side = frame.steps["side"].to_numpy()
    mine = inside[table.merged.step]
    at = side[table.merged.step[mine]] * table.cells + table.merged.cell[mine]
    seen = np.bincount(at, minlength=len(frame.runs) * table.cells).reshape(-1, table.cells)
    steps = np.maximum(np.bincount(side[inside], minlength=len(frame.runs)), 1).astype(np.float64)
    return seen / steps[:, None], steps


def _unseen(layout: Layout, sums: Sums, weighted: _Weighted, cells: int) -> tuple[Floats, Floats]:
    """What the idle cells of which a side shows nothing may cost it all the same, by their size per event on the other side.

    Of graphs on both sides, what their gaps may be longer by in another run.
    """
    idle = np.zeros(cells, np.bool_)
    idle[layout.idle] = True  # kernels that no step launches are no matter of chance
    often, steps = weighted.seen
    of_graphs = idle & np.array([kind == "graph_internal" for kind in layout.kinds], np.bool_)
    nodes = sums.means[:2, [cells + NODES]]
    each = np.divide(sums.means[:2, :cells], nodes, out=np.zeros((2, cells)), where=nodes > 0)
    longer = nodes.min() * np.minimum(np.abs(each[1] - each[0]), NODE_NS)
    found = []
    for side in (0, 1):
        other = np.abs(sums.means[1 - side, :cells])
        size = np.divide(
            other, often[1 - side, :cells], out=np.zeros(cells), where=often[1 - side, :cells] > 0
        )
        none = idle & (often[side, :cells] == 0)
        shorter = of_graphs & ~none & (each[side] < each[1 - side])
        found.append(np.select([none, shorter], [min(1.0, _NONE_SEEN / steps[side]) * size, longer], 0.0))
    return found[0], found[1]


def _mean(frame: Frame, layout: Layout, phases: Sequence[tuple[float, _Weighted]], hosts: Hosts) -> Part:
    """The mean over all steps of some phases. phases: share, sums."""
    cells, runs = len(layout.kinds), frame.runs
    values = [np.zeros((many, cells + BESIDE)) for many in runs]
    variance, scatter = np.zeros((len(runs), cells)), np.zeros((2, cells))
    unseen, means = np.zeros((2, cells)), np.zeros((2, cells + BESIDE))
    for share, one in phases:
        start_share, usual = one.phase.start_share, one.usual
        parts = [(1 - start_share, one.rest)]
        if one.start is not None:
            parts.append((start_share, one.start))
        for part, sums in parts:
            for side, own in enumerate(sums.values):
                # what a run without such steps would have taken, is the mean of its side
                filled = np.repeat(sums.means[side][None], runs[side], axis=0)
                filled[sums.runs[side]] = own
                values[side] += share * part * filled
        means += share * one.rest.means[:2]
        ordinary = share * (1 - start_share)
        tail = (one.rest.means - one.typical.means)[:2, :cells]
        scatter += (ordinary * usual * one.typical.means[:2, :cells]) ** 2 + (ordinary * WAIT * tail) ** 2
        if one.start is not None:
            scatter += (share * start_share * WAIT * one.start.means[:2, :cells]) ** 2
        for side, own in enumerate(one.rest.variance):
            variance[side] += ordinary**2 * own[:cells]
        unseen += (ordinary * np.stack(_unseen(layout, one.rest, one, cells))) ** 2
    kept = [values[side][frame.kept(side)] for side in range(len(runs))]
    speed = (kept[0][:, cells + SPEED], kept[1][:, cells + SPEED]) if hosts == "measured" else None
    root = np.sqrt(unseen)
    sample = _sample(kept, speed, list(variance), (root[0], root[1]), hosts)
    host = np.array([kind != "step" and CAUSES[kind].host for kind in layout.kinds], np.bool_)
    noise = Noise(np.sqrt(scatter), host, _lever(layout, means))
    return Part.of("mean", _paired(frame, sample), noise, layout)


def _paired(frame: Frame, sample: Sample) -> Sample:
    """The sample by pairs, where all runs of both sides have one."""
    every = len(frame.kept(0)), len(frame.kept(1))
    return paired(sample) if frame.paired and sample.runs == every else sample


def _sample(
    values: Sequence[Floats],
    speed: tuple[Floats, Floats] | None,
    variance: Sequence[Floats],
    unseen: tuple[Floats, Floats],
    hosts: Hosts,
) -> Sample:
    """What the runs of both sides, and of A/A repeats, spend in as many cells as there are variances of."""
    own = [one[:, : len(variance[0])] for one in values]
    more = own[2] if len(own) > 2 else None
    return Sample((own[0], own[1]), speed, (variance[0], variance[1]), unseen, more, hosts=hosts)


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
            kernels.values["step"].to_numpy(),
            kernel_first + kernels.values["row"].to_numpy(),
            kernels.values["share_ns"].to_numpy(),
        )
    )
    layer_first = kind_first = len(kinds)
    if layers is not None:
        kind_names = {name: at for at, name in enumerate(sorted(set(layers.kinds)))}
        kind_first += len(layers.names)
        # what is mostly communication scatters as that does
        waits = layers.more_in({row for row, kind in enumerate(kernels.kinds) if kind == "comm"})
        kinds += ["comm" if name in waits else "compute" for name in (*layers.names, *kind_names)]
        kind_of = np.array([kind_names[kind] for kind in layers.kinds], np.int64)
        spent, layer = layers.values["share_ns"].to_numpy(), layers.values["layer"].to_numpy()
        at = frame.index.rows(layers.values)
        values += [Values(at, layer_first + layer, spent), Values(at, kind_first + kind_of[layer], spent)]
    inside = np.flatnonzero((step >= 0) & (idle.rows["side"].to_numpy() < 2))
    located = frame.steps.select("side", "rank")[step[inside]].with_columns(
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
        _pageable(kernels, kernel_first, categories["memcpy"]),
    )
    return values, layout


def _pageable(kernels: KernelCells, first: int, category: int) -> dict[int, Floats]:
    """See `Layout.pageable`: rows of copies, and all exposed copies by their time. `first`: of the kernel rows."""
    pageable, every = np.zeros((len(kernels.rows), 2)), np.zeros((len(kernels.rows), 2))
    for (_, row, side), sizes in kernels.copied.items():
        pageable[row, side] += sizes.get("pageable", 0)
        every[row, side] += sum(sizes.values())
    part = pageable / np.maximum(every, 1.0)
    shares = kernels.walls - kernels.hidden
    copies = shares[np.array([kind == "memcpy" for kind in kernels.kinds], np.bool_)].sum(axis=0)
    rows = {first + row: part[row] for row in np.flatnonzero(part.any(axis=1)).tolist()}
    return rows | {category: (shares * part).sum(axis=0) / np.maximum(copies, 1.0)} if rows else rows


def observable(side: Side, with_gil: bool) -> set[str]:
    """The categories that a side's traces can tell: the others are absent from its accounting, never zero."""
    missing = {kind for kind in ("gil", "gc") if not side.captured(kind)} | (set() if with_gil else {"gil"})
    if not side.captured("kernels"):  # measured on the host alone
        missing |= {"kernels"} if side.captured("cuda_api") else {"kernels", "cuda_api"}
    return {name for name in CATEGORIES if CAUSES[name].needs not in missing}


# Idle time of all runs, by the numbers of one list of places: there may be millions of rows.

WORDS = ("cause", "thread", "place", "holder", "holder_place", "copy")


class IdleRows(msgspec.Struct, frozen=True):
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
    named = idle.words.with_columns(where=WHERE, ns=pl.Series(ns))
    order = named.group_by(by).agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)
    order = order.sort("ns", *by, descending=[True] + [False] * 5).with_row_index("number")
    number = named.join(order.drop("ns"), on=by, how="left", maintain_order="left")["number"]
    return [IdleKey(*row) for row in order.select(IdleKey._fields).iter_rows()], number.fill_null(
        0
    ).to_numpy().astype(np.int64)


# Garbage collection and GIL waits of launching threads: what kept a GPU idle, and what fell behind its work.


def exposed(frame: Frame, idle: IdleRows) -> dict[str, dict[str, tuple[float, float]]]:
    """Cause -> thread -> (baseline, candidate) idle ns per step, for gc and gil_wait."""
    return {
        cause: {thread: (baseline, candidate) for thread, baseline, candidate in _exposed(frame, idle, cause, "thread").iter_rows()}
        for cause in ("gc", "gil_wait")
    }  # fmt: skip


def side_by_side(
    sides: Sequence[Side], frame: Frame, idle: IdleRows, *, with_gil: bool, kernels: KernelCells | None = None
) -> tables.StandardisedMeans:
    """Both sides, or one alone, for the descriptive tables. idle: with waits for the GIL as such; with_gil: whether they count so."""
    more: dict[str, Callable[[], pl.DataFrame]] = {
        "setting": lambda: pl.DataFrame({"with_gil": [with_gil]}),
        "idle_part": lambda: (
            (idle if with_gil else idle_rows(sides[:2], with_gil=False))
            .of_sides(2)
            .spelled(pl.col("cause").is_not_null())
        ),
        "gil_exposed": lambda: _exposed(frame, idle, "gil_wait", "thread", "phase"),
        "gc_exposed": lambda: _exposed(frame, idle, "gc", "thread"),
    }
    return tables.StandardisedMeans(sides, frame, more | (kernels.tables() if kernels else {}))


def _exposed(frame: Frame, idle: IdleRows, cause: str, *by: str) -> pl.DataFrame:
    """Time of one cause by some columns, ns per step: *by, baseline_idle_ns, candidate_idle_ns."""
    rows = idle.spelled(pl.col("cause") == cause)
    step = frame.index.rows(rows)
    located = rows.filter(pl.Series(step >= 0))
    step = step[step >= 0]
    located = located.with_columns(
        phase=frame.steps["phase"].gather(step), value=pl.col("ns") * pl.Series(frame.weight[step])
    )
    return (
        located.group_by(
            by, maintain_order=True
        )  # added up in a fixed order: the same input gives the same bits
        .agg(
            baseline_idle_ns=pl.col("value").filter(pl.col("side") == 0).sum(),
            candidate_idle_ns=pl.col("value").filter(pl.col("side") == 1).sum(),
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
            standardised.of_host(stacked(sides, table), column).fill_null(0), ["thread"], [column]
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
