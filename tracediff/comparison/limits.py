"""Achieved rates against the peak rates of the GPU, for the launches whose work is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from tracediff.comparison.kernel_table import KernelCells
from tracediff.comparison.shown import FIRST
from tracediff.comparison.tables import StandardisedMeans
from tracediff.execution.sides import Side, parts_of, tagged
from tracediff.kernels.names import category
from tracediff.limits.peaks import Peak, peak_of
from tracediff.model import KernelRow
from tracediff.model.causes import SURELY
from tracediff.model.kernels import Gpu, Limits, LimitsRow, PhaseUse, Reached, Utilisation
from tracediff.stats.rules import LITTLE

KNOWN = 1 - LITTLE  # of the time in GEMMs and attention, for the utilisation of a phase to be said
# kinds of kernels that multiply matrices, or may do so
_MATRIX = ("gemm", "attention", "moe", "other")
_OP = ["name", "grid", "block"]


def limits(
    sides: Sequence[Side],
    standardised: StandardisedMeans,
    kernels: KernelCells,
    rows: Sequence[tuple[int, KernelRow]],
    step_ns: float,
) -> Limits | None:
    """`rows`: of the result, with their numbers in the matching; `step_ns`: of the mean step. None where no rate is known."""
    if not any(len(part.work) for side in sides for part in side.parts):
        return None
    peaks = [_peak(side) for side in sides]
    work, walls, periods = (standardised.compared(one) for one in _tables(sides))
    reached = _reached(kernels, work, walls, [peak for _, peak in peaks])
    found = []
    for place, (number, row) in enumerate(rows):
        both = [reached.get((number, side)) for side in range(len(sides))]
        longest = max(side.ns_per_step for side in (row.baseline, row.candidate) if side)
        rates = [rate for one in both if one for rate in (one.flop_per_s, one.of_bandwidth)]
        if longest >= SURELY * step_ns and any(rate is not None for rate in rates):
            found.append(LimitsRow(place, *both))
    phases = _phases(work, walls, periods, [peak for _, peak in peaks])
    if not found and not phases:
        return None
    gpus = [
        Gpu(name, peak.source, dict(peak.flops), peak.memory, peak.host) if peak else None
        for name, peak in peaks
    ]
    return Limits(gpus, found, phases)


def _peak(side: Side) -> tuple[str, Peak | None]:
    """The one kind of GPU of a side; None of several kinds."""
    kinds = {(name, sms) for part in side.parts for _, name, sms, _ in part.devices}
    name, sms = next(iter(kinds)) if len(kinds) == 1 else ("", 0)
    return name, peak_of(name, sms)


def _tables(sides: Sequence[Side]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Of all exports by exact stratum: launches whose work is known, wall time of all kernels, and time of the steps."""
    tables: tuple[list[pl.DataFrame], ...] = ([], [], [])
    for side, run, part, one in parts_of(sides):
        keys = one.keys.with_row_index("key").select(
            pl.col("key").cast(pl.Int64), "name", pl.col("grid", "block").fill_null("")
        )
        phase = one.strata.select("stratum", "phase")
        shape = one.periods.select("period", "stratum")
        wall = one.kernels.join(shape, on="period").group_by("stratum", "key").agg(pl.col("wall_ns").sum())
        spent = one.periods.group_by("stratum").agg(ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        found = one.work.join(keys, on="key"), wall.join(keys, on="key"), spent
        for table, rows in zip(tables, found, strict=True):
            table.append(tagged(rows.join(phase, on="stratum"), side, run, part))
    work, walls, periods = map(pl.concat, tables)
    return work, walls, periods


def _reached(
    kernels: KernelCells, work: pl.DataFrame, walls: pl.DataFrame, peaks: Sequence[Peak | None]
) -> dict[tuple[int, int], Reached]:
    """Row of the matching and side -> what its known launches reached."""
    ops = [
        (number, side, op.name, op.grid, op.block)
        for number, match in enumerate(kernels.rows)
        for side, those in ((0, match.baseline), (1, match.candidate))
        for op in dict.fromkeys(those)
    ]
    row_of = pl.DataFrame(ops, schema=["row", "side", *_OP], orient="row")
    by = ["row", "side"]
    total = walls.join(row_of, on=["side", *_OP]).group_by(by).agg(pl.col("wall_ns").sum())
    wall = {(row, side): ns for row, side, ns in total.iter_rows()}
    shapes = (
        work.filter((pl.col("flop") > 0) | pl.col("bytes").is_not_null())
        .join(row_of, on=["side", *_OP])
        .group_by(*by, "kind", "dtype", "shape", "name")
        .agg(
            pl.col("count", "ns", "flop").sum(),
            pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()).alias("bytes"),
        )
        .sort(*by, "count", "shape", descending=[False, False, True, False])
    )
    return {
        (row, side): _of_side(mine.to_dicts(), wall[row, side], peaks[side])
        for (row, side), mine in shapes.group_by(by, maintain_order=True)
    }


def _of_side(shapes: list[dict[str, Any]], wall_ns: int, peak: Peak | None) -> Reached:
    """`shapes`: kind, dtype, shape, name, count, ns, flop, bytes."""
    launches, ns, flop = (sum(one[name] for one in shapes) for name in ("count", "ns", "flop"))
    moved = None if any(one["bytes"] is None for one in shapes) else sum(one["bytes"] for one in shapes)
    dtypes = {one["dtype"] for one in shapes}
    dtype = dtypes.pop() if len(dtypes) == 1 else ""
    to_host = all(one["name"] in ("[memcpy HtoD]", "[memcpy DtoH]") for one in shapes)

    def per_s(amount: float | None) -> float | None:
        return amount / ns * 1e9 if amount and ns else None

    def part(rate: float | None, peak: float | None) -> float | None:
        return rate / peak if rate and peak else None

    bandwidth, cache = (None, 0) if not peak else (peak.host, 0) if to_host else (peak.memory, peak.l2)
    of_flops = part(per_s(flop), peak.flops.get(dtype) if peak else None)
    # operands that fit into the cache need not come from memory, nor those of a kernel that is faster than memory
    from_memory = moved is not None and all(one["bytes"] > cache * one["count"] for one in shapes)
    of_bandwidth = part(per_s(moved), bandwidth) if from_memory else None
    floors = [of_flops]
    if of_bandwidth is not None and of_bandwidth > 1:
        of_bandwidth = None
    elif of_bandwidth is not None and moved is not None:
        kept = sum(cache * one["count"] for one in shapes)
        floors.append(part(per_s(moved - kept), bandwidth))
    least = max((one for one in floors if one is not None), default=None)
    return Reached(
        launches=launches,
        known=ns / wall_ns if wall_ns else 0.0,
        shapes=list(dict.fromkeys(one["shape"] for one in shapes if one["shape"]))[:FIRST],
        dtype=dtype,
        flop_per_s=per_s(flop),
        of_flops=of_flops,
        bytes_per_s=per_s(moved),
        of_bandwidth=of_bandwidth,
        link="host" if to_host else "memory",
        least=least if least is not None and least <= 1 else None,
    )


def _phases(
    work: pl.DataFrame, walls: pl.DataFrame, periods: pl.DataFrame, peaks: Sequence[Peak | None]
) -> list[PhaseUse]:
    """Phases of which enough is known on some side."""
    matrix = [name for name in walls["name"].unique() if category(name) in _MATRIX]
    by = ["side", "phase"]
    sums = periods.group_by(by).agg(pl.col("ns").sum())
    spent = {(side, phase): ns for side, phase, ns in sums.iter_rows()}
    total = walls.filter(pl.col("name").is_in(matrix)).group_by(by).agg(pl.col("wall_ns").sum())
    found: dict[str, dict[int, Utilisation]] = {}
    for side, phase, wall in total.sort("phase", "side").iter_rows():
        peak = peaks[side]
        mine = work.filter(pl.col("kind") != "copy", side=side, phase=phase)
        if peak is None or not wall:
            continue
        known = mine.filter((pl.col("flop") == 0) | pl.col("dtype").is_in(list(peak.flops)))
        part = known["ns"].sum() / wall
        if part >= KNOWN:
            ideal = sum(
                flop / peak.flops[dtype] * 1e9
                for dtype, flop in known.select("dtype", "flop").iter_rows()
                if flop
            )
            found.setdefault(phase, {})[side] = Utilisation(ideal / spent[side, phase], part)
    return [PhaseUse(phase, *(of.get(side) for side in range(len(peaks)))) for phase, of in found.items()]
