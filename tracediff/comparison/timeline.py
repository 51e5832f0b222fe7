"""One run of each side with every event of the steps that are paired: what `tracediff timeline` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from tracediff.accounting.reduction import Reduction, SampledStep
from tracediff.comparison.classes import Strata, build_strata, notes_of, with_classes
from tracediff.comparison.comparability import check
from tracediff.comparison.frame import build_frame
from tracediff.errors import TracediffError
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Side, steps_table
from tracediff.formats.inputs import SideFiles
from tracediff.formats.selection import MIN_STEPS, Selection
from tracediff.model import Note, Stratum
from tracediff.steps.pairs import Pair, median_run, on_axis, pair_steps
from tracediff.steps.sample import in_full

SIDES = ("baseline", "candidate")


@dataclass(frozen=True)
class Window:
    """Which pairs are shown: the first to the last, counted from 1, and at most so many events of both sides."""

    first: int = 1
    last: int = 20
    most_events: int = 500_000
    asked: bool = True  # not so: it is the default, and that there are more pairs is warned of


@dataclass(frozen=True)
class ShownRun:
    """The run of a side that is shown, export by export. steps: by (part, period)."""

    label: str
    name: str
    parts: list[Reduction]
    steps: dict[tuple[int, int], SampledStep]


@dataclass(frozen=True)
class PairedRuns:
    """A run of each side with the pairs of steps that are shown."""

    sides: tuple[ShownRun, ShownRun]
    pairs: list[Pair]
    all_pairs: int
    strata: dict[str, Stratum]  # by the row of a pair
    with_gil: bool
    warnings: list[Note] = field(default_factory=list)

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
    min_steps: int = MIN_STEPS,
    progress: Callable[[str], None] = lambda _: None,
) -> PairedRuns:
    """Read both sides, choose a run of each (`runs`: their numbers from 0, else the median one) and the pairs to show.

    Raises `TracediffError`: no-common-strata, timeline-no-run, timeline-no-steps, timeline-too-large, and those of
    reading.
    """
    files = (_only(files[0], runs[0], 0), _only(files[1], runs[1], 1))
    sides = with_classes(reduce_sides(files, reading, progress))
    table = steps_table(sides)
    frame = build_frame(table, (len(sides[0].runs), len(sides[1].runs)), min_steps)
    strata = build_strata(frame, min_steps)
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
        again = _read(side.runs[run].sources, shown, number, reading, window.most_events)
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
            sides,
            both,
            (strata, notes_of(frame, min_steps)),
            window,
            (len(pairs), len(asked), len(shown)),
            with_gil,
        ),
    )


def _only(side: SideFiles, run: int | None, number: int) -> SideFiles:
    if run is None:
        return side
    if run >= len(side.runs):
        raise TracediffError(
            "timeline-no-run",
            f"the {SIDES[number]} has {len(side.runs)} runs: there is no run {run + 1}",
            fix="--run N, or --run N,M where the sides differ: " + ", ".join(f"{at} {one.name}" for at, one in enumerate(side.runs, 1)),
            exit_code=2,
        )  # fmt: skip
    return replace(side, runs=(side.runs[run],))


def _read(
    sources: Sequence[tuple[Path, Selection]],
    pairs: Sequence[Pair],
    side: int,
    reading: Reading,
    most_events: int,
) -> list[Reduction]:
    """Every export of a run, with the events of the periods that are shown in the order of the pairs."""
    rows: dict[int, list[int]] = {}
    for pair in pairs:
        for one in pair.steps[side]:
            rows.setdefault(one.part, []).append(one.period)
    return [
        reduce_file(path, replace(reading, only=only), sampler=in_full(rows.get(part, []), most_events))
        for part, (path, only) in enumerate(sources)
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
    if any(part.step_source == "whole-capture" for part in parts):
        notes.append(
            Note("whole-capture", "each capture was counted as one step: only captures of the same work can be compared by their length")
        )  # fmt: skip
    if not with_gil:
        notes.append(
            Note("gil-one-side", "the GIL was traced on one side only: idle time that waited for it is counted as the host work"
                 " or call it fell into, on both sides. Capture both with nsys -t python-gil")
        )  # fmt: skip
    comparability = check((sides[0], sides[1]), compared[0])
    if not comparability.comparable:
        failed = ", ".join(one.name for one in comparability.checks if one.status == "fail")
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
