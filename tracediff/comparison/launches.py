"""Kernels judged by their own launches, where steps are too few to say anything: whole captures, a labelled step that occurs once.

A row of the kernel table is compared by the mean duration of its launches, whatever their number. The value of a run is the mean of
its launches. With one or two runs a side the scatter of the launches is added. Launches of one run follow one another and are not
independent: more than `_INDEPENDENT` of them make the mean of a run no surer.

| runs a side | a row is |
| 3 or more | confirmed: q < .01, likely: q < .05, over all rows that are tested |
| 1 or 2 | likely at best: q < .05 |
Nothing below 1 % of the mean is more than noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.comparison.frame import Frame
from tracediff.kernels.matching import Match
from tracediff.kernels.names import normalise
from tracediff.model import Evidence, LaunchChange
from tracediff.stats.estimator import Sample, benjamini_hochberg, estimate

_INDEPENDENT = 20
_LEAST = 5  # launches of each run, below which a row is not tested
_USUAL, _PLUS_NS = 0.02, 20.0  # what the mean of a kernel's launches differs by between runs of one program
_FEW, _STRICT, _ALPHA = 3, 0.01, 0.05
_MATERIAL = 0.01
_SAME_WORK = 0.22  # log ratio: a kernel that one side launches that much more often than the others does another work there
_ONE_TO_ONE = ("exact", "name", "template", "sequence")


@dataclass(frozen=True)
class Launches:
    """What each run launched in the steps that are compared, (runs of a side, rows) a side: launches, their ns, and the squares of it."""

    count: tuple[Floats, Floats]
    wall: tuple[Floats, Floats]
    square: tuple[Floats, Floats]

    def many(self, side: int) -> Floats:
        """Launches of each row, all runs."""
        return np.asarray(self.count[side].sum(axis=0))

    def sd(self, side: int) -> Floats:
        """Standard deviation of the launches of each row, ns; nan of fewer than two."""
        return _sd(self.many(side), self.wall[side].sum(axis=0), self.square[side].sum(axis=0))


def launches_of(frame: Frame, values: pl.DataFrame, rows: int) -> Launches:
    """Launches of every row, by run. Runs that are left out are in none. `values`: `KernelCells.values`; one side alone is both."""
    step = frame.index.rows(values)
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


def _sd(count: Floats, wall: Floats, square: Floats) -> Floats:
    some = np.where(count > 1, count, np.nan)
    return np.asarray(np.sqrt(np.maximum(square - wall**2 / some, 0.0) / (some - 1)))


def launch_changes(rows: Sequence[Match], launches: Launches) -> list[LaunchChange | None]:
    """The change of a launch of each row; None where a run has too few, or launches are no counterparts.

    That is where kernels were fused or split, and where one side launched the kernel much more often than its other kernels: such a
    kernel was chosen for another work.
    """
    found: list[LaunchChange | None] = [None] * len(rows)
    least = np.minimum(*(one.min(axis=0) for one in launches.count))
    ratio, usual_ratio = _ratios(launches)
    with np.errstate(divide="ignore"):
        alike = np.abs(np.log(ratio / usual_ratio)) <= _SAME_WORK
    tested = [
        row
        for row, match in enumerate(rows)
        if match.match in _ONE_TO_ONE and least[row] >= _LEAST and alike[row]
    ]
    if not tested:
        return found
    runs = min(len(one) for one in launches.count)
    figures: list[tuple[float, ...]] = []
    for row in tested:
        count, wall, square = (
            tuple(side[:, row] for side in table)
            for table in (launches.count, launches.wall, launches.square)
        )
        means = [own / many for own, many in zip(wall, count, strict=True)]
        alone = [np.minimum(many, _INDEPENDENT) for many in count]
        variance = [
            float((_sd(many, own, squares) ** 2 / free).mean() / len(many))
            for many, own, squares, free in zip(count, wall, square, alone, strict=True)
        ]
        sample = Sample(
            (means[0][:, None], means[1][:, None]),
            step_variance=(np.array([variance[0]]), np.array([variance[1]])),
            step_df=float(min(one.min() for one in alone) - 1),
        )
        usual = _USUAL * max(one.mean() for one in means) + _PLUS_NS
        of = estimate(sample, np.array([usual]), np.zeros(1))
        figures.append(tuple(float(one[0]) for one in (of.baseline, of.candidate, of.delta, of.half, of.p)))
    q = benjamini_hochberg(np.array([one[-1] for one in figures]))
    for row, (before, after, delta, half, p), own in zip(tested, figures, q.tolist(), strict=True):
        material = abs(delta) >= _MATERIAL * max(before, after)
        found[row] = LaunchChange(
            before, after, delta, delta - half, delta + half, p, own, _level(own, runs, material=material)
        )
    return found


def _level(q: float, runs: int, *, material: bool) -> Evidence:
    if not material or q >= _ALPHA:
        return "within_noise"
    return "confirmed" if runs >= _FEW and q < _STRICT else "likely"


_ANOTHER = 0.05  # log ratio: a kernel whose launches differ by more did another amount of work
_MOSTLY = 0.5  # of the GPU time of the kernels that both sides have


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
            if ops and per_run[number]:
                name = normalise(ops[0].name)
                counts[side][name] = counts[side].get(name, 0.0) + float(per_run[number])
                time[name] = time.get(name, 0.0) + float(ns[number])
    both = counts[0].keys() & counts[1].keys()
    other = [name for name in both if abs(np.log(counts[1][name] / counts[0][name])) > _ANOTHER]
    if not other or sum(time[name] for name in other) < _MOSTLY * sum(time[name] for name in both):
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


def few_steps(frame: Frame) -> bool:
    """Whether no phase has steps enough to be judged, so that launches are what can be."""
    return not any(one.judged for one in frame.phases)
