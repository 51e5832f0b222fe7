"""Host time by CUDA call and by NVTX range as tables, for every output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracediff.model import Result
from tracediff.model.host import HostRow, HostSide, HostTime
from tracediff.report import units, words
from tracediff.report.document import TableOf

_KINDS = (("call", "CUDA call", "Call"), ("range", "NVTX range", "Range"))


def tables(host: HostTime | None, *, two: bool) -> list[TableOf]:
    """A table of calls and one of ranges, where there are rows. `two`: of a comparison."""
    found = []
    for kind, title, head in _KINDS if host else ():
        rows = [row for row in host.rows if row.kind == kind] if host else []
        if rows and host:
            found.append(_table(f"Host time by {title}, per {host.per}", head, rows, two=two))
    return found


def _table(title: str, head: str, rows: list[HostRow], *, two: bool) -> TableOf:
    names = (head, "Thread") if rows[0].kind == "range" else (head,)
    heads = (
        ("Count", "Each", "Change of one", "{}, baseline", "{}, candidate", "Delta", "Change")
        if two
        else ("Count", "Each", "{}")
    )
    cells: Callable[[Any, units.Scale], list[str]] = _both if two else _one
    return TableOf(
        title,
        (*names, *heads),
        "n" * len(names) + "f" * len(heads),
        rows,
        lambda row, scale: [*[row.name, row.thread][: len(names)], *cells(row, scale)],
        "host.rows",
        lambda row: [side.ns for side in _sides(row)],
    )


def _sides(row: HostRow) -> list[HostSide]:
    return [side for side in (row.baseline, row.candidate) if isinstance(side, HostSide)]


def _one(row: HostRow, scale: units.Scale) -> list[str]:
    side = _sides(row)[0]
    return [
        units.count(side.count),
        units.scale_for([side.mean_ns]).time(side.mean_ns),
        scale.number(side.ns),
    ]


def _both(row: HostRow, scale: units.Scale) -> list[str]:
    sides = [side if isinstance(side, HostSide) else None for side in (row.baseline, row.candidate)]
    each = units.scale_for([side.mean_ns for side in sides if side])
    counts = dict.fromkeys(units.count(side.count) if side else "0" for side in sides)
    means = [each.number(side.mean_ns) if side else "-" for side in sides]
    totals = [scale.number(side.ns) if side else "-" for side in sides]
    delta = units.delta(scale, row.delta_ns, sides[0].ns if sides[0] else 0.0, row.level)
    return [
        " -> ".join(counts),
        f"{' -> '.join(means)} {each.unit}",
        _change(each, row.mean_delta_ns, row.mean_ci_low_ns, row.mean_ci_high_ns),
        *totals,
        _change(scale, row.delta_ns, row.ci_low_ns, row.ci_high_ns)
        if row.ci_low_ns is not None
        else delta.signed,
        delta.percent,
    ]


def _change(scale: units.Scale, delta: float | None, low: float | None, high: float | None) -> str:
    if not isinstance(delta, float):
        return "-"
    half = "" if low is None or high is None else f" ± {scale.number((high - low) / 2)}"
    return f"{scale.signed(delta)}{half}"


def note(result: Result) -> str:
    """What the intervals of the tables are."""
    if min(result.step.runs.baseline, result.step.runs.candidate) < 2:
        return "± 95 %, from the calls of one run per side: what differs from run to run is not in it, so no row is more than a hint"
    return "± 95 %, over runs; ~ within noise, all rows tested at once"


def largest(host: HostTime) -> str:
    """The row that changed most, for the first sentence; empty without rows."""
    if not host.rows:
        return ""
    row = host.rows[0]
    before, after = (side.ns if isinstance(side, HostSide) else 0.0 for side in (row.baseline, row.candidate))
    prose = units.prose([before, after])
    level = "" if row.level == "within_noise" else f", {words.LEVELS[row.level][0]}"
    what = "time in" if row.kind == "call" else "range"
    return f"{what} {row.name} {prose.size(before)} -> {prose.size(after)} per {host.per}{level}"
