"""What the first sentence is of: the change as measured, its largest parts, and steps that stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.kernels import regular
from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison.cells import STEP, Measured, Part, PhaseCells
from tracediff.comparison.places import SURE
from tracediff.comparison.shown import FIRST
from tracediff.comparison.verdict import ROUNDING, WORTH
from tracediff.model import Finding, VerdictFacts
from tracediff.model.causes import BUSY, SURELY
from tracediff.model.common import SIDES
from tracediff.model.observed import Observed, ObservedPart, Stops
from tracediff.stats.noise import Estimate
from tracediff.stats.rules import LITTLE, MOSTLY, NEARLY
from tracediff.stats.workload import stop_of

# Of the typical step: what is longer by less does not stop. At a half, planted stops of 8.0 ms in steps of 16.1 ms are missed.
_FAR = 0.2
_EXPLAINED = 0.8  # of the change: what a first sentence explains of it, before it stops naming causes


def observe(
    measured: Measured, first: tuple[PhaseCells, Part], facts: VerdictFacts, findings: Sequence[Finding]
) -> Observed:
    """The change of the phase that the verdict rests on, in its typical step or in its mean."""
    one, part = first
    if measured.frame.once:
        return _of_captures(measured, one, facts, findings)
    found = _observed(one, part.estimate, STEP, "mean" if part.name == "mean" else "typical")
    stops = _stops(measured, one) if part.name == "mean" else None
    parts = _parts(found, one, findings) + _elsewhere(measured, found, findings)
    return replace(found, parts=parts, stops=stops, hosts=part.sample.hosts)


def _of_captures(
    measured: Measured, one: PhaseCells, facts: VerdictFacts, findings: Sequence[Finding]
) -> Observed:
    """Their GPU time, where that carries the verdict; else their length."""
    if facts.basis == "gpu":
        busy = one.mean.grouped([[measured.layout.categories[name] for name in BUSY]])
        found = _observed(one, busy, 0, "gpu")
    else:
        found = _observed(one, one.mean.estimate, STEP, "length")
    return replace(found, parts=_parts(found, one, findings), hosts=one.mean.sample.hosts)


def _observed(
    one: PhaseCells, of: Estimate, cell: int, what: Literal["typical", "mean", "length", "gpu"]
) -> Observed:
    return Observed(one.steps.phase, what, **of.change(cell), host_speed_ns=float(of.host_speed[cell]))


class _Told(NamedTuple):
    """A cause and what it has of the change, ns."""

    size: float
    cause: Finding

    @property
    def sure(self) -> bool:
        """Whether it is more than noise."""
        return self.cause.level in SURE


def _parts(found: Observed, phase: PhaseCells, findings: Sequence[Finding]) -> list[ObservedPart]:
    """The causes that go with the change, what surely goes against it, the one without which these would not add up to it, and what rare steps surely add."""
    causes = _Causes(found, phase, [one for one in findings if one.cause != "batch_mix"])
    told = causes.with_it() + causes.against_it()
    told += causes.missing(told)
    told += causes.rarely(told)
    return [ObservedPart(one.cause.rank, one.size, one.size / causes.delta) for one in told]


class _Causes:
    """The causes of an observed change: the largest with it, then those that are more than noise, by size."""

    def __init__(self, found: Observed, phase: PhaseCells, causes: Sequence[Finding]) -> None:
        self.delta = found.delta_ns or ROUNDING  # of causes that cancel to the nanosecond as well
        self._change, self._of_noise = abs(found.delta_ns), found.ci_low_ns <= 0 <= found.ci_high_ns
        self._worth = WORTH * phase.step_ns  # of a smaller change only what is more than noise
        # what is sure is told however little of a change it is that may be noise: that would hide it
        self._most = SURELY * phase.step_ns if self._of_noise else np.inf
        self._rare = [_Told(_in_rare_steps(one, found), one) for one in causes]
        own = [
            _Told(_size(one, found) or rare.size * self._of_noise, one)
            for one, rare in zip(causes, self._rare, strict=True)
        ]
        own.sort(key=lambda one: (-self._with(one), one.cause.rank))
        self._own = own[:1] + sorted(own[1:], key=lambda one: not one.sure)

    def _with(self, one: _Told) -> float:
        return one.size if self.delta > 0 else -one.size

    def with_it(self) -> list[_Told]:
        """As many as explain the change; of one that may be noise all that are sure."""
        told: list[_Told] = []
        least = max(LITTLE * self._change, self._worth)
        for one in self._own:
            hidden = self._of_noise and one.sure
            explained = sum(part.size / self.delta for part in told) >= _EXPLAINED
            if len(told) == FIRST or (explained and not hidden):
                break
            enough = self._with(one) >= (min(least, self._most) if hidden else least)
            if enough and (one.sure or self._change >= self._worth):
                told.append(one)
        return told

    @property
    def _least(self) -> float:
        return min(max((1 - _EXPLAINED) * self._change, self._worth), self._most)

    def against_it(self) -> list[_Told]:
        """What surely moved most the other way, which the change would hide."""
        return [one for one in self._own if one.sure and -self._with(one) >= self._least][-1:]

    def missing(self, told: Sequence[_Told]) -> list[_Told]:
        """The cause that holds most of what sure ones leave of the typical step's change, where that is half of the largest of them or more."""
        rare = {one.cause.rank for one in self._rare if one.size}
        own = [one for one in told if one.cause.rank not in rare]
        rest = self.delta - sum(one.size for one in own)
        largest = max((abs(one.size) for one in own), default=np.inf)
        if not any(one.sure for one in told) or abs(rest) <= MOSTLY * largest:
            return []
        others = [one for one in self._own if one not in told and one.cause.rank not in rare]
        return [one for one in others if one.size / rest > MOSTLY][:1]

    def rarely(self, told: Sequence[_Told]) -> list[_Told]:
        """What rare steps surely add to a typical one."""
        most = max(self._rare, key=lambda one: abs(one.size), default=None)
        known = {one.cause.rank for one in told}
        return [most] if most and most.cause.rank not in known and abs(most.size) >= self._least else []


def _elsewhere(measured: Measured, found: Observed, findings: Sequence[Finding]) -> list[ObservedPart]:
    """The sure cause of another phase that changes most of all steps, where it changes as much of them as what is told does."""
    share = {one.steps.phase: one.steps.share for one in measured.phases}
    of_all = {one.rank: share.get(one.where.phase or "", 0.0) * abs(one.delta_ns) for one in findings}
    least = max(share[found.phase] * abs(found.delta_ns), SURELY * float(measured.whole.baseline[STEP]))
    others = [
        one
        for one in findings
        if one.level in SURE
        and one.where.phase != found.phase
        and not _size(one, found)
        and of_all[one.rank] >= least
    ]
    largest = max(others, key=lambda one: of_all[one.rank], default=None)
    return [ObservedPart(largest.rank, largest.delta_ns, 0.0)] if largest else []


def _size(one: Finding, found: Observed) -> float:
    """What a cause has of the change, in the step that it is of; whole captures have no other."""
    own = [(one.where.phase, one.part, one.delta_ns)]
    own += [(other.phase, other.part, other.delta_ns) for other in one.phases]
    wanted = (found.of,) if found.of in ("typical", "mean") else ("typical", "tail")
    return sum(size for phase, part, size in own if phase == found.phase and part in wanted)


def _in_rare_steps(one: Finding, found: Observed) -> float:
    """What a sure cause adds to the mean step beside a typical one that may not have changed."""
    here = found.of == "typical" and one.where.phase == found.phase
    return one.delta_ns if here and one.part == "tail" and one.level in SURE else 0.0


# Steps that stop.


def _stops(measured: Measured, one: PhaseCells) -> Stops | None:
    """How many steps of a phase stop, for how long, and whether each k-th does; None where single long steps have no likeness."""
    frame, typical = measured.frame, one.typical.estimate
    at = int(one.mean.estimate.delta[STEP] > 0)
    side, ns = frame.steps["side"].to_numpy(), frame.steps["ns"].to_numpy().astype(np.float64)
    inside = one.steps.inside  # as the mean that they explain
    usual = np.array([typical.baseline[STEP], typical.candidate[STEP]])
    here, there = (np.flatnonzero(inside & (side == number)) for number in (at, 1 - at))
    more = ns[here] - usual[at]
    least = _stop_of(more, float(usual[at]))
    chosen = more >= least
    if not chosen.any():
        return None
    others = int((ns[there] - usual[1 - at] >= least).sum())
    often, on_other = chosen.mean(), others / max(len(there), 1)
    if often < NEARLY * (often + on_other):
        return None
    every = _period(frame.steps, inside, here[chosen])
    length = float(np.median(more[chosen]))
    return Stops(one.steps.phase, SIDES[at], int(chosen.sum()), len(here), others, len(there), every, length)


def stops_of_one(steps: pl.DataFrame) -> Stops | None:
    """The same of the steps of one phase of one side alone, beside its median step. The first of a capture is a start."""
    inside = (
        steps.select(pl.col("period") > pl.col("period").min().over("run", "part")).to_series().to_numpy()
    )
    ns = steps["ns"].to_numpy().astype(np.float64)[inside]
    usual = float(np.median(ns)) if len(ns) else 0.0
    more = ns - usual
    chosen = more >= _stop_of(more, usual)
    if not chosen.any():
        return None
    every = _period(steps, inside, np.flatnonzero(inside)[chosen])
    length, phase = float(np.median(more[chosen])), str(steps["phase"][0])
    return Stops(phase, "baseline", int(chosen.sum()), len(ns), 0, 0, every, length)


def _stop_of(more: Floats, usual: float) -> float:
    """`stop_of`; infinite where many steps stop, or the long ones have no likeness."""
    least = stop_of(more, _FAR * usual)
    chosen = more >= least
    alike = more[chosen].sum() >= NEARLY * more[more > _FAR * usual].sum()
    return least if alike and chosen.sum() < MOSTLY * len(chosen) else np.inf


def _period(steps: pl.DataFrame, inside: Bools, stops: Ints) -> int:
    """The number of steps of the phase from stop to stop; 0 where they are not regular."""
    of = ("side", "run", "part", "rank", "device")
    own = steps.filter(pl.Series(inside)).with_columns(
        place=pl.int_range(pl.len()).over(of, order_by="start_ns")
    )
    chosen = steps[stops.tolist()].select(*of, "start_ns").join(own, on=[*of, "start_ns"], how="left")
    ahead = chosen.sort(*of, "place").select(ahead=pl.col("place").diff().over(of)).to_series()
    return regular(ahead.drop_nulls().to_numpy())
