"""Kernels by their own launches, where each run is one step or steps are too few: rows in words, the first sentence and the changes."""

from __future__ import annotations

import re

from tracediff.kernels.names import normalise
from tracediff.model import KernelRow, KernelSide, Result
from tracediff.model.causes import BUSY
from tracediff.report import units, words
from tracediff.report.escape import shorten
from tracediff.report.rows import kernel_order

_SAID = 3  # kernels in a sentence
_WORTH = 0.1  # of the largest: a smaller one is not in it
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


def once(result: Result) -> bool:
    """Whether each run is one step, whose kernels are known."""
    steps, runs = result.step.steps, result.step.runs
    ranks = max(len(result.ranks), 1)
    alone = (steps.baseline, steps.candidate) == (ranks * runs.baseline, ranks * runs.candidate)
    return alone and bool(result.launched)


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


def whole(result: Result) -> str:
    """What captures of one step each did as a whole, and the kernels that it is made of."""
    step, books = result.step, result.accounting
    length = _times(step.baseline_ns, step.candidate_ns)
    gpu = [sum(side.get(one, 0.0) for one in BUSY) for side in (books.baseline, books.candidate)]
    what = "whole captures" if words.whole_captures(result) else "the only step of each run"
    text = f"{what} {length}; GPU time {_times(*gpu)}"
    if any(one.name == "work" for one in result.comparability.checks):
        return f"{text}, of different amounts of work"
    told = _changed(result)
    if not told:
        return f"{text}; no kernel changed beyond noise"
    shown = [row for row in told[:_SAID] if abs(row.delta_ns) >= _WORTH * abs(told[0].delta_ns)]
    more = f"; {len(told) - len(shown)} more below" if len(told) > len(shown) else ""
    return f"{text}, {', '.join(map(_part, shown))}{more}"


def _times(before: float, after: float) -> str:
    prose = units.prose([before, after])
    return f"{prose.size(before).removesuffix(f' {prose.unit}')} -> {prose.size(after)}"


def _part(row: KernelRow) -> str:
    """`likely -21.5 ms from transform_kernel (294 launches, 99.1 -> 25.9 us each)`."""
    level = f"{words.LEVELS[row.per_launch.level][0]} " if row.per_launch and _sure(row) else ""
    size = units.prose([row.delta_ns]).signed(row.delta_ns)
    return f"{level}{size} from {name(row)} ({_launches(row)})"


def _launches(row: KernelRow) -> str:
    counts = _counts(row)
    text = f"{units.arrow(map(units.count, counts))} launches"
    if row.baseline is None or row.candidate is None:
        return f"{evidence(row)}, {units.count(max(counts))} launches"
    return f"{text}, {_times(row.baseline.mean_ns, row.candidate.mean_ns)} each"


def _changed(result: Result) -> list[KernelRow]:
    """The kernels that changed for sure, the one with the largest change first."""
    return [row for row in ordered(result) if _told(result, row)]


def sentence(result: Result) -> str:
    """Say which kernels changed per launch; empty where none did for sure, or the first sentence says it."""
    found = [row for row in _changed(result) if _sure(row)]
    works = any(one.name == "work" for one in result.comparability.checks)
    if not found or (once(result) and not works):
        return ""
    more = f"; {len(found) - _SAID} more below" if len(found) > _SAID else ""
    shown = found[:_SAID]
    certain = all(row.per_launch and row.per_launch.level == "confirmed" for row in shown)
    of = "launches of one grid" if works else "launches"
    return f"{'Confirmed' if certain else 'Likely'}, by their own {of}: {'; '.join(map(_one, shown))}{more}."


def largest(result: Result) -> str:
    """The kernel that changed most, as the end of a sentence; empty where none did for sure."""
    for row in _changed(result):
        if row.per_launch and _sure(row):
            part = units.percent(row.per_launch.delta_ns, row.per_launch.baseline_ns)
            return f"; a launch of {name(row)} changed by {part} ({words.LEVELS[row.per_launch.level][0]})"
    return ""


def _one(row: KernelRow) -> str:
    change = row.per_launch
    assert change is not None
    counts = " and ".join(dict.fromkeys(units.count(one) for one in _counts(row)))
    part = units.percent(change.delta_ns, change.baseline_ns)
    return f"{name(row)} {part} ({_times(change.baseline_ns, change.candidate_ns)} each, {counts} launches)"
