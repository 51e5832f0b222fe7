"""Kernels by their own launches, where each run is one step or steps are too few: rows in words."""

from __future__ import annotations

import re

from tracediff.kernels.names import normalise
from tracediff.model import KernelRow, KernelSide, Result
from tracediff.report import words
from tracediff.report.escape import shorten
from tracediff.report.rows import kernel_order

_KINDS = {"gemm": "GEMM kernels", "attention": "attention kernels"}
_PRECISIONS = {
    name: re.compile(pattern)
    for name, pattern in (
        ("fp8", "e4m3|e5m2|fp8"), ("tf32", r"tf32|s\d+gemm"), ("bf16", "bf16"), ("fp16", r"f16|h\d*gemm|half"),
        ("fp32", "f32f32_f32f32_f32|sgemm"),
    )
}  # fmt: skip


def by_launch(result: Result) -> bool:
    """Whether kernels were judged by their launches."""
    return any(row.per_launch for row in result.launched)


def ordered(result: Result) -> list[KernelRow]:
    """Rows that changed for sure first, then by the time that changed."""
    return sorted(result.launched, key=lambda row: (not _told(result, row), -_size(result, row), kernel_order(row)))  # fmt: skip


def _sure(row: KernelRow) -> bool:
    return row.per_launch is not None and row.per_launch.level != "within_noise"


def _told(result: Result, row: KernelRow) -> bool:
    """Whether a row changed for sure: a launch of it; of runs that do the same work, also the number of launches."""
    counts = _counts(row)
    return _sure(row) or (result.verdict_facts.same_work and counts[0] != counts[1])


def _size(result: Result, row: KernelRow) -> float:
    """The time that changed, ns; where the work is not known to be the same, of the launches of the side with fewer."""
    if row.per_launch is None or result.verdict_facts.same_work:
        return abs(row.delta_ns)
    return abs(row.per_launch.delta_ns) * min(_counts(row))


def _counts(row: KernelRow) -> tuple[float, float]:
    """Launches per capture of each side."""
    before, after = (side.count_per_step if side else 0.0 for side in (row.baseline, row.candidate))
    return before, after


def name(row: KernelRow, width: int = 60) -> str:
    """A short name: without arguments and tuning; both where the sides differ. `GEMM kernels (fp32 -> tf32)` of several that replace others."""
    sides = [side for side in (row.baseline, row.candidate) if side]
    called = [list(dict.fromkeys(_short(one) for one in side.names)) for side in sides]
    if len(called) == 2 and called[0] == called[1]:
        called = called[:1]
    kind = _KINDS.get(row.category)
    if kind and (len(called) > 1 or len(called[0]) > 1):
        precisions = dict.fromkeys(_precision(side) for side in sides)
        return f"{kind} ({' -> '.join(precisions)})" if len(precisions) > 1 and "" not in precisions else kind
    room = (width - 4 * (len(called) - 1)) // len(called)
    several = [one[0] + (f" and {len(one) - 1} more" if len(one) > 1 else "") for one in called]
    return " -> ".join(shorten(one, room) for one in several)


def _short(kernel: str) -> str:
    text = normalise(kernel)
    head, angle, rest = text.partition("<")
    base = head.rsplit("::", 1)[-1]
    return base + angle + rest if base else text


def _precision(side: KernelSide) -> str:
    """What the kernel with the most time computes in, where its name tells."""
    return next((one for one, pattern in _PRECISIONS.items() if pattern.search(side.names[0])), "")


def evidence(row: KernelRow) -> str:
    """How sure a row is, or that one side lacks it."""
    if row.baseline is None:
        return "new"
    if row.candidate is None:
        return "gone"
    return words.LEVELS[row.per_launch.level][0] if row.per_launch else "not tested"
