"""The kernel table: kernels of both sides matched, measured, and as rows of the result.

Every op of the compared steps is in exactly one row, so that rows sum to the totals.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import float_sum_by, grouped
from tracediff.accounting.reduction import Reduction, StepIndex
from tracediff.arrays import Bools, Floats, Ints, known
from tracediff.comparison.alignment import kernel_pairs, match_kernels
from tracediff.comparison.classes import Strata
from tracediff.comparison.frame import Frame, PhaseSteps, typical_of
from tracediff.comparison.held import Counted, held, kinds_of
from tracediff.comparison.launches import Launches, by_name, deviation, launch_changes
from tracediff.comparison.shown import FIRST
from tracediff.execution.sides import Side, parts_of, tagged
from tracediff.kernels.matching import Match, Matching, OpKey, PhaseOps, Used
from tracediff.kernels.names import category, family, is_communication
from tracediff.model import Evidence, KernelRow, KernelSide, KernelStratum, LaunchChange
from tracediff.stats.noise import Estimate


class OfName(NamedTuple):
    """What one name has of a row on one side, per step: ops, wall ns, ns of the accounting."""

    ops: float
    wall_ns: float
    share_ns: float


class KernelCells(msgspec.Struct, frozen=True):
    """Rows and their measurements.

    values: side, run, part, period, row, count, wall_ns, wall_square, share_ns, step (row of `Frame.steps`, -1: none). counts, walls: (rows, 2) ops and their wall ns per step. hidden:
    (rows, 2) wall time that was not the accounting's: behind ops of another kind, ns per step. of_steps: of each of
    `Frame.named_weights` (rows, 2) ops, wall ns and shared ns per step. differs: phase -> whether the count of each row differs; exact: and that can
    be no chance; open: whether it may differ by which steps were captured.
    """

    matching: Matching
    kinds: list[str]
    values: pl.DataFrame
    counts: Floats
    walls: Floats
    hidden: Floats
    of_steps: dict[str, tuple[Floats, Floats, Floats]]
    differs: dict[str, Bools]
    exact: dict[str, Bools]
    open: dict[str, Bools]
    # name, grid, block -> registers, shared
    shapes: dict[tuple[str, str, str], tuple[int | None, int | None]]
    of_names: dict[tuple[int, int], dict[str, OfName]]  # row, side -> its names, of rows of several
    # phase, row, side -> kind of host memory -> bytes of the row's copies in all steps of the phase, the most first
    copied: dict[tuple[str, int, int], dict[str, int]]

    @property
    def rows(self) -> list[Match]:
        """Those of the matching."""
        return self.matching.rows

    def launches(self, phase: str, *, typical: bool) -> Floats:
        """(rows, 2) ops per typical or mean step of a phase."""
        return self.of_steps[typical_of(phase) if typical else phase][0]

    def tables(self) -> dict[str, Callable[[], pl.DataFrame]]:
        """What the aligned views of kernels read: the pairs of every row, what it is, and what each side has of it per step."""
        return {
            "kernel_pair": lambda: kernel_pairs(self.rows),
            "kernel_row": self._described,
            "kernel_sum": self._summed,
        }

    def _summed(self) -> pl.DataFrame:
        size = len(self.rows)
        row, side = np.divmod(np.arange(2 * size), 2)
        return pl.concat(
            pl.DataFrame(
                {"row": row, "side": side, **dict(zip(_SUMS, map(np.ravel, values), strict=True))},
                schema=_SUM,
            ).with_columns(steps=pl.lit(steps))
            for steps, values in self.of_steps.items()
        )

    def _described(self) -> pl.DataFrame:
        names = [
            [list(dict.fromkeys(op.name for op in ops)) for ops in (one.baseline, one.candidate)]
            for one in self.rows
        ]
        kinds = {
            "row": range(len(self.rows)), "kind": self.kinds, "baseline_names": [one for one, _ in names], "candidate_names": [one for _, one in names],
            "changed_with": [one.block for one in self.rows],
        }  # fmt: skip
        lists = {"baseline_names": pl.List(pl.String), "candidate_names": pl.List(pl.String)}
        return pl.DataFrame(
            kinds, schema={"row": pl.Int64, "kind": pl.String, **lists, "changed_with": pl.Int64}
        )


_SUMS = ("count", "wall_ns", "share_ns")
_SUM = {"row": pl.Int64, "side": pl.Int64, **dict.fromkeys(_SUMS, pl.Float64)}


def kernel_cells(sides: Sequence[Side], frame: Frame) -> KernelCells:
    """Match and measure the kernels of both sides, or of one alone."""
    matching, by_row = kernel_rows(sides)
    by_row = by_row.with_columns(step=pl.Series(frame.index.rows(by_row)))
    located = by_row.drop("run", "part", "period").filter(pl.col("step") >= 0, pl.col("side") < 2)
    size = len(matching.rows)
    step, row, count = (located[name].to_numpy() for name in ("step", "row", "count"))
    at = row * 2 + located["side"].to_numpy()

    def per_step(column: str, weight: Floats) -> Floats:
        """Weighted sums by (row, side), added up in a fixed order: the same input gives the same bits."""
        sums = np.bincount(at, weights=located[column].to_numpy() * weight[step], minlength=2 * size)
        return np.asarray(sums.reshape(-1, 2))

    of_steps = {
        name: (
            np.round(per_step("count", weight), 9),
            per_step("wall_ns", weight),
            per_step("share_ns", weight),
        )
        for name, weight in frame.named_weights.items()
    }
    counts, walls, shares = of_steps[""]
    by_memory, copied = _by_memory(sides[:2], frame, matching.rows)
    counted = pl.DataFrame({"step": step, "item": row, "count": np.round(count, 6), "bytes": 0})
    facts = _facts(frame, counted, by_memory, size)
    return KernelCells(
        matching,
        [_kind(match) for match in matching.rows],
        by_row,
        counts,
        walls,
        walls - shares,
        of_steps,
        {phase: differs for phase, (differs, _, _) in facts.items()},
        {phase: certain for phase, (_, certain, _) in facts.items()},
        {phase: unknown for phase, (_, _, unknown) in facts.items()},
        {
            (found["name"], found["grid"] or "", found["block"] or ""): (
                found["registers"],
                found["shared_bytes"],
            )
            for side in sides
            for part in side.parts
            for found in part.keys.iter_rows(named=True)
        },
        _of_names(sides[:2], matching, frame),
        copied,
    )


def _by_memory(
    sides: Sequence[Side], frame: Frame, rows: Sequence[Match]
) -> tuple[pl.DataFrame, dict[tuple[str, int, int], dict[str, int]]]:
    """Copies by the host memory that they read or write: step, row, memory, count; and `KernelCells.copied`."""
    of_name = {
        name: number
        for number, row in enumerate(rows)
        if len(names := {op.name for op in (*row.baseline, *row.candidate)}) == 1
        for name in names
    }
    number = pl.DataFrame(
        {"name": list(of_name), "row": list(of_name.values())}, schema={"name": pl.String, "row": pl.Int64}
    )
    found = []
    for *place, part in parts_of(sides):
        mine = part.counts_of("copies").filter(pl.col("memory") != "").join(number, on="name")
        found.append(tagged(mine.select("period", "row", "memory", "count", "bytes"), *place))
    every = pl.concat(found)
    every = every.with_columns(step=pl.Series(frame.index.rows(every))).filter(pl.col("step") >= 0)
    every = every.with_columns(phase=frame.steps["phase"].gather(every["step"]))
    copied: dict[tuple[str, int, int], dict[str, int]] = defaultdict(dict)
    sums = every.group_by("phase", "row", "side", "memory").agg(pl.col("bytes").sum())
    for phase, row, side, memory, size in sums.sort("bytes", "memory", descending=[True, False]).iter_rows():
        copied[phase, row, side][memory] = size
    return every, dict(copied)


def _facts(
    frame: Frame, counted: pl.DataFrame, by_memory: pl.DataFrame, size: int
) -> dict[str, tuple[Bools, ...]]:
    """Phase -> rows whose count differs, in all or of copies by their memory, those of which that is certain, and those of which it is open.

    `counted`: step, item (a row), count, bytes.
    """
    nothing = np.zeros(size, np.bool_)
    if len(frame.runs) < 2:
        return {one.phase: (nothing,) * 3 for one in frame.phases}
    memory = by_memory.select("row", "memory").unique().sort("row", "memory").with_row_index("item", size)
    copies = by_memory.join(memory.cast({"item": pl.Int64}), on=["row", "memory"])
    own = copies.select("step", "item", pl.col("count").cast(pl.Float64), bytes=pl.lit(0))
    kind, rows = kinds_of(pl.concat([counted, own], how="vertical_relaxed"), "step", len(frame.steps))

    def of_phase(phase: PhaseSteps) -> tuple[Bools, ...]:
        found = held(frame, phase, Counted([kind], rows), size + len(memory))
        if found is None:
            return (nothing,) * 3
        differs, certain = found.differs[:size], found.certain[:size]
        for of_rows, every in ((differs, found.differs), (certain, found.certain)):
            of_rows[memory["row"].to_numpy()[every[size:]]] = True
        return differs, certain, ~differs

    return {one.phase: of_phase(one) for one in frame.phases}


def _kind(match: Match) -> str:
    """The accounting category of a row's time."""
    names = [op.name for op in (*match.baseline, *match.candidate)]
    if all(name.startswith(("[memcpy", "[memset")) for name in names):
        return "memcpy"
    return "comm" if all(is_communication(name) for name in names) else "compute"


def kernel_result_rows(
    kernels: KernelCells,
    cells: Estimate,
    level: Sequence[Evidence],
    q: Floats,
    strata: Strata,
    launches: Launches,
    changes: Sequence[LaunchChange | None],
) -> list[tuple[int, KernelRow]]:
    """Rows for the result with their numbers in the matching, largest change first. `cells`, `level`, `q`, `changes`: of each row."""
    rows = []
    by_stratum = strata_of_rows(kernels, strata)
    for number, match in enumerate(kernels.rows):
        if not kernels.counts[number].any() and not (cells.baseline[number] or cells.candidate[number]):
            continue  # seen only in steps that were not compared
        name = (match.candidate or match.baseline)[0].name
        row = KernelRow(
            match=match.match,  # type: ignore[arg-type]
            confidence=match.confidence,
            category=category(name),
            family=family(name),
            baseline=kernel_side(kernels, number, 0, float(cells.baseline[number]), launches),
            candidate=kernel_side(kernels, number, 1, float(cells.candidate[number]), launches),
            delta_ns=float(cells.delta[number]),
            ci_low_ns=float(cells.low[number]),
            ci_high_ns=float(cells.high[number]),
            level=level[number],
            q_value=known(q[number]),
            strata=by_stratum.get(number, []),
            block=match.block,
            per_launch=changes[number],
        )
        rows.append((number, row))
    return sorted(rows, key=lambda one: _order(one[1]))


def launched_rows(
    kernels: KernelCells, rows: Sequence[tuple[int, KernelRow]], launches: Launches, *, alike: bool
) -> list[KernelRow]:
    """The rows of `kernel_result_rows` with the kernels of one name together, judged by their launches, largest change first."""
    groups = by_name(kernels.rows)
    changes = launch_changes(kernels.rows, launches, groups, alike=alike)
    known = dict(rows)
    found = []
    for group, change in zip(groups, changes, strict=True):
        if mine := [(number, known[number]) for number in group if number in known]:
            found.append(_together(mine, launches, change))
    return sorted(found, key=_order)


def _together(
    rows: Sequence[tuple[int, KernelRow]], launches: Launches, change: LaunchChange | None
) -> KernelRow:
    """Several rows as one, times summed."""
    sides = [_side_of([(number, getattr(row, side)) for number, row in rows], launches, at)
             for at, side in enumerate(("baseline", "candidate"))]  # fmt: skip
    delta = math.fsum(row.delta_ns for _, row in rows)
    half = 0.0
    if change:
        many = min(side.count_per_step for side in sides if side)
        half = (change.ci_high_ns - change.ci_low_ns) / 2 * many
    before, after = sides
    match = rows[0][1].match
    if before and after and len({row.match for _, row in rows}) > 1:
        match = "name" if set(before.names) & set(after.names) else "template"
    return replace(
        rows[0][1],
        match=match,
        confidence=min(row.confidence for _, row in rows),
        baseline=before,
        candidate=after,
        delta_ns=delta,
        ci_low_ns=delta - half,
        ci_high_ns=delta + half,
        level=change.level if change else "within_noise",
        q_value=change.q_value if change else None,
        strata=[],
        phases=[],
        block=-1,
        per_launch=change,
    )


def _side_of(
    rows: Sequence[tuple[int, KernelSide | None]], launches: Launches, side: int
) -> KernelSide | None:
    mine = [(number, one) for number, one in rows if one is not None]
    if not mine:
        return None
    numbers = [number for number, _ in mine]
    count, wall, square = (
        float(table[side][:, numbers].sum()) for table in (launches.count, launches.wall, launches.square)
    )
    sd = deviation(np.array([count]), np.array([wall]), np.array([square]))[0]
    most = sorted(mine, key=lambda one: -one[1].ns_per_step)

    def every(field: str) -> list[str]:
        return list(dict.fromkeys(text for _, one in most for text in getattr(one, field)))

    return KernelSide(
        names=every("names"),
        count_per_step=math.fsum(one.count_per_step for _, one in mine),
        ns_per_step=math.fsum(one.ns_per_step for _, one in mine),
        mean_ns=wall / count if count else 0.0,
        grids=every("grids"),
        blocks=every("blocks"),
        launches=sum(one.launches for _, one in mine),
        sd_ns=known(sd),
    )


def _order(row: KernelRow) -> tuple[float, float, str]:
    """The largest change first, then the most time."""
    sides = [side for side in (row.baseline, row.candidate) if side is not None]
    names = repr([(side.names, side.grids, side.blocks) for side in sides])
    return -abs(row.delta_ns), -max(side.ns_per_step for side in sides), names


def kernel_side(
    kernels: KernelCells, number: int, side: int, share: float, launches: Launches
) -> KernelSide | None:
    """One side of a row; None where that side has none of its kernels in the steps of the mean. `share`: ns per step."""
    match = kernels.rows[number]
    # what a cause calls the row by comes first
    ops = (*match.main[side], *(match.candidate if side else match.baseline))
    count = float(kernels.counts[number, side])
    if not ops or (not count and not share):
        return None
    shape = kernels.shapes.get((ops[0].name, ops[0].grid, ops[0].block), (None, None))
    names = list(dict.fromkeys(op.name for op in ops))
    of_names = kernels.of_names.get((number, side), {})
    return KernelSide(
        names=names,
        ns_of=[of_names[name].share_ns if name in of_names else 0.0 for name in names]
        if len(names) > 1
        else [],
        count_per_step=count,
        ns_per_step=share,
        mean_ns=float(kernels.walls[number, side]) / count if count else 0.0,
        grids=list(dict.fromkeys(op.grid for op in ops if op.grid)),
        blocks=list(dict.fromkeys(op.block for op in ops if op.block)),
        registers=shape[0],
        shared_bytes=shape[1],
        launches=round(float(launches.many(side)[number])),
        sd_ns=known(launches.sd(side)[number]),
    )


def strata_of_rows(kernels: KernelCells, strata: Strata) -> dict[int, list[KernelStratum]]:
    """Row of the matching -> its counts and times by stratum; empty where there is one stratum.

    A mean is over all steps of the side in the stratum.
    """
    if len(strata.rows) < 2:
        return {}
    number = {key: place for place, key in enumerate(strata.keys)}
    located = strata.steps
    steps_of = located.group_by("side", "row").agg(pl.len())
    many = {(number[key], side): count for side, key, count in steps_of.iter_rows()}
    values = kernels.values.filter(pl.col("side") < 2)
    step = StepIndex(located).rows(values)
    values, step = values.filter(pl.Series(step >= 0)), step[step >= 0]  # not of runs that are left out
    place = located["row"].replace_strict(number, return_dtype=pl.Int64).to_numpy()[step]
    code = (values["row"].to_numpy() * len(strata.rows) + place) * 2 + values["side"].to_numpy()
    distinct, position = grouped(code)
    counts, shares = (
        float_sum_by(position, len(distinct), values[name].to_numpy()) for name in ("count", "share_ns")
    )
    total: dict[tuple[int, int], float] = {}
    cells: dict[tuple[int, int], list[float]] = {}
    for one, count, ns in zip(distinct.tolist(), counts.tolist(), shares.tolist(), strict=True):
        key, side = divmod(one, 2)
        row, stratum = divmod(key, len(strata.rows))
        size = many[stratum, side]
        cell = cells.setdefault((row, stratum), [0.0, 0.0, 0.0, 0.0])
        cell[2 * side : 2 * side + 2] = [round(count / size, 9), ns / size]
        total[row, stratum] = total.get((row, stratum), 0.0) + ns
    found: dict[int, list[KernelStratum]] = {}
    for row, stratum in sorted(cells, key=lambda one: (one[0], -total[one], one[1])):
        parts = found.setdefault(row, [])
        if len(parts) < FIRST:
            parts.append(KernelStratum(stratum, *cells[row, stratum]))
    return found


# Matching.


def kernel_rows(sides: Sequence[Side]) -> tuple[Matching, pl.DataFrame]:
    """Match the kernels of the first two sides; second, of all, side, run, part, period, row -> count, wall_ns, wall_square, share_ns.

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
    """Kernels of an export by row of the table: period, row -> count, wall_ns, wall_square, share_ns, in order of both.

    `shares`: (phase, op) -> the rows that the op is part of, and how much of it; an op of repeats may be in none.
    """
    kernel, row, share = in_rows(part, shares, part.kernels)
    period = part.kernels["period"].to_numpy()
    code, position = grouped(period[kernel].astype(np.int64) * rows + row)
    sums = {
        name: float_sum_by(position, len(code), part.kernels[name].to_numpy()[kernel] * share)
        for name in ("count", "wall_ns", "wall_square", "share_ns")
    }
    return pl.DataFrame({"period": code // max(rows, 1), "row": code % max(rows, 1), **sums})


def in_rows(
    part: Reduction, shares: Mapping[tuple[str, OpKey], Sequence[tuple[int, float]]], table: pl.DataFrame
) -> tuple[Ints, Ints, Floats]:
    """Each row of a table of an export by period and key once for every kernel row that it is part of: its number, that row, how much of it."""
    (phases, phase_of), ops = _phases(part), op_keys(part)
    found = [shares.get((phase, op), ()) for phase in phases for op in ops]
    many = np.array([len(one) for one in found])
    row = np.array([number for one in found for number, _ in one], np.int64)
    share = np.array([value for one in found for _, value in one], np.float64)
    period = table["period"].to_numpy()
    kind = phase_of[period] * len(ops) + table["key"].to_numpy().astype(np.int64)
    copies = many[kind]
    kernel = np.repeat(np.arange(len(kind)), copies)
    nth = np.arange(len(kernel)) - np.repeat(np.cumsum(copies) - copies, copies)
    entry = (np.cumsum(many) - many)[kind[kernel]] + nth
    return kernel, row[entry], share[entry]


def in_mean(
    sides: Sequence[Side], matching: Matching, frame: Frame, table: str
) -> Iterator[tuple[int, Reduction, Ints, Ints, Floats]]:
    """Of each export of both sides its side, itself, and `in_rows` of one of its tables, weighted as in the mean step."""
    for side, run, number, part in parts_of(sides[:2]):
        rows: pl.DataFrame = getattr(part, table)
        at, row, share = in_rows(part, matching.candidate if side else matching.baseline, rows)
        step = frame.index.rows(tagged(rows.select("period"), side, run, number))[at]
        yield side, part, at, row, np.where(step >= 0, frame.weight[step], 0.0) * share


def _of_names(
    sides: Sequence[Side], matching: Matching, frame: Frame
) -> dict[tuple[int, int], dict[str, OfName]]:
    """Row, side -> what each name has of it, of rows that have several names on a side."""
    several = np.array(
        [max(len({op.name for op in ops}) for ops in (row.baseline, row.candidate)) > 1 for row in matching.rows], np.bool_
    )  # fmt: skip
    found: dict[tuple[int, int], dict[str, OfName]] = {}
    for side, part, kernel, row, weight in (
        in_mean(sides, matching, frame, "kernels") if several.any() else ()
    ):
        mine = several[row]
        kernel, row, weight = kernel[mine], row[mine], weight[mine]
        texts = part.keys["name"].to_list()
        code, position = grouped(row * len(texts) + part.kernels["key"].to_numpy()[kernel].astype(np.int64))
        sums = [
            float_sum_by(position, len(code), part.kernels[name].to_numpy()[kernel] * weight).tolist()
            for name in ("count", "wall_ns", "share_ns")
        ]
        for at, *values in zip(code.tolist(), *sums, strict=True):
            names = found.setdefault((at // len(texts), side), {})
            name = texts[at % len(texts)]
            before = names.get(name, OfName(0.0, 0.0, 0.0))
            names[name] = OfName(*map(sum, zip(before, values, strict=True)))
    return found


def _phases(part: Reduction) -> tuple[list[str], Ints]:
    """The phases of an export, and of each period the place of its phase among them."""
    phases = sorted(part.periods["phase"].unique())
    number = {phase: place for place, phase in enumerate(phases)}
    phase_of = np.zeros(int(part.periods["period"].max()) + 1, np.int64)  # type: ignore[arg-type]
    places = part.periods["phase"].replace_strict(number, return_dtype=pl.Int64)
    phase_of[part.periods["period"].to_numpy()] = places.to_numpy()
    return phases, phase_of


def _ops_of_phases(side: Side) -> dict[str, PhaseOps]:
    """Phase -> its ops, with the sequences of all exports of the side."""
    sequences: dict[str, Counter[tuple[OpKey, ...]]] = defaultdict(Counter)
    counts: dict[str, dict[OpKey, float]] = defaultdict(lambda: defaultdict(float))
    walls: dict[str, dict[OpKey, float]] = defaultdict(lambda: defaultdict(float))
    periods: Counter[str] = Counter()
    for part in side.parts:
        keys = op_keys(part)
        for phase, common in part.sequences.items():
            for sequence in common:
                sequences[phase][tuple(keys[one] for one in sequence.keys)] += sequence.steps
        phases, phase_of = _phases(part)
        periods.update(part.periods["phase"])
        kind = phase_of[part.kernels["period"].to_numpy()] * len(keys) + part.kernels["key"].to_numpy()
        code, position = grouped(kind)
        for name, totals in (("count", counts), ("wall_ns", walls)):
            sums = float_sum_by(position, len(code), part.kernels[name].to_numpy())
            for one, value in zip(code.tolist(), sums.tolist(), strict=True):
                totals[phases[one // len(keys)]][keys[one % len(keys)]] += value
    used = {
        phase: {
            op: Used(count / periods[phase], walls[phase][op] / count if count else 0.0)
            for op, count in of_phase.items()
        }
        for phase, of_phase in counts.items()
    }
    return {
        phase: PhaseOps(sequences.get(phase, {}), used.get(phase, {}), used.get(phase, {}))
        for phase in sorted(sequences.keys() | used.keys())
    }


def op_keys(part: Reduction) -> list[OpKey]:
    """The ops of `Reduction.keys`."""
    rows = part.keys.select("name", "grid", "block").iter_rows()
    return [OpKey(name, grid or "", block or "") for name, grid, block in rows]
