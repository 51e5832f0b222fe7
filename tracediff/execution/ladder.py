"""What both sides have in common to be counted by: steps that are the same thing, else rounds of their shared kernels.

Kernels are taken together by their normalised names, because libraries choose variants by shape.

| work ratio | the time-weighted median ratio of the launches of the kernels that both sides have |
| anchors | shared kernels whose ratio is within 2 % of it |
| rounds | launches of the rarest anchor: how often the program did what it does over and over |
| once | of the kernels that a step of either side launches once, the part of which both do. Four of four where a draft model guesses eight tokens for four; none or one of six where a step is another thing |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from tracediff.kernels import names

if TYPE_CHECKING:
    from tracediff.accounting.reduction import Reduction

NEAR = 0.02  # log ratio: kernels this close to the work ratio are launched as the work is
HOLDS = 0.5  # of the time of the shared kernels is in anchors, or there is no work ratio; of what a step launches once, both sides do
ALIKE = 0.2  # log ratio of the launches per step: within it, steps of two rules are the same thing
_START = 0.005  # of the anchors' time: what is launched more rarely than the program repeats
_LEAST = 2  # rounds of each side, and kernels that come once
_WORK = (0, 3)  # kinds of ops: kernels, and CUDA graphs that were traced as a whole
_SOME = 10  # steps of each side: fewer are as many by chance

Launched = dict[str, tuple[float, float]]  # normalised name -> launches, and their ns
_normalise = lru_cache(1 << 16)(names.normalise)


class Shared(msgspec.Struct, frozen=True):
    """The kernels that two sides have in common. Launches are per step of a rank.

    once: as above. held: the part of the anchors' time in that of the shared kernels. anchored: their part of each side's kernel time. rarest: the
    anchor that tells rounds, and its launches of each side; '' where nothing repeats.
    """

    ratio: float
    once: float
    held: float
    anchored: tuple[float, float]
    rarest: str
    rounds: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Whether most of what both sides have was launched at one ratio."""
        return self.held >= HOLDS

    @property
    def alike(self) -> bool:
        """Whether a step of one side is what a step of the other is, where the ratio holds: as much work, or what comes once comes once."""
        return self.as_much or self.once >= HOLDS

    @property
    def as_much(self) -> bool:
        """Whether a step of one side holds as much work as one of the other."""
        return abs(math.log(self.ratio)) <= ALIKE


def graphs_apart(sides: Sequence[Sequence[Reduction]]) -> bool:
    """Whether CUDA graphs were launched, and traced by node on one side and as a whole on the other."""
    modes = {frozenset(part.graph_mode for part in side) for side in sides}
    used = any(part.apis["api"].str.contains("GraphLaunch").any() for side in sides for part in side)
    return used and len(modes) > 1 and not any("unknown" in of_side for of_side in modes)


def launched(parts: Iterable[Reduction]) -> Launched:
    """Kernels of some exports, or the calls that launch them where none were recorded: how many per step, ns per step."""
    found: dict[str, list[float]] = {}
    steps = 0
    for part in parts:
        steps += len(part.periods)
        for name, count, ns in _work(part):
            own = found.setdefault(name, [0.0, 0.0])
            own[0], own[1] = own[0] + count, own[1] + ns
    return {name: (count / steps, ns / steps) for name, (count, ns) in found.items() if count}


def _work(part: Reduction) -> list[tuple[str, int, int]]:
    """Name, launches and ns of each kernel, and of CUDA graphs traced as a whole, or of each launching call where no kernels were recorded."""
    if part.coverage["kernels"] != "captured":
        calls = part.apis.filter(pl.col("kind") == "launch").group_by("api", maintain_order=True)
        return calls.agg(pl.col("count", "ns").sum()).rows()
    name_of = dict(part.keys.filter(pl.col("kind").is_in(_WORK)).select("id", "name").iter_rows())
    sums = part.kernels.group_by("key", maintain_order=True).agg(pl.col("count", "wall_ns").sum())
    return [(_normalise(name_of[key]), count, ns) for key, count, ns in sums.iter_rows() if key in name_of]


def as_many(baseline: Sequence[Reduction], candidate: Sequence[Reduction]) -> bool:
    """Whether every export of both sides holds as many steps of a rank; one more or less is cut off at its ends."""
    found = [len(part.periods) / max(part.periods["rank"].n_unique(), 1) for part in (*baseline, *candidate)]
    return bool(found) and min(found) >= _SOME and max(found) - min(found) <= 1


def shared(baseline: Launched, candidate: Launched) -> Shared | None:
    """What two sides have in common; None where no kernel is of both."""
    total = [sum(ns for _, ns in side.values()) for side in (baseline, candidate)]
    both = sorted(baseline.keys() & candidate.keys())
    if not both or not all(total):
        return None
    time = {name: baseline[name][1] / total[0] + candidate[name][1] / total[1] for name in both}
    ratio = {name: math.log(candidate[name][0] / baseline[name][0]) for name in both}
    order = sorted(both, key=lambda name: (ratio[name], name))
    half, held = sum(time.values()) / 2, 0.0
    middle = ratio[order[-1]]
    for name in order:
        held += time[name]
        if held >= half:
            middle = ratio[name]
            break
    anchors = [name for name in both if abs(ratio[name] - middle) <= NEAR]
    of_anchors = sum(time[name] for name in anchors)
    rarest, held = "", 0.0
    for name in sorted(anchors, key=lambda name: (baseline[name][0], name)):
        held += time[name]
        if held >= _START * of_anchors:
            rarest = name
            break
    counts = baseline[rarest][0], candidate[rarest][0]
    one, other = (
        {name for name, (count, _) in side.items() if abs(math.log(count)) <= NEAR}
        for side in (baseline, candidate)
    )
    return Shared(
        math.exp(middle),
        len(one & other) / len(one | other) if len(one & other) >= _LEAST else 0.0,
        of_anchors / sum(time.values()) if half else 1.0,
        (
            sum(baseline[name][1] for name in anchors) / total[0],
            sum(candidate[name][1] for name in anchors) / total[1],
        ),
        rarest if min(counts) >= _LEAST else "",
        counts,
    )
