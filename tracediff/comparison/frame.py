"""Which steps are compared with which, and what each counts for in the means of its side.

Steps are compared within their phase. Of a phase,
    start     the first step of a capture, and steps in which a kernel's name occurs for the first time, a CUDA graph is made or code
              is loaded; where they are most of a side's steps, of all phases, they are what its steps are like, and only the first one is a start
    begin     of the start one or two steps a run, where they would hide in a mean what the program then does: in no mean
    typical   of the rest, those whose ops were launched before (where there are enough), without the quarters of each run that are
              slowest and fastest for their workload
    rest      all but these: the mean of a phase, at equal workload
The tail is what rare steps add to the mean of all steps: rest - typical, times the part of the steps that are no start. Each is a
weighted sum over steps (see stats/workload.py).
A capture without steps is one step of so many rounds (execution/ladder.py): all its sums are per round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import Index, float_sum_by, grouped
from tracediff.accounting.reduction import StepIndex
from tracediff.arrays import Bools, Floats, Ints
from tracediff.errors import TracediffError
from tracediff.formats.selection import MIN_STEPS
from tracediff.stats.rules import LITTLE, MOSTLY, NEARLY, PERMUTE
from tracediff.stats.workload import Steps, choose, class_shares, in_common, shared, shared_time, weights
from tracediff.trace.workloads import IRREGULAR, half_octave

_BLOCKS = 8  # of the steps of a run: fewer say little of the scatter, more are not independent
_BEGIN = (
    2  # steps with first uses: a capture's first one and another; more of them come back as the program runs
)
_SIDE_NAMES = ("baseline", "candidate", "A/A repeats")


class Values(NamedTuple):
    """What steps spend in cells: arrays of one length. A step and cell may turn up more than once."""

    step: Ints  # row of `Frame.steps`, -1: none
    cell: Index
    ns: Floats | Ints


class PhaseSteps(msgspec.Struct, frozen=True, dict=True):
    """The steps of one phase. typical, rest, start: what each row of `Frame.steps` counts for in the mean of its side.

    klass: the workload of each row. share: of the phase among all compared steps; start_share: of its start. workload: what the
    classes are (ops, requests, tokens, copies, none). steady: half of them launch what others do. judged: enough steps to say anything. repeated: the typical steps had been
    launched before; False where there are too few such steps.
    """

    phase: str
    typical: Floats
    rest: Floats
    start: Floats
    klass: Ints
    share: float
    start_share: float
    workload: str
    judged: bool
    repeated: bool
    steady: bool
    steps: tuple[int, ...] = ()  # that are compared, a side
    load: tuple[float, float] | None = (
        None  # requests and tokens per typical step, where those of the sides hardly overlap
    )
    # three quarters of the steps of one side have more of them than as many of the other
    loads_apart: bool = False

    @cached_property
    def inside(self) -> Bools:
        """The steps that are compared, starts among them."""
        return np.asarray(self.rest + self.start > 0)

    @cached_property
    def mean(self) -> Floats:
        """What each step counts for in the mean of the phase."""
        return (1 - self.start_share) * self.rest + self.start_share * self.start


def typical_of(phase: str) -> str:
    """What the typical step of a phase is called beside its mean one."""
    return f"{phase}, typical"


class Sums(msgspec.Struct, frozen=True):
    """Sums over the steps of a phase, in one weighting. means: (sides, cells). values: (runs, cells) a side, of runs that have such steps.

    runs: the numbers of these runs. variance: of the means, from the scatter of the steps.
    """

    means: Floats
    values: list[Floats]
    runs: list[Ints]
    variance: list[Floats]


class Frame(msgspec.Struct, dict=True):
    """All whole steps in a fixed order, and the phases that are compared.

    steps: side, run, part, period, rank, phase and the columns of the table of steps; unit: a number of the rank and device; counterpart: that
    of the unit that a step is held against, 0 of all steps where a side has more of them. runs: of the baseline, the candidate and,
    where given, the A/A repeats.
    """

    steps: pl.DataFrame
    runs: tuple[int, ...]
    phases: list[PhaseSteps]
    notes: list[str] = msgspec.field(default_factory=list)
    paired: bool = False  # run k of one side had the same requests as run k of the other
    left_out: frozenset[tuple[int, int]] = frozenset()  # side and number of runs that count nothing
    rounds: tuple[
        float, ...
    ] = ()  # of each run, numbered over all sides, where its only step is many of them
    # the steps that a run begins with
    begins: Bools = msgspec.field(default_factory=lambda: np.empty(0, np.bool_))

    def kept(self, side: int) -> list[int]:
        """The numbers of the runs of a side that count."""
        return [run for run in range(self.runs[side]) if (side, run) not in self.left_out]

    @cached_property
    def once(self) -> bool:
        """Whether each run of both sides is one step: whole captures, a labelled step that occurs once."""
        return _once(self.steps)

    @property
    def unit(self) -> Literal["step", "capture", "round"]:
        """What sums are per."""
        return "round" if self.rounds else "capture" if self.once else "step"

    @cached_property
    def weight(self) -> Floats:
        """What each step counts for in the mean of its side, over all phases; 0: not compared."""
        return np.asarray(np.sum([one.share * one.mean for one in self.phases], axis=0))

    @property
    def named_weights(self) -> dict[str, Floats]:
        """What each step counts for in what the aligned views tell per step: '' the mean of all, PHASE its mean, `typical_of` its typical step."""
        named = {"": self.weight}
        for one in self.phases:
            named |= {one.phase: one.mean, typical_of(one.phase): one.typical}
        return named

    @cached_property
    def index(self) -> StepIndex:
        """Where the steps are."""
        return StepIndex(self.steps)

    @cached_property
    def run_number(self) -> Ints:
        """The run of each step, numbered over all sides."""
        first = np.cumsum([0, *self.runs])[:-1]
        return np.asarray(self.steps["run"].to_numpy() + first[self.steps["side"].to_numpy()])

    @cached_property
    def units(self) -> Floats:
        """Of each step, the rounds in it: 1 but of whole captures."""
        return np.array(self.rounds or np.ones(sum(self.runs)))[self.run_number]

    @cached_property
    def regular(self) -> pl.DataFrame:
        """All steps but those that a run begins with, with their weight in the mean."""
        return self.steps.with_columns(weight=pl.Series(self.weight), units=pl.Series(self.units)).filter(
            ~pl.Series(self.begins)
        )

    @cached_property
    def compared(self) -> pl.DataFrame:
        """The steps that are compared, with their weight in the mean."""
        return self.regular.filter(pl.col("weight") > 0)

    def first_uses(self) -> tuple[Floats, Floats]:
        """What the mean step of each run that counts gains for having more first uses than runs of both sides have, ns, (runs,) a side.

        The means of the sides have as many, so that it is no part of them.
        """
        side, run, ns = (self.steps[name].to_numpy() for name in ("side", "run", "ns"))

        def of_run(one: int, number: int) -> float:
            mine, gained = (side == one) & (run == number), 0.0
            for phase in self.phases:
                count = (mine & (phase.mean > 0)).sum()
                if phase.start_share and count:
                    more = (mine & (phase.start > 0)).sum() / count - phase.start_share
                    longer = sum(((phase.start - phase.rest) * ns)[side == at].sum() for at in (0, 1)) / 2
                    gained += phase.share * more * longer
            return float(gained)

        baseline, candidate = (np.array([of_run(one, number) for number in self.kept(one)]) for one in (0, 1))
        return baseline, candidate

    def sums(self, table: CellSums, weight: Floats, klass: Ints, *, variance: bool) -> Sums:
        """Means and run values of every cell under a weighting; `variance`: also that of the means."""
        side, run, merged = self.steps["side"].to_numpy(), self.run_number, table.merged
        weight = weight * self.units
        used = np.flatnonzero(weight > 0)
        classes = int(klass.max(initial=0)) + 1
        total = np.bincount(
            side[used] * classes + klass[used], weights=weight[used], minlength=len(self.runs) * classes
        )
        of_run = np.bincount(
            run[used] * classes + klass[used], weights=weight[used], minlength=sum(self.runs) * classes
        ).reshape(sum(self.runs), classes)
        table = table.within(weight > 0)
        share = weight[table.step] * table.ns
        if self.rounds:
            share /= self.units[table.step]
        of_class = table.by(side * classes + klass, share, len(self.runs) * classes)
        means = of_class.reshape(len(self.runs), classes, table.cells).sum(axis=1)
        middle = np.divide(of_class, total[:, None], out=np.zeros_like(of_class), where=total[:, None] > 0)
        own = table.by(run, share, sum(self.runs))
        values, numbers, variances = [], [], []
        first = 0
        for number, many in enumerate(self.runs):
            part = slice(first, first + many)
            there = np.flatnonzero(of_run[part].sum(axis=1) > 0)
            expected = of_run[part][there] @ middle[number * classes : (number + 1) * classes]
            values.append(means[number] + len(there) * (own[part][there] - expected))
            numbers.append(there)
            first += many
        if variance:
            variances = self._variance(merged.within(weight > 0), weight, klass, middle, classes)
        return Sums(means, values, numbers, variances)

    def _variance(
        self, table: CellSums, weight: Floats, klass: Ints, middle: Floats, classes: int
    ) -> list[Floats]:
        """Variance of the means, from what steps differ by from their class, in `_BLOCKS` stretches of successive steps of each run.

        Steps depend on their neighbours: a stretch is one observation. What whole runs differ by is not in it.
        """
        side, run = self.steps["side"].to_numpy(), self.run_number
        used = np.flatnonzero(weight > 0)
        first = np.flatnonzero(np.diff(run[used], prepend=-1))  # steps are in order of runs
        many = np.diff(first, append=len(used))
        place = np.arange(len(used)) - np.repeat(first, many)
        block = np.full(len(weight), -1)
        block[used] = np.repeat(np.arange(len(many)), many) * _BLOCKS + place * _BLOCKS // np.repeat(
            many, many
        )
        ns = table.ns / self.units[table.step] if self.rounds else table.ns
        found = table.by(block, weight[table.step] * ns, len(many) * _BLOCKS)
        of_class = np.bincount(
            block[used] * classes + klass[used], weights=weight[used], minlength=len(many) * _BLOCKS * classes
        ).reshape(len(many), _BLOCKS, classes)
        found = found.reshape(len(many), _BLOCKS, table.cells)
        out = []
        for number in range(len(self.runs)):
            own = np.flatnonzero(side[used[first]] == number)
            expected = of_class[own] @ middle[number * classes : (number + 1) * classes]
            apart = found[own] - expected
            blocks = np.minimum(many[own], _BLOCKS)[:, None]
            apart = (
                apart
                - apart.sum(axis=1, keepdims=True)
                * (of_class[own].sum(axis=2) / of_class[own].sum(axis=(1, 2))[:, None])[:, :, None]
            )
            squares = (apart**2).sum(axis=1) * np.where(blocks > 1, blocks / np.maximum(blocks - 1, 1), 0.0)
            there = side[used] == number
            steps, kinds = int(there.sum()), len(np.unique(klass[used[there]]))
            out.append(np.asarray(squares.sum(axis=0) * steps / max(steps - kinds, 1)))
        return out


class CellSums(msgspec.Struct, frozen=True, dict=True):
    """What all steps spend in all cells, as arrays of one length: step (row of `Frame.steps`), cell, ns."""

    step: Ints
    cell: Ints
    ns: Floats
    cells: int

    @classmethod
    def of(cls, values: Sequence[Values], cells: int) -> CellSums:
        """Put together what several tables say."""
        known = [one.step >= 0 for one in values]
        return cls(
            np.concatenate([one.step[at] for one, at in zip(values, known, strict=True)]),
            np.concatenate(
                [np.asarray(one.cell, np.int64)[at] for one, at in zip(values, known, strict=True)]
            ),
            np.concatenate(
                [np.asarray(one.ns, np.float64)[at] for one, at in zip(values, known, strict=True)]
            ),
            cells,
        )

    def within(self, steps: Bools) -> CellSums:
        """Of some steps."""
        mine = np.flatnonzero(steps[self.step])
        return CellSums(self.step[mine], self.cell[mine], self.ns[mine], self.cells)

    def by(self, group: Ints, values: Floats, groups: int) -> Floats:
        """Sums of a value of each row by the group of its step, (groups, cells)."""
        at = (group * self.cells)[self.step] + self.cell
        return float_sum_by(at, groups * self.cells, values).reshape(groups, self.cells)

    @cached_property
    def merged(self) -> CellSums:
        """Each step and cell once."""
        code, at = grouped(self.step * self.cells + self.cell)
        return CellSums(
            code // self.cells, code % self.cells, float_sum_by(at, len(code), self.ns), self.cells
        )


def build_frame(
    steps: pl.DataFrame,
    runs: tuple[int, ...],
    min_steps: int = MIN_STEPS,
    *,
    paired: bool = False,
    left_out: frozenset[tuple[int, int]] = frozenset(),
    rounds: tuple[float, ...] = (),
) -> Frame:
    """Find the phases that are compared. `steps`: `execution.sides.steps_table`; one side alone has all its phases.

    `rounds`: see `Frame.rounds`.

    Raises `TracediffError`: no-common-strata (exit code 4), run-without-steps.
    """
    steps, notes = _common_labels(steps)
    # each window of a run has a clock of its own
    steps = steps.sort("side", "run", "rank", "device", "part", "start_ns").with_columns(
        again=~pl.col("op_key").is_first_distinct().over("side", "run", "rank", "device"),
        unit=pl.struct("rank", "device").rank("dense").cast(pl.Int64),
    )
    steps = steps.with_columns(counterpart=pl.when(_as_many(steps)).then("unit").otherwise(0))
    frame = Frame(steps, runs, [], notes, paired, left_out, rounds)
    used = np.ones(len(steps), np.bool_)
    for side, run in left_out:
        used &= (steps["side"].to_numpy() != side) | (steps["run"].to_numpy() != run)
    sides = min(2, len(runs))
    phases: list[PhaseSteps] = []
    begins, alone = np.zeros(len(steps), np.bool_), np.zeros(len(steps), np.bool_)
    for phase in sorted(steps["phase"].unique()):
        mine = (steps["phase"].to_numpy() == phase) & used
        counts = [int((mine & (steps["side"].to_numpy() == side)).sum()) for side in range(sides)]
        start = _starts(frame, mine)
        if phase == IRREGULAR or not all(counts):
            alone |= start
            continue
        found, said = _phase(frame, phase, mine, start, min_steps)
        if not found.typical.any():  # one side's steps are of other ranks or devices than the other's
            alone |= start
            continue
        if not found.start.any():
            alone |= start
        elif _hide(frame, start, found.rest > 0):
            begins |= start
            found = replace(found, start=np.zeros(len(steps)))
        notes += said
        phases.append(found)
    if not phases:
        raise TracediffError(
            "no-common-strata",
            "the two sides have no steps of like workload in common (phase, requests, tokens)",
            fix="run both sides with the same requests, or capture a longer window",
            exit_code=4,
        )
    compared = np.any([one.inside for one in phases], axis=0)
    _every_run(frame, compared | begins)
    alone &= _early(steps) & ~compared
    if alone.any() and _hide(frame, alone, compared):
        begins |= alone
    frame.phases, frame.begins = _with_shares(frame, phases, compared), begins
    return frame


def _common_labels(steps: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Older step labels carry no token count: then tokens separate no workloads on either side."""
    known = steps.group_by("side").agg(pl.col("ctx_tokens").is_not_null().any().alias("known"))
    if known["known"].all() or not known["known"].any():
        return steps, []
    return steps.with_columns(ctx_tokens=pl.lit(None, dtype=pl.Int64)), ["label-generation"]


def _as_many(steps: pl.DataFrame) -> bool:
    """Whether both sides have as many ranks, but for lost ones, and devices of one: else none is the counterpart of another."""
    highest = steps.filter(pl.col("side") < 2).group_by("side").agg(pl.col("rank", "device").max())
    return len(highest.select("rank", "device").unique()) == 1


def _starts(frame: Frame, mine: Bools) -> Bools:
    """The steps of a phase that are starts: all start-up steps of sides where they are few, else the first of each export."""
    steps = frame.steps
    side, loads = steps["side"].to_numpy(), steps["start_up"].to_numpy()
    every = mine & loads
    export = steps.select(
        pl.col("start_ns") == pl.col("start_ns").min().over("side", "run", "part", "rank", "device")
    )
    first = export.to_series().to_numpy()
    for one in np.unique(side[mine]):
        own = side == one
        if loads[own].mean() > MOSTLY:
            every = every & (first | ~own)
    return np.asarray(every)


def _phase(
    frame: Frame, phase: str, mine: Bools, start: Bools, min_steps: int
) -> tuple[PhaseSteps, list[str]]:
    steps, notes = frame.steps, []
    again = mine & ~start & steps["again"].to_numpy()
    rest = mine & ~start
    side = steps["side"].to_numpy()
    sides = range(min(2, len(frame.runs)))

    def enough(some: Bools, of: Bools) -> bool:
        """Whether both sides have so many of them."""
        return all(
            (some & (side == one)).sum()
            >= max(MOSTLY * (of & (side == one)).sum(), min_steps * frame.runs[one])
            for one in sides
        )

    every = Steps(side, frame.run_number, steps["ns"].to_numpy().astype(np.float64))
    judged, repeated = True, enough(again, rest)
    eligible = again if repeated else rest
    if not all((eligible & (side == one)).any() for one in sides):  # nothing but the start
        rest, start, eligible, judged = mine, np.zeros_like(mine), mine, False
    judged = judged and enough(eligible, np.zeros_like(mine))
    if frame.once:  # what occurs once in each run is its own start, and repeats from run to run
        judged = min(frame.runs[:2]) >= PERMUTE
    device = steps["unit"].to_numpy()
    unit = every.run * (int(device.max(initial=0)) + 1) + device
    options = _workloads(steps, mine)
    ways = options if len(sides) > 1 else {"none": options["none"]}
    # What one side alone launches may be the change: where nobody asked for it, and where it does so for requests that both have.
    asked = in_common(every, rest & (side < 2), options["requests"])
    labelled = steps.filter(pl.Series(mine))["gen_reqs"].is_not_null().any()

    def alone(klass: Ints) -> float:
        one, other = shared_time(every, asked, klass)
        return abs(one - other) if labelled else 1 - min(one, other)

    ways = {name: klass for name, klass in ways.items() if name == "none" or alone(klass) <= LITTLE}
    workload, klass, typical = choose(every, eligible, unit, ways)
    pooled = len(sides) > 1 and workload in ("none", "copies")
    if pooled and min(shared(every, typical & (side < 2), options["requests"])) < MOSTLY:
        notes.append("coarse-strata")
    share = class_shares(every, typical & (side < 2), klass)
    plain = klass * 0
    starts = weights(every, start, plain, np.ones(1)) if start.any() else np.zeros(len(side))
    has_start = all(starts[side == one].any() for one in sides)
    typical_weight = weights(every, typical, klass, share)
    # a run without typical steps says nothing of what rare ones add
    known = np.bincount(frame.run_number, weights=typical_weight, minlength=sum(frame.runs)) > 0
    rest = rest & known[frame.run_number]
    units = frame.units
    found = PhaseSteps(
        phase=phase,
        typical=typical_weight / units,
        # classes whose steps are all rare are compared as well
        rest=weights(every, rest, klass, class_shares(every, rest & (side < 2), klass)) / units,
        start=starts / units if has_start else np.zeros(len(side)),
        klass=klass,
        share=1.0,
        start_share=0.0,
        workload=workload,
        judged=judged,
        repeated=repeated,
        steady=_steady(every, typical & (side < 2), options["ops"]),
        load=_load(frame, every, typical_weight, options["requests"]) if len(sides) > 1 else None,
        loads_apart=_apart(frame, typical_weight),
    )
    return found, notes


def _apart(frame: Frame, typical: Floats) -> bool:
    """Whether the generation requests and context tokens of the sides' typical steps lie apart, but for a quarter of each."""
    counts, side = _counts(frame), frame.steps["side"].to_numpy()
    mine = [counts[(typical > 0) & (side == one)] for one in (0, 1)]
    if not all(map(len, mine)):
        return False
    low, high = sorted((np.quantile(one, (1 - NEARLY, NEARLY)) for one in mine), key=tuple)
    return bool(low[1] < high[0])


def _counts(frame: Frame) -> Ints:
    """Generation requests and context tokens of each step."""
    words = pl.col("gen_reqs", "ctx_tokens").fill_null(0)
    return frame.steps.select(words).sum_horizontal().to_numpy()


def _load(frame: Frame, every: Steps, typical: Floats, requests: Ints) -> tuple[float, float] | None:
    """Generation requests and context tokens per typical step of both sides, where they hardly overlap; None where they do or are unknown."""
    compared = (typical > 0) & (every.side < 2)
    if min(shared(every, compared, requests)) >= MOSTLY:
        return None
    counts = _counts(frame)
    one, other = (float((typical * counts)[compared & (every.side == side)].sum()) for side in (0, 1))
    return (one, other) if one and other and one != other else None


def _once(steps: pl.DataFrame) -> bool:
    of_sides = steps.filter(pl.col("side") < 2)
    return of_sides.group_by("side", "run", "part", "rank", "device").len()["len"].max() == 1


def _steady(steps: Steps, typical: Bools, ops: Ints) -> bool:
    """Whether half of the typical steps of each side launch the same ops as steps of other runs, of one run as other steps."""
    for side in np.unique(steps.side[typical]):
        mine = typical & (steps.side == side)
        runs = steps.run[mine]
        of = runs if len(np.unique(runs)) > 1 else np.arange(len(runs))
        pairs = np.unique(np.stack([ops[mine], of]), axis=1)[0]
        often = np.bincount(pairs, minlength=int(ops.max(initial=0)) + 1) > 1
        if often[ops[mine]].mean() < MOSTLY:
            return False
    return True


def _workloads(steps: pl.DataFrame, mine: Bools) -> dict[str, Ints]:
    """Ways to say which steps of a phase are alike, each with its classes; ranks and devices that both sides have are apart in all of them."""
    options: dict[str, list[str | pl.Expr]] = {
        "ops": ["op_key"],
        "requests": [
            pl.col("ctx_reqs"),
            half_octave("ctx_tokens").alias("tokens"),
            half_octave("gen_reqs").alias("gen"),
        ],
        "tokens": [pl.col("ctx_reqs"), half_octave("ctx_tokens").alias("tokens")],
        "copies": ["copies"],
        "none": [],
    }
    own = steps.filter(pl.Series(mine)).select(
        (pl.struct("counterpart", *columns).rank("dense") - 1).alias(name)
        for name, columns in options.items()
    )
    found = {name: np.zeros(len(steps), np.int64) for name in options}
    for name, klass in found.items():
        klass[mine] = own[name].to_numpy()
    return found


def _with_shares(frame: Frame, phases: list[PhaseSteps], compared: Bools) -> list[PhaseSteps]:
    """The phases with their share of the compared steps, and the share of their start: means of both sides, of every run alike."""
    side, run = frame.steps["side"].to_numpy(), frame.run_number

    def part(some: Bools, of: Bools) -> float:
        found = []
        for one in range(min(2, len(frame.runs))):
            runs = np.unique(run[of & (side == one)])
            found.append(
                np.mean([(some & (run == number)).sum() / (of & (run == number)).sum() for number in runs])
            )
        return float(np.mean(found))

    out = []
    for one in phases:
        start = part(one.start > 0, one.inside) if (one.start > 0).any() else 0.0
        steps = tuple(np.bincount(side[one.inside], minlength=len(frame.runs)).tolist())
        out.append(replace(one, share=part(one.inside, compared), start_share=start, steps=steps))
    return out


def _hide(frame: Frame, start: Bools, rest: Bools) -> bool:
    """Whether steps are so few a run, and so long, that their mean with the rest would hide what the program then does."""
    side, ns = frame.steps["side"].to_numpy(), frame.steps["ns"].to_numpy()
    if np.bincount(frame.run_number[start & (side < 2)], minlength=1).max() > _BEGIN:
        return False
    for one in range(min(2, len(frame.runs))):
        begun, usual = ns[start & (side == one)], ns[rest & (side == one)]
        if len(begun) and np.append(usual, begun).mean() > (1 + LITTLE) * usual.mean():
            return True
    return False


def _early(steps: pl.DataFrame) -> Bools:
    """The first steps of each export."""
    unit = ["side", "run", "part", "rank", "device"]
    return np.asarray(steps.select(pl.col("start_ns").rank().over(unit) <= _BEGIN).to_series().to_numpy())


def _every_run(frame: Frame, compared: Bools) -> None:
    inside = set(np.unique(frame.run_number[compared | (frame.steps["side"].to_numpy() > 1)]).tolist())
    number = 0
    for side, many in enumerate(frame.runs):
        for run in range(many):
            if number not in inside and (side, run) not in frame.left_out:
                raise TracediffError(
                    "run-without-steps",
                    f"run {run + 1} of the {_SIDE_NAMES[side]} has no step of a workload that is compared",
                    fix="leave that run out, or capture a longer window",
                )
            number += 1
