"""The tables of Python's own costs: who held and awaited the GIL, and garbage collection."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracediff.measure.sides import Side, exact_strata
from tracediff.measure.tables import Weigher
from tracediff.model import Gc, GcRow, Gil, GilPairRow, GilRow


def gil(sides: Sequence[Side], weigher: Weigher, idle: pl.DataFrame) -> Gil:
    """GIL by thread role and phase, and who waited for whom. `idle`: thread, phase, ns_b, ns_c of gil_wait."""
    if not any(side.captured("gil") for side in sides):
        return Gil([], [])
    table = weigher.of_host("gil", values=("hold_ns", "wait_ns"))
    phases = exact_strata(sides).select("side", "run", "part", "stratum", "phase")
    held = weigher.pivot(
        table.join(phases, on=["side", "run", "part", "stratum"], how="left").fill_null(0),
        ["thread", "phase"], ["hold_ns", "wait_ns"],
    ).join(idle, on=["thread", "phase"], how="left")  # fmt: skip
    shown = _both(sides, "gil")

    def value(row: dict[str, float | None], name: str, side: int) -> float | None:
        return (row[name] or 0.0) if shown[side] else None

    rows = [
        GilRow(
            row["thread"], row["phase"],
            value(row, "hold_ns_b", 0), value(row, "wait_ns_b", 0), value(row, "exposed_b", 0),
            value(row, "hold_ns_c", 1), value(row, "wait_ns_c", 1), value(row, "exposed_c", 1),
        )
        for row in held.iter_rows(named=True)
    ]  # fmt: skip
    rows.sort(
        key=lambda row: (-max(row.baseline_wait_ns or 0, row.candidate_wait_ns or 0), row.thread, row.phase)
    )
    pairs = weigher.pivot(
        weigher.of_host("gil_pairs", "waiter"), ["waiter", "holder", "holder_place"], ["ns"]
    )
    matrix = [
        GilPairRow(
            row["waiter"], row["holder"], row["holder_place"], value(row, "ns_b", 0), value(row, "ns_c", 1)
        )
        for row in pairs.iter_rows(named=True)
    ]
    matrix.sort(
        key=lambda row: (
            -max(row.baseline_ns or 0, row.candidate_ns or 0),
            row.waiter,
            row.holder,
            row.holder_range,
        )
    )
    return Gil(rows, matrix)


def _both(sides: Sequence[Side], kind: str) -> tuple[bool, bool]:
    """Whether each side captured a kind of trace; a side that there is not did not."""
    one, other = [*(side.captured(kind) for side in sides), False][:2]
    return one, other


def gc(sides: Sequence[Side], weigher: Weigher, exposed: dict[str, tuple[float, float]]) -> Gc:
    """Garbage collection by thread role and generation. `exposed`: thread -> GPU idle ns of both sides."""
    if not any(side.captured("gc") for side in sides):
        return Gc([])
    table = weigher.pivot(
        weigher.of_host("gc", values=("count", "ns")), ["thread", "generation"], ["count", "ns"]
    )
    total = table.group_by("thread", maintain_order=True).agg(pl.col("ns_b", "ns_c").sum())
    shown = _both(sides, "gc")
    rows = []
    for row in table.join(total, on="thread", suffix="_all").iter_rows(named=True):
        numbers: list[float | None] = []
        for side, suffix in enumerate(("_b", "_c")):
            if not shown[side]:
                numbers += [None, None, None]
                continue
            ns = row["ns" + suffix] or 0.0
            whole = row[f"ns{suffix}_all"]
            # the accounting knows the thread; generations share its idle time by their length
            idle = exposed.get(row["thread"], (0.0, 0.0))[side]
            numbers += [row["count" + suffix] or 0.0, ns, idle * ns / whole if whole else 0.0]
        rows.append(GcRow(row["thread"], row["generation"], *numbers))
    rows.sort(key=lambda row: (-max(row.baseline_ns or 0, row.candidate_ns or 0), row.thread, row.generation))
    return Gc(rows)
