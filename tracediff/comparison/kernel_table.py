"""The kernel table: kernels of both sides matched, measured, and as rows of the result.

Every op of the compared steps is in exactly one row, so that rows sum to the totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.accounting.grouping import count_by, float_sum_by, grouped
from tracediff.accounting.intervals import Floats, Ints
from tracediff.accounting.reduction import Reduction, StepIndex
from tracediff.comparison.frame import Frame
from tracediff.comparison.strata import ROW, Strata
from tracediff.execution.sides import Side, parts_of, tagged
from tracediff.kernels.categories import category, is_communication
from tracediff.kernels.matching import Match, Matching, OpKey, PhaseOps, match_kernels
from tracediff.kernels.names import family
from tracediff.model import Evidence, KernelRow, KernelSide, KernelStratum
from tracediff.stats.estimates import Estimates, finite, of_means


@dataclass(frozen=True)
class KernelCells:
    """Rows and their measurements.

    values: side, run, part, period, row, share_ns. counts, walls: (rows, 2) ops and their wall ns a step.
    exact: whether both sides launch the same number in every step of a group, so that counts are facts.
    hidden: (rows, 2) wall time that was not the accounting's: behind ops of another kind, ns a step.
    """

    matching: Matching
    rows: list[Match]
    kinds: list[str]
    values: pl.DataFrame
    counts: Floats
    walls: Floats
    exact: list[bool]
    hidden: Floats
    shapes: dict[
        tuple[str, str, str], tuple[int | None, int | None]
    ]  # name, grid, block -> registers, shared


def kernel_cells(sides: Sequence[Side], frame: Frame) -> KernelCells:
    """Match and measure the kernels of both sides, or of one alone."""
    matching, by_row = kernel_rows(sides)
    step = frame.index.rows(by_row)
    inside = np.flatnonzero((step >= 0) & (by_row["side"].to_numpy() < 2))
    step, located = step[inside], by_row[inside]
    factors = frame.steps.join(
        frame.factors(), on=["side", "run", "group"], how="left", maintain_order="left"
    )
    factor = factors["factor"].to_numpy()[step]
    at = located["row"].to_numpy() * 2 + located["side"].to_numpy()

    def a_step(column: str) -> Floats:
        """Weighted sums by (row, side), added up in a fixed order: the same input gives the same bits."""
        sums = np.bincount(at, weights=located[column].to_numpy() * factor, minlength=2 * len(matching.rows))
        return sums.astype(np.float64).reshape(-1, 2)

    size = len(matching.rows)
    counts, walls, shares = np.round(a_step("count"), 9), a_step("wall_ns"), a_step("share_ns")
    unsteady = _unsteady(frame, step, located, size)
    shapes = {
        (row["name"], row["grid"] or "", row["block"] or ""): (row["registers"], row["shared_bytes"])
        for side in sides
        for part in side.parts
        for row in part.keys.iter_rows(named=True)
    }
    return KernelCells(
        matching,
        matching.rows,
        [_kind(match) for match in matching.rows],
        by_row,
        counts,
        walls,
        [row not in unsteady for row in range(size)],
        walls - shares,
        shapes,
    )


def _unsteady(frame: Frame, step: Ints, located: pl.DataFrame, rows: int) -> set[int]:
    """Rows that are not launched equally often in all steps of some group. `located`: the measurements, `step`: the step of each."""
    group_of = frame.steps["side"].to_numpy() + len(frame.runs) * frame.steps["group"].to_numpy()
    code, position = grouped(group_of[step] * rows + located["row"].to_numpy())
    count = located["count"].to_numpy()
    low, high = np.full(len(code), np.inf), np.zeros(len(code))
    np.minimum.at(low, position, count)
    np.maximum.at(high, position, count)
    present, every = count_by(position, len(code)), np.bincount(group_of)
    odd = (high - low > 0.01) | (present < every[code // max(rows, 1)])
    return set((code[odd] % max(rows, 1)).tolist())


def _kind(match: Match) -> str:
    """The accounting category of a row's time."""
    names = [op.name for op in (*match.baseline, *match.candidate)]
    if all(name.startswith(("[memcpy", "[memset")) for name in names):
        return "memcpy"
    return "comm" if all(is_communication(name) for name in names) else "compute"


def kernel_result_rows(
    kernels: KernelCells,
    cells: Estimates,
    judged: tuple[list[Evidence], Floats],
    steps: pl.DataFrame,
    strata: Strata,
) -> list[tuple[int, KernelRow]]:
    """Rows for the result with their numbers, largest change first. `judged`: level and q value of each row."""
    rows, level = [], of_means(judged[0], cells)
    by_stratum = strata_of_rows(kernels, steps, strata)
    for number, match in enumerate(kernels.rows):
        if not kernels.counts[number].any() and not (cells.baseline[number] or cells.candidate[number]):
            continue  # seen only in steps that were not compared
        name = (match.candidate or match.baseline)[0].name
        found = KernelRow(
            match=match.match,  # type: ignore[arg-type]
            confidence=match.confidence,
            category=category(name),
            family=family(name),
            baseline=kernel_side(kernels, number, 0, float(cells.baseline[number])),
            candidate=kernel_side(kernels, number, 1, float(cells.candidate[number])),
            delta_ns=float(cells.delta[number]),
            ci_low_ns=finite(cells.low[number], cells.delta[number]),
            ci_high_ns=finite(cells.high[number], cells.delta[number]),
            level=level[number],
            q_value=None if np.isnan(judged[1][number]) else float(judged[1][number]),
            strata=by_stratum.get(number, []),
        )
        rows.append((number, found))
    return sorted(rows, key=lambda one: (-abs(one[1].delta_ns), -_time(one[1]), _names(one[1])))


def _time(row: KernelRow) -> float:
    return max(side.ns_per_step for side in (row.baseline, row.candidate) if side is not None)


def _names(row: KernelRow) -> str:
    return repr(
        [(side.names, side.grids, side.blocks) for side in (row.baseline, row.candidate) if side is not None]
    )


def kernel_side(kernels: KernelCells, number: int, side: int, share: float) -> KernelSide | None:
    """One side of a row; None where that side has none of its kernels in the steps of the mean. `share`: ns a step."""
    match = kernels.rows[number]
    ops = match.candidate if side else match.baseline
    count = float(kernels.counts[number, side])
    if not ops or (not count and not share):
        return None
    shape = kernels.shapes.get((ops[0].name, ops[0].grid, ops[0].block), (None, None))
    return KernelSide(
        names=list(dict.fromkeys(op.name for op in ops)),
        count_per_step=count,
        ns_per_step=share,
        mean_ns=float(kernels.walls[number, side]) / count if count else 0.0,
        grids=list(dict.fromkeys(op.grid for op in ops if op.grid)),
        blocks=list(dict.fromkeys(op.block for op in ops if op.block)),
        registers=shape[0],
        shared_bytes=shape[1],
    )


STRATA = 4  # of a kernel row: those with the most of its time


def strata_of_rows(
    kernels: KernelCells, steps: pl.DataFrame, strata: Strata
) -> dict[int, list[KernelStratum]]:
    """Row of the matching -> its counts and times by stratum; empty where there is one stratum.

    `steps`: every whole step of the sides. A mean is over all steps of the side in the stratum, as in its row.
    """
    if len(strata.rows) < 2:
        return {}
    number = {key: place for place, key in enumerate(strata.keys)}
    located = strata.locate(steps).with_columns(pl.col("group").fill_null(-1)).with_columns(stratum=ROW)
    steps_of = located.group_by("side", "stratum").agg(pl.len())
    many = {(number[key], side): count for side, key, count in steps_of.iter_rows()}
    values = kernels.values.filter(pl.col("side") < 2)
    place = located["stratum"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
    place = place[StepIndex(located).rows(values)]
    code = (values["row"].to_numpy() * len(number) + place) * 2 + values["side"].to_numpy()
    distinct, position = grouped(code)
    counts, shares = (
        float_sum_by(position, len(distinct), values[name].to_numpy()) for name in ("count", "share_ns")
    )
    total: dict[tuple[int, int], float] = {}
    cells: dict[tuple[int, int], list[float]] = {}
    for one, count, ns in zip(distinct.tolist(), counts.tolist(), shares.tolist(), strict=True):
        key, side = divmod(one, 2)
        row, stratum = divmod(key, len(number))
        size = many[stratum, side]
        cell = cells.setdefault((row, stratum), [0.0, 0.0, 0.0, 0.0])
        cell[2 * side : 2 * side + 2] = [round(count / size, 9), ns / size]
        total[row, stratum] = total.get((row, stratum), 0.0) + ns
    found: dict[int, list[KernelStratum]] = {}
    for row, stratum in sorted(cells, key=lambda one: (one[0], -total[one], one[1])):
        parts = found.setdefault(row, [])
        if len(parts) < STRATA:
            parts.append(KernelStratum(stratum, *cells[row, stratum]))
    return found


# Matching.


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


def _ops_of_phases(side: Side) -> dict[str, PhaseOps]:
    """Phase -> its ops, with the sequences of all exports of the side."""
    sequences: dict[str, Counter[tuple[OpKey, ...]]] = {}
    ops: dict[str, set[OpKey]] = {}
    for part in side.parts:
        keys = _op_keys(part)
        for phase, common in part.sequences.items():
            steps = sequences.setdefault(phase, Counter())
            for sequence in common:
                steps[tuple(keys[one] for one in sequence.keys)] += sequence.steps
        phases, phase_of = _phases(part)
        kind = phase_of[part.kernels["period"].to_numpy()] * len(keys) + part.kernels["key"].to_numpy()
        for one in grouped(kind)[0].tolist():
            ops.setdefault(phases[one // len(keys)], set()).add(keys[one % len(keys)])
    return {
        phase: PhaseOps(sequences.get(phase, {}), ops.get(phase, set()))
        for phase in sorted(sequences.keys() | ops.keys())
    }


def _op_keys(part: Reduction) -> list[OpKey]:
    rows = part.keys.select("name", "grid", "block").iter_rows()
    return [OpKey(name, grid or "", block or "") for name, grid, block in rows]
