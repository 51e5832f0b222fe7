"""What the first sentence is of: the change as measured, its largest parts, and steps that stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import Floats, Ints
from tracediff.accounting.kernels import regular
from tracediff.comparison.cells import STEP, Measured, Part, PhaseCells
from tracediff.comparison.places import SURE
from tracediff.comparison.shown import FIRST
from tracediff.comparison.verdict import ROUNDING, WORTH
from tracediff.model import Finding, VerdictFacts
from tracediff.model.causes import BUSY, SURELY
from tracediff.model.common import SIDES
from tracediff.model.observed import Observed, ObservedPart, Stops
from tracediff.stats.noise import Bools, Estimate
from tracediff.stats.tests import LITTLE, MOSTLY, NEARLY
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


def _parts(found: Observed, phase: PhaseCells, findings: Sequence[Finding]) -> list[ObservedPart]:
    """The largest cause, then those that are more than noise, by size; then what surely moved most the other way, which the change would hide.

    What is sure is told however little of a change it is that may be noise: that would hide it as well. Then the cause without
    which that would not add up to the change, and what rare steps surely add to a typical one.
    """
    delta = found.delta_ns or ROUNDING  # of causes that cancel to the nanosecond as well
    sign = 1 if delta > 0 else -1
    worth = abs(found.delta_ns) >= WORTH * phase.step_ns  # of less, only what is more than noise
    of_noise = found.ci_low_ns <= 0 <= found.ci_high_ns
    causes = [one for one in findings if one.cause != "batch_mix"]
    rare = {one.rank: _in_rare_steps(one, found) for one in causes}
    sizes = [(_size(one, found) or rare[one.rank] * of_noise, one) for one in causes]
    sizes.sort(key=lambda one: (-sign * one[0], one[1].rank))
    sizes[1:] = sorted(sizes[1:], key=lambda one: one[1].level == "within_noise")
    most = SURELY * phase.step_ns if of_noise else np.inf  # that what is sure needs to have
    least = max(LITTLE * abs(found.delta_ns), WORTH * phase.step_ns)
    told: list[tuple[float, Finding]] = []
    for size, one in sizes:
        hidden = of_noise and one.level in SURE
        explained = sum(size / delta for size, _ in told) >= _EXPLAINED
        if len(told) == FIRST or (explained and not hidden):
            break
        if sign * size >= (min(least, most) if hidden else least) and (worth or one.level in SURE):
            told.append((size, one))
    least = min(max((1 - _EXPLAINED) * abs(found.delta_ns), WORTH * phase.step_ns), most)
    told += [one for one in sizes if -sign * one[0] >= least and one[1].level in SURE][-1:]
    known = {one.rank for _, one in told}
    # of the typical step: what the causes that are told leave of it
    own = [size for size, one in told if not rare[one.rank]]
    rest = found.delta_ns - sum(own)
    sure = any(one.level in SURE for _, one in told)
    if own and sure and abs(rest) > MOSTLY * max(map(abs, own)):
        told += [
            (size, one)
            for size, one in sizes
            if one.rank not in known and size / rest > MOSTLY and not rare[one.rank]
        ][:1]
    most_rare = max(causes, key=lambda one: abs(rare[one.rank]), default=None)
    if most_rare and most_rare.rank not in known and abs(rare[most_rare.rank]) >= least:
        told.append((rare[most_rare.rank], most_rare))
    return [ObservedPart(one.rank, size, size / delta) for size, one in told]


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
    inside = one.steps.rest > 0
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
    return Stops(
        str(steps["phase"][0]),
        "baseline",
        int(chosen.sum()),
        len(ns),
        0,
        0,
        every,
        float(np.median(more[chosen])),
    )


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
