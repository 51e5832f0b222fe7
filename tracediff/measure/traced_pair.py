"""One run of each side with the events of its paired steps: what `tracediff timeline` writes.

The exports are read twice: first to know which steps go with which, then, one run of each side, with the events of
those steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from tracediff.align.strata import ROW, Strata, build_strata, need_common
from tracediff.errors import TracediffError
from tracediff.load.inputs import SideFiles
from tracediff.load.selection import MIN_STEPS, Selection
from tracediff.measure.comparability import check
from tracediff.measure.keeper import Keep, Keeper
from tracediff.measure.paired_steps import Pair, median_run, on_axis, pair_steps
from tracediff.measure.reduction import Reduction
from tracediff.measure.run import Reading, reduce_file, reduce_sides
from tracediff.measure.sides import Side, steps_table
from tracediff.measure.traced_steps import TracedStep, trace_steps
from tracediff.model import Note, Stratum

SIDES = ("baseline", "candidate")
_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Window:
    """Which pairs are shown: the first to the last, counted from 1, and at most so many events of both sides."""

    first: int = 1
    last: int = 20
    most_events: int = 500_000
    asked: bool = True  # not so: it is the default, and that there are more pairs is warned of


@dataclass(frozen=True)
class TracedPair:
    """Everything that is shown. `parts`, `steps`: of each side's run, export by export; steps by (part, period)."""

    labels: tuple[str, str]
    runs: tuple[str, str]
    parts: tuple[list[Reduction], list[Reduction]]
    steps: tuple[dict[tuple[int, int], TracedStep], dict[tuple[int, int], TracedStep]]
    pairs: list[Pair]
    all_pairs: int
    strata: dict[str, Stratum]  # by the row of a pair
    with_gil: bool
    warnings: list[Note] = field(default_factory=list)

    @property
    def events(self) -> int:
        """How many events all shown steps have."""
        return sum(_events(pair, self.steps) for pair in self.pairs)


def trace_pair(
    files: tuple[SideFiles, SideFiles],
    reading: Reading,
    window: Window,
    *,
    runs: tuple[int | None, int | None] = (None, None),
    min_steps: int = MIN_STEPS,
    progress: Callable[[str], None] = lambda _: None,
) -> TracedPair:
    """Read both sides, choose a run of each (`runs`: their numbers from 0, else the median one) and the pairs to show.

    Raises `TracediffError`: no-common-strata, timeline-no-run, timeline-no-steps, timeline-too-large, and those of
    reading.
    """
    files = (_only(files[0], runs[0], 0), _only(files[1], runs[1], 1))
    sides = reduce_sides(files, reading, progress)
    table = steps_table(sides)
    strata = build_strata(table, (len(sides[0].runs), len(sides[1].runs)), min_steps)
    need_common(strata)
    compared = strata.locate(table).filter(pl.col("group") >= 0).with_columns(row=ROW)
    chosen = (median_run(compared, 0), median_run(compared, 1))
    pairs = pair_steps(compared, chosen)
    shown = [pair for pair in pairs if window.first <= pair.number <= window.last]
    if not shown:
        raise TracediffError(
            "timeline-no-steps",
            f"there is no pair of steps {window.first} to {window.last}: the runs that are shown have {len(pairs)} pairs",
            fix=f"--steps 1-{min(len(pairs), 20)}" if pairs else "other runs (--run), or a longer capture",
        )
    first_pass = (sides[0].runs[chosen[0]].parts, sides[1].runs[chosen[1]].parts)
    asked = len(shown)
    shown = _fitting(shown, _ops(first_pass), window.most_events)
    with_gil = sides[0].captured("gil") == sides[1].captured("gil")
    keep = partial(trace_steps, with_gil=with_gil, most_events=window.most_events)
    parts = tuple(
        _read(sides[side].runs[chosen[side]].sources, _periods(shown, side), reading, keep) for side in (0, 1)
    )
    for before, after in zip(first_pass, parts, strict=True):
        assert all(one.periods.equals(other.periods) for one, other in zip(before, after, strict=True))
    steps = (_steps(parts[0]), _steps(parts[1]))
    shown = _fitting(shown, lambda pair: _events(pair, steps), window.most_events)
    return TracedPair(
        labels=(sides[0].label, sides[1].label),
        runs=(sides[0].runs[chosen[0]].name, sides[1].runs[chosen[1]].name),
        parts=(parts[0], parts[1]),
        steps=steps,
        pairs=on_axis(shown),
        all_pairs=len(pairs),
        strata=dict(zip(strata.keys, strata.rows, strict=True)),
        with_gil=with_gil,
        warnings=_warnings(sides, parts, strata, window, (len(pairs), asked, len(shown)), with_gil),
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


def _periods(pairs: Sequence[Pair], side: int) -> dict[int, list[int]]:
    """Part -> the periods of it that are shown, in the order of the pairs."""
    found: dict[int, list[int]] = {}
    for pair in pairs:
        for one in pair.steps[side]:
            found.setdefault(one.part, []).append(one.period)
    return found


def _read(
    sources: Sequence[tuple[Path, Selection]], periods: dict[int, list[int]], reading: Reading, keep: Keep
) -> list[Reduction]:
    """Read every export of a run with the events of some periods."""
    return [
        reduce_file(
            path,
            replace(reading, keep=True, only=only),
            keeper=Keeper(partial(_given, periods.get(part, [])), keep),
        )
        for part, (path, only) in enumerate(sources)
    ]


def _given(periods: list[int], *_: object) -> list[int]:
    return periods


def _steps(parts: Sequence[Reduction]) -> dict[tuple[int, int], TracedStep]:
    found = {}
    for number, part in enumerate(parts):
        for step in part.kept:
            assert isinstance(step, TracedStep)
            found[number, step.period] = step
    return found


def _events(pair: Pair, steps: Sequence[dict[tuple[int, int], TracedStep]]) -> int:
    """How many events a pair has; endless where a step of it was not read, for there were too many before it."""
    found = [steps[side].get((one.part, one.period)) for side in (0, 1) for one in pair.steps[side]]
    return sum(_ENDLESS if one is None else one.events for one in found)


def _ops(parts: Sequence[Sequence[Reduction]]) -> Callable[[Pair], int]:
    """How many ops a pair has: known before its events are read."""
    counts = [
        [dict(one.kernels.group_by("period").agg(pl.col("count").sum()).iter_rows()) for one in side]
        for side in parts
    ]
    return lambda pair: sum(
        int(counts[side][one.part].get(one.period, 0)) for side in (0, 1) for one in pair.steps[side]
    )


def _fitting(pairs: list[Pair], size: Callable[[Pair], int], most: int) -> list[Pair]:
    """The first of the pairs, as many as have no more than `most` events together."""
    total, kept = 0, []
    for pair in pairs:
        total += size(pair)
        if total > most:
            break
        kept.append(pair)
    if not kept:
        raise TracediffError(
            "timeline-too-large",
            f"the first pair of steps alone has {size(pairs[0]):,} events, more than {most:,}",
            fix=f"--max-events {2 * size(pairs[0])}",
        )
    return kept


def _warnings(
    sides: Sequence[Side],
    parts: Sequence[Sequence[Reduction]],
    strata: Strata,
    window: Window,
    counts: tuple[int, int, int],
    with_gil: bool,
) -> list[Note]:
    pairs, asked, shown = counts
    notes = [note for side in sides for note in side.notes]
    notes += [note for side in parts for part in side for note in part.warnings]
    notes += strata.warnings
    if any(part.step_source == "whole-capture" for side in parts for part in side):
        notes.append(
            Note("whole-capture", "each capture was counted as one step: captures of different length cannot be compared")
        )  # fmt: skip
    if not with_gil:
        notes.append(
            Note("gil-one-side", "the GIL was traced on one side only: idle time that waited for it is counted as the host work"
                 " or call it fell into, on both sides. Capture both with nsys -t python-gil")
        )  # fmt: skip
    comparability = check((sides[0], sides[1]), strata)
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
