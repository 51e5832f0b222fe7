"""Where the level of a series changes, and whether it drifts. Knows nothing of commits and traces.

A series is split in two where the difference of the means is surest, and each part again (binary segmentation). A split
counts where t of the two means, with the variance moderated (Smyth 2004), is beyond chance:

    s^2 = (PRIOR * error^2 + SS) / (PRIOR + df)       p = places * series * P(|t| > t_observed)

`places`, where the series could have been split, and `series`, how many are searched, pay for the search (Bonferroni). Four things
keep it from being fooled: the ranks of the points (Mann and Whitney) must be as unlikely, so that two odd points at the end of sixty
are no change, whatever their size; a lone point that stands out is drawn to its neighbours first; points that follow their
neighbours count for fewer (lag-1 correlation); and what a straight line fits better than a step is a drift, not a step.
"""

from __future__ import annotations

import itertools
import math
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tracediff.arrays import Floats
from tracediff.stats.student import above, quantile
from tracediff.stats.tests import ALPHA

Places: TypeAlias = npt.NDArray[np.intp]

PRIOR = 4  # degrees of freedom that the known errors of the points count for
LEAST = 2  # points of a level: a single one may be an odd run
_SPIKE = 3.0  # standard deviations beyond both neighbours
_LEAST_DRIFT = 8  # points
_EXACT = 10  # points of the shorter part, up to which ranks are counted out
# Of few points, ranks cannot pay for the search of places as well: they need not with so many points on both sides, of so few or where
# so few tests are made in all.
_ENOUGH, _SHORT, _FEW_TESTS = 3, 20, 250
_SMALL = 1e-9  # of the mean: what is less is rounding


class Series(msgspec.Struct, frozen=True):
    """Values in order, none missing. errors: standard error that each is known to have; groups: no change lies between two of one group."""

    values: Floats
    errors: Floats
    groups: Places


class Change(msgspec.Struct, frozen=True):
    """A change of level before the point `at`. before, after: means of the levels; p: with the search paid for."""

    at: int
    before: float
    after: float
    low: float  # 95 % interval of after - before
    high: float
    p: float

    @property
    def delta(self) -> float:
        """After - before."""
        return self.after - self.before


class Drift(msgspec.Struct, frozen=True):
    """What the levels rise by from the first point to the last beside all changes, with its 95 % interval."""

    total: float
    low: float
    high: float
    p: float


def changes(series: Series, tests: int = 1, alpha: float = ALPHA) -> list[Change]:
    """The changes of level, in order. tests: series that are searched together."""
    calm = Series(_calmed(series.values), series.errors, series.groups)
    found: dict[int, float] = {}
    parts = [(0, len(calm.values))]
    while parts:
        first, last = parts.pop()
        change = _split(calm, first, last, tests)
        if change is not None and change.p <= alpha:
            found[change.at] = change.p
            parts += [(first, change.at), (change.at, last)]
    # A split of the whole may be none of the parts that it leaves: each beside its neighbours, the weakest out first. Those parts may
    # be too short for ranks to tell, which have told before.
    while found:
        said = [
            _judged(calm, *around, tests, by_ranks=False)
            for around in _around(sorted(found), len(calm.values))
        ]
        worst = max(said, key=lambda one: one.p)
        if worst.p <= alpha:
            return [replace(one, p=max(one.p, found[one.at])) for one in said]
        del found[worst.at]
    return []


def newest(series: Series, tests: int = 1) -> Change | None:
    """The last point beside the level before it: of one point, so no change yet. None where there is too little to compare with."""
    before = Series(_calmed(series.values[:-1]), series.errors[:-1], series.groups[:-1])
    ends = [one.at for one in changes(before, tests)]
    first, last = (ends[-1] if ends else 0), len(series.values)
    if last - first < LEAST + 1:
        return None
    values = np.append(before.values, series.values[-1])
    whole = Series(values, series.errors, series.groups)
    return _judged(whole, first, last - 1, last, tests, search=False)


def drift(series: Series, found: list[Change], tests: int = 1) -> Drift | None:
    """The slope that the levels between changes have in common; None of too few points."""
    n, ends = len(series.values), [0, *(one.at for one in found), len(series.values)]
    if n < _LEAST_DRIFT:
        return None
    values = _calmed(series.values)
    x = np.arange(n, dtype=np.float64)
    levels = [slice(a, b) for a, b in itertools.pairwise(ends)]
    longest = max(levels, key=lambda one: one.stop - one.start)
    places = _places(series.groups, longest.start, longest.stop) - longest.start
    if len(places) and _of_line(values[longest]) <= _gains(values[longest], places).max():
        return None  # a step, if anything
    x_own = np.concatenate([x[one] - x[one].mean() for one in levels])
    y_own = np.concatenate([values[one] - values[one].mean() for one in levels])
    slope = float(x_own @ y_own / (x_own @ x_own))
    rest = y_own - slope * x_own
    df = n - len(levels) - 1
    variance = _moderated(series.errors, float(rest @ rest), df, values)
    error = math.sqrt(variance / float(x_own @ x_own)) / _weight(rest)
    low, high, p = _tested(slope, error, df + PRIOR)
    reach = n - 1
    return Drift(slope * reach, low * reach, high * reach, min(1.0, p * tests))


def level(series: Series, first: int) -> tuple[float, float, float]:
    """Mean of the points from `first` on, and its 95 % interval."""
    values, errors = _calmed(series.values)[first:], series.errors[first:]
    rest = values - values.mean()
    df = len(values) - 1
    variance = _moderated(errors, float(rest @ rest), df, values)
    low, high, _ = _tested(
        float(values.mean()), math.sqrt(variance / len(values)) / _weight(rest), df + PRIOR
    )
    return float(values.mean()), low, high


def difference(series: Series, first: int, at: int, last: int) -> Change:
    """The means of [first, at) and [at, last) beside each other, at a place that is given: nothing is searched."""
    return _judged(
        Series(_calmed(series.values), series.errors, series.groups), first, at, last, 1, search=False
    )


def _around(found: list[int], n: int) -> list[tuple[int, int, int]]:
    ends = [0, *found, n]
    return list(zip(ends, found, ends[2:], strict=False))


def _places(groups: Places, first: int, last: int) -> Places:
    """Where [first, last) can be split: enough points on both sides, and not within a group."""
    inside = np.arange(first + LEAST, last - LEAST + 1)
    return np.asarray(inside[groups[inside] != groups[inside - 1]])


def _split(series: Series, first: int, last: int, tests: int) -> Change | None:
    """The surest split; None where there is none, or a straight line fits better."""
    places = _places(series.groups, first, last)
    if not len(places):
        return None
    gain = _gains(series.values[first:last], places - first)
    best = int(np.argmax(gain))
    if last - first >= _LEAST_DRIFT and _of_line(series.values[first:last]) > gain[best]:
        return None
    return _judged(series, first, int(places[best]), last, tests)


def _gains(values: Floats, left: Places) -> Floats:
    """What a split takes from the squares of the values about their mean, by the points on its left: the more, the surer."""
    sums, n = np.cumsum(values - values.mean()), len(values)
    return np.asarray(sums[left - 1] ** 2 * n / (left * (n - left)))


def _of_line(values: Floats) -> float:
    """What a straight line takes."""
    x = np.arange(len(values)) - (len(values) - 1) / 2
    return float((x @ (values - values.mean())) ** 2 / (x @ x))


def _judged(
    series: Series, first: int, at: int, last: int, tests: int, *, search: bool = True, by_ranks: bool = True
) -> Change:
    one, other = series.values[first:at], series.values[at:last]
    rest = np.concatenate([one - one.mean(), other - other.mean()])
    df = len(rest) - 2
    variance = _moderated(series.errors[first:last], float(rest @ rest), df, series.values[first:last])
    error = math.sqrt(variance * (1 / len(one) + 1 / len(other))) / _weight(rest)
    before, after = float(one.mean()), float(other.mean())
    low, high, p = _tested(after - before, error, df + PRIOR)
    if not search:
        return Change(at, before, after, low, high, min(1.0, p * tests))
    places = len(_places(series.groups, first, last))
    p *= places * tests
    if by_ranks and p <= ALPHA:
        short = last - first <= _SHORT or places * tests <= _FEW_TESTS
        enough = short and min(len(one), len(other)) >= _ENOUGH
        p = max(p, _by_ranks(one, other) * tests * (1 if enough else places))
    return Change(at, before, after, low, high, min(1.0, p))


def _by_ranks(one: Floats, other: Floats) -> float:
    """P of the ranks; exact where one part is short, for which the usual approximation is not made."""
    from scipy.stats import mannwhitneyu

    few = min(len(one), len(other)) <= _EXACT
    return float(mannwhitneyu(one, other, method="exact" if few else "asymptotic").pvalue)


def _moderated(errors: Floats, squares: float, df: int, values: Floats) -> float:
    known = float(np.mean(errors**2))
    least = (_SMALL * float(np.abs(values).mean())) ** 2
    return max((PRIOR * known + squares) / (PRIOR + max(df, 0)), least, 1e-300)


def _tested(value: float, error: float, df: float) -> tuple[float, float, float]:
    """95 % interval and p."""
    half = float(quantile(df, 0.975)) * error
    return value - half, value + half, 2 * float(above(df, abs(value) / error))


def _weight(rest: Floats) -> float:
    """What neighbours that are alike count for: square root of (1 - r) / (1 + r), r the lag-1 correlation; 1 where they are not."""
    total = float(rest @ rest)
    if len(rest) < _LEAST_DRIFT or total <= 0:
        return 1.0
    r = min(max(float(rest[1:] @ rest[:-1]) / total, 0.0), 0.9)
    return math.sqrt((1 - r) / (1 + r))


def _calmed(values: Floats) -> Floats:
    """The values, a lone one beyond both its neighbours drawn to `_SPIKE` standard deviations from the nearer."""
    if len(values) < 5:
        return values
    room = _SPIKE * 1.4826 * float(np.median(np.abs(np.diff(values)))) / math.sqrt(2)
    before, after = np.roll(values, 1), np.roll(values, -1)
    before[0], after[-1] = values[2], values[-3]  # the ends have their two neighbours on one side
    low, high = np.minimum(before, after) - room, np.maximum(before, after) + room
    return np.asarray(np.clip(values, low, high))
