"""The steps to look at event by event: which of the kept ones, and how the result holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl

from tracediff.accounting.idle import IDLE
from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduction import KeptStep, Lane, in_order, typical
from tracediff.compare.sides import Side
from tracediff.compare.strata import ROW, Strata
from tracediff.kernels.matching import Matching, OpKey
from tracediff.model import CATEGORIES, Timeline, TimelineLane, Timelines, TimelineStep

STRATA = 3  # that are shown: those with the most time
RANKS = 2  # of a stratum
_KINDS: tuple[Literal["typical", "worst"], ...] = ("typical", "worst")
_BUSY = tuple(name for name in CATEGORIES if name not in IDLE)


def timelines(
    sides: tuple[Side, Side],
    steps: pl.DataFrame,
    strata: Strata,
    matching: Matching,
    kernel_order: Sequence[int],
    with_gil: bool,
) -> Timelines | None:
    """Choose and convert; None where no step was kept.

    `steps`: every whole step of both sides (see `steps_table`); `kernel_order`: the row of the matching that each
    kernel row of the result is. Without `with_gil` waits for the GIL count as what they would be without its trace.
    """
    if not any(part.kept for side in sides for part in side.parts):
        return None
    writer = StepWriter(matching, kernel_order, with_gil)
    steps_of, strata_left_out, ranks_left_out = choose(sides, steps, strata)
    found = [
        Timeline(
            stratum=one.stratum,
            kind=one.kind,
            rank=one.rank,
            exact=one.exact,
            baseline=writer.step(sides[0], one.steps[0], 0),
            candidate=writer.step(sides[1], one.steps[1], 1),
        )
        for one in steps_of
    ]
    return Timelines(list(writer.names), found, strata_left_out, ranks_left_out)


@dataclass(frozen=True)
class Picked:
    """A typical or longest step of a stratum and rank on every side. `stratum`: row of the table of strata."""

    stratum: int
    kind: Literal["typical", "worst"]
    rank: int
    steps: list[_Chosen | None]

    @property
    def exact(self) -> bool:
        """Whether these are the very steps, or the nearest ones that were kept."""
        return all(one is not None and one.exact for one in self.steps)


def choose(sides: Sequence[Side], steps: pl.DataFrame, strata: Strata) -> tuple[list[Picked], int, int]:
    """The steps to draw; then how many strata and ranks with steps on every side are left out."""
    located = strata.locate(steps).with_columns(pl.col("group").fill_null(-1)).with_columns(row=ROW)
    both = located.group_by("row").agg(pl.col("side").n_unique().alias("sides"), pl.col("ns").sum())
    shared = (
        both.filter(pl.col("sides") == len(sides))
        .sort("ns", "row", descending=[True, False])["row"]
        .to_list()
    )
    found: list[Picked] = []
    ranks_left_out = 0
    for row in shared[:STRATA]:
        mine = located.filter(pl.col("row") == row)
        ranks = _ranks(mine, len(sides))
        ranks_left_out = max(ranks_left_out, len(ranks) - RANKS)
        for rank in ranks[:RANKS]:
            of_rank = mine.filter(pl.col("rank") == rank)
            seen: list[_Chosen | None] = [None] * len(sides)
            for kind in _KINDS:
                chosen = [
                    _choose(one, of_rank.filter(pl.col("side") == side), kind)
                    for side, one in enumerate(sides)
                ]
                if chosen == seen or not any(chosen):
                    continue  # nothing kept, or the typical steps are the longest as well
                seen = chosen
                found.append(Picked(strata.keys.index(row), kind, rank, chosen))
    return found, max(0, len(shared) - STRATA), max(0, ranks_left_out)


def _ranks(steps: pl.DataFrame, sides: int) -> list[int]:
    """Ranks with steps on every side, those first whose own GPU work or idle time changed most; of one side, is longest."""
    means = (
        steps.with_columns(idle=pl.col("ns") - pl.sum_horizontal(_BUSY))
        .group_by("rank", "side", maintain_order=True)
        .agg(pl.col("idle").mean())
        .sort("rank", "side")
    )
    by_rank: dict[int, list[float]] = {}
    for rank, _, idle in means.iter_rows():
        by_rank.setdefault(rank, []).append(idle)
    both = {rank: [0.0, *values][-2:] for rank, values in by_rank.items() if len(values) == sides}
    return sorted(both, key=lambda rank: (-abs(both[rank][1] - both[rank][0]), rank))


@dataclass(frozen=True)
class _Chosen:
    run: int
    part: int
    period: int
    kept: KeptStep = field(compare=False)
    rank: int
    exact: bool


def _choose(side: Side, steps: pl.DataFrame, kind: str) -> _Chosen | None:
    """The typical or the longest step of one side, stratum and rank, of those kept."""
    if not len(steps):
        return None
    if kind == "worst":
        best = steps.sort("ns", "run", "start_ns", descending=[True, False, False]).row(0, named=True)
    else:
        means = steps.group_by("run").agg(pl.col("ns").mean()).sort("ns", "run")
        run = typical(means["run"].to_list())
        mine = in_order(steps.filter(pl.col("run") == run))
        best = mine.row((len(mine) - 1) // 2, named=True)
    candidates = []
    kept = {
        (number, place, one.period): one
        for number, run in enumerate(side.runs)
        for place, part in enumerate(run.parts)
        for one in part.kept
    }
    names = ["run", "part", "period"]
    among = pl.DataFrame(list(kept), schema=dict.fromkeys(names, pl.Int64), orient="row")
    for row in steps.join(among, on=names, how="semi").iter_rows(named=True):
        distance = 0 if _is(row, best) else 1 + abs(row["ns"] - best["ns"])
        one = kept[row["run"], row["part"], row["period"]]
        candidates.append((distance, row["run"], row["start_ns"], row, one))
    if not candidates:
        return None
    distance, _, _, row, step = min(candidates, key=lambda one: one[:3])
    return _Chosen(row["run"], row["part"], row["period"], step, row["rank"], distance == 0)


def _is(row: dict[str, int], other: dict[str, int]) -> bool:
    return all(row[name] == other[name] for name in ("run", "part", "period"))


class StepWriter:
    """Kept steps as the result holds them; every text once."""

    def __init__(self, matching: Matching, kernel_order: Sequence[int], with_gil: bool) -> None:
        self.names: dict[str, int] = {}
        self._place = {row: place for place, row in enumerate(kernel_order)}
        self._matching, self._with_gil = matching, with_gil

    def step(self, side: Side, chosen: _Chosen | None, number: int) -> TimelineStep | None:
        """One step of one side."""
        if chosen is None:
            return None
        run = side.runs[chosen.run]
        part = run.parts[chosen.part]
        row = part.periods.row(chosen.kept.period, named=True)
        assert row["period"] == chosen.kept.period
        accounting = {name: int(row[name]) for name in CATEGORIES if row[name]}
        lanes = chosen.kept.lanes
        if not self._with_gil:
            accounting = _without_gil(accounting, lanes)
            lanes = [lane for lane in lanes if lane.kind not in ("gil", "holders")]
        keys = part.keys.select("name", "grid", "block").rows()
        shares = self._matching.candidate if number else self._matching.baseline
        return TimelineStep(
            run=part.name,
            rank=chosen.rank,
            device=int(row["device"]),
            number=row["number"],
            start_ns=int(row["start_ns"]),
            period_ns=int(row["end_ns"] - row["start_ns"]),
            thread=chosen.kept.thread,
            accounting=accounting,
            lanes=[self._lane(lane, keys, shares, row["phase"]) for lane in lanes],
            events=chosen.kept.events,
            merged_below_ns=chosen.kept.merged_below_ns,
        )

    def _lane(
        self,
        lane: Lane,
        keys: list[tuple[str, str | None, str | None]],
        shares: dict[tuple[str, OpKey], list[tuple[int, float]]],
        phase: str,
    ) -> TimelineLane:
        merged = bool((lane.count > 1).any())
        group = lane.group if self._with_gil or lane.under is None else lane.under
        return TimelineLane(
            kind=lane.kind,
            name=lane.name,
            start=_column(lane.start),
            length=_column(lane.end - lane.start),
            what=self._named(lane.what, [key[0] for key in keys] if lane.kind == "gpu" else lane.texts),
            group=self._named(group, lane.groups),
            row=_column(self._rows(lane.what, keys, shares, phase)) if lane.kind == "gpu" else "",
            count=_column(lane.count) if merged else "",
            inside=_column(lane.inside) if merged else "",
        )

    def _named(self, index: Ints, texts: Sequence[str]) -> str:
        seen = {one: self.names.setdefault(texts[one], len(self.names)) for one in np.unique(index).tolist()}
        return " ".join(str(seen[one]) for one in index.tolist())

    def _rows(
        self,
        key: Ints,
        keys: list[tuple[str, str | None, str | None]],
        shares: dict[tuple[str, OpKey], list[tuple[int, float]]],
        phase: str,
    ) -> Ints:
        rows = {}
        for one in np.unique(key).tolist():
            name, grid, block = keys[one]
            parts = shares.get((phase, OpKey(name, grid or "", block or "")), [])
            most = max(parts, key=lambda part: (part[1], -part[0]), default=(-1, 0.0))[0]
            rows[one] = self._place.get(most, -1)
        return np.array([rows[one] for one in key.tolist()], np.int64)


def _column(values: Ints) -> str:
    return " ".join(map(str, values.tolist()))


def _without_gil(accounting: dict[str, int], lanes: list[Lane]) -> dict[str, int]:
    """The accounting of a step with its waits for the GIL counted as what they would be without the GIL's trace."""
    out = dict(accounting)
    out.pop("gil_wait", None)
    for lane in lanes:
        if lane.kind == "idle" and lane.under is not None:
            waits = lane.group == lane.groups.index("gil_wait")
            for cause in np.unique(lane.under[waits]).tolist():
                name = lane.groups[cause]
                out[name] = out.get(name, 0) + int(lane.inside[waits & (lane.under == cause)].sum())
    return out
