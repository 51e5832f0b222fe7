"""Sampled steps of both sides beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduction import Lane, Reduction, SampledStep
from tracediff.kernels.matching import Matching, OpKey
from tracediff.model import CATEGORIES, Timeline, TimelineLane, Timelines, TimelineStep
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.steps.sample import in_order, typical

WORKLOADS = 3  # that are shown: those with the most time
RANKS = 2  # of a workload
_KINDS: tuple[Literal["typical", "worst"], ...] = ("typical", "worst")

Runs = Sequence[Sequence[Reduction]]  # of one side, export by export


@dataclass(frozen=True)
class ShownStep:
    """A sampled step of one side. `exact`: it is the step that was looked for, not the nearest sampled one."""

    run: int
    part: int
    period: int
    rank: int
    exact: bool
    sampled: SampledStep = field(compare=False)


@dataclass(frozen=True)
class Selected:
    """The typical or the longest step of a workload and rank on every side."""

    workload: str
    kind: Literal["typical", "worst"]
    rank: int
    steps: list[ShownStep | None]

    @property
    def exact(self) -> bool:
        """Whether these are the very steps, or the nearest ones that were sampled."""
        return all(one is not None and one.exact for one in self.steps)


def select_steps(
    sides: Sequence[Runs], steps: pl.DataFrame, first: str = ""
) -> tuple[list[Selected], int, int]:
    """The steps to draw; then how many workloads and ranks with steps on every side are left out.

    `steps`: every whole step of all sides, column `row` naming its workload. first: the phase whose longest workload comes before
    the others, which are those with the most time.
    """
    totals = steps.group_by("row").agg(
        pl.col("side").n_unique().alias("sides"), pl.col("ns").sum(), pl.col("phase").first()
    )
    ordered = totals.filter(pl.col("sides") == len(sides)).sort("ns", "row", descending=[True, False])
    own = ordered.filter(pl.col("phase") == first)["row"].to_list()[:1]
    shared = [*own, *(row for row in ordered["row"].to_list() if row not in own)]
    found: list[Selected] = []
    ranks_left_out = 0
    for row in shared[:WORKLOADS]:
        mine = steps.filter(pl.col("row") == row)
        ranks = [rank for (rank,) in most_changed(mine, ["rank"], len(sides))]
        ranks_left_out = max(ranks_left_out, len(ranks) - RANKS)
        for rank in ranks[:RANKS]:
            of_rank = mine.filter(pl.col("rank") == rank)
            seen: list[ShownStep | None] = [None] * len(sides)
            for kind in _KINDS:
                shown = [
                    _nearest(runs, of_rank.filter(pl.col("side") == side), kind)
                    for side, runs in enumerate(sides)
                ]
                if shown != seen and any(shown):  # the typical steps may be the longest as well
                    seen = shown
                    found.append(Selected(row, kind, rank, shown))
    return found, max(0, len(shared) - WORKLOADS), ranks_left_out


def most_changed(steps: pl.DataFrame, by: Sequence[str], sides: int) -> list[tuple[int, ...]]:
    """Ranks (or devices) with steps on every side, those first whose own GPU work or idle time changed most; of one side, is longest."""
    means = (
        steps.with_columns(idle=pl.col("ns") - pl.sum_horizontal(BUSY))
        .group_by(*by, "side", maintain_order=True)
        .agg(pl.col("idle").mean())
        .sort(*by, "side")
    )
    found: dict[tuple[int, ...], list[float]] = {}
    for *unit, _, idle in means.iter_rows():
        found.setdefault(tuple(unit), []).append(idle)
    change = {unit: abs(idle[-1] - sum(idle[:-1])) for unit, idle in found.items() if len(idle) == sides}
    return sorted(change, key=lambda unit: (-change[unit], unit))


def _nearest(runs: Runs, steps: pl.DataFrame, kind: str) -> ShownStep | None:
    """The typical or the longest step of one side, workload and rank, or of those sampled the nearest in length."""
    sampled = {
        (run, part, one.period): one
        for run, parts in enumerate(runs)
        for part, export in enumerate(parts)
        for one in export.sampled
    }
    names = ["run", "part", "period"]
    known = pl.DataFrame(list(sampled), schema=dict.fromkeys(names, pl.Int64), orient="row")
    candidates = steps.join(known, on=names, how="semi")
    if not len(candidates):
        return None
    if kind == "worst":
        best = steps.sort("ns", "run", "start_ns", descending=[True, False, False]).row(0, named=True)
    else:
        means = steps.group_by("run").agg(pl.col("ns").mean()).sort("ns", "run")
        of_run = in_order(steps.filter(pl.col("run") == typical(means["run"].to_list())))
        best = of_run.row((len(of_run) - 1) // 2, named=True)
    place = tuple(best[name] for name in names)

    def far(row: dict[str, Any]) -> tuple[Any, ...]:
        other = tuple(row[name] for name in names) != place
        return other, abs(row["ns"] - best["ns"]), row["run"], row["start_ns"]

    row = min(candidates.iter_rows(named=True), key=far)
    found = (row["run"], row["part"], row["period"])
    return ShownStep(*found, row["rank"], found == place, sampled[found])


def timelines(
    sides: Sequence[Runs],
    steps: pl.DataFrame,
    workloads: Sequence[str],
    writer: StepWriter,
    first: str = "",
) -> tuple[Timelines | None, list[Selected]]:
    """The steps of both sides, or of the one, to draw; None where none were sampled.

    `workloads`: of the result's strata, their `row`; first: see `select_steps`. The names are all that the writer has written.
    """
    if not any(part.sampled for runs in sides for parts in runs for part in parts):
        return None, []
    selected, workloads_left_out, ranks_left_out = select_steps(sides, steps, first)
    found = [
        Timeline(
            stratum=workloads.index(one.workload),
            kind=one.kind,
            rank=one.rank,
            exact=one.exact,
            baseline=writer.step(sides[0], one.steps[0], 0),
            candidate=writer.step(sides[1], one.steps[1], 1) if len(sides) > 1 else ABSENT,
        )
        for one in selected
    ]
    return Timelines(list(writer.names), found, workloads_left_out, ranks_left_out), selected


def accounting_of(part: Reduction, step: SampledStep, with_gil: bool) -> dict[str, int]:
    """Category -> ns of a sampled step. Without `with_gil` waits for the GIL count as what they would be without its trace."""
    row = part.periods.row(step.period, named=True)
    out = {name: int(row[name]) for name in CATEGORIES if row[name]}
    if with_gil:
        return out
    out.pop("gil_wait", None)
    for lane in step.lanes:
        if lane.kind == "idle" and lane.under is not None:
            waits = lane.group == lane.groups.index("gil_wait")
            ns = lane.inside if len(lane.inside) else lane.end - lane.start
            for cause in np.unique(lane.under[waits]).tolist():
                name = lane.groups[cause]
                out[name] = out.get(name, 0) + int(ns[waits & (lane.under == cause)].sum())
    return out


class StepWriter:
    """Sampled steps as the result holds them; every text once.

    `kernel_order`: the row of the matching that each kernel row of the result is.
    """

    def __init__(self, matching: Matching, kernel_order: Sequence[int], with_gil: bool) -> None:
        self.names: dict[str, int] = {}
        self._place = {row: place for place, row in enumerate(kernel_order)}
        self._matching, self.with_gil = matching, with_gil

    def step(self, runs: Runs, shown: ShownStep | None, side: int) -> TimelineStep | None:
        """One step of one side."""
        if shown is None:
            return None
        part, sampled = runs[shown.run][shown.part], shown.sampled
        row = part.periods.row(sampled.period, named=True)
        assert row["period"] == sampled.period
        return TimelineStep(
            run=part.name,
            rank=shown.rank,
            device=int(row["device"]),
            number=row["number"],
            start_ns=int(row["start_ns"]),
            period_ns=int(row["end_ns"] - row["start_ns"]),
            thread=sampled.thread,
            accounting=accounting_of(part, sampled, self.with_gil),
            lanes=self.lanes(sampled.lanes, part, row["phase"], side),
            events=sampled.events,
            merged_below_ns=sampled.merged_below_ns,
        )

    def lanes(self, lanes: Sequence[Lane], part: Reduction, phase: str, side: int) -> list[TimelineLane]:
        """Lanes of a sampled step, whole or cut; without the GIL's where one side did not trace it."""
        return [
            self._lane(lane, part, phase, side)
            for lane in lanes
            if self.with_gil or lane.kind not in ("gil", "holders")
        ]

    def rows(self, lane: Lane, part: Reduction, phase: str, side: int) -> Ints:
        """Of each op of a lane the row of the matching that has most of its time in the phase, -1 none."""
        shares = self._matching.candidate if side else self._matching.baseline
        return _mapped(lane.what, lambda key: row_of(part.keys.row(key, named=True), shares, phase))

    def _lane(self, lane: Lane, part: Reduction, phase: str, side: int) -> TimelineLane:
        merged = bool((lane.count > 1).any())
        group = lane.group if self.with_gil or lane.under is None else lane.under
        ops = lane.kind == "gpu"
        texts = part.keys["name"] if ops else lane.texts
        rows = self.rows(lane, part, phase, side) if ops else lane.what
        return TimelineLane(
            kind=lane.kind,
            name=lane.name,
            start=_column(lane.start),
            length=_column(lane.end - lane.start),
            what=_column(_mapped(lane.what, lambda one: self.name(texts[one]))),
            group=_column(_mapped(group, lambda one: self.name(lane.groups[one]))),
            row=_column(_mapped(rows, lambda row: self._place.get(row, -1))) if ops else "",
            count=_column(lane.count) if merged else "",
            inside=_column(lane.inside) if merged else "",
        )

    def name(self, text: str) -> int:
        """The number of a text."""
        return self.names.setdefault(text, len(self.names))


def row_of(key: dict[str, Any], shares: dict[tuple[str, OpKey], list[tuple[int, float]]], phase: str) -> int:
    """The row of the matching that has most of an op's time in a phase, -1 none. `key`: of `Reduction.keys`."""
    op = OpKey(key["name"], key["grid"] or "", key["block"] or "")
    parts = shares.get((phase, op), [])
    return max(parts, key=lambda part: (part[1], -part[0]), default=(-1, 0.0))[0]


def _mapped(values: Ints, to: Callable[[int], int]) -> Ints:
    """Each different value mapped once, in ascending order."""
    seen, back = np.unique(values, return_inverse=True)
    return np.array([to(one) for one in seen.tolist()], np.int64)[back.reshape(-1)]


def _column(values: Ints) -> str:
    return " ".join(map(str, values.tolist()))
