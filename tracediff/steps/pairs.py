"""Which steps of the two sides are shown beside each other, and where each begins on the common axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tracediff.steps.sample import typical

Row = dict[str, Any]


@dataclass(frozen=True)
class PairedStep:
    """One period of one device. `unit`: which device of its rank, from 0; `offset`: ns from the pair's start."""

    part: int
    period: int
    rank: int
    unit: int
    device: int
    row: str  # of the strata
    ns: int
    offset: int


@dataclass(frozen=True)
class Pair:
    """Steps of the baseline and of the candidate; the first of each side are those that were paired.

    number: among all pairs, from 1. at: where it begins on the axis, ns.
    """

    number: int
    row: str
    steps: tuple[tuple[PairedStep, ...], tuple[PairedStep, ...]]
    at: int = 0

    def end(self) -> int:
        """Where the last of its steps ends on the axis."""
        return self.at + max(one.offset + one.ns for side in self.steps for one in side)

    def deltas(self) -> dict[tuple[int, int], int]:
        """(rank, unit) -> candidate - baseline, ns, for those with a step of the same workload on both sides."""
        baseline, candidate = ({(one.rank, one.unit): one for one in side} for side in self.steps)
        return {
            key: candidate[key].ns - one.ns
            for key, one in baseline.items()
            if key in candidate and candidate[key].row == one.row
        }


def median_run(steps: pl.DataFrame, side: int) -> int:
    """The run of a side whose mean time of a compared step is the (lower) median."""
    means = steps.filter(pl.col("side") == side).group_by("run").agg(pl.col("ns").mean()).sort("ns", "run")
    return typical(means["run"].to_list())


def pair_steps(steps: pl.DataFrame, runs: tuple[int, int]) -> list[Pair]:
    """Pair the compared steps of one run of each side.

    `steps`: side, run, part, period, rank, device, ns, start_ns, number, row (see `steps_table` and strata.ROW).
    """
    sides = [
        _Run(steps.filter((pl.col("side") == side) & (pl.col("run") == run))) for side, run in enumerate(runs)
    ]
    waiting: dict[str, list[Row]] = {}
    for step in sides[1].main:
        waiting.setdefault(step["row"], []).append(step)
    pairs: list[Pair] = []
    for step in sides[0].main:
        if not waiting.get(step["row"]):
            continue
        other = waiting[step["row"]].pop(0)
        shown = tuple(side.around(one) for side, one in zip(sides, (step, other), strict=True))
        pairs.append(Pair(len(pairs) + 1, step["row"], (shown[0], shown[1])))
    return pairs


class _Run:
    """The compared steps of one run by device."""

    def __init__(self, steps: pl.DataFrame) -> None:
        numbered = steps.with_columns(unit=pl.col("device").rank("dense").over("rank").cast(pl.Int64) - 1)
        self._of_unit: dict[
            tuple[int, int, int], list[Row]
        ] = {}  # (part, rank, unit) -> steps in order of time
        for row in numbered.sort("part", "rank", "unit", "start_ns").iter_rows(named=True):
            self._of_unit.setdefault((row["part"], row["rank"], row["unit"]), []).append(row)
        self._leads: dict[int, tuple[int, int, int]] = {}  # part -> its first device
        for key in self._of_unit:
            self._leads.setdefault(key[0], key)
        self._first = min(self._of_unit)
        self._used: set[tuple[int, int]] = set()
        self._place = {
            (key, row["period"]): (row["row"], nth)
            for key, rows in self._of_unit.items()
            for row, nth in zip(rows, _nth(row["row"] for row in rows), strict=True)
        }

    @property
    def main(self) -> list[Row]:
        """The steps of the first device of the first rank."""
        return self._of_unit[self._first]

    def around(self, main: Row) -> tuple[PairedStep, ...]:
        """That step, and those of the other devices that belong to it."""
        shown = []
        for part, key in self._leads.items():
            lead = main if key == self._first else self._same(key, main)
            if lead is None:
                continue
            for unit, rows in self._of_unit.items():
                if unit[0] != part:
                    continue
                step = lead if unit == key else _nearest(rows, lead)
                if step is not None and (part, step["period"]) not in self._used:
                    self._used.add((part, step["period"]))
                    shown.append(_shown(step, step["start_ns"] - lead["start_ns"]))
        return tuple(shown)

    def _same(self, key: tuple[int, int, int], main: Row) -> Row | None:
        """The same step in another export of the run: of that number, else as many steps of the workload in."""
        rows = self._of_unit[key]
        if main["number"] is not None:
            return next((row for row in rows if row["number"] == main["number"]), None)
        place = self._place[self._first, main["period"]]
        return next((row for row in rows if self._place[key, row["period"]] == place), None)


def _nth(rows: Iterable[str]) -> list[int]:
    """How often each word was seen before."""
    seen: dict[str, int] = {}
    out = []
    for row in rows:
        out.append(seen.get(row, 0))
        seen[row] = out[-1] + 1
    return out


def _nearest(rows: Sequence[Row], lead: Row) -> Row | None:
    """The step that begins nearest to another one of the same clock, less than that one's length away."""
    best = min(rows, key=lambda row: (abs(row["start_ns"] - lead["start_ns"]), row["start_ns"]))
    return best if abs(best["start_ns"] - lead["start_ns"]) < lead["ns"] else None


def _shown(row: Row, offset: int) -> PairedStep:
    names = ("part", "period", "rank", "unit", "device", "row", "ns")
    return PairedStep(**{name: row[name] for name in names}, offset=offset)


def on_axis(pairs: Sequence[Pair], origin: int = 0) -> list[Pair]:
    """Lay the pairs out one after another, as close as they go without two steps of one device overlapping."""
    placed: list[Pair] = []
    free: dict[tuple[int, int, int], int] = {}  # side, rank, unit -> where its last step ended
    for pair in pairs:
        shown = [((side, one.rank, one.unit), one) for side in (0, 1) for one in pair.steps[side]]
        at = max(free.get(key, origin) - one.offset for key, one in shown)
        placed.append(replace(pair, at=at))
        free |= {key: at + one.offset + one.ns for key, one in shown}
    return placed
