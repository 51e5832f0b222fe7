"""Ranks that were exported apart: their clocks aligned, so that their waits for each other are known as in one export.

| number | what it decides | origin |
|-|-|-|
| ONE_CLOCK_NS, 60 us | the start times of sessions are of one clock: ends of the collectives they share differ by no more, median | 18 runs of two ranks on one machine: 0 to 2 us in all-reduces, 13 in sends, 25 in all-gathers and reduce-scatters of 100 MB, single ends up to 55 |
| TOGETHER, 90 % | of the shared collectives end so near to each other, else ranks are not told to wait | 97 % and more there |
| SENT_TOGETHER, 25 % | of the shared sends do, where there is nothing else and the sessions' start times are known | 49 to 100 % in six runs of two stages; a send that a buffer takes ends before its receiver begins |
| AGREE, 95 % | of the ends are as near as the report says | |

An all-reduce ends everywhere at nearly the same moment, whichever rank came last; a send ends before it was received. So all-reduces
tell whether clocks are one, and align them where not; other collectives only where there is none, and sends where there is nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.kernels import (
    ONE_CLOCK_NS,
    SENDS,
    SENT_TOGETHER,
    TOGETHER,
    collective_waits,
    counted,
)
from tracediff.accounting.reduction import Reduction
from tracediff.arrays import Ints
from tracediff.execution.sides import NAMED, Run, Side
from tracediff.model import Note, RankClock

AGREE = 95  # percent
_SHARED = ["step", "comm", "ordinal"]  # what names a collective of a run
_SENT, _OTHER, _REDUCES = range(3)  # how much the ends of collectives tell of clocks


def with_waits(side: Side) -> Side:
    """The side with `collectives` over the exports of each run, and how well clocks agree in the run where they do worst.

    Runs of one export are left as they are, and those whose clocks cannot be aligned.
    """
    runs, clocks = [], []
    for run in side.runs:
        joined = _joined(run)
        runs.append(run if joined is None else joined[0])
        clocks += [] if joined is None else [joined[1]]
    worst = max(clocks, key=lambda clock: clock.apart_ns, default=None)
    return replace(side, runs=runs, clock=worst)


def ranks_of_one(runs: Sequence[Run]) -> tuple[list[Run], list[Note]]:
    """The runs of a side, with those made one that are ranks of one run by their collectives, whatever their exports are called; and what to say.

    mpirun and Slurm number exports as they are told to: `report_%q{SLURM_PROCID}` and `report_%p` tell no ranks from repeats. Runs of the
    same time on one clock that share no collectives are told, for they may slow each other down.
    """
    found: list[Run] = []
    notes = []
    for together in _at_once(runs):
        one_run = False
        begun = {(_session_ns(run.parts[0]), run.parts[0].periods["start_ns"].min()) for run in together}
        if len(begun) > 1:  # no copies of one capture
            aligned = _aligned([(rank, run.parts[0]) for rank, run in enumerate(together)])
            one_run = aligned is not None and aligned[1].by == "sessions"
            what = "their collectives end together: they are ranks of one run" if one_run else _SLOWER
            named = ", ".join(run.name for run in together[:NAMED]) + ", ..." * (len(together) > NAMED)
            text = f"{named} were recorded at the same time, and {what}"
            notes.append(Note("ranks-of-one-run" if one_run else "runs-at-once", text))
        found += [_as_ranks(together)] if one_run else together
    return found, notes


_SLOWER = "runs that share a machine slow each other down. Ranks of one run are those whose names differ in rank<N> only"


def _as_ranks(runs: Sequence[Run]) -> Run:
    """One run whose ranks runs of one export are, in their order."""
    name = re.sub(r"[._-]*\d+(\.\w+)?$", "", runs[0].name) or runs[0].name
    sources = tuple(one for run in runs for one in run.sources)
    return Run(
        name, [run.parts[0] for run in runs], tuple(range(len(runs))), sources, traffic=runs[0].traffic
    )


def _at_once(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs, those that ran at the same time in one list; each in one of its own where that is not known."""
    spans = [span for run in runs if (span := _span(run)) is not None]
    if len(spans) < len(runs):
        return [[run] for run in runs]
    found: list[list[int]] = []
    last = 0
    for at in sorted(range(len(runs)), key=lambda at: spans[at]):
        begin, end = spans[at]
        if begin >= last:
            found.append([])
        found[-1].append(at)
        last = max(last, end)
    return [[runs[at] for at in sorted(together)] for together in sorted(found, key=min)]


def _span(run: Run) -> tuple[int, int] | None:
    """When the steps of a run of one export and rank began and ended, ns since the epoch; None where that is not known."""
    start = _session_ns(run.parts[0])
    if start is None or len(run.parts) > 1 or run.program_ranks > 1:
        return None
    steps = run.parts[0].periods
    return start + int(steps["start_ns"].min()), start + int(steps["end_ns"].max())  # type: ignore[arg-type]


def _joined(run: Run) -> tuple[Run, RankClock] | None:
    if run.unread or len(set(run.firsts())) < 2:
        return None
    parts, clocks = list(run.parts), []
    for window in _windows(run):
        aligned = _aligned([(run.firsts()[at], run.parts[at]) for at in window])
        if aligned is None:
            return None
        arrived, clock = aligned
        waits = collective_waits(arrived)
        for at in window:
            first, ranks = run.firsts()[at], run.parts[at].measured.all_ranks
            mine = waits.filter(pl.col("rank").is_between(first, first + ranks - 1))
            local = pl.col("members").list.eval(pl.element() - first), pl.col("rank") - first
            parts[at] = replace(run.parts[at], collectives=mine.with_columns(*local))
        clocks.append(clock)
    return replace(run, parts=parts), max(clocks, key=lambda clock: clock.apart_ns)


def _windows(run: Run) -> Iterator[list[int]]:
    """The parts of each capture window, of all ranks."""
    seen: dict[int, int] = {}
    windows: dict[int, list[int]] = {}
    for at, first in enumerate(run.firsts()):
        seen[first] = seen.get(first, -1) + 1
        windows.setdefault(seen[first], []).append(at)
    yield from windows.values()


def _aligned(parts: Sequence[tuple[int, Reduction]]) -> tuple[pl.DataFrame, RankClock] | None:
    """Arrivals of all ranks with the clock of the first export; None where they share no collectives that end together."""
    numbered = all(_numbers(part.arrivals) for _, part in parts)
    tables = [_counted(first, part.arrivals, numbered=numbered) for first, part in parts]
    done, by_session = [tables[0]], True
    starts = [_session_ns(part) for _, part in parts]
    for table, start in zip(tables[1:], starts[1:], strict=True):
        shared = _best(_ends(table, pl.concat(done)))
        known = start is not None and starts[0] is not None
        ahead = start - starts[0] if known else 0  # type: ignore[operator]
        near = (shared["late"] + ahead).abs() <= ONE_CLOCK_NS
        # none where it is of another group: only ranks of one wait for each other
        if not len(shared) or (known and near.mean() >= _needed(shared, by_session=True)):  # type: ignore[operator]
            done.append(table.with_columns(pl.col("start", "end") + ahead))
            continue
        shift = _drifting(shared["end"].to_numpy(), shared["late"].to_numpy(), table)
        done.append(table.with_columns(pl.col("start") - shift, pl.col("end") - shift))
        by_session = False
    ops = pl.concat(done)
    ends = ops.group_by(_SHARED).agg(
        ranks=pl.col("rank").n_unique(), tells=pl.col("tells").max(), apart=pl.col("end").max() - pl.col("end").min()
    )  # fmt: skip
    best = _best(ends.filter(pl.col("ranks") > 1))
    if not len(best) or (best["apart"] <= ONE_CLOCK_NS).mean() < _needed(best, by_session=by_session):  # type: ignore[operator]
        return None
    apart = int(np.percentile(best["apart"].to_numpy(), AGREE))
    kind: Literal["all-reduces", "collectives"] = (
        "all-reduces" if best["tells"][0] == _REDUCES else "collectives"
    )
    clock = RankClock(len(parts), "sessions" if by_session else "collectives", kind, len(best), apart)
    return ops.drop("ordinal", "tells").sort("rank", "start", maintain_order=True), clock


def _numbers(arrived: pl.DataFrame) -> bool:
    """Whether numbers of labels name its steps."""
    steps = arrived.select("rank", "step", "number").unique()
    return bool(
        steps["number"].is_not_null().all() and not steps.select("rank", "number").is_duplicated().any()
    )


def _counted(first: int, arrived: pl.DataFrame, *, numbered: bool) -> pl.DataFrame:
    """Arrivals of an export among those of its run."""
    step = pl.col("number" if numbered else "step").alias("step")
    sends = pl.when(pl.col("calls") == SENDS).then(_SENT).otherwise(_OTHER)
    tells = pl.when("reduces").then(_REDUCES).otherwise(sends)
    return counted(arrived.with_columns(pl.col("rank") + first, step, tells=tells))


def _best(ends: pl.DataFrame) -> pl.DataFrame:
    """Of collectives those whose ends tell most of clocks."""
    return ends.filter(pl.col("tells") == pl.col("tells").max())


def _needed(best: pl.DataFrame, *, by_session: bool) -> float:
    """The part of them that ends together where clocks are one."""
    return SENT_TOGETHER if by_session and best["tells"][0] == _SENT else TOGETHER


def _session_ns(part: Reduction) -> int | None:
    said = part.meta.get("SESSION_START_NS", ())
    return int(said[0]) if len(said) == 1 and said[0].isdecimal() else None


def _ends(table: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Of collectives of an export that others share: tells, its end, and by how much that is late, after theirs."""
    theirs = others.group_by(_SHARED).agg(other=pl.col("end").median().cast(pl.Int64))
    both = table.join(theirs, on=_SHARED).sort("end")
    return both.select("tells", "end", late=pl.col("end") - pl.col("other"))


def _drifting(end: Ints, late: Ints, table: pl.DataFrame) -> pl.Series:
    """By how much the clock of an export is ahead at each of its rows: a line through the medians of both halves, for clocks drift."""
    half = len(end) // 2
    ahead = float(np.median(late))
    if half == 0:
        return pl.Series([round(ahead)] * len(table), dtype=pl.Int64)
    (x, y), (u, v) = (
        (float(np.median(end[at])), float(np.median(late[at]))) for at in (slice(half), slice(half, None))
    )
    slope = (v - y) / (u - x) if u > x else 0.0
    moment = table["start"].to_numpy().astype(np.float64)
    return pl.Series(np.rint(y + slope * (moment - x)).astype(np.int64))
