"""The kernel table: matched rows of both sides with their time, counts and launch shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.align.kernel_categories import is_communication
from tracediff.align.kernels import Match, Matching
from tracediff.measure.cells import Estimates, Frame, finite, of_means
from tracediff.measure.grouping import count_by, grouped
from tracediff.measure.intervals import Floats, Ints
from tracediff.measure.sides import Side, kernel_rows
from tracediff.model import Evidence, KernelRow, KernelSide


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
    ]  # (name, grid, block) -> registers, shared


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
    category: Callable[[str], str],
    family: Callable[[str], str],
) -> list[tuple[int, KernelRow]]:
    """Rows for the result, largest change first, with their numbers; every op of the compared steps is in exactly one."""
    rows, level = [], of_means(judged[0], cells)
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
