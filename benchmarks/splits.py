"""Splits of repeats of one program into two sides, what a comparison says of them, and changes that are put into one side."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.reduction import Reduction
from tracediff.comparison.compare import compare
from tracediff.comparison.verdict import ORDER
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.inputs import RunFiles, SideFiles, resolve
from tracediff.model import Finding, Phase, Result

SURE = ("exact", "confirmed")
CHANGED = ("regressed", "improved")
HOST = ("host_work", "launch_api", "host_api")  # the causes that a change spread over a step is spread over
_PRESENT = 0.9  # of the steps of its phase have the place that a change is put into

Numbers = tuple[int, ...]


class Program(msgspec.Struct, frozen=True):
    """Runs of one program. `name`: of its folder."""

    name: str
    runs: list[Run]


def program(word: str) -> Program:
    """The runs of FOLDER, or of FILES*; =REGEX after it says how its steps are labelled. Raises `TracediffError`."""
    path, _, regex = word.partition("=")
    reading = Reading(step_regex=regex or None, cached=True)
    if "*" in path:
        files = tuple(RunFiles(one.name, (one,)) for one in sorted(Path(path).parent.glob(Path(path).name)))
        side = SideFiles(path, files)
    else:
        side = resolve(path)
    (found,) = reduce_sides([side], reading)
    return Program(re.sub(r"_?\*.*", "", Path(path).name), found.runs)


def splits(runs: int, size: tuple[int, int], most: int, seed: int = 1) -> list[tuple[Numbers, Numbers]]:
    """Ways to deal some of the runs out to two sides of the given sizes; of more than `most` a sample."""
    found = []
    for one in itertools.combinations(range(runs), size[0]):
        rest = [run for run in range(runs) if run not in one]
        for other in itertools.combinations(rest, size[1]):
            if size[0] != size[1] or one < other:  # the same split the other way round is no other
                found.append((one, other))
    random.Random(seed).shuffle(found)
    return found[:most]


def sizes(runs: int) -> list[tuple[int, int]]:
    """5v5, 4v4, ... as far as the runs go; of an odd number also all of them."""
    found = [(many, many) for many in range(min(5, runs // 2), 0, -1)]
    return [(runs // 2, runs - runs // 2), *found] if runs % 2 and runs < 10 else found


def compared(runs: Sequence[Run], split: tuple[Numbers, Numbers]) -> Result:
    """The comparison of one split."""
    one, other = ([runs[number] for number in numbers] for numbers in split)
    return compare(Side("baseline", one), Side("candidate", other))


def statements(result: Result, levels: Sequence[str] = SURE, verdicts: Sequence[str] = CHANGED) -> list[str]:
    """Everything that is said of a change with one of the levels, or as one of the verdicts, in words for a table."""
    found = [f"whole {result.verdict}"] if result.verdict in verdicts else []
    found += [f"{phase.phase} {phase.verdict}" for phase in result.phases if phase.verdict in verdicts]
    for one in result.findings:
        if one.level in levels:
            runs = [one.evidence.runs_baseline_ns, one.evidence.runs_candidate_ns]
            values = " | ".join(" ".join(f"{ns / 1e3:.1f}" for ns in side) for side in runs)
            found.append(
                f"{one.level} {one.cause} {one.where.phase} {one.part} {place_of(one)}:"
                f" {one.delta_ns / 1e3:+.1f} +- {half(one) / 1e3:.1f} us, counts"
                f" {one.evidence.count_baseline} {one.evidence.count_candidate}, q {one.q_value} [{values}]"
            )
    return found


def place_of(one: Finding) -> str:
    """The range, kernel or call of a finding."""
    where = one.where
    return where.holder_range or where.range or " + ".join(where.called) or where.api or ""


def half(one: Finding) -> float:
    """Half of the interval of a finding, ns."""
    return (one.ci_high_ns - one.ci_low_ns) / 2


def main_phase(result: Result) -> Phase | None:
    """The compared phase that users feel first."""
    found = [one for one in result.phases if one.typical is not None and one.judged]
    return min(found, key=lambda one: (*ORDER, one.phase).index(one.phase), default=None)


# A change that is known, put into the tables of a run.


class Planted(msgspec.Struct, frozen=True):
    """A change of every step of a phase. spread: over all host time of the step; else host work of `thread` in `place`."""

    phase: str
    ns: int
    thread: str
    place: str
    spread: bool


def place_for(runs: Sequence[Run], phase: str) -> tuple[str, str]:
    """Thread and place of host work that a change is put into: of those in nearly every step, the one of middling time."""
    frames = []
    for part in (part for run in runs for part in run.parts):
        mine = part.periods.filter(pl.col("phase") == phase)["period"]
        work = part.idle.filter(pl.col("period").is_in(mine.implode()) & (pl.col("cause") == "host_work"))
        frames.append(work.select("thread", "place", "ns", steps=pl.lit(len(mine))))
    steps = sum(int(frame["steps"].first() or 0) for frame in frames)  # type: ignore[arg-type]
    of_place = (
        pl.concat(frames).group_by("thread", "place").agg(pl.len().alias("steps"), pl.col("ns").sum())
    ).sort("ns", "thread", "place")
    usual = of_place.filter(pl.col("steps") >= _PRESENT * steps)
    usual = usual if len(usual) else of_place.sort("steps").tail(1)
    thread, place = usual.select("thread", "place").row(len(usual) // 2)
    return thread, place


def planted(run: Run, change: Planted) -> Run:
    """The run with the change in it. The step, its categories and its pieces of idle time grow alike: the books stay closed."""
    return replace(run, parts=[_planted(part, change) for part in run.parts])


def _planted(part: Reduction, change: Planted) -> Reduction:
    mine = part.periods.filter(pl.col("phase") == change.phase)["period"].to_list()
    added: list[tuple[int, int, int]] = []  # period, cell, ns
    cells = part.cells
    if change.spread:
        cause = cells["cause"].to_list()
        host = part.idle_ns.filter(
            pl.col("period").is_in(mine)
            & pl.col("cell").map_elements(lambda at: cause[at] in HOST, pl.Boolean)
        )
        for (period,), rows in host.group_by("period"):
            ns = rows["ns"].to_numpy()
            share = np.floor(change.ns * ns / ns.sum()).astype(np.int64)
            share[ns.argmax()] += change.ns - share.sum()
            added += [(period, *row) for row in zip(rows["cell"], share.tolist(), strict=True)]  # type: ignore[misc]
    else:
        words = {
            "cause": "host_work", "under": "host_work", "thread": change.thread, "place": change.place, "holder": "",
            "holder_place": "", "copy": False,
        }  # fmt: skip
        row = pl.DataFrame([words], schema=cells.schema)
        known = [at for at, one in enumerate(cells.iter_rows(named=True)) if one == words]
        if not known:
            cells = pl.concat([cells, row])
        cell = known[0] if known else len(cells) - 1
        added = [(period, cell, change.ns) for period in mine]
    more = pl.DataFrame(added, schema=dict.fromkeys(("period", "cell", "ns"), pl.Int64), orient="row")
    return replace(
        part, cells=cells, idle_ns=_with(part.idle_ns, more), periods=_longer(part.periods, more, cells)
    )


def _with(idle: pl.DataFrame, more: pl.DataFrame) -> pl.DataFrame:
    """Idle time and more of it; a piece that was not there counts once."""
    rows = more.with_columns(count=pl.lit(0)).select(
        pl.col(name).cast(dtype) for name, dtype in idle.schema.items()
    )
    summed = pl.concat([idle, rows]).group_by("period", "cell").agg(pl.col("ns", "count").sum())
    one = pl.max_horizontal("count", pl.lit(1)).cast(idle.schema["count"])
    return summed.with_columns(count=one).sort("period", "cell").cast(dict(idle.schema))


def _longer(periods: pl.DataFrame, more: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    of_cause = more.with_columns(cause=cells["cause"][more["cell"]])
    for (cause,), rows in of_cause.group_by("cause"):
        ns = rows.group_by("period").agg(pl.col("ns").sum().alias("more"))
        grown = periods.join(ns, on="period", how="left", maintain_order="left").with_columns(
            pl.col("more").fill_null(0)
        )
        periods = grown.with_columns(
            end_ns=pl.col("end_ns") + pl.col("more"), **{str(cause): pl.col(str(cause)) + pl.col("more")}
        ).drop("more")
    return periods


def changes(runs: Sequence[Run], phase: Phase, parts: Sequence[float]) -> Iterator[Planted]:
    """Changes of these parts of the phase's step, in one place and spread."""
    assert phase.typical is not None
    thread, place = place_for(runs, phase.phase)
    for spread in (False, True):
        for part in parts:
            yield Planted(phase.phase, round(part * phase.typical.baseline_ns), thread, place, spread)
