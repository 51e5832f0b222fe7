"""What the operating system and CUDA's memory did in a step, as short rows for Markdown and the terminal."""

from __future__ import annotations

from tracediff.model import HostWorkRow, MemorySide, Result, System
from tracediff.report import units, words

KINDS = {"off_cpu": "on no CPU, in no recorded OS call", "rest": "neither"}
# field of a side of a row of memory, and whether it counts bytes
MEMORY = (
    ("allocations_per_step", False), ("bytes_per_step", True), ("frees_per_step", False),
    ("freed_bytes_per_step", True), ("peak_bytes", True),
)  # fmt: skip
NOT_CAPTURED = "not captured"
_NONE = "none"


def missing(result: Result) -> list[str]:
    """Say which kinds one side alone recorded: what neither has is said in the HTML report."""
    sides = {kind: words.sides_without(result, kind) for kind in words.SYSTEM_KINDS}
    return [words.missing(result, kind) for kind, side in sides.items() if side not in ("", "either side")]


def host_work(system: System, limit: int) -> tuple[units.Scale, list[tuple[str, str, str, str]]]:
    """Rows of (range, what, baseline, candidate) of parts told by a call or a switch, those that changed most first."""
    rows = [row for row in system.host_work if row.kind != "rest"][:limit]
    scale = units.scale_for([value for row in rows for value in (row.baseline_ns, row.candidate_ns)])
    return scale, [
        (row.range or row.thread, _what(row), _time(row.baseline_ns, scale), _time(row.candidate_ns, scale))
        for row in rows
    ]


def _what(row: HostWorkRow) -> str:
    return row.call if row.kind == "os_call" else KINDS[row.kind]


def _time(ns: float | None, scale: units.Scale) -> str:
    return NOT_CAPTURED if ns is None else scale.time(ns)


def memory(system: System) -> list[tuple[str, str, str]]:
    """Rows of (kind, baseline, candidate) of memory that a step allocates or frees, or whose peak differs."""
    rows = [(row.kind, _side(row.baseline), _side(row.candidate)) for row in system.memory]
    return [row for row in rows if row[1] != row[2] or not row[1].startswith(_NONE)]


def _side(side: MemorySide | None) -> str:
    if side is None:
        return NOT_CAPTURED
    flow = [
        f"{units.count(count)} {what} ({units.size(round(size))})"
        for count, what, size in (
            (side.allocations_per_step, "allocations", side.bytes_per_step),
            (side.frees_per_step, "frees", side.freed_bytes_per_step),
        )
        if count
    ]
    return f"{', '.join(flow) or _NONE}; peak {units.size(side.peak_bytes)}"
