"""Places: what a finding can be of, an idle cell or the kernel rows of one changed block, tested in every phase.

| runs a side | a place is |
| 4 or more | confirmed: q < .05 over all places, phases and parts, and a permutation of the runs says the same, p <= .05 |
| 3, or up to 6 pairs | confirmed: q < .01, likely: q < .05 |
| in rare steps | confirmed: q < .01 as well |
| 1 or 2 | likely at best: q < .05, or p < .01 and 5 % of the step |
exact: a count that differs for certain. Nothing below 0.1 % of its phase is more than noise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.comparison.cells import IdleKey, Layout, Measured, Part, PhaseCells
from tracediff.comparison.layers import LayerCells, layer_side
from tracediff.execution.sides import Side, stacked
from tracediff.model import Evidence, KernelTypical, PlaceRow
from tracediff.model.causes import CAUSES
from tracediff.model.kernels import LayerRow, Layers
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
    from tracediff.stats.student import stdtrit

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
    from tracediff.stats.student import stdtrit

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


# Idle time by place, kernels by phase and time by layer as rows of the result; measures of one of them are taken from these.


_MOST = 200  # places
_KEY = ("cause", "thread", "holder", "where", "copy")


def calls_of(sides: Sequence[Side], keys: Sequence[IdleKey]) -> list[list[str]]:
    """The CUDA functions that the longest pieces of idle cells lie in; none of causes that are not inside a call."""
    moments = stacked(sides, "moments").with_columns(
        where=pl.when(pl.col("cause") == "gil_wait")
        .then(pl.col("holder_place"))
        .when(pl.col("cause") == "gc")
        .then(pl.lit(""))
        .otherwise(pl.col("place"))
    )
    found: dict[IdleKey, set[str]] = defaultdict(set)
    for *key, call in moments.select(*_KEY, "api").unique().iter_rows():
        if call:
            found[IdleKey(*key)].add(call)
    return [sorted(found.get(key, ())) if CAUSES[key.cause].calls else [] for key in keys]


def place_rows(measured: Measured, judged: Judged) -> tuple[list[PlaceRow], int]:
    """Idle cells over all compared steps and in the typical step of each phase; second, how many places were left out."""
    layout = measured.layout
    calls = calls_of(measured.sides, layout.idle_keys)
    levels: dict[tuple[str, int], Evidence] = {
        (one.phase.steps.phase, one.place.cells[0]): one.level
        for one in judged.rows
        if one.place.kind == "idle" and one.part == "typical"
    }
    parts = [("", measured.whole), *((one.steps.phase, one.typical.estimate) for one in measured.phases)]
    size = [max(float(max(of.baseline[cell], of.candidate[cell])) for _, of in parts) for cell in layout.idle]
    kept = sorted(range(len(size)), key=lambda at: (-size[at], at))[:_MOST]
    rows = []
    for phase, of in parts:
        for at in kept:
            cell, key = layout.idle[at], layout.idle_keys[at]
            if not of.baseline[cell] and not of.candidate[cell]:
                continue
            level = levels.get((phase, cell), "within_noise")
            if not phase:  # a level is of a phase; here only where the mean of all shows the same
                delta = float(of.delta[cell])
                level = _of_all(judged, cell, delta) if abs(delta) > of.half[cell] else "within_noise"
            place, holder_place = ("", key.where) if key.cause == "gil_wait" else (key.where, "")
            where = (phase, key.cause, key.thread, place, key.holder, holder_place, calls[at])
            rows.append(PlaceRow(*where, **of.change(cell), level=level))
    return rows, len(size) - len(kept)


def kernel_phases(measured: Measured, judged: Judged) -> dict[int, list[KernelTypical]]:
    """Kernel row of the matching -> its typical step in each phase where it is more than a trifle.

    Launches are counted where kernels are tested: elsewhere they are a matter of the requests.
    """
    levels: dict[tuple[str, int], tuple[Evidence, float]] = {
        (one.phase.steps.phase, cell): (one.level, one.q)
        for one in judged.rows
        if one.place.kind == "kernels" and one.part == "typical"
        for cell in one.place.cells
    }
    found: dict[int, list[KernelTypical]] = defaultdict(list)
    for phase in measured.phases:
        of, name = phase.typical.estimate, phase.steps.phase
        counts = measured.kernels.of_phase[name, "typical"].tolist()
        tested = phase.steps.judged and phase.steps.steady
        for number, cell in enumerate(measured.layout.kernels):
            counted = tested and bool(measured.kernels.counted[name][number])
            if counted or max(of.baseline[cell], of.candidate[cell]) >= MATERIAL * phase.step_ns:
                level, q = levels.get((name, cell), ("within_noise", math.nan))
                before, after = counts[number]
                found[number].append(
                    KernelTypical(
                        name, **of.change(cell), level=level, baseline_count=before, candidate_count=after,
                        q_value=None if math.isnan(q) else q, counted=counted,
                    )
                )  # fmt: skip
    return found


def _of_all(judged: Judged, cell: int, delta: float) -> Evidence:
    """The best level of a place over phases in which it changed as it did over all."""
    return min(
        (
            one.level
            for one in judged.rows
            if one.place.kind == "idle" and one.place.cells[0] == cell and one.delta * delta > 0
        ),
        key=LEVELS.index,
        default="within_noise",
    )


# Kernel time by layer and by kind of layer, as rows of the result: estimated with all other cells, tested apart.


def compared_layers(measured: Measured) -> Layers | None:
    """Rows of both sides, the largest change first; None where layers are not known."""
    if measured.layers is None:
        return None
    layout, whole = measured.layout, measured.whole
    judged = judge(measured, [Place("layers", (cell,)) for cell in (*layout.layers, *layout.layer_kinds)])

    def row(cell: int, layer: str, kind: str) -> LayerRow:
        level, q = judged.levels(cell)
        q_value = None if math.isnan(q) else q
        return LayerRow(layer=layer, kind=kind, **whole.change(cell), level=level, q_value=q_value)

    found = [[row(*one) for one in cells] for cells in _cells(layout, measured.layers)]
    kinds, rows = (sorted(part, key=lambda one: (-abs(one.delta_ns), one.layer)) for part in found)
    one, other = map(layer_side, measured.sides)
    return Layers(baseline=one, candidate=other, kinds=kinds, rows=rows)


def shown_layers(side: Side, layers: LayerCells | None, layout: Layout, mean: np.ndarray) -> Layers | None:
    """Rows of one side, the most time first. `mean`: of each cell."""
    if layers is None:
        return None
    found = [
        [LayerRow(layer=layer, kind=kind, baseline_ns=float(mean[cell])) for cell, layer, kind in cells]
        for cells in _cells(layout, layers)
    ]
    kinds, rows = (sorted(part, key=lambda one: (-one.baseline_ns, one.layer)) for part in found)
    return Layers(baseline=layer_side(side), kinds=kinds, rows=rows)


def _cells(
    layout: Layout, layers: LayerCells
) -> tuple[list[tuple[int, str, str]], list[tuple[int, str, str]]]:
    """Cell, layer and kind of the kinds, then of the layers."""
    kinds = sorted(set(layers.kinds))
    return (
        list(zip(layout.layer_kinds, kinds, kinds, strict=True)),
        list(zip(layout.layers, layers.names, layers.kinds, strict=True)),
    )
