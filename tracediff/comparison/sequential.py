"""When enough runs have been made: an interval of the step's change that may be looked at after every pair of runs.

A fixed 95 % interval that is looked at again and again excludes the truth far more often than in 5 % of the cases.
Here it is a confidence sequence: with probability 1 - alpha it holds the true difference after every pair at
once, however many are made and whatever decides to stop (Ville's inequality). It is the one that the t test with
a normal prior of variance G on the effect size (difference over standard deviation) gives, the scale integrated out:
Lai (1976); Perez-Ortiz, Lardy, de Heide and Gruenwald (2024) show that its Bayes factor is an e-process:

    B_n = (1 + n G)^(-1/2) ((1 + t^2/v) / (1 + t^2/(v (1 + n G))))^(n/2),  v = n - 1; the interval holds every
    difference for which B_n < 1 / alpha

Unit is the pair: candidate run minus the baseline run beside it in time, so that drift of the machine cancels.
Exact for normal differences; tests/comparison/test_sequential.py simulates others. The price of looking after every
pair: the interval is 1.6 to 1.9 times as wide as one that is looked at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import sum_by
from tracediff.arrays import Floats
from tracediff.comparison.cells import idle_groups, idle_rows
from tracediff.comparison.frame import CellSums, Frame, Values, build_frame
from tracediff.comparison.kernel_answer import bearing, no_such_kernel
from tracediff.comparison.measures import KERNEL, STEP, Measure, by_run, no_such_place
from tracediff.comparison.places import calls_of
from tracediff.errors import UsageError
from tracediff.execution.sides import Side, parts_of, steps_table, tagged
from tracediff.model.causes import BUSY
from tracediff.stats.tests import ALPHA as ALPHA

METHOD = "always-valid confidence sequence of paired runs (t test, normal mixture)"
_PRIOR = 4.0  # G: narrowest for 5 to 10 pairs (see the table in docs/nulls.md)

Answer = Literal["changed", "narrow"]


class Known(msgspec.Struct, frozen=True):
    """What is known after some pairs, ns per step. Bounds are infinite while too few pairs say nothing."""

    pairs: int
    baseline_ns: float
    delta_ns: float
    low_ns: float
    high_ns: float

    @property
    def half_ns(self) -> float:
        """Half-width of the interval."""
        return (self.high_ns - self.low_ns) / 2

    def recorded(self, wanted_ns: float, alpha: float) -> dict[str, Any]:
        """What the manifest of a bundle keeps of it; None: no bound."""
        times = {"baseline_ns": self.baseline_ns, "delta_ns": self.delta_ns}
        times |= {"low_ns": self.low_ns, "high_ns": self.high_ns, "wanted_ns": wanted_ns}
        rounded = {name: finite(value) for name, value in times.items()}
        return {"pairs": self.pairs, **rounded, "alpha": alpha, "method": METHOD}


class Look(Known, frozen=True):
    """Whether it is known well enough."""

    wanted_ns: float  # half-width that is wanted
    answer: Answer | None  # None: go on


def finite(value: float) -> float | None:
    """A time to a tenth of a ns; None where it is not known."""
    return round(value, 1) if math.isfinite(value) else None


def confidence_sequence(
    differences: Sequence[float] | Floats, *, alpha: float = ALPHA, prior: float = _PRIOR
) -> tuple[float, float]:
    """Return the interval (low, high) of the mean of paired differences after len(differences) pairs."""
    values = np.asarray(differences, np.float64)
    n = len(values)
    if n < 2:
        return -math.inf, math.inf
    wide = 1 + n * prior
    # B_n < 1/alpha solved for t^2 / v
    ratio = (math.sqrt(wide) / alpha) ** (2 / n)
    if ratio >= wide:
        return -math.inf, math.inf
    bound = (ratio - 1) / (1 - ratio / wide)
    half = float(values.std(ddof=1)) * math.sqrt((n - 1) * bound / n)
    mean = float(values.mean())
    return mean - half, mean + half


def look(baseline: Floats, candidate: Floats, *, wanted: float, relative: bool, alpha: float = ALPHA) -> Look:
    """Say whether these pairs are enough. `wanted`: half-width in ns, or as a share of the baseline's mean.

    `baseline[k]` and `candidate[k]` are the step times of one pair, ns.
    """
    low, high = confidence_sequence(candidate - baseline, alpha=alpha)
    mean = float(baseline.mean())
    target = wanted * mean if relative else wanted
    answer: Answer | None = None
    if low > 0 or high < 0:
        answer = "changed"
    elif (high - low) / 2 <= target:
        answer = "narrow"
    return Look(len(baseline), mean, float((candidate - baseline).mean()), low, high, target, answer)


def run_values(measure: Measure, baseline: Side, candidate: Side) -> tuple[Floats, Floats]:
    """The measure in each run of both sides, ns per step at equal workload; a run without such steps has the mean of its side.

    Of a phase, its typical step. Of the step, the typical steps of the phases that can be judged, weighted by their shares: a phase of
    a few steps a run (one prefill) would widen the interval and say nothing; it counts where there is no other. Of
    anything else the mean of all compared steps, so that rare steps and first uses count, as in the accounting of a result.

    Raises `TracediffError`: no-common-strata, run-without-steps, no-such-phase, no-such-place, no-such-kernel, and
    measure-by-run for counts and quantiles.
    """
    sides = (baseline, candidate)
    by_run(measure)
    frame = build_frame(steps_table(sides), (len(baseline.runs), len(candidate.runs)))
    phases = [one for one in frame.phases if one.phase == measure.phase] if measure.phase else frame.phases
    if not phases:
        names = ", ".join(one.phase for one in frame.phases)
        raise UsageError(
            "no-such-phase", f"no {measure.phase} steps were compared, only {names}", fix="a phase of these"
        )
    if measure.quantity == STEP:
        phases = [phase for phase in phases if phase.judged] or phases
    typical = bool(measure.phase) or measure.quantity == STEP
    table = CellSums.of(_values(measure, frame, sides), 1)
    times = [np.zeros(many) for many in frame.runs]
    whole = sum(phase.share for phase in phases)
    for phase in phases:
        plain = phase.klass * 0
        parts = [(1 - phase.start_share, phase.rest, phase.klass), (phase.start_share, phase.start, plain)]
        for part, weight, klass in [(1.0, phase.typical, phase.klass)] if typical else parts:
            if not part:
                continue
            found = frame.sums(table, weight, klass, variance=False)
            for side, values in enumerate(found.values):
                own = np.full(frame.runs[side], found.means[side, 0])
                own[found.runs[side]] = values[:, 0]
                times[side] += phase.share / whole * part * own
    return times[0], times[1]


def _values(measure: Measure, frame: Frame, sides: tuple[Side, Side]) -> list[Values]:
    """What each step spends on the measure, as cell 0."""
    if measure.quantity == STEP:
        rows = np.arange(len(frame.steps))
        return [Values(rows, np.zeros(len(rows), np.int64), frame.steps["ns"].to_numpy())]
    if measure.quantity == KERNEL:
        return _kernel_values(measure.kernel, frame, sides)
    busy = [name for name in measure.categories if name in BUSY]
    every = np.arange(len(frame.steps))
    values = [Values(every, np.zeros(len(every), np.int64), frame.steps[name].to_numpy()) for name in busy]
    if len(busy) == len(measure.categories):
        return values
    idle = idle_rows(sides, with_gil=len({side.captured("gil") for side in sides}) == 1)
    many = sum_by(idle.rows["cell"].to_numpy(), len(idle.words), idle.rows["ns"].to_numpy())
    keys, group = idle_groups(idle, many)
    names = [
        (key.where, key.thread, key.holder, *calls)
        for key, calls in zip(keys, calls_of(sides, keys), strict=True)
    ]
    mine = np.array(
        [key.cause in measure.categories and measure.at(own) for key, own in zip(keys, names, strict=True)],
        np.bool_,
    )
    if measure.place and not mine.any():
        numbers = [number for number, key in enumerate(keys) if key.cause in measure.categories]
        places = list(dict.fromkeys(keys[number].where or keys[number].thread for number in numbers))
        near = (name for number in numbers for name in names[number])
        raise no_such_place(measure, places, near)
    chosen = idle.rows.filter(pl.Series(mine[group[idle.rows["cell"].to_numpy()]], dtype=pl.Boolean))
    step = frame.index.rows(chosen)
    return [Values(step, np.zeros(len(step), np.int64), chosen["ns"].to_numpy())]


def _kernel_values(name: str, frame: Frame, sides: tuple[Side, Side]) -> list[Values]:
    """Time of the accounting of all kernels of a name, as cell 0."""
    parts = parts_of(sides)
    every = [text for *_, part in parts for text in part.keys["name"]]
    mine = bearing(name, every)
    if not mine:
        raise no_such_kernel(name, every)
    found = []
    for side, run, number, part in parts:
        keys = np.array([text in mine for text in part.keys["name"]], np.bool_)
        rows = part.kernels.filter(pl.Series(keys[part.kernels["key"].to_numpy()], dtype=pl.Boolean))
        step = frame.index.rows(tagged(rows.select("period"), side, run, number))
        found.append(Values(step, np.zeros(len(step), np.int64), rows["share_ns"].to_numpy()))
    return found
