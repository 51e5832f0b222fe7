"""Places: what a finding can be of, an idle cell or the kernel rows of one changed block, tested in every phase.

| runs a side | a place is |
| 4 or more | confirmed: q < .05 over all places, phases and parts, and a permutation of the runs says the same, p <= .05 |
| 3, or up to 6 pairs | confirmed: q < .01, likely: q < .05 |
| in rare steps | confirmed: q < .01 as well |
| 1 or 2 | likely at best: q < .05, or p < .01 and 5 % of the step |
exact: a count that differs for certain. Nothing below 0.1 % of its phase is more than noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tracediff.accounting.intervals import Floats
from tracediff.comparison.cells import Measured, Part, PhaseCells
from tracediff.model import Evidence
from tracediff.stats.estimator import benjamini_hochberg, permutation_p

MATERIAL = 0.001
LARGE = 0.05  # of the step
LARGE_RARE = 0.25  # the same of rare steps of a lone run: spells of a busy machine were up to 0.1
PERMUTE, FEW = 4, 3
STRICT = 0.01  # q below which a place is confirmed without a permutation, or in rare steps
LEVELS: tuple[Evidence, ...] = ("exact", "confirmed", "likely", "within_noise")
SURE = LEVELS[:-1]


@dataclass(frozen=True)
class Place:
    """One idle cell, kernel rows, a layer, or a category of the accounting. cells: columns of the estimates."""

    kind: Literal["idle", "kernels", "layers", "category"]
    cells: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Judgement:
    """One place in one part of one phase, ns per step of the phase. runs: values of each run, host speed taken out."""

    place: Place
    phase: PhaseCells
    part: Literal["typical", "tail"]
    baseline: float
    candidate: float
    delta: float
    half: float
    host_speed: float
    p: float
    q: float
    level: Evidence
    runs: tuple[Floats, Floats]
    wide: float  # half-width of an interval that holds for all places at once (Bonferroni)
    tests: int = 1  # over all places, phases and parts
    of: tuple[tuple[int, ...], ...] = ()  # cells of each place, where it is of several

    @property
    def score(self) -> float:
        """What of its time its interval leaves, as a part of the mean over all steps."""
        return self.phase.steps.share * max(0.0, abs(self.delta) - self.half)


@dataclass(frozen=True)
class Judged:
    """Every place in every phase; categories apart, for they are sums of the others."""

    rows: list[Judgement]
    categories: list[Judgement]

    def level_of_category(self, cell: int, delta: float) -> Evidence:
        """The best level of a category over phases in which it changed as it did over all, by `delta`."""
        return min(
            (one.level for one in self.categories if one.place.cells[0] == cell and one.delta * delta > 0),
            key=LEVELS.index,
            default="within_noise",
        )

    def levels(self, cell: int) -> tuple[Evidence, float]:
        """The best level and q value of a place with this cell, over phases."""
        mine = [one for one in self.rows if cell in one.place.cells]
        if not mine:
            return "within_noise", float("nan")
        best = min(mine, key=lambda one: (LEVELS.index(one.level), one.q))
        return best.level, best.q


def places_of(measured: Measured) -> list[Place]:
    """Every idle cell, every kernel row that stands alone, and every block of rows that changed together."""
    layout = measured.layout
    places = [Place("idle", (cell,)) for cell in layout.idle]
    blocks: dict[int, list[int]] = {}
    for cell, match in zip(layout.kernels, measured.kernels.rows, strict=True):
        blocks.setdefault(match.block if match.block >= 0 else -1 - cell, []).append(cell)
    places += [Place("kernels", tuple(cells)) for cells in blocks.values()]
    return places + [Place("category", (cell,)) for cell in layout.categories.values()]


def judge(measured: Measured, places: list[Place] | None = None) -> Judged:
    """Test every place in every part of every phase, corrected for their number; `places`: all that findings can be of."""
    from scipy.special import stdtrit

    places = places_of(measured) if places is None else places
    sums = measured.layout.sums()
    groups = [
        list(sums.get(place.cells[0], place.cells) if place.kind == "category" else place.cells)
        for place in places
    ]
    found: list[tuple[PhaseCells, Part]] = []
    for phase in measured.phases:
        found += [(phase, part.grouped(groups)) for part in phase.parts]
    p = np.concatenate([_p(places, phase, part) for phase, part in found]) if found else np.empty(0)
    q = benjamini_hochberg(p)
    tests = max(int((~np.isnan(p)).sum()), 1)
    rows = []
    first = 0
    for phase, part in found:
        own = q[first : first + len(places)]
        levels = _levels(measured, places, phase, part, own)
        of = part.estimate
        wide = of.error * stdtrit(of.df, 1 - 0.025 / tests)  # as in `joined`
        rows += [
            Judgement(
                place, phase, part.name, float(of.baseline[at]), float(of.candidate[at]), float(of.delta[at]), float(of.half[at]),
                float(of.host_speed[at]), float(of.p[at]), float(own[at]), levels[at], (of.values[0][:, at], of.values[1][:, at]),
                float(wide[at]), tests,
            )
            for at, place in enumerate(places)
            if of.baseline[at] or of.candidate[at]
        ]  # fmt: skip
        first += len(places)
    return Judged(
        [one for one in rows if one.place.kind != "category"],
        [one for one in rows if one.place.kind == "category"],
    )


def joined(rows: Sequence[Judgement]) -> Judgement:
    """Places of one part of one phase as one: their time is summed in every run, then estimated; q and level are those of the first."""
    from scipy.special import stdtrit

    first = rows[0]
    if len(rows) == 1:
        return first
    groups = tuple(cells for one in rows for cells in one.of or (one.place.cells,))
    part = first.phase.typical if first.part == "typical" else first.phase.tail
    of = part.together(groups)
    return replace(
        first,
        place=Place(first.place.kind, tuple(cell for cells in groups for cell in cells)),
        of=groups,
        baseline=float(of.baseline[0]),
        candidate=float(of.candidate[0]),
        delta=float(of.delta[0]),
        half=float(of.half[0]),
        host_speed=float(of.host_speed[0]),
        p=float(of.p[0]),
        runs=(of.values[0][:, 0], of.values[1][:, 0]),
        wide=float(of.error[0] * stdtrit(of.df[0], 1 - 0.025 / first.tests)),
    )


def large_alone(part: str, runs: int) -> float:
    """The part of the step from which a place of few runs is judged without its number: so few are that large."""
    return LARGE_RARE if part == "tail" and runs == 1 else LARGE


def _p(places: list[Place], phase: PhaseCells, part: Part) -> Floats:
    """The p value of every place; nan where the phase cannot be judged, or has nothing of the place.

    Where steps hardly launch what others do, which kernels they launch is a matter of their shapes: no test of kernels there.
    """
    there = (part.estimate.baseline != 0) | (part.estimate.candidate != 0)
    if not phase.steps.steady:
        there &= np.array([place.kind not in ("kernels", "layers") for place in places])
    return np.where(there & phase.steps.judged, part.estimate.p, np.nan)


def _levels(
    measured: Measured, places: list[Place], phase: PhaseCells, part: Part, q: Floats
) -> list[Evidence]:
    runs = min(phase.runs)
    levels: list[Evidence] = ["within_noise"] * len(places)
    if not phase.steps.judged:
        return levels
    size = np.abs(part.estimate.delta)
    large = (size >= MATERIAL * phase.step_ns) & (size > part.estimate.half)
    among = q < 0.05  # nan compares false
    if runs < FEW:  # so few places are this large that their number needs no correction
        among |= (
            (size >= large_alone(part.name, runs) * phase.step_ns) & (part.estimate.p < STRICT) & ~np.isnan(q)
        )
    # more than the whole difference, for a host that was slower: that may be taken out too much
    raw = part.estimate.delta + part.estimate.host_speed
    passed = np.flatnonzero(large & among & (part.estimate.delta * raw > 0))
    sure: dict[int, bool] = {}
    dealt = part.dealt()
    if dealt is not None and len(passed):
        own = permutation_p(part.grouped_t(passed, dealt))
        sure = {int(at): bool(value <= 0.05) for at, value in zip(passed, own, strict=True)}
    for at in passed.tolist():
        # rare steps are few: their mean is further from normal than that of typical ones
        strict = part.name == "tail" or dealt is None
        confirmed = runs >= FEW and sure.get(at, True) and (not strict or q[at] < STRICT)
        levels[at] = "confirmed" if confirmed else "likely"
    if part.name == "typical" and phase.steps.steady:
        first = measured.layout.kernels[0] if measured.layout.kernels else 0
        certain = measured.kernels.exact[phase.steps.phase]
        for at, place in enumerate(places):
            if place.kind == "kernels" and any(certain[cell - first] for cell in place.cells):
                levels[at] = "exact"
    return levels
