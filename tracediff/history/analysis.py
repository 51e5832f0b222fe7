"""From the points of a store to what changed: order, segments that may be compared, changes of level with their causes, drift.

Two families of series are searched, each with half of the false alarms that a history may have: the times of steps (with what was asked
for), and what they are made of. Where a step changes, its causes are not searched again: what differs at that very point is named.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

import tracediff
from tracediff.arrays import Floats
from tracediff.comparison.kernel_answer import bearing
from tracediff.comparison.measures import KERNEL, STEP, Measure, parse
from tracediff.errors import TracediffError
from tracediff.formats import children
from tracediff.history import changes
from tracediff.history.changes import Change, Places, Series
from tracediff.history.model import (
    Apart,
    Basis,
    CauseChange,
    ChangeFound,
    DriftFound,
    History,
    PointRow,
    Segment,
    SeriesRow,
    Standing,
)
from tracediff.history.points import SEEN, Point
from tracediff.history.store import Kept
from tracediff.model import Tool
from tracediff.model.causes import CAUSES
from tracediff.stats.noise import FLOOR
from tracediff.stats.tests import ALPHA, benjamini_hochberg

COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")


class Commits(msgspec.Struct, frozen=True):
    """The commits of a branch. order: commit -> its place in the first-parent history, the oldest 0; reachable: from the branch at all, sorted.

    problem: why git cannot order points: '' | no-repository | shallow (a clone without its older commits).
    """

    order: dict[str, int] = msgspec.field(default_factory=dict)
    reachable: tuple[str, ...] = ()
    problem: str = ""

    def full(self, commit: str) -> str:
        """A shortened name in full, where exactly one commit begins so."""
        at = bisect_left(self.reachable, commit)
        found = [one for one in self.reachable[at : at + 2] if one.startswith(commit)]
        return found[0] if len(found) == 1 else commit

    def reaches(self, commit: str) -> bool:
        """Whether the branch has a commit, named in full."""
        at = bisect_left(self.reachable, commit)
        return self.reachable[at : at + 1] == (commit,)


def read_commits(repository: Path, branch: str = "HEAD") -> Commits:
    """Read the history of a branch; without a repository there, an empty one that says so."""
    if _git(repository, "rev-parse", "--is-shallow-repository") == "true":
        return Commits(problem="shallow")
    main = _git(repository, "rev-list", "--first-parent", branch, "--")
    every = _git(repository, "rev-list", branch, "--")
    if not main or not every:
        return Commits(problem="no-repository")
    newest_first = main.split()
    return Commits(
        {commit: at for at, commit in enumerate(reversed(newest_first))}, tuple(sorted(every.split()))
    )


def identify(repository: Path, commit: str) -> tuple[str, str] | None:
    """The full name of a commit and its time (ISO 8601, UTC); None where the repository does not have it."""
    found = _git(
        repository, "show", "-s", "--format=%H %ct", "--end-of-options", f"{commit}^{{commit}}", "--"
    )
    if not found:
        return None
    name, _, seconds = found.splitlines()[-1].partition(" ")
    return name, datetime.fromtimestamp(int(seconds), UTC).isoformat(timespec="seconds")


def _git(repository: Path, *words: str) -> str | None:
    """What git prints; None where it fails or is not there."""
    try:
        done = children.run(["git", "-C", str(repository), *words])
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


# The analysis


_FAMILIES = 2
_CAUSES = 6  # named beside a change
_PART = 0.02  # of a change, below which a cause is not named
_SMALL = 0.002  # of the step: what is never more than that is not searched; of a count, below which no change is named
_NEAR = 1  # points: changes so near each other are one


class _Column(msgspec.Struct, frozen=True, eq=False):
    """A measure over the points of a segment. at: indices into the segment's points."""

    measure: Measure
    name: str
    basis: Basis
    baseline: float | None  # mean of the pinned baseline, where `basis` is that
    at: list[int]
    series: Series

    def row(self, points: Sequence[int]) -> SeriesRow:
        return SeriesRow(
            measure=self.name, unit=self.measure.unit, basis=self.basis, points=[points[one] for one in self.at],
            values=self.series.values.tolist(), errors=self.series.errors.tolist(),
        )  # fmt: skip


def analyse(
    kept: Sequence[Kept],
    commits: Commits,
    *,
    asked: Sequence[Measure] = (),
    torn: Sequence[str] = (),
    program: str | None = None,
) -> History:
    """Analyse all points; `program`: only those that bear this name."""
    mine = [one for one in kept if program is None or one.point.program.name == program]
    ordered, by_git = _ordered(mine, commits)
    rows = [_row(one, commits, by_git) for one in ordered]
    parts: dict[tuple[object, ...], list[int]] = {}
    for at, (one, row) in enumerate(zip(ordered, rows, strict=True)):
        if not row.apart:
            parts.setdefault(_key(one.point), []).append(at)
    newest_first = sorted(parts.values(), key=lambda points: -points[-1])
    points = [one.point for one in ordered]
    return History(
        tool=Tool("tracediff", tracediff.__version__),
        order="git" if by_git else "time",
        why="" if by_git else commits.problem or "no-commit",
        points=rows,
        segments=_shown([_segment(points, rows, own, asked) for own in newest_first]),
        torn=list(torn),
        asked=[one.text for one in asked],
    )


def _ordered(kept: Sequence[Kept], commits: Commits) -> tuple[list[Kept], bool]:
    """By git, else by time. What git does not have comes where its time puts it, and is kept apart by `_row`."""
    by_git = any(commits.full(one.point.commit) in commits.order for one in kept)
    by_time = sorted(kept, key=lambda one: (_seconds(one.point.time), one.added, one.name))
    if not by_git:
        return by_time, False
    place = -1
    places: dict[str, tuple[int, int]] = {}
    for number, one in enumerate(by_time):
        own = commits.order.get(commits.full(one.point.commit))
        place = place if own is None else own
        places[one.name] = place, number
    return sorted(by_time, key=lambda one: places[one.name]), True


def _row(kept: Kept, commits: Commits, by_git: bool) -> PointRow:
    point = kept.point
    commit = commits.full(point.commit)
    place = commits.order.get(commit) if by_git else None
    apart: Apart = ""
    if by_git and place is None:
        apart = "side_branch" if commits.reaches(commit) else "unreachable"
    return PointRow(
        commit=commit, time=point.time, added=kept.added, place=place, apart=apart, file=kept.name, source=kept.source,
        link=kept.link, baseline=point.baseline, pinned=point.pinned, verdict=point.verdict,
    )  # fmt: skip


def _key(point: Point) -> tuple[object, ...]:
    return point.program, *(tuple(sorted(one.items())) for one in (point.machine, point.configuration))


def _segment(
    points: Sequence[Point], rows: Sequence[PointRow], own: list[int], asked: Sequence[Measure]
) -> Segment:
    mine = [points[at] for at in own]
    commits = [rows[at].commit for at in own]
    groups = [0]
    for one, other in itertools.pairwise(commits):
        groups.append(groups[-1] + (one != other))
    pinned = next((one.pinned for one in reversed(mine) if one.pinned), "")
    columns = _columns(mine, np.array(groups, np.intp), pinned, asked)
    first, second = _families(columns, asked)
    found = [(one, _changes(one, len(first))) for one in first]
    causes = [(one, _changes(one, len(second))) for one in second]
    said = [_said(one, change, found_in, second, own, rows) for one, found_in in found for change in found_in]
    known = {one.good for one in said}
    said += _others(causes, known, own, rows)
    drifts = [
        drifted
        for one, inside in found
        if (drifted := _drifted(one, inside, len(first), second, own, rows)) is not None
    ]
    return Segment(
        program=mine[0].program,
        machine=mine[0].machine,
        configuration=mine[0].configuration,
        points=own,
        pinned=pinned,
        left_out=[at for at, one in zip(own, mine, strict=True) if pinned and one.pinned != pinned],
        searched=len(first) + len(second),
        series=[one.row(own) for one in columns],
        changes=sorted(said, key=lambda one: (-one.bad, one.measure)),
        drifts=drifts,
        standings=[_standing(one, inside, len(first)) for one, inside in found],
    )


def _category(measure: Measure) -> bool:
    return measure.quantity in CAUSES and not measure.place


def _shown(segments: Sequence[Segment]) -> list[Segment]:
    """Without the series that nothing is said of in any segment: of thousands of points only those that a reader may want."""
    names = {one.measure for segment in segments for one in segment.standings}
    for segment in segments:
        said: list[ChangeFound | DriftFound] = [*segment.changes, *segment.drifts]
        names |= {one.measure for one in said} | {cause.measure for one in said for cause in one.causes}
    phases = any((one := _read(row.measure)) and one.phase for segment in segments for row in segment.series)
    kept = []
    for segment in segments:
        rows = [row for row in segment.series if row.measure in names or _of_accounting(row, phases)]
        kept.append(msgspec.structs.replace(segment, series=rows))
    return kept


def _of_accounting(row: SeriesRow, phases: bool) -> bool:
    """Categories that ever take time, of phases where there are some; counts."""
    measure = _read(row.measure)
    if measure is None or row.unit == "count":
        return measure is not None
    return _category(measure) and bool(measure.phase) == phases and any(row.values)


class _Table(msgspec.Struct, frozen=True):
    """All measures of some points: arrays (points, names), nan where a point does not have one."""

    names: list[str]
    value: Floats
    error: Floats
    baseline: Floats
    delta: Floats

    @classmethod
    def of(cls, points: Sequence[Point]) -> _Table:
        names: dict[str, int] = {}
        for point in points:
            for name in point.measures.names:
                names.setdefault(name, len(names))
        columns = [np.full((len(points), len(names)), np.nan) for _ in range(4)]
        for row, point in enumerate(points):
            own = point.measures
            at = [names[name] for name in own.names]
            for column, given in zip(columns, (own.value, own.error, own.baseline, own.delta), strict=True):
                column[row, at] = np.array(given, np.float64)  # None is nan
        return cls(list(names), *columns)

    def with_sums(self, asked: Sequence[Measure]) -> _Table:
        """The same and what was asked for that is a sum: of the kernels or places of a pattern, or of categories."""
        names, columns = list(self.names), [self.value, self.error, self.baseline, self.delta]
        known = [(at, measure) for at, name in enumerate(self.names) if (measure := _read(name))]
        kernels = [measure.kernel for _, measure in known if measure.quantity == KERNEL]
        for one in asked:
            named = bearing(one.kernel, kernels) if one.quantity == KERNEL else frozenset()
            parts = [at for at, measure in known if _meant(measure, one, named)]
            if one.text not in names and parts:
                # a place or a kernel that is not there takes no time; a point that has none of them says nothing
                nothing = np.isnan(self.value[:, parts]).all(axis=1, keepdims=True)
                sums = [
                    np.where(nothing, np.nan, np.nansum(column[:, parts], axis=1, keepdims=True))
                    for column in columns
                ]
                columns = [np.hstack([column, added]) for column, added in zip(columns, sums, strict=True)]
                names.append(one.text)
        return _Table(names, *columns)


def _read(name: str) -> Measure | None:
    """The measure of a name; None of one that this version does not know: a later one may keep more."""
    try:
        return parse(name)
    except TracediffError:
        return None


def _columns(points: Sequence[Point], groups: Places, pinned: str, asked: Sequence[Measure]) -> list[_Column]:
    """All measures of the points; a place or kernel that a point does not have takes no time there, nor does a collection."""
    table = _Table.of(points).with_sums(asked)
    against = np.array([bool(pinned) and point.pinned == pinned for point in points])
    columns = []
    for number, name in enumerate(table.names):
        measure = _read(name)
        if measure is None:
            continue
        value, error, baseline, delta = (
            one[:, number].copy() for one in (table.value, table.error, table.baseline, table.delta)
        )
        if measure.place or measure.quantity == KERNEL or measure.quantity in SEEN:
            missing = np.isnan(value)
            for one in (value, error, baseline, delta):
                one[missing] = 0.0
        has = ~np.isnan(value)
        known = has & ~np.isnan(delta)
        mean = float(baseline[known].mean()) if known.any() else 0.0
        basis: Basis = "pinned" if bool((known & against)[has].all()) else "value"
        if basis == "pinned":
            value = mean + delta
        else:  # the error of a difference of two sides is larger than that of one
            error = np.where(known, error / np.sqrt(2), error)
        usual = CAUSES.get(measure.quantity, CAUSES["compute"]).scatter
        guess = 0.0 if measure.unit == "count" else usual * float(np.abs(value[has]).mean()) + FLOOR
        series = Series(value[has], np.where(error > 0, error, guess)[has], groups[has])
        base = mean if basis == "pinned" else None
        columns.append(_Column(measure, name, basis, base, np.flatnonzero(has).tolist(), series))
    return columns


def _families(columns: list[_Column], asked: Sequence[Measure]) -> tuple[list[_Column], list[_Column]]:
    """What is asked first: times of steps and what the user named. Then what they are made of, if it is ever worth a look."""
    phases = any(one.measure.phase and _category(one.measure) for one in columns)
    of_steps = [one for one in columns if one.measure.quantity == STEP]
    phased = [one for one in of_steps if one.measure.phase]
    # with one phase the mean step is the same; else where verdicts rest on one phase it may be
    if len(phased) == 1 or any(
        _alike(one, other) for one in phased for other in of_steps if other not in phased
    ):
        of_steps = phased
    longest = max((float(one.series.values.max()) for one in of_steps), default=0.0)
    first = of_steps + [one for one in columns if one not in of_steps and one.measure in asked]
    second = []
    for one in columns:
        whole = phases and one.measure.quantity in CAUSES and not one.measure.phase  # the phases have it too
        small = one.measure.unit == "ns" and float(np.abs(one.series.values).max()) < _SMALL * longest
        if one not in first and not whole and not small and one.measure.quantity != STEP:
            second.append(one)
    return first, second


def _alike(one: _Column, other: _Column) -> bool:
    return one.at == other.at and bool(np.array_equal(one.series.values, other.series.values))


def _meant(measure: Measure, asked: Measure, kernels: Collection[str]) -> bool:
    """Whether a measure is one of those that were asked for by a pattern, or a part of their sum. `kernels`: that bear the name asked for."""
    if measure.phase != asked.phase:
        return False
    if asked.quantity == KERNEL:
        return measure.quantity == KERNEL and measure.kernel in kernels
    return (
        measure.quantity in asked.categories
        and bool(measure.place) == bool(asked.place)
        and asked.at([measure.place])
    )


def _changes(column: _Column, family: int) -> list[Change]:
    return changes.changes(column.series, family * _FAMILIES)


def _said(
    column: _Column,
    change: Change,
    among: list[Change],
    others: Iterable[_Column],
    own: list[int],
    rows: Sequence[PointRow],
) -> ChangeFound:
    ends = [0, *(one.at for one in among), len(column.series.values)]
    number = among.index(change)
    around = (column.at[ends[number]], column.at[change.at], column.at[ends[number + 2] - 1] + 1)
    related = [
        one for one in others if not column.measure.phase or one.measure.phase in ("", column.measure.phase)
    ]
    causes = _causes(change.delta, column.measure, related, *around)
    return _described(column, change, ends[number + 2] - change.at, causes, own, rows)


def _described(
    column: _Column,
    change: Change,
    points: int,
    causes: list[CauseChange],
    own: list[int],
    rows: Sequence[PointRow],
) -> ChangeFound:
    good, bad = own[column.at[change.at - 1]], own[column.at[change.at]]
    places = rows[good].place, rows[bad].place
    between = None if places[0] is None or places[1] is None else max(places[1] - places[0] - 1, 0)
    return ChangeFound(
        measure=column.name, unit=column.measure.unit, good=good, bad=bad, unmeasured=between, before=change.before,
        after=change.after, delta=change.delta, low=change.low, high=change.high, p=change.p, points=points, causes=causes,
    )  # fmt: skip


def _causes(
    delta: float, of: Measure, columns: Iterable[_Column], first: int, at: int, last: int
) -> list[CauseChange]:
    """What differs between [first, at) and [at, last) of the segment's points: Benjamini and Hochberg at 5 %, the largest first."""
    tested = []
    for column in columns:
        a, b, c = np.searchsorted(column.at, (first, at, last)).tolist()
        if b - a < 1 or c - b < 1 or c - a < changes.LEAST + 1:
            continue
        one = changes.difference(column.series, a, b, c)
        tested.append((one.p, column, one))
    tested.sort(key=lambda item: item[0])
    q = benjamini_hochberg(np.array([p for p, _, _ in tested]))
    sure = [item for item, own in zip(tested, q.tolist(), strict=True) if own <= ALPHA]
    times = [
        item for item in sure if item[1].measure.unit == "ns" and abs(item[2].delta) >= _PART * abs(delta)
    ]
    counts = [
        item
        for item in sure
        if item[1].measure.unit == "count" and abs(item[2].delta) >= _SMALL * abs(item[2].before)
    ]
    times.sort(key=lambda item: -abs(item[2].delta))
    chosen = times[:_CAUSES] + counts
    return [
        CauseChange(column.name, column.measure.unit, one.before, one.after, one.delta, p)
        for p, column, one in chosen
    ]


def _others(
    found: Sequence[tuple[_Column, list[Change]]], known: set[int], own: list[int], rows: Sequence[PointRow]
) -> list[ChangeFound]:
    """Changes of causes where no step changed: those at one point are one, named after the largest."""
    known_at = {own.index(one) for one in known}
    at: dict[int, list[tuple[_Column, Change, int]]] = {}
    for column, inside in found:
        ends = [one.at for one in inside] + [len(column.series.values)]
        for number, change in enumerate(inside):
            good = column.at[change.at - 1]
            if any(abs(good - one) <= _NEAR for one in known_at):
                continue
            near = next((one for one in at if abs(one - good) <= _NEAR), good)
            at.setdefault(near, []).append((column, change, ends[number + 1] - change.at))
    said = []
    for group in at.values():
        group.sort(key=lambda item: (item[0].measure.unit == "count", -abs(item[1].delta)))
        column, change, points = group[0]
        causes = [
            CauseChange(one.name, one.measure.unit, two.before, two.after, two.delta, two.p)
            for one, two, _ in group[1 : _CAUSES + 1]
        ]
        said.append(_described(column, change, points, causes, own, rows))
    return said


def _drifted(
    column: _Column,
    inside: list[Change],
    family: int,
    others: Iterable[_Column],
    own: list[int],
    rows: Sequence[PointRow],
) -> DriftFound | None:
    drift = changes.drift(column.series, inside, family * _FAMILIES)
    if drift is None or drift.p > ALPHA:
        return None
    causes = []
    for one in others:
        if column.measure.phase and one.measure.phase != column.measure.phase:
            continue
        part = changes.drift(one.series, [], 1)
        if part is not None and part.p <= ALPHA / 10 and abs(part.total) >= _PART * abs(drift.total):
            level = float(one.series.values.mean())
            causes.append(
                CauseChange(
                    one.name,
                    one.measure.unit,
                    level - part.total / 2,
                    level + part.total / 2,
                    part.total,
                    part.p,
                )
            )
    causes.sort(key=lambda one: (one.unit == "count", -abs(one.delta)))
    first, last = own[column.at[0]], own[column.at[-1]]
    days = (_seconds(rows[last].time) - _seconds(rows[first].time)) / 86_400
    return DriftFound(
        measure=column.name, unit=column.measure.unit, first=first, last=last, days=days, level=float(column.series.values.mean()),
        total=drift.total, low=drift.low, high=drift.high, p=drift.p, causes=causes[:_CAUSES],
    )  # fmt: skip


def _standing(column: _Column, inside: list[Change], family: int) -> Standing:
    series = column.series
    values = series.values
    first = inside[-1].at if inside else 0
    mean, low, high = changes.level(series, first)
    base = column.baseline
    alone = changes.newest(series, family) if first < len(values) - changes.LEAST else None
    return Standing(
        measure=column.name,
        unit=column.measure.unit,
        level=mean,
        baseline=base,
        delta=None if base is None else mean - base,
        low=None if base is None else low - base,
        high=None if base is None else high - base,
        points=len(values) - first,
        last=float(values[-1]),
        stands_out=alone.delta if alone is not None and alone.p <= ALPHA else None,
    )


def _seconds(time: str) -> float:
    found = datetime.fromisoformat(time)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
