"""Kernels by their own launches, where steps are too few to say anything: rows in words, and the sentence about the largest change."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model import KernelRow, KernelSide, LaunchChange, Result
from tracediff.report import names, units, words
from tracediff.report.tables import kernel_order

HEADER = ("Launches", "Baseline", "Candidate", "Change", "Of the time", "Evidence")
CAVEAT = (
    "Mean of one launch ± standard deviation. Launches of one run are not independent, so a run counts as 20 of them at most."
)  # fmt: skip
_SAID = 3  # kernels in a sentence


def by_launch(result: Result) -> bool:
    """Whether kernels were judged by their launches."""
    return any(row.per_launch for row in result.kernels)


def ordered(result: Result) -> list[KernelRow]:
    """Rows that changed for sure first, then by the time that changed: of a launch, times the launches of the side with fewer."""
    return sorted(result.kernels, key=lambda row: (_noise(row), -_size(row), kernel_order(row)))


def _noise(row: KernelRow) -> bool:
    return row.per_launch is None or row.per_launch.level == "within_noise"


def _size(row: KernelRow) -> float:
    sides = [side for side in (row.baseline, row.candidate) if side]
    if row.per_launch is None:
        return abs(row.delta_ns) if len(sides) < 2 else 0.0
    return abs(row.per_launch.delta_ns) * min(side.launches for side in sides)


def scale(rows: Sequence[KernelRow]) -> units.Scale:
    """The scale of one launch in all rows."""
    return units.scale_for([side.mean_ns for row in rows for side in (row.baseline, row.candidate) if side])


def figures(result: Result, row: KernelRow, of: units.Scale, arrow: str) -> list[str]:
    """The cells of a row under `HEADER`."""
    sides = (row.baseline, row.candidate)
    counts = dict.fromkeys(f"{side.launches:,}" if side else "0" for side in sides)
    wholes = (result.step.baseline_ns, result.step.candidate_ns)
    shares = [
        units.share(side.ns_per_step if side else 0.0, whole)
        for side, whole in zip(sides, wholes, strict=True)
    ]
    change = row.per_launch
    return [
        arrow.join(counts),
        *(_mean(side, of) for side in sides),
        units.delta(of, change.delta_ns, change.baseline_ns, change.level).percent if change else "",
        arrow.join(dict.fromkeys(shares)),
        _evidence(row),
    ]


def _mean(side: KernelSide | None, of: units.Scale) -> str:
    if side is None:
        return "-"
    return of.number(side.mean_ns) + (f" ± {of.number(side.sd_ns)}" if side.sd_ns is not None else "")


def _evidence(row: KernelRow) -> str:
    if row.baseline is None:
        return "new"
    if row.candidate is None:
        return "gone"
    return words.LEVELS[row.per_launch.level][0] if row.per_launch else "not tested"


def sentence(result: Result) -> str:
    """Say which kernels changed per launch, the one with the most time first; empty where none did for sure."""
    found = [(row, row.per_launch) for row in ordered(result) if row.per_launch and not _noise(row)]
    if not found:
        return ""
    said = "; ".join(_one(row, change) for row, change in found[:_SAID])
    more = f"; {len(found) - _SAID} more below" if len(found) > _SAID else ""
    sure = "Confirmed" if all(change.level == "confirmed" for _, change in found[:_SAID]) else "Likely"
    return f"{sure}, by their own launches: {said}{more}."


def largest(result: Result) -> str:
    """The kernel that changed most, as the end of a sentence; empty where none did for sure."""
    row = next((row for row in ordered(result) if not _noise(row)), None)
    if row is None or row.per_launch is None:
        return ""
    change = row.per_launch
    part = units.percent(change.delta_ns, change.baseline_ns)
    return f"; a launch of {names.kernel(row, width=60)} changed by {part} ({words.LEVELS[change.level][0]})"


def _one(row: KernelRow, change: LaunchChange) -> str:
    assert row.baseline and row.candidate
    prose = units.prose([change.baseline_ns, change.candidate_ns])
    times = f"{prose.size(change.baseline_ns)} -> {prose.size(change.candidate_ns)}"
    counts = " and ".join(dict.fromkeys(f"{side.launches:,}" for side in (row.baseline, row.candidate)))
    part = units.percent(change.delta_ns, change.baseline_ns)
    return f"{names.kernel(row, width=60)} {part} ({times} each, {counts} launches)"
