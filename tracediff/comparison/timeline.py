"""One run of each side with every event of the steps that are paired: what `tracediff timeline` writes.

First which steps are paired, and where each pair begins on the common axis; then the runs that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.reduction import Reduction, SampledStep
from tracediff.comparison.classes import Strata, build_strata, notes_of, with_classes
from tracediff.comparison.comparability import check, how_counted
from tracediff.comparison.frame import build_frame
from tracediff.comparison.ladder import shared_work
from tracediff.errors import TracediffError, UsageError
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading, Side, steps_table
from tracediff.formats.inputs import SideFiles
from tracediff.formats.recognise import counted
from tracediff.model import Note, Stratum
from tracediff.model.common import SIDES
from tracediff.steps.sample import in_full, typical

Row = dict[str, Any]
_Unit = tuple[int, int, int]  # part, rank, which device of the rank


class PairedStep(msgspec.Struct, frozen=True):
    """One period of one device: which of its rank's, from 0. `offset`: ns from the pair's start."""

    part: int
    period: int
    rank: int
    device: int
    gpu: int  # as nsys numbers it
    row: str  # of the strata
    ns: int
    offset: int


class Pair(msgspec.Struct, frozen=True):
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
        """(rank, device) -> candidate - baseline, ns, for those with a step of the same workload on both sides."""
        baseline, candidate = ({(one.rank, one.device): one for one in side} for side in self.steps)
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
        numbered = steps.with_columns(window=pl.col("part").rank("dense").over("rank").cast(pl.Int64) - 1)
        self._of_unit: dict[_Unit, list[Row]] = {}  # steps in order of time
        for row in numbered.sort("part", "rank", "device", "start_ns").iter_rows(named=True):
            self._of_unit.setdefault((row["part"], row["rank"], row["device"]), []).append(row)
        self._leads: dict[
            int, dict[int, _Unit]
        ] = {}  # window -> its parts in order -> the first device of each
        for key, rows in self._of_unit.items():
            self._leads.setdefault(rows[0]["window"], {}).setdefault(key[0], key)
        self._used: set[tuple[int, int]] = set()
        self._place = {
            (key, row["period"]): (row["row"], nth)
            for key, rows in self._of_unit.items()
            for row, nth in zip(rows, _nth(row["row"] for row in rows), strict=True)
        }

    @property
    def main(self) -> list[Row]:
        """The steps of the first device of the first rank, window by window."""
        firsts = [next(iter(leads.values())) for _, leads in sorted(self._leads.items())]
        return [row for first in firsts for row in self._of_unit[first]]

    def around(self, main: Row) -> tuple[PairedStep, ...]:
        """That step, and those of the other devices that belong to it."""
        shown: list[PairedStep] = []
        leads = self._leads[main["window"]]
        first = next(iter(leads.values()))
        for part, key in leads.items():
            lead = main if key == first else self._same(key, main, first)
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

    def _same(self, key: _Unit, main: Row, first: _Unit) -> Row | None:
        """The same step in another export of the run: of that number, else as many steps of the workload in."""
        rows = self._of_unit[key]
        if main["number"] is not None:
            return next((row for row in rows if row["number"] == main["number"]), None)
        place = self._place[first, main["period"]]
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
    names = ("part", "period", "rank", "device", "gpu", "row", "ns")
    return PairedStep(**{name: row[name] for name in names}, offset=offset)


def on_axis(pairs: Sequence[Pair], origin: int = 0) -> list[Pair]:
    """Lay the pairs out one after another, as close as they go without two steps of one device overlapping."""
    placed: list[Pair] = []
    free: dict[tuple[int, int, int], int] = {}  # side, rank, device -> where its last step ended
    for pair in pairs:
        shown = [((side, one.rank, one.device), one) for side in (0, 1) for one in pair.steps[side]]
        at = max(free.get(key, origin) - one.offset for key, one in shown)
        placed.append(replace(pair, at=at))
        free |= {key: at + one.offset + one.ns for key, one in shown}
    return placed


# The runs that are shown.


class Window(msgspec.Struct, frozen=True):
    """Which pairs are shown: the first to the last, counted from 1, and at most so many events of both sides."""

    first: int = 1
    last: int = 20
    most_events: int = 500_000
    asked: bool = True  # not so: it is the default, and that there are more pairs is warned of


class ShownRun(msgspec.Struct, frozen=True):
    """The run of a side that is shown, export by export. steps: by (part, period)."""

    label: str
    name: str
    parts: list[Reduction]
    steps: dict[tuple[int, int], SampledStep]


class PairedRuns(msgspec.Struct, frozen=True):
    """A run of each side with the pairs of steps that are shown."""

    sides: tuple[ShownRun, ShownRun]
    pairs: list[Pair]
    all_pairs: int
    strata: dict[str, Stratum]  # by the row of a pair
    with_gil: bool
    warnings: list[Note] = msgspec.field(default_factory=list)

    @property
    def events(self) -> int:
        """How many events all shown steps have."""
        return sum(_events(pair, self.sides) or 0 for pair in self.pairs)


def read_paired_runs(
    files: tuple[SideFiles, SideFiles],
    reading: Reading,
    window: Window,
    *,
    runs: tuple[int | None, int | None] = (None, None),
    progress: Callable[[str], None] = lambda _: None,
) -> PairedRuns:
    """Read both sides, choose a run of each (`runs`: their numbers from 0, else the median one) and the pairs to show.

    Raises `TracediffError`: no-common-strata, timeline-no-run, timeline-no-steps, timeline-too-large, and those of
    reading.
    """
    files = (_only(files[0], runs[0], 0), _only(files[1], runs[1], 1))
    sides = with_classes(reduce_sides(files, reading, progress))
    without = (run for side in sides if not side.captured("kernels") for run in side.runs)
    # one that lacks them; others were measured alike, on the host
    lacking = next((run for run in without if not all(how.host_only for _, how in run.sources)), None)
    if lacking is not None:
        _read(lacking.sources, (), 0, 0)  # raises why, where there are none at all
        raise TracediffError(
            "no-kernels",
            f"{lacking.parts[0].name}: the kernels of its CUDA graphs were not recorded",
            fix="record both sides with nsys profile --cuda-graph-trace=node",
        )
    table = steps_table(sides)
    frame = build_frame(table, (len(sides[0].runs), len(sides[1].runs)))
    strata = build_strata(frame)
    compared = strata.steps.filter("compared")
    numbers = (median_run(compared, 0), median_run(compared, 1))
    pairs = pair_steps(compared, numbers)
    asked = [pair for pair in pairs if window.first <= pair.number <= window.last]
    if not asked:
        raise TracediffError(
            "timeline-no-steps",
            f"there is no pair of steps {window.first} to {window.last}: the runs that are shown have {len(pairs)} pairs",
            fix=f"--steps 1-{min(len(pairs), 20)}" if pairs else "other runs (--run), or a longer capture",
        )
    first_pass = [side.runs[run].parts for side, run in zip(sides, numbers, strict=True)]
    shown = _fitting(asked, _ops(first_pass), window.most_events)
    found = []
    for number, (side, run, known) in enumerate(zip(sides, numbers, first_pass, strict=True)):
        again = _read(side.runs[run].sources, shown, number, window.most_events)
        same = [
            one.periods.drop("phase").equals(other.periods.drop("phase"))
            for one, other in zip(known, again, strict=True)
        ]
        assert all(same)
        parts = [replace(one, sampled=other.sampled) for one, other in zip(known, again, strict=True)]
        steps = {(at, step.period): step for at, part in enumerate(parts) for step in part.sampled}
        found.append(ShownRun(side.label, side.runs[run].name, parts, steps))
    both = (found[0], found[1])
    shown = _fitting(shown, lambda pair: _events(pair, both), window.most_events)
    with_gil = sides[0].captured("gil") == sides[1].captured("gil")
    return PairedRuns(
        sides=both,
        pairs=on_axis(shown),
        all_pairs=len(pairs),
        strata=dict(zip(strata.keys, strata.rows, strict=True)),
        with_gil=with_gil,
        warnings=_warnings(
            sides, both, (strata, notes_of(frame)), window, (len(pairs), len(asked), len(shown)), with_gil
        ),
    )


def _only(side: SideFiles, run: int | None, number: int) -> SideFiles:
    if run is None:
        return side
    if run >= len(side.runs):
        raise UsageError(
            "timeline-no-run",
            f"the {SIDES[number]} has no run {run + 1}, only {counted(len(side.runs), 'run')}",
            fix="--run N, or --run N,M where the sides differ: "
            + ", ".join(f"{at} {one.name}" for at, one in enumerate(side.runs, 1)),
        )
    return replace(side, runs=(side.runs[run],))


def _read(
    sources: Sequence[tuple[Path, Reading]], pairs: Sequence[Pair], side: int, most_events: int
) -> list[Reduction]:
    """Every export of a run, with the events of the periods that are shown in the order of the pairs."""
    rows: dict[int, list[int]] = {}
    for pair in pairs:
        for one in pair.steps[side]:
            rows.setdefault(one.part, []).append(one.period)
    return [
        reduce_file(path, reading, sampler=in_full(rows.get(part, []), most_events))
        for part, (path, reading) in enumerate(sources)
    ]


def _events(pair: Pair, sides: Sequence[ShownRun]) -> int | None:
    """How many events a pair has; None where a step of it was not read, for there were too many before it."""
    steps = [sides[side].steps.get((one.part, one.period)) for side in (0, 1) for one in pair.steps[side]]
    return None if None in steps else sum(one.events for one in steps if one is not None)


def _ops(sides: Sequence[Sequence[Reduction]]) -> Callable[[Pair], int]:
    """How many ops a pair has: known before its events are read."""
    counts = [
        [dict(one.kernels.group_by("period").agg(pl.col("count").sum()).iter_rows()) for one in side]
        for side in sides
    ]
    return lambda pair: sum(
        int(counts[side][one.part].get(one.period, 0)) for side in (0, 1) for one in pair.steps[side]
    )


def _fitting(pairs: list[Pair], size: Callable[[Pair], int | None], most: int) -> list[Pair]:
    """The first of the pairs, as many as have no more than `most` events together."""
    total, fitting = 0, []
    for pair in pairs:
        events = size(pair)
        if events is None or total + events > most:
            break
        total += events
        fitting.append(pair)
    if not fitting:
        events = size(pairs[0])
        more = (
            f"{events:,} events, more than {most:,}" if events is not None else f"more than {most:,} events"
        )
        raise TracediffError(
            "timeline-too-large",
            f"the first pair of steps alone has {more}",
            fix=f"--max-events {2 * (events or most)}",
        )
    return fitting


def _warnings(
    sides: Sequence[Side],
    shown_runs: Sequence[ShownRun],
    compared: tuple[Strata, list[Note]],
    window: Window,
    counts: tuple[int, int, int],
    with_gil: bool,
) -> list[Note]:
    pairs, asked, shown = counts
    parts = [part for run in shown_runs for part in run.parts]
    notes = [note for side in sides for note in side.notes]
    notes += [note for part in parts for note in part.warnings]
    notes += compared[1]
    notes += how_counted(parts, with_gil=with_gil)
    comparability = check((sides[0], sides[1]), compared[0], work=shared_work(sides))
    if not comparability.comparable:
        failed = ", ".join(one.name.replace("_", " ") for one in comparability.checks if one.status == "fail")
        notes.append(
            Note("timeline-not-comparable", f"the captures are not comparable ({failed}): deltas of their steps say nothing")
        )  # fmt: skip
    if shown < asked:
        notes.append(
            Note("timeline-cut", f"{asked - shown} of the {asked} pairs of steps asked for were left out: with them there would be more"
                 f" than {window.most_events:,} events. --max-events N allows more")
        )  # fmt: skip
    if asked < pairs and not window.asked:
        notes.append(
            Note("timeline-window", f"{asked} of {pairs} pairs of steps are shown; --steps {pairs} shows all")
        )  # fmt: skip
    return list({(note.slug, note.message): note for note in notes}.values())  # said once for both sides
