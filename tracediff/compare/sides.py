"""Both sides of a comparison as runs of reductions, and their whole steps in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import polars as pl

from tracediff.accounting.grouping import float_sum_by, grouped
from tracediff.accounting.intervals import Ints
from tracediff.accounting.reduce import BUSY
from tracediff.accounting.reduction import Reduction
from tracediff.formats.kineto import PRODUCT
from tracediff.formats.selection import Selection
from tracediff.kernels.matching import Matching, OpKey, match_kernels
from tracediff.model import LeftOut, Note, RunInput, SideInput
from tracediff.trace.workloads import SHAPE


@dataclass(frozen=True)
class Run:
    """One run: one reduction, or one a rank where ranks were exported apart."""

    name: str
    parts: list[Reduction]
    first_ranks: tuple[
        int, ...
    ] = ()  # the number of each part's first rank; (): they count on from part to part
    sources: tuple[tuple[Path, Selection], ...] = ()  # of each part: its file, and what of it is measured

    unread: int = 0  # exports of the run that were not read

    @property
    def program_ranks(self) -> int:
        """How many ranks the program had, as far as that is known: an export that was not read holds as many as the others."""
        counts = [part.measured.all_ranks for part in self.parts]
        return sum(counts) + self.unread * max(counts)

    def firsts(self) -> tuple[int, ...]:
        """The number of each part's first rank."""
        if self.first_ranks:
            return self.first_ranks
        counts = [part.measured.all_ranks for part in self.parts]
        return tuple(accumulate(counts, initial=0))[:-1]


@dataclass(frozen=True)
class Side:
    """One side of the comparison."""

    label: str
    runs: list[Run]
    notes: tuple[Note, ...] = ()  # what of it was not read or not measured
    left_out: tuple[LeftOut, ...] = ()

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
                ranks=sum(part.periods["rank"].n_unique() for part in run.parts),
                steps=sum(len(part.periods) for part in run.parts),
                step_source=run.parts[0].step_source,
            )
            for run in side.runs
        ],
        list(side.left_out),
    )


def steps_table(sides: Sequence[Side]) -> pl.DataFrame:
    """Every whole step: side, run, part, period, rank (over the run's exports), SHAPE, ns, start_ns, number."""
    frames = []
    for number, side in enumerate(sides):
        for run_number, run in enumerate(side.runs):
            for part_number, (part, first_rank) in enumerate(zip(run.parts, run.firsts(), strict=True)):
                frames.append(
                    part.periods.select(
                        pl.lit(number, pl.Int64).alias("side"),
                        pl.lit(run_number, pl.Int64).alias("run"),
                        pl.lit(part_number, pl.Int64).alias("part"),
                        "period",
                        (pl.col("rank") + first_rank).alias("rank"),
                        "device",
                        *SHAPE,
                        (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
                        "start_ns",
                        "number",
                        *BUSY,
                    )
                )
    return pl.concat(frames)


def stacked(sides: Sequence[Side], table: str) -> pl.DataFrame:
    """A table of all reductions with side, run and part columns before it."""
    parts = parts_of(sides)
    frames = [getattr(part, table) for *_, part in parts]
    rows = [len(one) for one in frames]
    numbers = np.repeat(
        np.array([one[:3] for one in parts], np.int64), rows, axis=0
    )  # one pass, whatever the ranks
    head = [pl.Series(name, numbers[:, place]) for place, name in enumerate(("side", "run", "part"))]
    return pl.DataFrame(head).hstack(pl.concat(frames, how="vertical_relaxed", rechunk=True))


def exact_strata(sides: Sequence[Side]) -> pl.DataFrame:
    """side, run, part, stratum -> SHAPE and whole steps: to weigh tables that are kept by exact stratum."""
    return stacked(sides, "strata")


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


def kernel_rows(sides: Sequence[Side]) -> tuple[Matching, pl.DataFrame]:
    """Match the kernels of the first two sides; second, of all, side, run, part, period, row -> count, wall_ns, share_ns.

    One side alone is matched to itself: a row a kernel and launch shape.
    """
    ops = [_ops_of_phases(side) for side in sides[:2]]
    matching = match_kernels(ops[0], ops[-1])
    frames = []
    for side_number, run_number, part_number, part in parts_of(sides):
        # A/A repeats are of the baseline
        shares = matching.candidate if side_number == 1 else matching.baseline
        merged = _by_row(part, shares, len(matching.rows))
        frames.append(tagged(merged, side_number, run_number, part_number))
    return matching, pl.concat(frames)


def _by_row(
    part: Reduction, shares: Mapping[tuple[str, OpKey], Sequence[tuple[int, float]]], rows: int
) -> pl.DataFrame:
    """Kernels of an export by row of the table: period, row -> count, wall_ns, share_ns, in order of both.

    `shares`: (phase, op) -> the rows that the op is part of, and how much of it; an op of repeats may be in none.
    """
    (phases, phase_of), ops = _phases(part), _op_keys(part)
    found = [shares.get((phase, op), ()) for phase in phases for op in ops]
    many = np.array([len(one) for one in found])
    row = np.array([number for one in found for number, _ in one], np.int64)
    share = np.array([value for one in found for _, value in one], np.float64)
    period = part.kernels["period"].to_numpy()
    kind = phase_of[period] * len(ops) + part.kernels["key"].to_numpy().astype(np.int64)
    # each kernel once for every row that it is part of
    copies = many[kind]
    kernel = np.repeat(np.arange(len(kind)), copies)
    nth = np.arange(len(kernel)) - np.repeat(np.cumsum(copies) - copies, copies)
    entry = (np.cumsum(many) - many)[kind[kernel]] + nth
    code, position = grouped(period[kernel].astype(np.int64) * rows + row[entry])
    sums = {
        name: float_sum_by(position, len(code), part.kernels[name].to_numpy()[kernel] * share[entry])
        for name in ("count", "wall_ns", "share_ns")
    }
    return pl.DataFrame({"period": code // max(rows, 1), "row": code % max(rows, 1), **sums})


def _phases(part: Reduction) -> tuple[list[str], Ints]:
    """The phases of an export, and of each period the place of its phase among them."""
    phases = sorted(part.periods["phase"].unique())
    number = {phase: place for place, phase in enumerate(phases)}
    phase_of = np.zeros(int(part.periods["period"].max()) + 1, np.int64)  # type: ignore[arg-type]
    places = part.periods["phase"].replace_strict(number, return_dtype=pl.Int64)
    phase_of[part.periods["period"].to_numpy()] = places.to_numpy()
    return phases, phase_of


def _ops_of_phases(side: Side) -> dict[str, tuple[Sequence[OpKey], set[OpKey]]]:
    """Phase -> (the sequence that most of the side's exports have, every op seen in that phase)."""
    sequences: dict[str, Counter[tuple[OpKey, ...]]] = {}
    ops: dict[str, set[OpKey]] = {}
    for part in side.parts:
        keys = _op_keys(part)
        for phase, sequence in part.sequences.items():
            sequences.setdefault(phase, Counter())[tuple(keys[one] for one in sequence)] += 1
        phases, phase_of = _phases(part)
        kind = phase_of[part.kernels["period"].to_numpy()] * len(keys) + part.kernels["key"].to_numpy()
        for one in grouped(kind)[0].tolist():
            ops.setdefault(phases[one // len(keys)], set()).add(keys[one % len(keys)])
    # ties go to the sequence that sorts first: the order of runs must not matter
    modal = {
        phase: min((-count, one) for one, count in counts.items())[1] for phase, counts in sequences.items()
    }
    return {
        phase: (modal.get(phase, ()), ops.get(phase, set())) for phase in sorted(modal.keys() | ops.keys())
    }


def _op_keys(part: Reduction) -> list[OpKey]:
    rows = part.keys.select("name", "grid", "block").iter_rows()
    return [OpKey(name, grid or "", block or "") for name, grid, block in rows]
