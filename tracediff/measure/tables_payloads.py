"""The table of numbers that a program gave to its NVTX ranges."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracediff.measure.sides import Side, stacked
from tracediff.measure.tables import Weigher
from tracediff.model import PayloadRow, PayloadSide

_BY = ["place", "domain", "thread"]


def payload_rows(sides: Sequence[Side], weigher: Weigher) -> list[PayloadRow]:
    """Rows by range and thread role, those whose mean changed most (as a part of it) first; empty where no side has any.

    Count and sum are weighed as times of host threads are; the mean is their quotient, least and most are of the compared steps.
    """
    table = weigher.pivot(weigher.of_host("payloads", values=("count", "sum")), _BY, ["count", "sum"])
    bounds = (
        weigher.compared(stacked(sides, "payloads"))
        .group_by("side", *_BY)
        .agg(pl.col("low").min(), pl.col("high").max())
    )
    known = {(row[0], *row[1:4]): row[4:] for row in bounds.iter_rows()}
    rows = []
    for row in table.iter_rows(named=True):
        found: list[PayloadSide | None] = []
        for side, suffix in enumerate(("_b", "_c")):
            count, total = row["count" + suffix], row["sum" + suffix]
            low, high = known.get((side, *(row[name] for name in _BY)), (0.0, 0.0))
            found.append(
                PayloadSide(count, total, min(max(total / count, low), high), low, high) if count else None
            )
        one, other = found
        delta = None if one is None or other is None else other.mean - one.mean
        rows.append(PayloadRow(row["place"], row["domain"], row["thread"], one, other, delta))
    return sorted(rows, key=lambda row: (-_moved(row), row.range, row.domain, row.thread))


def _moved(row: PayloadRow) -> float:
    if row.baseline is None or row.candidate is None or row.delta_mean is None:
        return 0.0
    return abs(row.delta_mean) / (max(abs(row.baseline.mean), abs(row.candidate.mean)) or 1.0)
