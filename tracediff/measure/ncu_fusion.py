"""Several launches of one side that stand against fewer of the other: what became one, and the sums in words.

How many launches were profiled is the user's choice, so counts alone prove nothing: the work of a launch has to agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tracediff.align.kernels import OpKey
from tracediff.align.ncu import Pairing, related
from tracediff.measure import ncu_text as text
from tracediff.measure.ncu_kernels import Kernel
from tracediff.model import KernelRow

LARGEST = 6  # as many kernels as a row of the step's table puts into one (align/kernels.py)
_CONFIDENCE = 0.5
_WORK = (("l2_bytes",), ("dram_read_bytes", "dram_write_bytes"))
_SHOWN = 4  # durations that a sentence adds up one by one

Known = Mapping[OpKey, Kernel]


def regrouped(
    pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]
) -> tuple[Pairing, str]:
    """The pair as a fusion or a split where counts and work say so, and the note that says it; else as it is, and ''.

    `rows`: those of a comparison of steps, whose counts a step go before the numbers of profiled launches.
    """
    times = _times(pairing, before, after, rows)
    if abs(times) < 2:
        return pairing, ""
    if not related(pairing.baseline[0].name, pairing.candidate[0].name):
        return pairing, ""
    one, other = before[pairing.baseline[0]], after[pairing.candidate[0]]
    small, large = (one, other) if times > 0 else (other, one)
    ratios = _work(small, large)
    number = abs(times)
    if not ratios or min(ratios) < (1 + number) / 2:
        return pairing, ""
    counts = (
        f"{one.launches} launches were profiled against {other.launches}"
        if pairing.kernel is None
        else "so they stand in a step"
    )
    sides = ("candidate", "baseline") if times > 0 else ("baseline", "candidate")
    note = (
        f"taken for {_kernels(number) if times > 0 else _kernels(1)} -> {1 if times > 0 else number}: {counts}, and a launch of the"
        f" {sides[0]} moves {min(ratios):.1f} x the bytes of one of the {sides[1]}"
    )
    if times > 0:
        return replace(
            pairing, match="fused", confidence=_CONFIDENCE, baseline=pairing.baseline * number
        ), note
    return replace(pairing, match="split", confidence=_CONFIDENCE, candidate=pairing.candidate * number), note


def undecided(pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]) -> str:
    """Words for a pair of which nothing is known but counts, where launch by launch and in all say opposite things; else ''."""
    times = _times(pairing, before, after, rows)
    if abs(times) < 2:
        return ""
    one, other = before[pairing.baseline[0]], after[pairing.candidate[0]]
    if _work(one, other):
        return ""
    single, all_ = one.values.get("duration_ns", 0.0), other.values.get("duration_ns", 0.0)
    in_all = (single * times, all_) if times > 0 else (single, all_ * -times)
    if (single < all_) == (in_all[0] < in_all[1]):
        return ""
    return (
        f"{text.both(text.time(single), text.time(all_))} a launch, {one.launches} launches against {other.launches}: whether one does"
        f" the work of {abs(times)} was not collected (ncu --section MemoryWorkloadAnalysis_Tables, or --set full)"
    )


def in_all(pairing: Pairing, before: Known, after: Known) -> str:
    """The launches of both sides added up: `2 kernels -> 1: 2 x 12.1 us -> 21.0 us`."""
    counts = len(pairing.baseline), len(pairing.candidate)
    return f"{_kernels(counts[0])} -> {counts[1]}: {_added(pairing.baseline, before)} -> {_added(pairing.candidate, after)}"


def _kernels(number: int) -> str:
    return "1 kernel" if number == 1 else f"{number} kernels"


def _added(keys: Sequence[OpKey], known: Known) -> str:
    uses = Counter(keys)
    times = {key: known[key].values["duration_ns"] for key in uses}
    if len(uses) > _SHOWN:
        return f"{text.time(sum(times[key] * count for key, count in uses.items()))} in all"
    parts = [
        text.time(times[key]) if count == 1 else f"{count} x {text.time(times[key])}"
        for key, count in uses.items()
    ]
    return " + ".join(parts)


def _times(pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]) -> int:
    """How many launches of the baseline stand against one of the candidate; negative the other way; 0: neither a whole number.

    Only of two kernels with other names: a kernel that keeps its name does what it did.
    """
    if len(pairing.baseline) != 1 or len(pairing.candidate) != 1 or pairing.match in ("fused", "split"):
        return 0
    if pairing.baseline[0].name == pairing.candidate[0].name:
        return 0
    counts: tuple[float, float] = (before[pairing.baseline[0]].launches, after[pairing.candidate[0]].launches)
    if pairing.kernel is not None:
        row = rows[pairing.kernel]
        if row.baseline is None or row.candidate is None:
            return 0
        counts = row.baseline.count_per_step, row.candidate.count_per_step
    if min(counts) <= 0:
        return 0
    ratio = max(counts) / min(counts)
    if abs(ratio - round(ratio)) > 0.05 or not 2 <= round(ratio) <= LARGEST:
        return 0
    return round(ratio) if counts[0] > counts[1] else -round(ratio)


def _work(small: Kernel, large: Kernel) -> list[float]:
    """How many times the bytes of one launch another moves, at L2 and at DRAM, as far as collected."""
    found = []
    for keys in _WORK:
        sums = [
            sum(kernel.values[key] for key in keys)
            for kernel in (small, large)
            if all(key in kernel.values for key in keys)
        ]
        if len(sums) == 2 and min(sums) > 0:
            found.append(sums[1] / sums[0])
    return found
