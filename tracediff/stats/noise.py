"""What two sides differ by in many cells, and between which bounds a repeat would find it; knows nothing of traces.

    log(time of a cell in a run) = log(truth) + beta z + e,  e ~ t with NU degrees of freedom
    z: log ratio of the host's speed in that run; beta: 0 for time of the GPU and for waits

The difference is candidate - baseline, as it was measured. Its interval reaches from the smaller to the larger of two readings, the
measured difference and the one at equal host speed, and by the arms of both sides beyond them: what a side took cannot be less than
nothing, so that an arm downwards is a factor (Zou and Donner 2008 for the difference of two such intervals). Of a sum of cells the
squares of the arms add up, what a wrong slope costs adds up as it is. With more runs a side their own scatter replaces the usual one
(Smyth 2004). All times are ns per step. Exchanging the sides changes the sign of the difference and nothing else.

The constants are measured on 350 null pairs of single runs of seven programs (H100, H200); docs/nulls.md checks them on others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from tracediff.arrays import Bools, Floats, Ints
from tracediff.stats.student import above, quantile

Hosts = Literal["measured", "unknown", "one"]

NU = 5.0  # degrees of freedom of the usual scatter: the 95th percentile of host residuals is 2.9 robust deviations
BETA = 0.9  # log time of host code per unit of z: 0.83 to 1.08 in six programs, 0.4 to 1.4 in continuous batching
TAU = 0.3  # standard deviation of that slope: residuals of host time are 19 to 21 % where hosts are 1.5 to 2.2 apart
Z0 = 0.25  # standard deviation of beta z of a pair whose host speed was not measured: 0.29 x 0.9 over the null pairs
LEVER = 4.0  # host code behind GPU work counts so many times what is seen of it: 1.3 to 4.7 in programs that nulls of 30 % show
FLOOR = 50.0  # ns: kernels of one program differ by 30 to 90, gaps inside graphs by 46
SPLITS = 2_000  # permutations beyond which they are drawn at random: p = 0.05 is known to 0.005 then
_FAR = 60.0  # a quantile beyond which p is 0: with five degrees of freedom it is 2e-8 there


class Sample(msgspec.Struct, frozen=True):
    """The runs of both sides. values: (runs, cells) a side.

    speed: z of each run, a side, where `hosts` is measured; `unknown`: no function tells it; `one`: the runs were recorded in turns on
    one machine, so that no host is faster. step_variance: of each side's mean, from the scatter of its steps, (cells,), dependence of
    neighbours included. unseen: what a side that shows nothing of a cell may have of it all the same, (cells,) a side. more: further runs of the
    baseline's program, (runs, cells), which tell of the scatter alone. paired: run k of both sides had the same requests.
    """

    values: tuple[Floats, Floats]
    speed: tuple[Floats, Floats] | None = None
    step_variance: tuple[Floats, Floats] | None = None
    unseen: tuple[Floats, Floats] | None = None
    more: Floats | None = None
    paired: bool = False
    hosts: Hosts = "one"

    @property
    def runs(self) -> tuple[int, int]:
        """Runs of each side."""
        return len(self.values[0]), len(self.values[1])

    @property
    def gap(self) -> float:
        """Log ratio of the candidate's host to the baseline's; positive: slower. 0 where it is not known."""
        return 0.0 if self.speed is None else float(self.speed[1].mean() - self.speed[0].mean())

    @property
    def df(self) -> int:
        """Degrees of freedom of the runs' own scatter."""
        one, other = self.runs
        own = one - 1 if self.paired else one + other - 2
        return own + (len(self.more) - 1 if self.more is not None and len(self.more) else 0)


class Noise(msgspec.Struct, frozen=True):
    """What runs of one program usually differ by. scatter: standard deviation of a run of each side, ns, (2, cells); host: (cells,).

    lever: of the host's code on each side, how many times what was seen of it there was, (2,): what ran while the GPU was busy comes to
    light where the host is slower.
    """

    scatter: Floats
    host: Bools
    lever: tuple[float, float] = (1.0, 1.0)


class Groups(NamedTuple):
    """Sums of cells: entry k says that cell `member[k]` is a part of sum `of[k]`; `many` sums."""

    member: Ints
    of: Ints
    many: int

    @classmethod
    def build(cls, groups: Sequence[Sequence[int] | npt.NDArray[np.intp]]) -> Groups:
        """From the cells of each sum."""
        member = np.array([cell for group in groups for cell in group], np.int64)
        of = np.repeat(np.arange(len(groups), dtype=np.int64), [len(group) for group in groups])
        return cls(member, of, len(groups))

    def add(self, values: Floats) -> Floats:
        """Sums of (..., cells) -> (..., many), added up in a fixed order."""
        flat = values.reshape(-1, values.shape[-1])
        found = [np.bincount(self.of, weights=row[self.member], minlength=self.many) for row in flat]
        return np.array(found, np.float64).reshape(*values.shape[:-1], self.many)

    def total(self, parts: Floats) -> Floats:
        """Sums of one value per entry, (entries,) -> (many,)."""
        return np.bincount(self.of, weights=parts, minlength=self.many).astype(np.float64)


class Estimate(msgspec.Struct, frozen=True):
    """Arrays over sums of cells. delta: candidate - baseline, as measured.

    host_speed: the part of it that hosts of unlike speed may explain, which is not taken out. low, high: 95 % interval. values: (runs, sums) a
    side; even: the same at equal host speed. usual: variance of a run that is usual for such a sum, of both sides.
    """

    baseline: Floats
    candidate: Floats
    delta: Floats
    host_speed: Floats
    low: Floats
    high: Floats
    p: Floats
    df: float
    values: tuple[Floats, Floats]
    even: tuple[Floats, Floats]
    usual: Floats

    @property
    def half(self) -> Floats:
        """Half the width of the interval."""
        return np.asarray((self.high - self.low) / 2)

    @property
    def clear(self) -> Bools:
        """Whether the interval leaves out 0."""
        return np.asarray((self.low > 0) | (self.high < 0))

    @property
    def near(self) -> Floats:
        """The end of the interval that is nearer to 0, as a size; 0 where it holds 0."""
        return np.asarray(np.where(self.clear, np.minimum(np.abs(self.low), np.abs(self.high)), 0.0))

    def error(self, cell: int) -> float:
        """The standard error that a t interval of half the width would have."""
        return float(self.half[cell] / quantile(self.df, 0.975))

    def about_same(self, cell: int, part: float) -> bool:
        """Whether a cell changed by less than `part` of it, and what may be noise leaves no room for much more."""
        delta = abs(float(self.delta[cell]))
        limit = part * float(max(self.baseline[cell], self.candidate[cell]))
        return delta <= limit and delta + float(self.half[cell]) <= 3 * limit

    def change(self, cell: int) -> dict[str, Any]:
        """One cell as the fields of a row: baseline_ns, candidate_ns, delta_ns, and the interval of that."""
        names = ("baseline", "candidate", "delta", "low", "high")
        fields = ("baseline_ns", "candidate_ns", "delta_ns", "ci_low_ns", "ci_high_ns")
        return {field: float(getattr(self, name)[cell]) for name, field in zip(names, fields, strict=True)}

    def take(self, index: Sequence[int] | npt.NDArray[np.intp]) -> Estimate:
        """Some of the cells."""
        at = np.asarray(index, np.intp)
        one = {
            name: getattr(self, name)[at]
            for name in ("baseline", "candidate", "delta", "host_speed", "low", "high", "p", "usual")
        }
        values, even = ((of[0][:, at], of[1][:, at]) for of in (self.values, self.even))
        return Estimate(df=self.df, values=values, even=even, **one)


def estimate(
    sample: Sample, noise: Noise, groups: Groups | None = None, least: Floats | None = None
) -> Estimate:
    """The difference of every sum of cells. `least`: standard deviation of a run that a sum has at least, as a part of it, (sums,)."""
    cells = sample.values[0].shape[1]
    groups = groups or Groups(np.arange(cells), np.arange(cells), cells)
    host = _host(sample, noise)
    values = groups.add(sample.values[0]), groups.add(sample.values[1])
    even = groups.add(host.even[0]), groups.add(host.even[1])
    arms = _Arms(sample, noise, host, groups, even, least)
    baseline, candidate = (one.mean(axis=0) for one in values)
    delta, at_equal = candidate - baseline, even[1].mean(axis=0) - even[0].mean(axis=0)
    df = NU + sample.df
    down, up = arms.at(np.full(groups.many, arms.q))
    return Estimate(
        baseline=baseline,
        candidate=candidate,
        delta=delta,
        host_speed=delta - at_equal,
        low=np.minimum(delta, at_equal) - down,
        high=np.maximum(delta, at_equal) + up,
        p=2 * above(df, arms.touching(delta, at_equal)),
        df=df,
        values=values,
        even=even,
        usual=arms.usual,
    )


class _Host(NamedTuple):
    """What the speed of the hosts explains. even: values at equal speed; shared: what is unsure of it per unit of q, (cells,)."""

    even: tuple[Floats, Floats]
    shared: Floats


def _host(sample: Sample, noise: Noise) -> _Host:
    """Only the time that both sides have may move with the host."""
    one, other = (values.mean(axis=0) for values in sample.values)
    if sample.speed is None:  # what the GPU hides is no part of a guess
        unsure = Z0 if sample.hosts == "unknown" else 0.0
        return _Host(
            sample.values, np.where(noise.host, unsure * np.maximum(np.minimum(one, other), 0.0), 0.0)
        )
    speed, gap = sample.speed, sample.gap
    beta, error = _slope(sample, noise)

    def of_both(levers: tuple[float, float]) -> Floats:  # as both hosts of the mean speed would take it
        before, after = one * levers[0] * np.exp(beta * gap / 2), other * levers[1] * np.exp(-beta * gap / 2)
        return np.asarray(np.maximum(np.minimum(before, after), 0.0))

    # all that ran behind the GPU comes to light where as much came to light as a host of that speed would bring
    with np.errstate(divide="ignore", invalid="ignore"):
        risen = np.nan_to_num((other - one) / (2 * np.sinh(beta * gap / 2)))
    usual = min(noise.lever[0], LEVER), min(noise.lever[1], LEVER)
    common = np.maximum(of_both(usual), np.minimum(of_both(noise.lever), risen))
    middle = (speed[0].mean() + speed[1].mean()) / 2
    even = tuple(
        values - common * np.expm1(np.outer(of - middle, beta))
        for values, of in zip(sample.values, speed, strict=True)
    )
    return _Host((even[0], even[1]), error * abs(gap) * common)


def _slope(sample: Sample, noise: Noise) -> tuple[Floats, Floats]:
    """Beta of every cell and its error: the usual slope, and the runs of a side where their hosts differ."""
    assert sample.speed is not None
    precision = np.zeros(len(noise.host))
    weighed = np.zeros(len(noise.host))
    for values, speed, variance, lever in zip(
        sample.values, sample.speed, _run_variance(sample, noise), np.minimum(noise.lever, LEVER), strict=True
    ):
        mean, z = values.mean(axis=0), speed - speed.mean()
        known = noise.host & (mean > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(known, (lever * mean) ** 2 / variance, 0.0)
            moved = np.where(known, (z[:, None] * (values / mean - 1)).sum(axis=0) / lever, 0.0)
        precision = precision + weight * float((z**2).sum())
        weighed = weighed + weight * moved
    precision, weighed = precision + 1 / TAU**2, weighed + BETA / TAU**2  # last: exchanged sides add up alike
    return np.where(noise.host, weighed / precision, 0.0), np.where(noise.host, precision**-0.5, 0.0)


def _run_variance(sample: Sample, noise: Noise) -> list[Floats]:
    """The usual variance of a run of each side, (cells,): between runs, of its steps, and of what is too small to measure."""
    nothing = np.zeros(sample.values[0].shape[1])
    return [
        scatter**2 + steps * len(values) + FLOOR**2 * (values.mean(axis=0) != 0)
        for values, scatter, steps in zip(
            sample.values, noise.scatter, sample.step_variance or (nothing, nothing), strict=True
        )
    ]


class _Arms:
    """How far the interval of each sum reaches beyond its readings, for any quantile."""

    def __init__(
        self,
        sample: Sample,
        noise: Noise,
        host: _Host,
        groups: Groups,
        even: tuple[Floats, Floats],
        least: Floats | None,
    ) -> None:
        member, of = groups.member, groups.of
        self._groups = groups
        self._shared = groups.total(host.shared[member])
        self._runs = np.array(sample.runs)[:, None]
        means = np.array([values.mean(axis=0) for values in sample.values])
        nothing = np.zeros_like(means)
        usual = [groups.total(one[member]) for one in _run_variance(sample, noise)]
        self._least = np.zeros(groups.many) if least is None else least
        self._sizes = np.abs([one.mean(axis=0) for one in even])
        usual = [
            np.maximum(one, (self._least * size) ** 2) for one, size in zip(usual, self._sizes, strict=True)
        ]
        self.usual = (usual[0] + usual[1]) / 2
        # the scatter of a sum comes of its own runs, not of its cells': cells of one run move together
        self._scale = np.sqrt((NU + _squares(even, sample, groups, usual)) / (NU + sample.df))
        # runs that scatter more than is usual say how far, and not that a factor does
        self._more = np.maximum(self._scale, 1.0)[of]
        # of both sides, (2, entries)
        self._mean = means[:, member]
        self._scatter = (np.asarray(noise.scatter) / np.sqrt(self._runs))[:, member]
        self._error = np.sqrt(sample.step_variance or nothing)[:, member]
        self._unseen = np.asarray(sample.unseen or nothing)[:, member]
        self.q = float(quantile(NU + sample.df, 0.975))

    def at(self, q: Floats) -> tuple[Floats, Floats]:
        """Down and up, (sums,) each, at a quantile of each."""
        less, more = self._arms(q)
        least_less, least_more = self._at_least(q)
        shared = (q * self._shared) ** 2
        down = np.maximum(more[0] + less[1] + shared, least_more[0] + least_less[1])
        up = np.maximum(less[0] + more[1] + shared, least_less[0] + least_more[1])
        return np.sqrt(down), np.sqrt(up)

    def _arms(self, q: Floats) -> tuple[list[Floats], list[Floats]]:
        """Squares of the arms of each side, towards less and towards more."""
        of, mean, size = self._groups.of, self._mean, np.abs(self._mean)
        scale = (q * self._scale)[of]
        scatter, error = scale * self._scatter, scale * self._error
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(size > 0, np.hypot(scatter, error) / size, 0.0)
            factor = np.where(size > 0, np.minimum(scatter / size / self._more, _FAR), 0.0)
        floor = (scale * FLOOR) ** 2 / self._runs * (size > 0)
        inward = (size * -np.expm1(-part)) ** 2 + floor
        unseen = self._unseen * q[of] / self.q
        outward = (size * self._more * np.expm1(factor)) ** 2 + error**2 + unseen**2 + floor
        less, more = np.where(mean >= 0, inward, outward), np.where(mean >= 0, outward, inward)
        return [self._groups.total(one) for one in less], [self._groups.total(one) for one in more]

    def _at_least(self, q: Floats) -> tuple[Floats, Floats]:
        """Squares of the arms that a sum has at least on each side, towards less and towards more."""
        factor = np.minimum(q * self._scale * self._least / np.sqrt(self._runs), _FAR)
        return (self._sizes * -np.expm1(-factor)) ** 2, (self._sizes * np.expm1(factor)) ** 2

    def touching(self, delta: Floats, at_equal: Floats) -> Floats:
        """The quantile at which the interval touches 0; 0 where its readings lie on both sides of it."""
        size = np.where(delta * at_equal > 0, np.minimum(np.abs(delta), np.abs(at_equal)), 0.0)
        low, high = np.zeros(len(size)), np.full(len(size), _FAR)
        for _ in range(40):
            middle = (low + high) / 2
            down, up = self.at(middle)
            inside = np.where(delta > 0, down, up) < size
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(size > 0, low, 0.0)


def _squares(even: tuple[Floats, Floats], sample: Sample, groups: Groups, usual: Sequence[Floats]) -> Floats:
    """Squares of the runs about the mean of their side, in units of their usual scatter, (sums,)."""
    more = [] if sample.more is None or not len(sample.more) else [(groups.add(sample.more), usual[0])]
    found = np.zeros(groups.many)
    for values, variance in [(even[0], usual[0]), (even[1], usual[1]), *more]:
        squares = ((values - values.mean(axis=0)) ** 2).sum(axis=0)
        found += np.divide(squares, variance, out=np.zeros_like(squares), where=variance > 0)
    return found


def paired(sample: Sample) -> Sample:
    """The sample without what the runs of a pair have in common: what is left scatters by half of each pair's difference."""

    def apart(one: Floats, other: Floats) -> tuple[Floats, Floats]:
        common = (one + other) / 2
        common = common - common.mean(axis=0)
        return one - common, other - common

    speed = None if sample.speed is None else apart(*sample.speed)
    return Sample(
        apart(*sample.values), speed, sample.step_variance, sample.unseen, sample.more, True, sample.hosts
    )


def splits(runs: tuple[int, int], *, pairs: bool = False, seed: int = 0) -> Bools:
    """Which runs are called candidate, (splits, runs of both): all ways, or `SPLITS` random ones; the true one first.

    `pairs`: one run of each pair.
    """
    total, size = sum(runs), runs[1]
    if pairs:
        if 2**size <= SPLITS:
            kept = (np.arange(2**size)[:, None] >> np.arange(size)) & 1 == 0
        else:
            kept = np.random.default_rng(seed).random((SPLITS, size)) < 0.5
            kept[0] = True
        return np.concatenate([~kept, kept], axis=1)
    true = np.arange(total) >= runs[0]
    if math.comb(total, size) <= SPLITS:
        chosen = np.zeros((math.comb(total, size), total), np.bool_)
        for row, members in enumerate(combinations(range(total), size)):
            chosen[row, list(members)] = True
        rest = chosen[(chosen != true).any(axis=1)]
        return np.concatenate([true[None], rest])
    keys = np.random.default_rng(seed).random((SPLITS - 1, total))
    drawn = np.argsort(np.argsort(keys, axis=1), axis=1) < size
    return np.concatenate([true[None], drawn])


def permuted_t(found: Estimate, groups: Bools, *, pairs: bool = False) -> Floats:
    """|t| of every sum with the runs dealt out anew, (splits, sums): whole runs, at equal host speed."""
    runs = len(groups[0])
    return dealt_t(found.even, found.usual, NU, groups, runs // 2 - 1 if pairs else runs - 2)


def dealt_t(values: tuple[Floats, Floats], usual: Floats, nu: float, groups: Bools, df: int) -> Floats:
    """|t| of every figure with the runs dealt out anew, (splits, figures). usual: variance, which counts for `nu` degrees of freedom."""
    every = np.concatenate(values)
    every = every - every.mean(axis=0)  # without a common part, nothing cancels
    other = groups.astype(np.float64)
    many = other.sum(axis=1, keepdims=True), (1 - other).sum(axis=1, keepdims=True)
    high, low = other @ every, (1 - other) @ every
    delta = high / many[0] - low / many[1]
    squares = np.maximum((every**2).sum(axis=0) - high**2 / many[0] - low**2 / many[1], 0.0)
    error = np.sqrt((nu * usual + squares) / (nu + df) * (1 / many[0] + 1 / many[1]))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error == 0, np.where(delta == 0, 0.0, np.inf), np.abs(delta) / error)


def permutation_p(t: Floats) -> Floats:
    """P of each sum from `permuted_t`: the part of the splits, the true one among them, that are as extreme."""
    return np.asarray((~(t < t[0] * (1 - 1e-9))).mean(axis=0))  # what is unknown is no evidence
