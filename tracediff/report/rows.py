"""The order of rows in every output, how many are shown, and how many are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tracediff.model import GapRow, KernelRow, KpiRow, RangeRow, RankRow, Result
from tracediff.model.show import ShowRank
from tracediff.report import names, units

LIMIT = 500  # rows a table shows at most; the JSON holds the rest
RANKS = 64  # the same of ranks: further ones are like the others
OUTLIER = 3.5  # robust standard deviations from which a rank is called one

Row = TypeVar("Row")


@dataclass(frozen=True)
class Shown(Generic[Row]):
    """The rows that a table shows, and how many it leaves out."""

    rows: Sequence[Row]
    left_out: int
    total: int


def cut(rows: Sequence[Row], limit: int = LIMIT) -> Shown[Row]:
    """Keep the first rows."""
    return Shown(rows[:limit], max(0, len(rows) - limit), len(rows))


def kernel_order(row: KernelRow) -> tuple[float, str, str]:
    """Order kernel rows by the size of their change, then by name."""
    return -abs(row.delta_ns), names.kernel(row, shortened=False), row.match


def gap_order(row: GapRow) -> tuple[float, str, str, str, str, str]:
    """Order gap rows by the size of their change, then by what they are."""
    return -abs(row.delta_ns), row.cause, row.thread, row.range, row.previous, row.next


def range_order(row: RangeRow) -> tuple[float, str, str, str]:
    """Order range rows by the size of their change, then by what they are."""
    return -abs(row.delta_ns), row.range, row.domain, row.thread


def rank_order(row: RankRow | ShowRank) -> tuple[float, int, int]:
    """Order ranks: outliers first, those that are furthest from the others; then by their number."""
    far = abs(row.outlier or 0.0)
    return (-far if far >= OUTLIER else 0.0), row.rank, row.device


def benchmark_rows(result: Result) -> list[list[str]]:
    """Write a benchmark's figures: figure and unit, baseline, candidate, delta, change, share that the step explains.

    Those that the step time explains come first.
    """
    found = sorted(result.kpi.rows if result.kpi else [], key=lambda row: row.explained is None)
    return [_benchmark_row(row) for row in found]


def _benchmark_row(row: KpiRow) -> list[str]:
    better = "" if not row.delta else "better" if (row.delta > 0) == (row.better == "higher") else "worse"
    return [
        row.metric + (f", {row.unit}" if row.unit else ""), _figure(row.baseline), _figure(row.candidate),
        ("+" if row.delta > 0 else "") + _figure(row.delta), f"{units.percent(row.delta, row.baseline)} {better}",
        "" if row.explained is None else units.share(row.explained),
    ]  # fmt: skip


def _figure(value: float) -> str:
    """Write a benchmark's figure with four digits."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
