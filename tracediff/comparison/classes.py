"""Classes of steps by what they launch, the same of all exports: the phases of programs whose labels count nothing.

Each export has its own classes (see trace/workloads.py). Those of one side that are alike are one; then those of both sides are
matched by the kernels that both have, for a change may have renamed the others. What both sides call a class is a phase:
    step                 the class with the most steps
    step-with-KERNEL     another, by the kernel that it alone launches, of several the one it launches most often
    step-of-N-launches   another that launches no kernel of its own
    irregular            steps of classes that do not recur
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.kernels import MOST_SEQUENCES, op_bags, regular
from tracediff.accounting.reduction import Reduction, StepSequence
from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison.frame import Frame
from tracediff.comparison.shown import FIRST, PARTS
from tracediff.execution.sides import Side
from tracediff.formats.selection import MIN_STEPS
from tracediff.kernels.names import parse, short
from tracediff.model import Change, Mix, Note, Pair, Stratum
from tracediff.stats.rules import ENOUGH, LITTLE, MOSTLY, NEARLY
from tracediff.trace.workloads import (
    ALIKE,
    CHANGED,
    COUNTERPART,
    IRREGULAR,
    RECURS,
    SHAPE,
    STEP,
    bucket,
    classes_of,
    distance,
    is_class,
)

_LETTERS = 30  # of a kernel, in the name of a phase, which heads rows of tables


class _Local(NamedTuple):
    """A class of one export: side, the export and its rank, its phase there, its steps, and what one of them launches on average.

    every: the distance between its steps, where that is regular; 0: it is not.
    """

    side: int
    part: int
    rank: int
    phase: str
    steps: int
    bag: dict[str, float]
    every: int


class _Group(msgspec.Struct, frozen=True):
    """Classes that are one. steps: of both sides, as parts of the side's steps."""

    members: tuple[int, ...]
    share: float
    recurs: bool


def with_classes(sides: Sequence[Side]) -> list[Side]:
    """The sides with phases that mean the same in all exports. The first two are compared; a third repeats the first."""
    local = _classes_of_exports(sides)
    if not local:
        return list(sides)
    names = sorted({name for one in local for name in one.bag})
    bags = np.array([[one.bag.get(name, 0.0) for name in names] for one in local])
    names_of = _phases(local, bags, names)
    phases: dict[tuple[int, int], dict[str, str]] = {}
    for one, phase in zip(local, names_of, strict=True):
        phases.setdefault((one.side, one.part), {})[one.phase] = phase
    out = []
    for number, side in enumerate(sides):
        parts = iter([_renamed(part, phases.get((number, at), {})) for at, part in enumerate(side.parts)])
        out.append(
            replace(side, runs=[replace(run, parts=[next(parts) for _ in run.parts]) for run in side.runs])
        )
    return out


def _classes_of_exports(sides: Sequence[Side]) -> list[_Local]:
    found = []
    for side_number, side in enumerate(sides):
        ranks = [rank for run in side.runs for rank in range(len(run.parts))]
        for part_number, (rank, part) in enumerate(zip(ranks, side.parts, strict=True)):
            phases = part.periods["phase"]
            mine = sorted(phase for phase in phases.unique() if is_class(phase))
            if not mine:
                continue
            bags, names, content = op_bags(part.kernels, part.keys, int(part.periods["period"].max()) + 1)  # type: ignore[arg-type]
            content = content[part.periods["period"].to_numpy()]
            units = part.periods.partition_by("rank", "device")
            for phase in mine:
                of_phase = content[(phases == phase).to_numpy()]
                mean = bags[of_phase].mean(axis=0)
                bag = {name: float(count) for name, count in zip(names, mean, strict=True) if count}
                every = regular(
                    np.concatenate([np.diff(np.flatnonzero(unit["phase"] == phase)) for unit in units])
                )
                found.append(_Local(side_number, part_number, rank, phase, len(of_phase), bag, every))
    return found


def _phases(local: list[_Local], bags: Floats, kernels: list[str]) -> list[str]:
    """The phase of each class of an export; `kernels` names the columns of `bags`."""
    side = np.array([one.side % 2 for one in local])  # A/A repeats are of the baseline
    steps = np.array([one.steps for one in local], np.float64)
    share = steps / np.bincount(side, weights=steps)[side]
    klass = np.zeros(len(local), np.int64)
    sides = np.unique(side).tolist()
    for one in sides:
        mine = np.flatnonzero(side == one)
        klass[mine] = classes_of(bags[mine], steps[mine])
    if len(sides) == 2:
        klass = _of_stages(
            side, np.array([one.rank for one in local]), _matched(side, klass, bags, steps), steps
        )
        every = np.array([one.every for one in local])
        klass = _with_changed(side, klass, bags, steps, every)
    groups = _groups(klass, side, steps, share)
    recurs = np.array(
        [next(group.recurs for group in groups if at in group.members) for at in range(len(local))]
    )
    if any(share[recurs & (side == one)].sum() < MOSTLY for one in sides):
        return [STEP] * len(local)
    names: dict[int, str] = {}
    for rank, group in enumerate([group for group in groups if group.recurs][:PARTS]):
        name = _name(group.members, bags, steps, kernels) if rank else STEP
        names.update(dict.fromkeys(group.members, f"{name}-{rank + 1}" if name in names.values() else name))
    return [names.get(at, IRREGULAR) for at in range(len(local))]


def _name(members: tuple[int, ...], bags: Floats, steps: Floats, kernels: list[str]) -> str:
    """What sets a class apart, in letters that a measure (`PHASE.gc`) may hold."""
    mine = np.isin(np.arange(len(bags)), members)
    mean = _mean(bags, steps, mine)
    copies = np.array([name.startswith("[") for name in kernels])
    alone = np.where(bags[~mine].any(axis=0) | copies, 0.0, mean)
    if not alone.any():
        return f"{STEP}-of-{round(mean.sum())}-launches"
    words = re.findall(r"\w+", parse(kernels[int(alone.argmax())]).function, re.ASCII)
    word = (words or ["kernel"])[-1]
    if len(word) > _LETTERS:
        word = word[: _LETTERS + 1].rpartition("_")[0] or word[:_LETTERS]
    return f"{STEP}-with-{word}"


def _groups(klass: Ints, side: Ints, steps: Floats, share: Floats) -> list[_Group]:
    """The classes, those with the most steps first; classes that both sides have before those of one alone."""
    sides = len(np.unique(side))
    found = []
    for one in np.unique(klass).tolist():
        members = np.flatnonzero(klass == one)
        most = max(steps[members[side[members] == at]].sum() for at in np.unique(side[members]))
        both = len(np.unique(side[members])) == sides
        found.append(
            (both, _Group(tuple(members.tolist()), float(share[members].sum()), bool(most >= RECURS)))
        )
    found.sort(key=lambda one: (not one[0], -round(one[1].share, 9)))
    return [group for _, group in found]


def _matched(side: Ints, klass: Ints, bags: Floats, steps: Floats) -> Ints:
    """Number the classes of both sides so that counterparts have one number."""
    shared = np.logical_and.reduce([(bags[side == one] > 0).any(axis=0) for one in (0, 1)])
    means, held = [], []
    for one in (0, 1):
        mine = side == one
        many = int(klass[mine].max()) + 1
        weight = np.bincount(klass[mine], weights=steps[mine], minlength=many)
        total = np.zeros((many, int(shared.sum())))
        np.add.at(total, klass[mine], bags[mine][:, shared] * steps[mine][:, None])
        means.append(total / weight[:, None])
        held.append(weight)
    apart = np.stack([distance(means[1], one) for one in means[0]])
    own, other = np.arange(len(held[0])), np.full(len(held[1]), -1)
    free = [set(range(len(held[0]))), set(range(len(held[1])))]

    def join(one: int, two: int) -> None:
        other[two] = own[one]
        free[0].discard(one)
        free[1].discard(two)

    # the nearest first; of equally near ones those with the most steps, which no exchange of the sides changes
    heavy = np.add.outer(held[0] / held[0].sum(), held[1] / held[1].sum())
    near = sorted(
        np.ndindex(*apart.shape),
        key=lambda at: (round(float(apart[at]), 12), -round(float(heavy[at]), 12), at),
    )
    for one, two in near:
        if one in free[0] and two in free[1] and apart[one, two] <= COUNTERPART:
            join(one, two)

    def adopt(limit: float) -> None:
        """Join what is left to what is near and taken."""
        for two in sorted(free[1]):
            one = int(apart[:, two].argmin())
            if apart[one, two] <= limit and one not in free[0]:
                other[two] = own[one]
                free[1].discard(two)
        for one in sorted(free[0]):
            two = int(apart[one].argmin())
            if apart[one, two] <= limit and two not in free[1]:
                own[one] = other[two]
                free[0].discard(one)

    adopt(COUNTERPART)  # one class of a side may have become two
    for one, two in near:
        if one in free[0] and two in free[1] and apart[one, two] <= CHANGED:
            join(one, two)
    # what both do most is compared, whatever changed in it
    most = int(held[0].argmax()), int(held[1].argmax())
    if most[0] in free[0] and most[1] in free[1]:
        join(*most)
    adopt(ALIKE)  # the other side calls such steps one class: it has them, if anybody has
    alone = len(own) + np.arange(len(other))
    other = np.where(other < 0, alone, other)
    found = klass.copy()
    found[side == 0], found[side == 1] = own[klass[side == 0]], other[klass[side == 1]]
    return found


def _of_stages(side: Ints, rank: Ints, klass: Ints, steps: Floats) -> Ints:
    """Where some ranks of one side alone do what no other does, what they do most on the other side is its counterpart.

    A stage of a pipeline that got more layers is compared with itself, though it was like the other stages.
    """
    most = [
        {
            int(one): int(np.bincount(klass[(side == at) & (rank == one)], weights=steps[(side == at) & (rank == one)]).argmax())
            for one in np.unique(rank[side == at])
        }
        for at in (0, 1)
    ]  # fmt: skip
    found = klass.copy()
    for at, mine in enumerate(most):
        theirs = most[1 - at]
        for one, now in mine.items():
            if one in theirs and not (klass[side != at] == now).any() and theirs[one] in mine.values():
                found[(side != at) & (rank == one) & (klass == theirs[one])] = now
    return found


def _with_changed(side: Ints, klass: Ints, bags: Floats, steps: Floats, every: Ints) -> Ints:
    """What one side alone does in many of its steps, or in every so many, and most of it as the other does, is a change of these steps: left out, it would be in no delta.

    So is nearly all that the other does, with whatever else, in every so many.
    """
    found = klass.copy()
    for at in (0, 1):
        own, theirs = side == at, np.unique(klass[side != at])
        means = np.stack([_mean(bags, steps, ~own & (klass == one)) for one in theirs])
        for one in np.setdiff1d(klass[own], theirs):
            mine = own & (klass == one)
            mean = _mean(bags, steps, mine)
            apart = distance(means, mean)
            nearest = int(apart.argmin())
            many, regularly = steps[mine].sum() >= LITTLE * steps[own].sum(), every[mine].all()
            near = apart[nearest] <= MOSTLY
            whole = np.minimum(means[nearest], mean).sum() >= NEARLY * means[nearest].sum()
            if (many and near) or (regularly and (near or whole)):
                found[mine] = theirs[nearest]
    return found


def _mean(bags: Floats, steps: Floats, some: Bools) -> Floats:
    """What a step of these classes launches on average."""
    return np.asarray(np.average(bags[some], axis=0, weights=steps[some]))


def one_phase(sides: Sequence[Side]) -> list[Side]:
    """The sides with all steps in one phase: for sides of which one does only what the other does not."""

    def of(part: Reduction) -> Reduction:
        return _renamed(part, dict.fromkeys(part.periods["phase"].unique().to_list(), STEP))

    return [
        replace(side, runs=[replace(run, parts=list(map(of, run.parts))) for run in side.runs])
        for side in sides
    ]


def _renamed(part: Reduction, phases: dict[str, str]) -> Reduction:
    """An export whose phases have other names."""
    if all(old == new for old, new in phases.items()):
        return part
    new = pl.col("phase").replace(phases)
    sequences: dict[str, list[StepSequence]] = {}
    for phase, common in part.sequences.items():
        sequences.setdefault(phases.get(phase, phase), []).extend(common)
    return replace(
        part,
        periods=part.periods.with_columns(new),
        strata=part.strata.with_columns(new),
        worst=part.worst.with_columns(new),
        moments=part.moments.with_columns(new),
        sequences={
            phase: sorted(common, key=lambda one: -one.steps)[:MOST_SEQUENCES]
            for phase, common in sequences.items()
        },
    )


def notes_of_classes(sides: Sequence[Side]) -> list[Note]:
    """What sets the classes apart, where there are several: launches of a step, and kernels that only its class has."""
    total: dict[str, dict[str, float]] = {}
    steps: dict[str, int] = {}
    for one in _classes_of_exports(sides):
        own = total.setdefault(one.phase, {})
        for name, count in one.bag.items():
            own[name] = own.get(name, 0.0) + count * one.steps
        steps[one.phase] = steps.get(one.phase, 0) + one.steps
    if len(total) < 2:
        return []
    said = []
    for phase in sorted(total, key=lambda one: (-steps[one], one)):
        others = {name for other, names in total.items() if other != phase for name in names}
        alone = sorted((-count, name) for name, count in total[phase].items() if name not in others)
        text = f"{phase}: {round(sum(total[phase].values()) / steps[phase]):,} launches"
        if alone:
            text += f", alone in launching {', '.join(short(name) for _, name in alone[:FIRST])}"
        said.append(text)
    return [
        Note("workload-classes", f"labels do not count requests, so steps are told apart by what they launch, per step: {'; '.join(said)}")
    ]  # fmt: skip


# Steps by what their labels say they worked on: the list of what was compared, and what was not.
#
# An exact workload (phase, requests, tokens) stands alone where both sides have it often enough; others are put together by powers of
# two. How much each step counts for is not decided here but in frame.py; a row tells what became of its steps.


class Strata(msgspec.Struct, frozen=True):
    """rows: of the report. keys: of each row, the value of `row` that its steps have in `steps`: every whole step of the sides but what runs begin with."""

    rows: list[Stratum]
    keys: list[str]
    steps: pl.DataFrame


def build_strata(frame: Frame, min_steps: int = MIN_STEPS) -> Strata:
    """List the workloads of the sides, those with the most steps first."""
    sides = min(2, len(frame.runs))
    steps = frame.regular.with_columns(
        klass=pl.Series(_classes(frame)), phased=pl.col("phase").is_in([one.phase for one in frame.phases])
    ).filter(pl.col("side") < 2)
    side = pl.col("side")
    often = [(side == number).sum().over(SHAPE) >= min_steps * frame.runs[number] for number in range(sides)]
    left_out = pl.any_horizontal(
        [pl.lit(False), *((side == one) & (pl.col("run") == run) for one, run in frame.left_out)]
    )
    steps = steps.filter(~left_out)  # said of the run as a whole
    steps = steps.with_columns(exact=pl.all_horizontal(often), compared=pl.col("weight") > 0)
    steps = steps.with_columns(why=_why())
    name = pl.concat_str(
        [
            "phase",
            *(
                pl.when("exact").then(column).otherwise(bucket(column)).cast(pl.String).fill_null("?")
                for column in SHAPE[1:]
            ),
            pl.col("exact").cast(pl.String),
            "why",
        ],
        separator="|",
    )
    steps = steps.with_columns(row=name)
    total = [float(steps["ns"].filter(steps["side"] == number).sum()) for number in (0, 1)]
    table = steps.group_by("row").agg(
        pl.col("phase", "exact", "compared", "why").first(),
        *(pl.col(column).min().alias(f"{column}_low") for column in SHAPE[1:]),
        *(pl.col(column).max().alias(f"{column}_high") for column in SHAPE[1:]),
        baseline_steps=(side == 0).sum(), candidate_steps=(side == 1).sum(),
        baseline_ns=pl.col("ns").filter(side == 0).mean(), candidate_ns=pl.col("ns").filter(side == 1).mean(),
        weight=pl.col("weight").sum() / sides,
    ).sort("baseline_steps", "candidate_steps", "row", descending=[True, True, False])  # fmt: skip
    rows = [_stratum(row, total) for row in table.iter_rows(named=True)]
    return Strata(rows, table["row"].to_list(), steps)


def _stratum(row: dict[str, Any], total: list[float]) -> Stratum:
    one, other = row["baseline_ns"], row["candidate_ns"]
    return Stratum(
        **{column: _span(row[f"{column}_low"], row[f"{column}_high"]) for column in SHAPE[1:]},
        phase=str(row["phase"]),
        level="exact" if row["exact"] else "bucket",
        baseline_steps=int(row["baseline_steps"]),
        candidate_steps=int(row["candidate_steps"]),
        baseline_ns=one,
        candidate_ns=other,
        delta_ns=other - one if one is not None and other is not None else None,
        weight=float(row["weight"]),
        compared=bool(row["compared"]),
        reason=_of_side(row["why"], row),
        baseline_share=_part(row["baseline_steps"], one, total[0]),
        candidate_share=_part(row["candidate_steps"], other, total[1]),
    )


def _part(steps: int, mean_ns: float | None, total_ns: float) -> float:
    return steps * mean_ns / total_ns if mean_ns is not None and total_ns else 0.0


def _classes(frame: Frame) -> Ints:
    """The workload of each regular step within its phase."""
    found = np.zeros(len(frame.steps), np.int64)
    for one in frame.phases:
        found = np.where(frame.steps["phase"].to_numpy() == one.phase, one.klass, found)
    return np.asarray(found[~frame.begins])


def _why() -> pl.Expr:
    """Why a step is in no mean, "" where it is in one. `one_side`: of a phase or of a shape that the other side lacks."""
    side = pl.col("side")
    alike = side.n_unique().over("phase", "klass") > 1
    shape = [pl.col("phase"), *(bucket(column) for column in SHAPE[1:])]
    return (
        pl.when("compared")
        .then(pl.lit(""))
        .when(pl.col("phase") == IRREGULAR)
        .then(pl.lit(IRREGULAR))
        .when(~pl.col("phased"))
        .then(pl.lit("one_side"))
        .when("start_up")  # the start of a side is compared where the other has one
        .then(pl.lit("first_use"))
        .when(alike)
        .then(pl.lit("none_typical"))
        .when(side.n_unique().over(shape) > 1)
        .then(pl.lit("other_ops"))
        .otherwise(pl.lit("one_side"))
    )


def _of_side(why: str, row: dict[str, Any]) -> str:
    if why != "one_side":
        return why
    return "candidate_only" if not row["baseline_steps"] else "baseline_only"


def _span(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "?"
    return str(low) if low == high else f"{low}-{high}"


def mix(frame: Frame, baseline_ns: float, candidate_ns: float) -> Mix:
    """What the raw means of both sides differ by: `baseline_ns`, `candidate_ns` are the means at equal workload."""
    side, run = (frame.steps[name].to_numpy() for name in ("side", "run"))
    ns = frame.steps["ns"].to_numpy() / frame.units
    kept = [(side == at) & np.isin(run, frame.kept(at)) for at in (0, 1)]
    begun = [ns[mine & frame.begins] for mine in kept]
    kept = [mine & ~frame.begins for mine in kept]
    raw = [float(ns[mine].mean()) for mine in kept]
    compared = [float(ns[mine & (frame.weight > 0)].mean()) for mine in kept]
    speed, of_compared = candidate_ns - baseline_ns, compared[1] - compared[0]
    fewer, more = frame.first_uses()
    often = float(more.mean() - fewer.mean())
    starts = np.any([one.start > 0 for one in frame.phases], axis=0)
    before, after = (float(one.mean()) if len(one) else 0.0 for one in begun)
    return Mix(
        raw[0],
        raw[1],
        of_compared - speed - often,
        speed,
        raw[1] - raw[0] - of_compared,
        often,
        Pair(*(int((starts & mine).sum()) for mine in kept)),
        Pair(len(begun[0]), len(begun[1])),
        Change(before, after, after - before),
    )


def notes_of(frame: Frame) -> list[Note]:
    """Warnings of how steps were compared."""
    notes = []
    if "label-generation" in frame.notes:
        notes.append(
            Note(
                "label-generation",
                "only one side's step labels carry ctx tokens; steps were matched without them",
            )
        )
    if not frame.once and not any(one.judged for one in frame.phases):
        notes.append(
            Note(
                "thin-strata",
                f"no phase has {MIN_STEPS} steps per run on both sides: whether a change would repeat cannot be told",
            )
        )
    names = [
        one.phase for one in frame.phases if one.judged and not one.repeated and min(one.steps[:2]) >= ENOUGH
    ]
    if names and len(frame.runs) > 1:
        notes.append(
            Note(
                "steps-do-not-repeat",
                f"{', '.join(names)}: hardly a step repeats what an earlier one launched, so that all count as typical but warm-up"
                " (first launch of a kernel)",
            )
        )
    if "coarse-strata" in frame.notes:
        notes.append(
            Note(
                "coarse-strata",
                "steps were matched by phase only: batch sizes differ between the sides, and part of a delta may be mix",
            )
        )
    return notes
