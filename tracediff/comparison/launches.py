"""Kernels judged by their own launches, where steps are too few to say anything: whole captures, a labelled step that occurs once.

A row of the kernel table is compared by the mean duration of its launches, whatever their number. The value of a run is the mean of
its launches. With one or two runs a side the scatter of the launches is added. Launches of one run follow one another and are not
independent: more than `ENOUGH` of them make the mean of a run no surer.

A row is sure as a place is (comparison/places.py): its false discovery rate over all rows that are tested is below 5 %, and the near
end of its interval 1 % of the mean launch; likely so with up to three runs a side, confirmed with four.
Of fewer than `LEAST` launches a row needs as many in every run. Their means scatter more: by 6 % and 88 ns at most in 45 kernels of pairs of
identical runs. That nothing changed they cannot say.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import Index
from tracediff.arrays import Floats
from tracediff.comparison.frame import Frame
from tracediff.kernels.matching import Match
from tracediff.kernels.names import category, is_kernel, normalise
from tracediff.model import Evidence, LaunchChange
from tracediff.model.causes import CAPTURE, OWN, SURELY
from tracediff.stats.noise import Noise, Sample, estimate
from tracediff.stats.rules import ENOUGH, LEAST, LITTLE, MOSTLY, PERMUTE
from tracediff.stats.tests import ALPHA, benjamini_hochberg

_ONE_TO_ONE = ("exact", "name", "template", "sequence")


class Launches(msgspec.Struct, frozen=True):
    """What each run launched in the steps that are compared, (runs of a side, rows) a side: launches, their ns, and the squares of it."""

    count: tuple[Floats, Floats]
    wall: tuple[Floats, Floats]
    square: tuple[Floats, Floats]

    def many(self, side: int) -> Floats:
        """Launches of each row, all runs."""
        return np.asarray(self.count[side].sum(axis=0))

    def sd(self, side: int) -> Floats:
        """Standard deviation of the launches of each row, ns; nan of fewer than two."""
        return deviation(self.many(side), self.wall[side].sum(axis=0), self.square[side].sum(axis=0))


def launches_of(frame: Frame, values: pl.DataFrame, rows: int) -> Launches:
    """Launches of every row, by run. Runs that are left out are in none. `values`: `KernelCells.values`; one side alone is both."""
    step = values["step"].to_numpy()
    inside = np.flatnonzero(step >= 0)
    inside = inside[frame.weight[step[inside]] > 0]
    at = frame.run_number[step[inside]] * rows + values["row"].to_numpy()[inside]
    sides = (0, min(1, len(frame.runs) - 1))
    kept = [np.array(frame.kept(side), np.intp) + (frame.runs[0] if side else 0) for side in sides]

    def by_run(column: str) -> tuple[Floats, Floats]:
        ns = values[column].to_numpy()[inside].astype(np.float64)
        sums = np.bincount(at, weights=ns, minlength=sum(frame.runs) * rows).astype(np.float64)
        sums = sums.reshape(sum(frame.runs), rows)
        return sums[kept[0]], sums[kept[1]]

    return Launches(by_run("count"), by_run("wall_ns"), by_run("wall_square"))


def deviation(count: Floats, wall: Floats, square: Floats) -> Floats:
    """Standard deviation of so many launches, from the sum of their ns and of the squares; nan of fewer than two."""
    some = np.where(count > 1, count, np.nan)
    return np.asarray(np.sqrt(np.maximum(square - wall**2 / some, 0.0) / (some - 1)))


def launch_changes(
    rows: Sequence[Match], launches: Launches, groups: Sequence[Sequence[int]], *, alike: bool
) -> list[LaunchChange | None]:
    """The change of a launch of each group of rows; None where a run has too few, or launches are no counterparts.

    That is where kernels were fused or split, and where one side launched the kernel much more often than its other kernels: such a
    kernel was chosen for another work. Rows of a group are weighed alike on both sides, by the launches that every run has: unequal
    shapes add no scatter. `alike`: all runs did the same amount of work; else only launches of the same name and grid are counterparts.
    """
    found: list[LaunchChange | None] = [None] * len(groups)
    least = np.minimum(*(one.min(axis=0) for one in launches.count))
    ratio, usual_ratio = _ratios(launches)
    with np.errstate(divide="ignore"):
        paired = (np.abs(np.log(ratio / usual_ratio)) <= LITTLE) & (least > 0)
    paired &= np.array(
        [match.match in (_ONE_TO_ONE if alike else _ONE_TO_ONE[:1]) for match in rows], np.bool_
    )
    runs = min(len(one) for one in launches.count)
    counts = np.concatenate(launches.count)
    same = (counts == counts[0]).all(axis=0)
    tested, figures = [], []
    for number, group in enumerate(groups):
        members = np.array([row for row in group if paired[row]], np.intp)
        few = least[members].sum() < LEAST
        if not len(members) or (few and not (len(members) == len(group) and same[members].all())):
            continue
        tested.append(number)
        sample = _sample(launches, members, least[members])
        scatter = (OWN if few else CAPTURE) * np.array([one.mean(axis=0) for one in sample.values])
        of = estimate(sample, Noise(scatter, np.zeros(1, np.bool_)))
        figures.append(of)
    q = benjamini_hochberg(np.array([float(of.p[0]) for of in figures]))
    for number, of, own in zip(tested, figures, q.tolist(), strict=True):
        material = bool(of.near[0] >= SURELY * max(of.baseline[0], of.candidate[0]))
        level = _level(own, runs, material=material)
        if level == "within_noise" and least[[row for row in groups[number] if paired[row]]].sum() < LEAST:
            continue  # too few to say that it is unchanged
        found[number] = LaunchChange(**of.change(0), p_value=float(of.p[0]), q_value=own, level=level)
    return found


def _sample(launches: Launches, members: Index, weight: Floats) -> Sample:
    """The mean launch of each run, over shapes of equal weight on both sides, and its variance from the scatter within the shapes."""
    values, variances = [], []
    for side in (0, 1):
        count, wall = (table[side][:, members] for table in (launches.count, launches.wall))
        mean = wall / count
        values.append((mean @ weight / weight.sum())[:, None])
        deviation = launches.sd(side)[members] / mean.mean(axis=0)  # of its mean
        known = np.isfinite(deviation)
        # a shape that was launched once scatters as the others do; as the shapes differ, where none was launched twice
        usual = deviation[known].mean() if known.any() else mean.std() / mean.mean()
        sd = np.where(known, deviation, usual) * mean
        many = count.sum(axis=1)
        squares = (weight**2 * sd**2 / count).sum(axis=1) / weight.sum() ** 2
        variances.append(float((squares * np.maximum(1.0, many / ENOUGH)).mean() / len(count)))
    return Sample((values[0], values[1]), step_variance=(np.array(variances[:1]), np.array(variances[1:])))


def by_name(rows: Sequence[Match]) -> list[list[int]]:
    """Rows of the kernels of one name, whatever the grid. Multiplications and attention that another kernel computes now are one group each.

    A library chooses these by shape, so that one kernel gives way to several.
    """
    names = [_names(row) for row in rows]
    stayed = {one[0] for one in names if len(one) == 1 and all(one)} & {
        one[0] for one, row in zip(names, rows, strict=True) if row.baseline and row.candidate
    }
    found: dict[tuple[str, ...], list[int]] = {}
    for number, one in enumerate(names):
        kinds = {category(op.name) for op in (*rows[number].baseline, *rows[number].candidate)}
        new = len(one) > 1 or one[0] not in stayed
        found.setdefault(("", *kinds) if new and kinds <= _CHOSEN else one, []).append(number)
    return list(found.values())


_CHOSEN = {"gemm", "attention"}


def _names(row: Match) -> tuple[str, ...]:
    """The normalised name of a row's kernels; both where the sides differ."""
    return tuple(dict.fromkeys(normalise(ops[0].name) for ops in (row.baseline, row.candidate) if ops))


def _level(q: float, runs: int, *, material: bool) -> Evidence:
    if not material or q >= ALPHA:
        return "within_noise"
    return "confirmed" if runs >= PERMUTE else "likely"


def amount_of_work(rows: Sequence[Match], launches: Launches) -> tuple[str, float, float] | None:
    """A kernel that tells that the runs of one side did other work: its name, and its launches in a run of each side.

    None where kernels with half of the GPU time were launched as often on both sides: a change of a few kernels is no other work.
    Kernels are taken together by their normalised names, because libraries choose variants by shape. The one named has the most time.
    """
    counts: tuple[dict[str, float], dict[str, float]] = ({}, {})
    time: dict[str, float] = {}
    for side in (0, 1):
        per_run, ns = launches.count[side].mean(axis=0), launches.wall[side].mean(axis=0)
        for number, row in enumerate(rows):
            ops = row.candidate if side else row.baseline
            if ops and per_run[number] and is_kernel(ops[0].name):
                name = normalise(ops[0].name)
                counts[side][name] = counts[side].get(name, 0.0) + float(per_run[number])
                time[name] = time.get(name, 0.0) + float(ns[number])
    both = counts[0].keys() & counts[1].keys()
    other = [name for name in both if abs(np.log(counts[1][name] / counts[0][name])) > LITTLE]
    if not other or sum(time[name] for name in other) < MOSTLY * sum(time[name] for name in both):
        return None
    name = max(other, key=lambda one: (time[one], one))
    return name, counts[0][name], counts[1][name]


def _ratios(launches: Launches) -> tuple[Floats, float]:
    """Launches of the candidate's runs to those of the baseline's, of each row; and the ratio of most.

    Half of the GPU time of what both sides have was launched more often by at least that ratio, half by at most that: a change of a few
    kernels leaves it 1. 0 or infinite of a row that one side lacks.
    """
    before, after = (one.mean(axis=0) for one in launches.count)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(after / before, nan=1.0, posinf=np.inf)
    time = launches.wall[0].mean(axis=0) + launches.wall[1].mean(axis=0)
    both = np.flatnonzero((before > 0) & (after > 0))
    if not len(both):
        return ratio, 1.0
    order = both[np.argsort(ratio[both], kind="stable")]
    held = np.cumsum(time[order])
    return ratio, float(ratio[order[int(np.searchsorted(held, held[-1] / 2))]])


def same_work(rows: Sequence[Match], launches: Launches) -> bool:
    """Whether all runs did the same: kernels with half of the time were launched exactly as often in each of them.

    A few launches tell nothing of what a repeat would take: of runs that have less than `ENOUGH`, False.
    """
    kernels = np.array([is_kernel((*row.baseline, *row.candidate)[0].name) for row in rows], np.bool_)
    counts = np.concatenate(launches.count)[:, kernels]
    time = np.concatenate(launches.wall)[:, kernels].sum(axis=0)
    if counts.sum(axis=1).min(initial=np.inf) < ENOUGH:
        return False
    return bool(time[(counts == counts[0]).all(axis=0)].sum() >= MOSTLY * time.sum() > 0)
