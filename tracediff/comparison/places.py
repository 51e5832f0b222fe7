"""Places: what a finding can be of, an idle cell or the kernel rows of one changed block, tested in every phase.

A place changed surely where its interval leaves out 0, the false discovery rate over all places, phases and parts is below 5 %, and
the near end of the interval is 1 % of the step. Where the step itself changed surely, what holds more than half of that needs no
correction for the many others. That is `likely` with up to three runs a side, `confirmed` with four or more where
dealing the runs out anew says the same. `exact`: kernels whose number per step differs by count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.arrays import Bools, Floats, known
from tracediff.comparison.cells import STEP, WHERE, IdleKey, Layout, Measured, Part, PartName, PhaseCells
from tracediff.comparison.layers import LayerCells, layer_side
from tracediff.comparison.shown import ROWS
from tracediff.execution.sides import Side, stacked
from tracediff.model import Evidence, KernelTypical, PlaceRow, RareFact
from tracediff.model.causes import CAUSES, OWN, OWN_NS, SURELY
from tracediff.model.kernels import LayerRow, Layers
from tracediff.stats.noise import Estimate, permutation_p
from tracediff.stats.rules import MATERIAL, MOSTLY, PERMUTE
from tracediff.stats.tests import ALPHA, benjamini_hochberg, counts_differ
from tracediff.stats.workload import stop_of

LEVELS: tuple[Evidence, ...] = ("exact", "confirmed", "likely", "within_noise")
SURE = LEVELS[:-1]


class Place(msgspec.Struct, frozen=True):
    """One idle cell, kernel rows, a layer, or a category of the accounting. cells: columns of the estimates."""

    kind: Literal["idle", "kernels", "layers", "category"]
    cells: tuple[int, ...]


class Judgement(msgspec.Struct, frozen=True, eq=False):
    """One place in one part of one phase, ns per step of the phase. delta: as measured; host_speed: of it, what hosts may explain. runs: values of each run."""

    place: Place
    phase: PhaseCells
    part: PartName
    baseline: float
    candidate: float
    delta: float
    low: float
    high: float
    host_speed: float
    p: float
    q: float
    level: Evidence
    runs: tuple[Floats, Floats]
    moved: bool = False  # its step surely changed
    launches: float = 0.0  # of its kernels, per step

    @property
    def clear(self) -> bool:
        """Whether its interval leaves out 0."""
        return self.low > 0 or self.high < 0

    @property
    def near(self) -> float:
        """The end of its interval nearer to 0, as a size; 0 where it holds 0."""
        return min(abs(self.low), abs(self.high)) if self.clear else 0.0

    @property
    def of_row(self) -> Evidence:
        """How sure it is that kernels or a layer take other time, however little of the step that is; a tail is beside their time in the typical step."""
        one, other = self.baseline, self.candidate
        if self.part == "tail":
            of, cells = self.phase.part("typical").estimate, list(self.place.cells)
            one, other = one + float(of.baseline[cells].sum()), other + float(of.candidate[cells].sum())
        short = OWN_NS * self.launches if min(map(len, self.runs)) < PERMUTE else 0.0
        itself = self.near >= max(OWN * max(one, other), short)
        sure = self.q < ALPHA and itself and self.phase.steps.judged
        return "likely" if sure and self.level == "within_noise" else self.level

    @property
    def leads(self) -> bool:
        """Whether its step surely changed, and it holds most of that."""
        step = float(self.phase.part(self.part).estimate.delta[STEP])
        return self.moved and self.delta * np.sign(step) > MOSTLY * abs(step)

    @property
    def score(self) -> float:
        """What it took of the mean over all steps, as measured."""
        return self.phase.steps.share * abs(self.delta)


class Judged(msgspec.Struct, frozen=True):
    """Every place in every phase; categories apart, for they are sums of the others."""

    rows: list[Judgement]
    categories: list[Judgement]

    def level_of_all(self, cell: int, delta: float) -> Evidence:
        """The best level of an idle place or a category over phases in which it changed as it did over all, by `delta`."""
        mine = (one for one in (*self.rows, *self.categories) if one.place.cells == (cell,))
        alike = (one.level for one in mine if one.delta * delta > 0)
        return min(alike, key=LEVELS.index, default="within_noise")

    def levels(self, cell: int) -> tuple[Evidence, float]:
        """The best level and q value of a place with this cell, over phases."""
        mine = [one for one in self.rows if cell in one.place.cells]
        if not mine:
            return "within_noise", float("nan")
        best = min(mine, key=lambda one: (LEVELS.index(one.of_row), one.q))
        return best.of_row, best.q


def places_of(measured: Measured) -> list[Place]:
    """Every idle cell, every kernel row that stands alone, and every block of rows that changed together."""
    layout = measured.layout
    places = [Place("idle", (cell,)) for cell in layout.idle]
    blocks: dict[int, list[int]] = {}
    for cell, match in zip(layout.kernels, measured.kernels.rows, strict=True):
        blocks.setdefault(match.block if match.block >= 0 else -1 - cell, []).append(cell)
    places += [Place("kernels", tuple(cells)) for cells in blocks.values()]
    return places + [Place("category", (cell,)) for cell in layout.categories.values()]


def judge(
    measured: Measured, moved: Container[tuple[str, str]] = (), places: list[Place] | None = None
) -> Judged:
    """Test every place in every part of every phase, corrected for their number; `places`: all that findings can be of.

    `moved`: the phases and parts of which the step surely changed.
    """
    places = places_of(measured) if places is None else places
    sums = measured.layout.sums
    groups = [
        sums.get(place.cells[0], list(place.cells)) if place.kind == "category" else list(place.cells)
        for place in places
    ]
    found = [(phase, part, part.grouped(groups)) for phase in measured.phases for part in phase.parts]
    p = np.concatenate([_p(measured, places, *one) for one in found]) if found else np.empty(0)
    q = benjamini_hochberg(p)
    rows = []
    first = 0
    for phase, part, of in found:
        sure = (phase.steps.phase, part.name) in moved
        own, tested = (values[first : first + len(places)] for values in (q, p))
        if sure:  # which place most of the step's change is in, is one question, and not one a place
            step = float(part.estimate.delta[STEP])
            own = np.where(of.delta * np.sign(step) > MOSTLY * abs(step), np.minimum(own, tested), own)
        levels = _levels(measured, places, phase, part, of, own)
        counts = np.zeros(len(measured.layout.kinds))
        often = measured.kernels.launches(phase.steps.phase, typical=part.name == "typical")
        counts[measured.layout.kernels] = often.max(axis=1)
        rows += [
            Judgement(
                place,
                phase,
                part.name,
                q=float(own[at]),
                level=levels[at],
                moved=sure,
                launches=float(counts[list(place.cells)].sum()),
                **_estimated(of, at),
            )
            for at, place in enumerate(places)
            if of.baseline[at] or of.candidate[at]
        ]
        first += len(places)
    return Judged(
        [one for one in rows if one.place.kind != "category"],
        [one for one in rows if one.place.kind == "category"],
    )


def joined(rows: Sequence[Judgement]) -> Judgement:
    """Places of one part of one phase as one: their time is summed in every run, then estimated; q and level are those of the first."""
    first = rows[0]
    if len(rows) == 1:
        return first
    cells = tuple(cell for one in rows for cell in one.place.cells)
    of = first.phase.part(first.part).grouped([cells])
    return replace(first, place=Place(first.place.kind, cells), **_estimated(of, 0))


def _estimated(of: Estimate, at: int) -> dict[str, Any]:
    """What a judgement says of one of some estimates."""
    names = ("baseline", "candidate", "delta", "low", "high", "host_speed", "p")
    runs = of.values[0][:, at], of.values[1][:, at]
    return {name: float(getattr(of, name)[at]) for name in names} | {"runs": runs}


def _p(measured: Measured, places: list[Place], phase: PhaseCells, part: Part, of: Estimate) -> Floats:
    """The p value of every place; nan where the phase has nothing of the place.

    Where steps hardly launch what others do, which kernels they launch is a matter of their shapes: no test of kernels there, but of those that both sides launch as often in one grid. Of few
    runs, whose scatter is that of times, nothing is told by a change that is mostly of how many steps launch a kernel.
    """
    there = (of.baseline != 0) | (of.candidate != 0)
    if not phase.steps.steady:
        alike = _as_often(measured, phase, part)
        there &= np.array(
            [place.kind not in ("kernels", "layers") or alike.issuperset(place.cells) for place in places]
        )
    few = min(phase.runs) < PERMUTE
    p = np.where(_by_steps(measured, places, phase, part, of), 1.0, of.p) if few else of.p
    return np.where(there, p, np.nan)


def _as_often(measured: Measured, phase: PhaseCells, part: Part) -> set[int]:
    """Cells of kernels that both sides launch equally often, to 1 %, in the same grids; which of them rare steps launch is chance."""
    if part.name == "tail":
        return set()
    kernels = measured.kernels
    counts = kernels.launches(phase.steps.phase, typical=part.name == "typical")
    same = np.abs(counts[:, 1] - counts[:, 0]) <= SURELY * counts.min(axis=1)
    rows = zip(measured.layout.kernels, kernels.rows, same.tolist(), strict=True)
    return {cell for cell, row, often in rows if often and row.match == "exact"}


def _by_steps(measured: Measured, places: list[Place], phase: PhaseCells, part: Part, of: Estimate) -> Bools:
    """Places whose change is mostly that of numbers of launches which may differ by which steps were captured."""
    kernels, cells, name = measured.kernels, measured.layout.kernels, phase.steps.phase
    counts = kernels.launches(name, typical=part.name == "typical")
    if part.name == "tail":
        counts = counts - kernels.launches(name, typical=True)
    times = part.estimate.baseline[cells] + part.estimate.candidate[cells]
    launches = counts.sum(axis=1)
    each = np.divide(times, launches, out=np.zeros(len(cells)), where=launches != 0)
    moved = np.where(kernels.open[name], (counts[:, 1] - counts[:, 0]) * each, 0.0)
    found = np.zeros(len(places), np.bool_)
    for at, place in enumerate(places):
        if place.kind == "kernels":
            sizes = moved[[cell - cells[0] for cell in place.cells]]
            found[at] = sizes.sum() * np.sign(of.delta[at]) > MOSTLY * abs(of.delta[at])
    return found


def _levels(
    measured: Measured, places: list[Place], phase: PhaseCells, part: Part, of: Estimate, q: Floats
) -> list[Evidence]:
    levels: list[Evidence] = ["within_noise"] * len(places)
    if not measured.tested(phase):
        return levels
    beyond = of.near >= SURELY * phase.step_ns
    passed = np.flatnonzero(beyond & (q < ALPHA))  # nan compares false
    sure: dict[int, bool] = {}
    dealt = part.dealt() if phase.steps.judged else None
    if dealt is not None and len(passed):
        own = permutation_p(part.permuted(of.take(passed), dealt))
        sure = {int(at): bool(value <= ALPHA) for at, value in zip(passed, own, strict=True)}
    for at in passed.tolist():
        cell, delta = places[at].cells[0], float(of.delta[at])
        idle = places[at].kind == "idle" or cell in measured.layout.sums
        by_events = idle and in_rare_steps(phase, part.name, delta, cell)
        if not by_events or rare_steps(measured, phase, delta, cell)[1]:
            levels[at] = "confirmed" if sure.get(at, False) else "likely"
    if part.name != "tail":
        first = measured.layout.kernels[0] if measured.layout.kernels else 0
        certain = measured.kernels.exact[phase.steps.phase]
        for at, place in enumerate(places):
            if place.kind == "kernels" and any(certain[cell - first] for cell in place.cells):
                levels[at] = "exact"
    _as_most_of_it(measured.layout, places, of, levels)
    return levels


def in_rare_steps(phase: PhaseCells, part: PartName, delta: float, cell: int) -> bool:
    """Whether rare steps hold the change of a place, as they hold that of a step."""
    typical = abs(float(phase.typical.estimate.delta[cell]))
    return part == "tail" or (part == "mean" and MOSTLY * abs(delta) > typical)


def far_more(usual: float, step_ns: float) -> float:
    """How much more of a cause than the usual a step has at least that stops for it, ns."""
    return max(SURELY * step_ns, MOSTLY * usual)


def rare_steps(
    measured: Measured, phase: PhaseCells, delta: float, cell: int
) -> tuple[RareFact | None, bool]:
    """How many steps per run stop for an idle cell, or a sum of some; and whether there are more of these than by chance where `delta` is.

    They take far more than the typical step of either side; one after another they are one event. Where the typical step went as far, no count is needed.
    """
    frame, typical = measured.frame, phase.typical.estimate
    usual = float(max(typical.baseline[cell], typical.candidate[cell]))
    side, rest = frame.steps["side"].to_numpy(), phase.steps.rest > 0
    spent = measured.layout.idle_rows.filter(pl.col("cell").is_in(measured.layout.sums.get(cell, [cell])))
    spent = spent.filter(pl.Series(rest).gather(spent["step"]))
    spent = spent.group_by("step").agg(pl.col("ns").sum()).sort("step")
    more, far = spent["ns"].to_numpy() - usual, far_more(usual, phase.step_ns)
    too = float(typical.delta[cell]) * np.sign(delta) > far
    stops = spent["step"].to_numpy()[(more > far) & (more >= stop_of(more, far))]
    if not len(stops):
        return None, too
    some, every = (np.bincount(side[steps], minlength=2)[:2] for steps in (stops, rest.nonzero()[0]))
    run, step = np.unique([frame.run_number[stops], frame.steps["period"].to_numpy()[stops]], axis=1)
    first = (np.diff(run, prepend=-1) > 0) | (np.diff(step, prepend=-2) > 1)
    one, other = (np.bincount(run[first] >= frame.runs[0], minlength=2) * every.min() / every).tolist()
    often = (other - one) * delta > 0 and counts_differ(one, other)
    (before, after), (first_of, other_of) = ((many / phase.runs).tolist() for many in (some, every))
    return RareFact(before, after, first_of, other_of, float(typical.delta[cell])), too or often


def _as_most_of_it(layout: Layout, places: Sequence[Place], of: Estimate, levels: list[Evidence]) -> None:
    """A category whose interval leaves out 0 is as sure as the place that holds most of its change."""
    kinds = [layout.kinds[place.cells[0]] for place in places]
    for at, place in enumerate(places):
        if place.kind == "category" and of.clear[at]:
            most = np.flatnonzero(of.delta * np.sign(of.delta[at]) > MOSTLY * abs(of.delta[at])).tolist()
            mine = [levels[one] for one in most if kinds[one] == kinds[at]]
            levels[at] = min(mine, key=LEVELS.index)  # itself among them


# Idle time by place, kernels by phase and time by layer as rows of the result; measures of one of them are taken from these.


def calls_of(sides: Sequence[Side], keys: Sequence[IdleKey]) -> list[list[str]]:
    """The CUDA functions that idle cells lie in; none of causes that are not inside a call."""
    moments = stacked(sides, "moments").with_columns(where=WHERE)
    found: dict[IdleKey, set[str]] = defaultdict(set)
    for *key, call in moments.select(*IdleKey._fields, "api").unique().iter_rows():
        if call:
            found[IdleKey(*key)].add(call)
    return [sorted(found.get(key, ())) if CAUSES[key.cause].calls else [] for key in keys]


def place_rows(
    measured: Measured, judged: Judged, spoken: Mapping[str, PartName]
) -> tuple[list[PlaceRow], int]:
    """Idle cells over all compared steps and in the step of each phase that its verdict is of (`spoken`); second, how many places were left out."""
    layout = measured.layout
    calls = calls_of(measured.sides, layout.idle_keys)
    levels: dict[tuple[str, int], Evidence] = {
        (one.phase.steps.phase, one.place.cells[0]): one.level
        for one in judged.rows
        if one.place.kind == "idle" and one.part == spoken[one.phase.steps.phase]
    }
    of_phases = [(one.steps.phase, one.part(spoken[one.steps.phase]).estimate) for one in measured.phases]
    parts = [("", measured.whole), *of_phases]
    size = [max(float(max(of.baseline[cell], of.candidate[cell])) for _, of in parts) for cell in layout.idle]
    kept = sorted(range(len(size)), key=lambda at: (-size[at], at))[:ROWS]
    rows = []
    for phase, of in parts:
        for at in kept:
            cell, key = layout.idle[at], layout.idle_keys[at]
            if not of.baseline[cell] and not of.candidate[cell]:
                continue
            level = levels.get((phase, cell), "within_noise")
            if not phase:  # a level is of a phase; here only where the mean of all shows the same
                delta = float(of.delta[cell])
                level = judged.level_of_all(cell, delta) if of.clear[cell] else "within_noise"
            place, holder_place = ("", key.where) if key.cause == "gil_wait" else (key.where, "")
            where = (phase, key.cause, key.thread, place, key.holder, holder_place, calls[at])
            rows.append(PlaceRow(*where, **of.change(cell), level=level))
    return rows, len(size) - len(kept)


def kernel_phases(measured: Measured, judged: Judged) -> dict[int, list[KernelTypical]]:
    """Kernel row of the matching -> its typical step in each phase where it is more than a trifle, or where its count surely differs."""
    levels: dict[tuple[str, int], tuple[Evidence, float]] = {
        (one.phase.steps.phase, cell): (one.of_row, one.q)
        for one in judged.rows
        if one.place.kind == "kernels" and one.part == "typical"
        for cell in one.place.cells
    }
    found: dict[int, list[KernelTypical]] = defaultdict(list)
    for phase in measured.phases:
        of, name = phase.typical.estimate, phase.steps.phase
        counts = measured.kernels.launches(name, typical=True).tolist()
        for number, cell in enumerate(measured.layout.kernels):
            counted = phase.steps.judged and bool(measured.kernels.exact[name][number])
            if counted or max(of.baseline[cell], of.candidate[cell]) >= MATERIAL * phase.step_ns:
                level, q = levels.get((name, cell), ("within_noise", math.nan))
                before, after = counts[number]
                found[number].append(
                    KernelTypical(
                        name, **of.change(cell), level=level, baseline_count=before, candidate_count=after,
                        q_value=known(q),
                    )
                )  # fmt: skip
    return found


# Kernel time by layer and by kind of layer, as rows of the result: estimated with all other cells, tested apart.


def compared_layers(measured: Measured) -> Layers | None:
    """Rows of both sides, the largest change first; None where layers are not known."""
    if measured.layers is None:
        return None
    layout, whole = measured.layout, measured.whole
    judged = judge(
        measured, places=[Place("layers", (cell,)) for cell in (*layout.layers, *layout.layer_kinds)]
    )

    def row(cell: int, layer: str, kind: str) -> LayerRow:
        level, q = judged.levels(cell)
        return LayerRow(layer=layer, kind=kind, **whole.change(cell), level=level, q_value=known(q))

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
