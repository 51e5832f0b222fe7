"""Kernels in every output: their rows in order and by phase, and in words those that were asked for by name, did not change, or are judged by their own launches."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tracediff.kernels.names import normalise
from tracediff.model import (
    Accounting,
    GapRow,
    KernelAnswer,
    KernelRow,
    KernelSide,
    KernelTypical,
    RangeRow,
    Result,
)
from tracediff.model.causes import BUSY, OWN
from tracediff.model.common import ABSENT, SIDES
from tracediff.report import names, units, words
from tracediff.report.grammar import say
from tracediff.report.names import Name


class PhaseKernels(msgspec.Struct, frozen=True):
    """Kernel rows, the largest change first, per typical step of a phase as causes are; phase '': per mean of all compared steps.

    places: of `id(row)` the row of `Result.kernels`. gpu_ns: GPU time of each side in that step, of which a typical step's rows leave
    trifles out.
    """

    phase: str
    rows: list[KernelRow]
    places: dict[int, int]
    gpu_ns: dict[str, float]


def kernels_by_phase(result: Result) -> list[PhaseKernels]:
    """The kernels of each judged phase, that of the verdict first; where there is none, of all compared steps."""
    order = sorted(result.phases, key=lambda one: (one.phase != result.verdict_facts.phase, -one.share))
    found = []
    for phase in (one for one in order if one.judged):
        mine = [
            (place, _typical(row, one))
            for place, row in enumerate(result.kernels)
            for one in row.phases
            if one.phase == phase.phase
        ]
        if mine:
            of = of_phase(phase.phase, mine)
            found.append(replace(of, gpu_ns=_busy(phase.accounting)) if phase.accounting else of)
    return found or [of_phase("", list(enumerate(result.kernels)))]


def of_phase(phase: str, rows: list[tuple[int, KernelRow]]) -> PhaseKernels:
    """Kernels of a phase, each with its row in the result."""
    mine = sorted((row for _, row in rows), key=kernel_order)
    return PhaseKernels(phase, mine, {id(row): place for place, row in rows}, kernel_time(mine))


def kernel_time(rows: Sequence[KernelRow]) -> dict[str, float]:
    """The time of all kernels of each side, ns per step."""
    return {
        side: math.fsum(own.ns_per_step for row in rows if (own := getattr(row, side)) and own is not ABSENT)
        for side in SIDES
    }


def _busy(accounting: Accounting) -> dict[str, float]:
    return {side: math.fsum(getattr(accounting, side).get(key, 0.0) for key in BUSY) for side in SIDES}


def _typical(row: KernelRow, one: KernelTypical) -> KernelRow:
    def side(of: KernelSide | None, ns: float, count: float) -> KernelSide | None:
        return replace(of, ns_per_step=ns, count_per_step=count) if of else None

    return replace(
        row,
        baseline=side(row.baseline, one.baseline_ns, one.baseline_count),
        candidate=side(row.candidate, one.candidate_ns, one.candidate_count),
        delta_ns=one.delta_ns,
        ci_low_ns=one.ci_low_ns,
        ci_high_ns=one.ci_high_ns,
        level=one.level,
        q_value=one.q_value,
    )


def size_of(row: KernelRow | GapRow | RangeRow) -> float:
    """The size of a row's change, or its time where there is one side."""
    if row.delta_ns is not ABSENT:
        return abs(row.delta_ns)
    return row.baseline.ns_per_step if row.baseline else 0.0


def kernel_order(row: KernelRow) -> tuple[float, str, str]:
    """Order kernel rows by the size of their change, then by name."""
    return -size_of(row), names.kernel(row, shortened=False), row.match


# In words.


def sentence(result: Result, one: KernelAnswer) -> str:
    """Say `gemm takes 12.9 us more per mean step (132 -> 145 us, +9.8 %), likely: 16.2 launches, 8.17 -> 8.97 us each`."""
    name, unit, mean = _name(result, one), words.unit(result), words.mean_step(result)
    prose, each = (
        units.prose([one.baseline_ns, one.candidate_ns]),
        units.prose([one.baseline_mean_ns, one.candidate_mean_ns]),
    )
    if not one.baseline_count or not one.candidate_count:
        new = bool(one.candidate_count)
        count, ns = (one.candidate_count, one.candidate_ns) if new else (one.baseline_count, one.baseline_ns)
        size = each.size(one.candidate_mean_ns if new else one.baseline_mean_ns)
        return say(
            "answer_lone", name=name, new="new" if new else "gone", size=prose.size(ns), mean=mean,
            launches=units.launches(count), each=size,
        )  # fmt: skip
    counts = units.arrow(dict.fromkeys(map(units.count, (one.baseline_count, one.candidate_count))))
    slots = {
        "name": name, "mean": mean, "unit": unit, "both": prose.both(one.baseline_ns, one.candidate_ns),
        "launches": units.launches(one.candidate_count, counts), "each": each.both(one.baseline_mean_ns, one.candidate_mean_ns),
        "size": prose.size(one.delta_ns), "change": units.change(one.delta_ns, one.baseline_ns), "level": words.LEVELS[one.level][0],
        "more": "more" if one.delta_ns > 0 else "less",
    }  # fmt: skip
    pattern = "answer_within" if one.level == "within_noise" else "answer"
    return say(pattern if one.delta_ns else "answer_same", **slots)


def _name(result: Result, one: KernelAnswer) -> str:
    """The kernel; of several how many there are, and how many others are counted with them."""
    rows = [result.kernels[at] for at in one.rows]
    said = list(dict.fromkeys(names.kernel(row, width=120) for row in rows))
    if len(said) == 1 and one.partly:
        return one.asked
    if len(said) == 1:
        return said[0]
    kernels, others = units.counted(len(said), "kernel"), units.counted(len(one.instead), "other")
    pattern = "answer_with_others" if one.instead else "answer_of_several"
    return say(pattern, name=one.asked, kernels=kernels, others=others)


def none_changed(rows: Sequence[KernelRow]) -> str:
    """Say how many kernels are shown not to have changed, and of how many that is not known."""
    still = sum(map(words.still, rows))
    unknown = sum(row.level == "within_noise" for row in rows) - still
    pattern = "kernels_some_still" if still and unknown else "kernels_still" if still else "kernels_unknown"
    if not any(row.delta_ns for row in rows):
        pattern = "kernels_same"
    return say(
        pattern,
        rows=units.counted(still, "kernel row"),
        unknown=units.counted(unknown, "kernel row"),
        others=f"{unknown:,}",
        limit=f"{100 * OWN:g} %",
    )


# Where each run is one step, or steps are too few: kernels by their own launches.

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
    return sorted(result.launched, key=lambda row: (not _changed(result, row), -_size(result, row), kernel_order(row)))  # fmt: skip


def _changed(result: Result, row: KernelRow) -> bool:
    """Whether a row changed for sure: a launch of it; of runs that do the same work, also the number of launches."""
    counts = _counts(row)
    sure = row.per_launch is not None and row.per_launch.level != "within_noise"
    return sure or (result.verdict_facts.same_work and counts[0] != counts[1])


def _size(result: Result, row: KernelRow) -> float:
    """The time that changed, ns; where the work is not known to be the same, of the launches of the side with fewer."""
    if row.per_launch is None or result.verdict_facts.same_work:
        return abs(row.delta_ns)
    return abs(row.per_launch.delta_ns) * min(_counts(row))


def _counts(row: KernelRow) -> tuple[float, float]:
    """Launches per capture of each side."""
    before, after = (side.count_per_step if side else 0.0 for side in (row.baseline, row.candidate))
    return before, after


def launched(row: KernelRow) -> Name:
    """A short name: without arguments and tuning; both where the sides differ. `GEMM kernels (fp32 -> tf32)` of several that replace others."""
    sides = [side for side in (row.baseline, row.candidate) if side]
    called = [list(dict.fromkeys(_short(one) for one in side.names)) for side in sides]
    if len(called) == 2 and called[0] == called[1]:
        called = called[:1]
    kind = _KINDS.get(row.category)
    if kind and (len(called) > 1 or len(called[0]) > 1):
        # of the kernel with the most time, where its name tells
        precisions = dict.fromkeys(
            next((one for one, pattern in _PRECISIONS.items() if pattern.search(side.names[0])), "")
            for side in sides
        )
        known = len(precisions) > 1 and "" not in precisions
        return Name((kind,), f" ({units.arrow(precisions)})" if known else "")
    return Name(tuple(one[0] + (f" and {len(one) - 1} more" if len(one) > 1 else "") for one in called))


def _short(kernel: str) -> str:
    text = normalise(kernel)
    head, angle, rest = text.partition("<")
    base = head.rsplit("::", 1)[-1]
    return base + angle + rest if base else text


def launch_evidence(row: KernelRow) -> str:
    """How sure a row is, or that one side lacks it."""
    if row.baseline is None:
        return "new"
    if row.candidate is None:
        return "gone"
    return words.LEVELS[row.per_launch.level][0] if row.per_launch else "not tested"
