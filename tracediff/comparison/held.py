"""Which counts are facts: one value holds in nearly all steps of one side, another in nearly all of the other, or any at all in those of one side alone.

Load varies within a capture, the structure of a program does not. Steps of one workload by their labels (requests, tokens) and of one
rank are looked at together, where both sides have enough of them: a count may differ between prompts and generation and be constant in
each. Where the sides share no workload, all steps of a phase are. What a step launched says nothing of its workload here: that is what
is tested.

| number | what it decides | origin |
|-|-|-|
| HELD, 85 % | of the steps hold the value | a program that logs or checks in every tenth step holds 89 %; 182 null pairs of 44 programs have no false fact, not even at 80 % |
| LEAST, 4 and CERTAIN, 10 | steps per side, for a fact and for a certain one | the fifth of ten steps may differ by chance where four do not; the same pairs |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison.frame import Frame, PhaseSteps
from tracediff.stats.rules import LEAST, MOSTLY
from tracediff.trace.workloads import half_octave

HELD, CERTAIN = 0.85, 10


class Held(msgspec.Struct, frozen=True):
    """Of every item (arrays of that length): the value that the steps of both sides hold, and whether that differs.

    before, after: the values, in the workload with the most steps; each: (workloads, 2, items) per step, the few steps with other values
    among them, the workload with the most steps first; units: of each workload its rank and device; changed: (workloads, items), whether the values are others; shown: the workload that each item is
    told of. constant: the values hold in nearly all steps; differs: and are not the same, or one side alone has any in nearly all; differs_on: the same of each rank and device alone,
    (ranks and devices, items); other_bytes: as many, of other known sizes. means, any: (2, items) per step of all, steps with any. steps: a side. spread: (2 sides, 2,
    items) of counts that vary, the least and the most there but for the steps that may differ from a value that holds; apart: so much so
    that those of the sides do not meet.
    """

    before: Floats
    after: Floats
    each: Floats
    units: Ints
    changed: Bools
    shown: Ints
    constant: Bools
    differs: Bools
    differs_on: Bools
    means: Floats
    any: Ints
    bytes: Floats
    other_bytes: Bools
    spread: Floats
    apart: Bools
    steps: tuple[int, int]
    workloads: int

    @property
    def certain(self) -> Bools:
        """Of every item, whether it differs and so many steps show it that it can be no chance."""
        return self.differs & (min(self.steps) >= CERTAIN)

    def counts(self, item: int, of: int | None = None) -> Floats:
        """How many of an item a step of each side has, (2,), in the workload that it, or item `of`, is told of."""
        return self.each[self.shown[item if of is None else of], :, item]

    def on_units(self, item: int) -> dict[int, Floats]:
        """The same of each rank and device on which the item differs, in its largest workload that differs."""
        found = {}
        for at, unit in enumerate(np.unique(self.units).tolist()):
            if self.differs_on[at, item]:
                mine = np.flatnonzero(self.units == unit)
                found[unit] = self.each[mine[np.argmax(self.changed[mine, item])], :, item]
        return found


class Counted(msgspec.Struct, frozen=True):
    """What was counted in steps, those with the same counts once.

    kinds: for each of some tables the kind of each row of `Frame.steps` by its counts there, -1 none. rows: kind, item, count, bytes; an item
    that does not occur in a kind has no row. varying: items whose counts tell something where they vary, too.
    """

    kinds: list[Ints]
    rows: pl.DataFrame
    varying: Sequence[int] = ()

    def items(self, steps: Bools) -> set[int]:
        """The items that some of those rows of `Frame.steps` have."""
        there = np.unique(np.concatenate([kind[steps] for kind in self.kinds]))
        return set(self.rows.filter(pl.col("kind").is_in(there))["item"].to_list())

    def of(self, item: int) -> Floats:
        """How many of an item each row of `Frame.steps` has."""
        rows = self.rows.filter(pl.col("item") == item)
        last = max((int(kind.max(initial=0)) for kind in self.kinds), default=0)
        counts = np.zeros(last + 2)  # the last is that of kind -1, which has none
        counts[rows["kind"].to_numpy()] = rows["count"].to_numpy()
        return np.asarray(np.sum([counts[kind] for kind in self.kinds], axis=0))


def kinds_of(counted: pl.DataFrame, of: str, many: int) -> tuple[Ints, pl.DataFrame]:
    """Of each step (below `many`, in column `of`) its kind, which steps with the same rows share; and the rows of one step a kind, with `kind` for `of`."""
    step, code = counted[of].to_numpy(), np.zeros(many, np.uint64)
    np.add.at(code, step, counted.drop(of).hash_rows().to_numpy())
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    rows = counted.filter(pl.Series(first[kind[step]] == step))
    return kind, rows.select(pl.Series("kind", kind[rows[of].to_numpy()]), pl.exclude(of))


def steps_of(frame: Frame, phase: str) -> Bools:
    """The steps of a phase that count: those that load code do not, but for programs that do so in every second step or more."""
    side, run = frame.steps["side"].to_numpy(), frame.steps["run"].to_numpy()
    mine = (frame.steps["phase"].to_numpy() == phase) & (side < 2)
    for one, number in frame.left_out:
        mine &= (side != one) | (run != number)
    start = frame.steps["start_up"].to_numpy() & mine
    seldom = all((start & (side == one)).sum() < MOSTLY * (mine & (side == one)).sum() for one in (0, 1))
    return np.asarray(mine & ~start if seldom and not frame.once else mine)


def held(frame: Frame, phase: PhaseSteps, counted: Counted, items: int) -> Held | None:
    """What the steps of a phase hold; None where there are too few. Items are numbers below `items`."""
    side, mine = frame.steps["side"].to_numpy(), steps_of(frame, phase.phase)
    if not mine.any():
        return None
    least = 1 if frame.once else LEAST
    # where the sides share no workload, all steps of a rank are looked at together
    for labels in (True, False):
        group, groups = _groups(frame, mine, labels=labels)
        steps = np.bincount(2 * group[mine] + side[mine], minlength=2 * groups).reshape(groups, 2)
        good = np.flatnonzero((steps >= least).all(axis=1))
        if len(good) and not (labels and (steps[good].sum(axis=0) < MOSTLY * steps.sum(axis=0)).any()):
            break
    else:
        return None
    good = good[np.argsort(-steps[good].min(axis=1), kind="stable")]
    renumbered = np.full(groups, -1, np.int64)
    renumbered[good] = np.arange(len(good))
    group = np.where(mine, renumbered[np.where(mine, group, 0)], -1)
    units = np.zeros(len(good), np.int64)
    units[group[group >= 0]] = frame.steps["counterpart"].to_numpy()[group >= 0]
    return _values(counted, items, group * 2 + side, steps[good], units, once=frame.once, inside=group >= 0)


def _groups(frame: Frame, mine: Bools, *, labels: bool) -> tuple[Ints, int]:
    """The workload of each step by its labels, with its rank and device, and how many there are; -1 of other steps."""
    words: list[pl.Expr] = [pl.col("counterpart")]
    if labels:
        words += [pl.col("ctx_reqs"), *(half_octave(name) for name in ("ctx_tokens", "gen_reqs"))]
    own = frame.steps.filter(pl.Series(mine)).select(pl.struct(words).rank("dense") - 1)
    code = own.to_series().to_numpy().astype(np.int64)
    found = np.full(len(mine), -1, np.int64)
    found[mine] = code
    return found, int(code.max(initial=-1)) + 1


def _values(
    counted: Counted, items: int, cell: Ints, steps: Ints, unit: Ints, *, once: bool, inside: Bools
) -> Held:
    """cell: workload * 2 + side of each step; steps: (workloads, 2), the most first; unit: of each workload its rank and device."""
    many = len(steps)
    of_steps = [
        pl.DataFrame({"cell": cell, "kind": kind}).filter(pl.Series(inside)) for kind in counted.kinds
    ]
    often = (
        pl.concat(of_steps).group_by("cell", "kind").agg(steps=pl.len().cast(pl.Int64)).sort("cell", "kind")
    )
    table = often.join(counted.rows, on="kind", maintain_order="left_right").with_columns(
        code=pl.col("cell") * items + pl.col("item")
    )
    code, times = table["code"].to_numpy(), table["steps"].to_numpy()
    value, share = _most(table, "count", steps, items)
    size, size_share = _most(table, "bytes", steps, items)
    least = 1.0 if once else HELD
    on = [unit == one for one in np.unique(unit)]

    def constant(share: Floats) -> Bools:
        return np.asarray((share >= least).all(axis=(0, 1)))

    def one_way(change: Floats) -> Bools:
        return np.asarray((change >= 0).all(axis=0) | (change <= 0).all(axis=0))

    def moved_on(one: Bools, change: Floats) -> Bools:
        """In workloads with half of the steps of both sides on a rank or device, in one direction (the sign by workload and item)."""
        own, weight = change[one], steps[one] / steps[one].sum(axis=0)
        more, less = ((own == sign).T @ weight for sign in (1, -1))
        return np.asarray(((more >= MOSTLY) | (less >= MOSTLY)).all(axis=1))

    def moved(change: Floats) -> Bools:
        """One rank alone may do it; of a rank with several devices the first has what its host does."""
        return np.asarray(np.any([moved_on(one, change) for one in on], axis=0) & one_way(change))

    def of_workloads(values: Any = 1) -> npt.NDArray[Any]:
        """Sums over the steps by workload, side and item."""
        return np.asarray(np.bincount(code, times * values, many * 2 * items).reshape(many, 2, items))

    per, any_of = steps.sum(axis=0)[:, None], of_workloads()
    # what nearly all steps of one side have and none of the other, however often: how often may go with the load
    always = (any_of >= HELD * steps[:, :, None]) & (any_of[:, ::-1] == 0)
    alone = always.any(axis=1) & (not once)
    change, size_change = (np.sign(one[:, 1] - one[:, 0]) for one in (value, size))
    differs_on = [
        (constant(share[one]) | alone[one].all(axis=0)) & moved_on(one, change) & one_way(change[one])
        for one in on
    ]
    changed = (value[:, 1] != value[:, 0]) | (
        (size[:, 1] != size[:, 0]) & (value[:, 1] == value[:, 0]).all(axis=0)
    )
    # the workload with the most steps among those that differ
    shown = np.argmax(changed, axis=0) if items else np.zeros(0, np.int64)
    every, sums = np.arange(items), of_workloads(table["count"].to_numpy())
    each = sums / steps[:, :, None]
    spread = _spread(table.filter(pl.col("item").is_in(counted.varying)), steps, items)
    (low, high), (later_low, later_high) = spread.transpose(1, 2, 0, 3)
    aside = 1.0 * (later_low > high) - 1.0 * (later_high < low)
    return Held(
        value[shown, 0, every],
        value[shown, 1, every],
        each,
        unit,
        changed,
        shown,
        constant(share),
        (constant(share) | alone.all(axis=0)) & moved(change),
        np.array(differs_on),
        sums.sum(axis=0) / per,
        any_of.sum(axis=0).astype(np.int64),
        of_workloads(table["bytes"].to_numpy()).sum(axis=0) / per,
        constant(share)
        & constant(size_share)
        & moved(size_change)
        & ~((value > 0) & (size == 0)).any(axis=(0, 1)),
        spread[shown, :, :, every].transpose(1, 2, 0),
        ~constant(share) & moved(aside),
        (int(per[0, 0]), int(per[1, 0])),
        many,
    )


def _spread(table: pl.DataFrame, steps: Ints, items: int) -> Floats:
    """(workloads, 2 sides, 2, items): the least and the most that steps have, without `1 - HELD` of them at either end; steps without a row have 0."""
    seen = table.group_by("code", "count").agg(pl.col("steps").sum()).sort("code", "count")
    of = np.repeat(steps.reshape(-1), items)[seen["code"].to_numpy()]
    below = pl.Series(of) - pl.col("steps").sum().over("code")  # have none
    part = (below + pl.col("steps").cum_sum().over("code")) / pl.Series(of)
    ends = seen.with_columns(part=part, none=below / pl.Series(of)).group_by("code").agg(
        least=pl.when(pl.col("none").first() <= 1 - HELD).then(pl.col("count").filter(pl.col("part") > 1 - HELD).min()),
        most=pl.when(pl.col("none").first() < HELD).then(pl.col("count").filter(pl.col("part") >= HELD).min()),
    )  # fmt: skip
    found = np.zeros((2, steps.size * items))
    found[:, ends["code"].to_numpy()] = ends.select(pl.col("least", "most").fill_null(0)).to_numpy().T
    return found.reshape(2, *steps.shape, items).transpose(1, 2, 0, 3)


def _most(table: pl.DataFrame, column: str, steps: Ints, items: int) -> tuple[Floats, Floats]:
    """(workloads, 2, items): the value that most steps have, and the part of the steps that have it; steps without a row have 0."""
    size = steps.size * items
    often = (
        table.group_by("code", column)
        .agg(n=pl.col("steps").sum())
        .sort("code", "n", column, descending=[False, True, False])
        .with_columns(there=pl.col("n").sum().over("code"))
        .unique("code", keep="first", maintain_order=True)
    )
    value, share = np.zeros(size), np.ones(size)
    code = often["code"].to_numpy()
    of = np.repeat(steps.reshape(-1), items)[code] if len(code) else np.zeros(0, np.int64)
    count, absent = often["n"].to_numpy(), of - often["there"].to_numpy()
    zero = absent >= count
    value[code] = np.where(zero, 0.0, often[column].to_numpy())
    share[code] = np.where(zero, absent, count) / np.maximum(of, 1)
    return value.reshape(*steps.shape, items), share.reshape(*steps.shape, items)
