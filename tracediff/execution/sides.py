"""Both sides of a comparison as runs of reductions, and their whole steps in one table."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.reduction import Reduction
from tracediff.errors import UsageError, some
from tracediff.formats.kineto import PRODUCT
from tracediff.formats.reports import FORMS, PARQUET_FIRST, Form
from tracediff.formats.selection import ALL, Selection
from tracediff.model import LeftOut, Note, RankClock, Repeats, RunInput, SideInput
from tracediff.model.causes import BUSY, SURELY
from tracediff.trace.threads import OUTSIDE, beside, of_algorithm
from tracediff.trace.workloads import SHAPE

# Why steps are found, or captures measured, as no single export asked for: some exports have labels and others none, they are cut by
# different rules, their steps hold different work, no steps can be found in some, or one side has no GPU kernels.
Why = Literal["", "labels_missing", "other_rules", "other_work", "steps_missing", "kernels_missing"]


# Tables of a reduction that name ranges.
_OF_PLACES = (
    "cells", "gaps", "moments", "ranges", "counted", "origins", "awaited", "gil_pairs", "host_work", "payloads"
)  # fmt: skip


class Run(msgspec.Struct, frozen=True):
    """One run: one reduction, or one per rank and capture window where these were exported apart."""

    name: str
    parts: list[Reduction]
    first_ranks: tuple[
        int, ...
    ] = ()  # of each part, the same of the windows of one process; (): they count on from part to part
    sources: tuple[tuple[Path, Reading], ...] = ()  # of each part: its file, and how it was read
    unread: int = 0  # exports of the run that were not read, windows of one process counted once
    traffic: int | None = None  # number of the requests that it was given, see formats/inputs.py

    @property
    def program_ranks(self) -> int:
        """How many ranks the program had, as far as that is known: an export that was not read holds as many as the others."""
        said = {value.partition(" of ")[2] for part in self.parts for value in part.meta.get("RANK", ())}
        if len(said) == 1 and (size := said.pop()).isdecimal():  # torch.profiler says so
            return int(size)
        most = max(part.measured.all_ranks for part in self.parts)
        return self.by_rank(lambda part: part.measured.all_ranks) + self.unread * most

    def by_rank(self, count: Callable[[Reduction], int]) -> int:
        """A number summed over the exports of the run; of the windows of one process the largest counts."""
        of_ranks: dict[int, int] = {}
        for first, part in zip(self.firsts(), self.parts, strict=True):
            of_ranks[first] = max(of_ranks.get(first, 0), count(part))
        return sum(of_ranks.values())

    @property
    def windows(self) -> int:
        """How many capture windows a process has, at most."""
        return max(Counter(self.firsts()).values())

    def firsts(self) -> tuple[int, ...]:
        """The number of each part's first rank."""
        if self.first_ranks:
            return self.first_ranks
        counts = [part.measured.all_ranks for part in self.parts]
        return tuple(accumulate(counts, initial=0))[:-1]


class Side(msgspec.Struct, frozen=True):
    """One side of the comparison."""

    label: str
    runs: list[Run]
    notes: tuple[Note, ...] = ()  # what of it was not read or not measured
    left_out: tuple[LeftOut, ...] = ()
    why: Why = ""  # its exports were read in another way than each alone would be
    clock: RankClock | None = None  # of ranks that were exported apart, see clocks.py

    @property
    def parts(self) -> list[Reduction]:
        """Every reduction of every run."""
        return [part for run in self.runs for part in run.parts]

    def captured(self, kind: str) -> bool:
        """Whether every export of the side holds this kind of trace (gc: any, a pause may just not have happened)."""
        held = [part.coverage[kind] == "captured" for part in self.parts]
        return any(held) if kind == "gc" else all(held)

    def by_torch(self) -> list[bool]:
        """Of every export, whether it is a trace of torch.profiler."""
        return [
            "+".join(part.meta.get("EXPORT_PRODUCT_VERSION", ())).startswith(PRODUCT) for part in self.parts
        ]


def same_traffic(baseline: Side, candidate: Side) -> Side | None:
    """The candidate with its runs in the order of those of the baseline that had the same requests; None where that is not known."""
    had = [[run.traffic for run in side.runs] for side in (baseline, candidate)]
    if None in had[0] or len(set(had[0])) < len(had[0]) or Counter(had[0]) != Counter(had[1]):
        return None
    return replace(candidate, runs=[candidate.runs[had[1].index(one)] for one in had[0]])


def outside_alike(sides: Sequence[Side]) -> list[Side]:
    """The sides with time outside of ranges called alike.

    Where a side has no range at all, neither "in X" nor "between X and Y" of the others is a place that it could have: the same host
    code would be gone at one place and new at another. Where it has ranges (a library's own, say) but nothing between two of them, only
    the latter.
    """
    inside = pl.col("place") != OUTSIDE
    beside = pl.col("place").str.starts_with(f"{OUTSIDE}, ")
    for ranges in (inside, beside):
        ranged = [any(part.cells.select(ranges.any()).item() for part in side.parts) for side in sides]
        if not all(ranged):
            break
    if all(ranged) or not any(ranged):
        return list(sides)
    named = pl.when(ranges).then(pl.lit(OUTSIDE)).otherwise(pl.col("place")).alias("place")

    def alike(part: Reduction) -> Reduction:
        return replace(part, cells=part.cells.with_columns(named), moments=part.moments.with_columns(named))

    return [
        replace(side, runs=[replace(run, parts=[alike(part) for part in run.parts]) for run in side.runs])
        for side in sides
    ]


def ranges_alike(sides: Sequence[Side]) -> list[Side]:
    """The sides with ranges that were renamed called as the candidate calls them.

    A thread enters as many ranges in one order and, to 1 %, as often per step; those with another name are of one side alone.
    """
    orders = [_ranges_in_order(side) for side in sides[:2]]
    known = [{place for order in of_threads.values() for place, _ in order} for of_threads in orders]
    renamed: dict[str, str] = {}
    for thread in sorted(orders[0].keys() & orders[1].keys()):
        both = list(zip_longest(*(order[thread] for order in orders), fillvalue=("", 0.0)))
        others = {before: after for (before, _), (after, _) in both if before != after}
        as_often = all(abs(many - often) <= SURELY * often for (_, often), (_, many) in both)
        if as_often and known[1].isdisjoint(others) and known[0].isdisjoint(others.values()):
            renamed |= others
    if not renamed or len(set(renamed.values())) < len(renamed):
        return list(sides)
    names = [f"{before} -> {after}" for before, after in sorted(renamed.items())]
    text = f"ranges have other names in the candidate, and the same place in its step: {some(names, NAMED, ', and ')}"
    baseline, candidate, *noise = sides
    candidate = replace(candidate, notes=(*candidate.notes, Note("ranges-renamed", text)))
    return [_renamed(baseline, renamed), candidate, *(_renamed(side, renamed) for side in noise)]


def _ranges_in_order(side: Side) -> dict[str, list[tuple[str, float]]]:
    """Of each thread its ranges in the order in which steps enter them, and how often they do."""
    steps = sum(len(part.periods) for part in side.parts)
    both = pl.concat([part.ranges.select("thread", "place", "count", "after_ns") for part in side.parts])
    rows = both.group_by("thread", "place").agg(pl.col("count", "after_ns").sum())
    found: dict[str, list[tuple[str, float]]] = {}
    for thread, place, count in (
        rows.sort(pl.col("after_ns") / pl.col("count"), "place")
        .select("thread", "place", "count")
        .iter_rows()
    ):
        if not of_algorithm(place):
            found.setdefault(thread, []).append((place, count / steps))
    return found


def _renamed(side: Side, renamed: Mapping[str, str]) -> Side:
    """A side with other names of ranges, and of the places between them."""

    def name(place: str) -> str:
        if not (around := beside(place)):
            return renamed.get(place, place)
        at = place.index(around[0], len(OUTSIDE))
        return place[:at] + " and ".join(renamed.get(one, one) for one in around)

    def alike(part: Reduction) -> Reduction:
        tables = {}
        for field, table in ((one, getattr(part, one)) for one in _OF_PLACES):
            columns = [one for one in ("place", "holder_place", "peer_place", "name") if one in table.columns]
            known = pl.concat([table[one] for one in columns]).unique().to_list()
            names = {place: name(place) for place in known if place and name(place) != place}
            tables[field] = table.with_columns(pl.col(*columns).replace(names))
        return replace(part, **tables)

    return replace(side, runs=[replace(run, parts=[alike(part) for part in run.parts]) for run in side.runs])


def side_input(side: Side) -> SideInput:
    """What the result says of a side's captures."""
    return SideInput(
        side.label,
        [
            RunInput(
                name=run.name,
                fingerprint="+".join(part.fingerprint for part in run.parts),
                bytes=sum(part.bytes for part in run.parts),
                duration_ns=max(part.duration_ns for part in run.parts),
                ranks=run.by_rank(lambda part: part.periods["rank"].n_unique()),
                steps=sum(len(part.periods) for part in run.parts),
                step_source=run.parts[0].step_source,
                windows=run.windows,
            )
            for run in side.runs
        ],
        list(side.left_out),
    )


def steps_table(sides: Sequence[Side]) -> pl.DataFrame:
    """Every whole step.

    side, run, part, period, rank (over the run's exports), device (which of its rank's, from 0), gpu (its number), SHAPE, ns, start_ns, number, stratum (of its part), op_key, copies,
    start_up, and ns by busy category.
    """
    kept = ("number", "stratum", "op_key", "copies", "start_up", *BUSY)
    # a run is on whatever GPU was free: its number says nothing
    device = pl.col("device").rank("dense").over("rank").cast(pl.Int64) - 1
    firsts = [first for side in sides for run in side.runs for first in run.firsts()]
    frames = []
    for (*place, part), first_rank in zip(parts_of(sides), firsts, strict=True):
        rank, length = pl.col("rank") + first_rank, (pl.col("end_ns") - pl.col("start_ns")).alias("ns")
        steps = part.periods.select(
            "period", rank, device, pl.col("device").alias("gpu"), *SHAPE, length, "start_ns", *kept
        )
        frames.append(tagged(steps, *place))
    return pl.concat(frames)


def stacked(sides: Sequence[Side], table: str) -> pl.DataFrame:
    """A table of all reductions with side, run and part columns before it."""
    parts = parts_of(sides)
    frames = [getattr(part, table) for *_, part in parts]
    rows = [len(one) for one in frames]
    # one pass, whatever the ranks
    numbers = np.repeat(np.array([one[:3] for one in parts], np.int64), rows, axis=0)
    head = [pl.Series(name, numbers[:, place]) for place, name in enumerate(("side", "run", "part"))]
    return pl.DataFrame(head).hstack(pl.concat(frames, how="vertical_relaxed", rechunk=True))


def tagged(frame: pl.DataFrame, side: int, run: int, part: int) -> pl.DataFrame:
    """A table of one export, with the numbers of its side, run and part before it."""
    return frame.select(
        pl.lit(side, pl.Int64).alias("side"), pl.lit(run, pl.Int64).alias("run"), pl.lit(part, pl.Int64).alias("part"),
        pl.all(),
    )  # fmt: skip


def parts_of(sides: Sequence[Side]) -> list[tuple[int, int, int, Reduction]]:
    """Side, run and part number of every reduction, and the reduction."""
    return [
        (side_number, run_number, part_number, part)
        for side_number, side in enumerate(sides)
        for run_number, run in enumerate(side.runs)
        for part_number, part in enumerate(run.parts)
    ]


NAMED = 5  # exports that a warning names, and texts of one slug; the rest are counted


def warnings_of(sides: Sequence[Side]) -> list[Note]:
    """What was left out of the sides, and the warnings of their exports: each once, with the exports that it is of where these differ."""
    parts = [(side, part) for side in sides for part in side.parts]
    often = Counter(name for side in sides for name in {part.name for part in side.parts})
    said: dict[tuple[str, str], dict[str, bool]] = {}
    for side, part in parts:
        name = part.name if often[part.name] == 1 else f"{side.label}/{part.name}"
        for note in part.warnings:
            head, _, text = note.message.partition(": ")
            named = f"/{head}".endswith(f"/{part.name}")  # with its folder where files of one name are read
            said.setdefault((note.slug, text if named else note.message), {})[head if named else name] = named
    notes = list(dict.fromkeys(note for side in sides for note in side.notes))
    texts, shown, left = Counter(slug for slug, _ in said), Counter[str](), Counter[str]()
    for (slug, text), exports in said.items():
        shown[slug] += 1
        if shown[slug] > NAMED:
            left[slug] += len(exports)
            continue
        if texts[slug] > 1 or any(exports.values()):
            text = f"{some(list(exports), NAMED)}: {text}"
        notes.append(Note(slug, text))
    return notes + [
        Note(slug, f"the same in other numbers; further exports: {count}") for slug, count in left.items()
    ]


# How exports are read: what travels from a request to whatever reads an export.


class Reading(msgspec.Struct, frozen=True):
    """How exports are read."""

    step_regex: str | None = None
    whole_capture: bool = False
    infer: Repeats | None = None  # steps from what repeats, whatever labels there are
    memory_limit: str | None = None
    threads: int | None = None
    host_only: bool = False  # measure the host, whatever GPU kernels there are
    keep: bool = False  # the events of some steps, to draw
    graph: Literal["", "some", "all"] = (
        ""  # of which steps of a long capture the graph of events is made, to replay
    )
    two_profilers: bool = False  # nsys and torch.profiler: only what both can say of ranges
    cached: bool = False  # what was read before is taken from the cache, and what is read now kept there
    only: Selection = ALL  # what of an export is measured; its ranks are those of the export alone
    skip_unreadable: bool = False  # exports that cannot be read are left out, not an error
    scheduler: str | None = None  # of a Dask cluster whose workers read
    export: Form = PARQUET_FIRST  # what reports are exported to


def tuning() -> dict[str, Any]:
    """What the environment says of the machine, as fields of `Reading`: docs/performance.md lists the variables.

    Raises `TracediffError`: bad-limit, bad-export.
    """
    memory, threads, export, scheduler = (
        os.environ.get(f"TRACEDIFF_{name}") or None for name in ("MEMORY", "THREADS", "EXPORT", "SCHEDULER")
    )
    if threads is not None and not re.fullmatch(r"[1-9][0-9]{0,3}", threads, re.ASCII):
        raise UsageError(
            "bad-limit", f"TRACEDIFF_THREADS={threads}: no number of threads", fix="a number such as 4"
        )
    if export not in (None, *FORMS):
        raise UsageError(
            "bad-export",
            f"TRACEDIFF_EXPORT={export}: nsys exports to {' or '.join(FORMS)}",
            fix="one of them, or leave it out: parquet, where nsys can",
        )
    return {
        "memory_limit": memory,
        "threads": int(threads) if threads else None,
        "export": export or PARQUET_FIRST,
        "scheduler": scheduler,
    }
