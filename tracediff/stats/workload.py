"""What each step counts for: steps of equal workload against each other, every run alike; knows nothing of traces.

A *class* is a workload, given as a number per step. With w_rc the part of run r's steps that are of class c, and W_sc their sum over
the runs of side s, a step of run r weighs  pi_c / (n_r W_sc), where pi_c = W_0c W_1c / (W_0c + W_1c), scaled to sum to 1: classes
count by how much both sides have of them (overlap weights, Li, Morgan and Zaslavsky 2018). So a side's mean is
sum_c pi_c M_sc, M_sc the mean of the class, and classes that one side lacks count nothing.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tracediff.arrays import Bools, Floats, Ints

TRIM = 0.25  # of the steps of a run, at either end (the interquartile mean): what acts in fewer steps is rare, not typical
STOP = 3.0  # times the median step of its run: a longer step is never typical; first uses of a shape take 3.8 times as long
SHARED = 0.3  # of each side's steps, and of their time, must be of classes that both have: ops of one side alone would absorb what changed
MOST_CLASSES = 400  # beyond, a class of the thousands of steps that captures hold has too few to say anything
LEAST_FREEDOM = 10  # with fewer, which classes explain most is chance: a variance is known to 45 %


class Steps(msgspec.Struct, frozen=True):
    """Steps of one phase: side, run (numbered over all sides), and what is timed, ns. Arrays of one length."""

    side: Ints
    run: Ints
    ns: Floats


def trimmed(steps: Steps, eligible: Bools, klass: Ints, unit: Ints, *, stops: bool = False) -> Bools:
    """Those of the eligible steps that do not stop (but with `stops`), without the slowest and the fastest `TRIM` of these in their unit.

    A unit is a run, or a device of one of its ranks. Each beside the median of its class, so that a long workload is not taken for a slow step. Equal steps
    stay or go together.
    """
    apart, times = np.zeros(len(steps.ns)), np.ones(len(steps.ns))
    for one in np.unique(klass[eligible]):
        of_class = eligible & (klass == one)
        usual = np.median(steps.ns[of_class])
        apart[of_class] = steps.ns[of_class] - usual
        times[of_class] = steps.ns[of_class] / max(usual, 1.0)
    typical = np.zeros_like(eligible)
    for one in np.unique(unit[eligible]):
        inside = np.flatnonzero(eligible & (unit == one))
        if not stops:
            inside = inside[times[inside] <= STOP * np.median(times[inside])]
        typical[inside] = True
        cut = int(TRIM * len(inside))
        if cut:
            own = apart[inside]
            ordered = np.sort(own)
            typical[inside] = (own >= ordered[cut]) & (own <= ordered[len(own) - 1 - cut])
    return typical


def half_in_longer(values: Floats) -> float:
    """The size at which half of the sum lies in what is larger; 0 of nothing."""
    order = np.sort(values)[::-1]
    sums = np.cumsum(order)
    return float(order[np.searchsorted(sums, 0.5 * sums[-1])]) if len(order) else 0.0


def stop_of(more: Floats, far: Floats | float) -> float:
    """What a step that stops takes more at least than the typical one, of steps that take so much `more`; infinite where none goes beyond `far`.

    Half of the size at which half of what goes beyond lies in longer ones.
    """
    return 0.5 * half_in_longer(more[more > far]) or np.inf


def class_shares(steps: Steps, chosen: Bools, klass: Ints) -> Floats:
    """Pi of every class, (classes,); zeros where the first two sides share none."""
    sides = _class_weight(steps, chosen, klass)[:2]
    if len(sides) == 1:
        one = sides[0]
        return np.asarray(one / one.sum()) if one.any() else one
    both = sides[0] + sides[1]
    overlap = np.divide(sides[0] * sides[1], both, out=np.zeros(len(both)), where=both > 0)
    return np.asarray(overlap / overlap.sum()) if overlap.any() else overlap


def weights(steps: Steps, chosen: Bools, klass: Ints, shares: Floats) -> Floats:
    """What each step counts for in the mean of its side; 0 where it is not chosen. Those of a side sum to 1.

    A side without steps of a class that has a share gives its share to the others in proportion.
    """
    found = np.zeros(len(steps.side))
    class_weight = _class_weight(steps, chosen, klass, len(shares))
    per_run = np.bincount(steps.run[chosen], minlength=int(steps.run.max(initial=0)) + 1)
    for side, own in enumerate(class_weight):
        there = np.where(own > 0, shares, 0.0)
        if not there.any():
            continue
        there = there / there.sum()
        mine = np.flatnonzero(chosen & (steps.side == side))
        of = klass[mine]
        found[mine] = there[of] / (own[of] * per_run[steps.run[mine]])
    return found


def _class_weight(steps: Steps, chosen: Bools, klass: Ints, classes: int = 0) -> list[Floats]:
    """W_sc of every side: sums over its runs of the part of the run's steps that are of the class."""
    classes = max(classes, int(klass.max(initial=0)) + 1)
    per_run = np.bincount(steps.run[chosen], minlength=int(steps.run.max(initial=0)) + 1)
    found = []
    for side in range(int(steps.side.max(initial=0)) + 1):
        mine = np.flatnonzero(chosen & (steps.side == side))
        counts = np.bincount(klass[mine], weights=1 / per_run[steps.run[mine]], minlength=classes)
        found.append(counts.astype(np.float64))
    return found


def shared(steps: Steps, chosen: Bools, klass: Ints) -> tuple[float, float]:
    """The part of each side's chosen steps that are of a class that both sides have."""
    return _of_both(*_class_weight(steps, chosen, klass)[:2])


def in_common(steps: Steps, chosen: Bools, klass: Ints) -> Bools:
    """Those of the chosen steps whose class both sides have."""
    held = [np.isin(klass, klass[chosen & (steps.side == side)]) for side in (0, 1)]
    return np.asarray(chosen & held[0] & held[1])


def shared_time(steps: Steps, chosen: Bools, klass: Ints) -> tuple[float, float]:
    """The part of the time of each side's chosen steps that is of a class that both sides have."""
    classes = int(klass.max(initial=0)) + 1
    sides = (chosen & (steps.side == side) for side in (0, 1))
    return _of_both(*(np.bincount(klass[mine], steps.ns[mine], classes) for mine in sides))


def _of_both(one: Floats | Ints, other: Floats | Ints) -> tuple[float, float]:
    """The part of each side that is of a class that both sides have, by what each class has of it."""
    both = (one > 0) & (other > 0)
    return (
        float(one[both].sum() / one.sum()) if one.any() else 0.0,
        float(other[both].sum() / other.sum()) if other.any() else 0.0,
    )


def variance_of_difference(steps: Steps, chosen: Bools, klass: Ints) -> float:
    """Variance of the difference of the sides that the scatter of steps within classes leaves; inf where too few do."""
    shares = class_shares(steps, chosen & (steps.side < 2), klass)
    weight = weights(steps, chosen & (steps.side < 2), klass, shares)
    mine = np.flatnonzero(weight > 0)
    if not len(mine):
        return np.inf
    code = klass[mine] * 2 + steps.side[mine]
    _, at = np.unique(code, return_inverse=True)
    count = np.bincount(at)
    mean = np.bincount(at, weights=steps.ns[mine]) / count
    freedom = len(mine) - len(count)
    if freedom < LEAST_FREEDOM:
        return np.inf
    scatter = float(((steps.ns[mine] - mean[at]) ** 2).sum()) / freedom
    return scatter * float((weight[mine] ** 2).sum())


def choose(steps: Steps, eligible: Bools, unit: Ints, options: dict[str, Ints]) -> tuple[str, Ints, Bools]:
    """The workload under which the sides differ with the smallest error, its classes, and the typical steps under it.

    There, a step of another workload does not pass for one that stops. The error is what the scatter of steps within their classes would give: that of the runs, known from so few, would choose the
    classes under which these runs happen to agree.

    An option counts where at least `SHARED` of each side's steps, and of their time, are of classes that both have: classes of one
    side alone would absorb what changed. The last of `options` is the one without classes, which always counts.
    """
    best: tuple[float, str] | None = None
    *_, last = options
    chosen = eligible & (steps.side < 2)
    for name, klass in options.items():
        if name != last and (
            int(klass.max(initial=0)) >= MOST_CLASSES
            or min(*shared(steps, chosen, klass), *shared_time(steps, chosen, klass)) < SHARED
        ):
            continue
        typical = trimmed(steps, eligible, klass, unit, stops=True)
        variance = variance_of_difference(steps, typical & (steps.side < 2), klass)
        if best is None or variance <= best[0] * (1 + 1e-9):  # of equal ones the last: the simplest
            best = variance, name
    assert best is not None
    klass = options[best[1]]
    return best[1], klass, trimmed(steps, eligible, klass, unit)
