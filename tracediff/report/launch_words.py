"""Kernels by their own launches, where steps are too few to say anything: rows in words, and the sentence about the largest change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.model import Evidence, KernelRow, KernelSide, LaunchChange, Result
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
        return abs(row.delta_ns)
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


@dataclass(frozen=True)
class _Changed:
    """Rows of one kernel that changed for sure, the same way. before, after: ns of one launch, both at the baseline's shapes."""

    name: str
    before: float
    after: float
    launches: tuple[int, int]
    shapes: int
    level: Evidence


def _changed(result: Result) -> list[_Changed]:
    """The kernels that changed for sure, the one with the largest change first; launch shapes that changed the same way together."""
    groups: dict[tuple[str, bool], list[tuple[KernelSide, KernelSide, LaunchChange]]] = {}
    for row in result.kernels:
        change = row.per_launch
        if row.baseline and row.candidate and change and change.level != "within_noise":
            key = names.kernel(row, width=60), change.delta_ns > 0
            groups.setdefault(key, []).append((row.baseline, row.candidate, change))
    out = []
    for (name, _), rows in groups.items():
        counts = [min(one.launches, other.launches) for one, other, _ in rows]
        both = [
            sum(count * ns for count, ns in zip(counts, each, strict=True)) / sum(counts)
            for each in (
                [change.baseline_ns for *_, change in rows],
                [change.candidate_ns for *_, change in rows],
            )
        ]
        level: Evidence = "confirmed" if all(change.level == "confirmed" for *_, change in rows) else "likely"
        launches = sum(one.launches for one, *_ in rows), sum(other.launches for _, other, _ in rows)
        out.append(_Changed(name, both[0], both[1], launches, len(rows), level))
    return sorted(out, key=lambda one: (-abs(one.after - one.before) * min(one.launches), one.name))


def sentence(result: Result) -> str:
    """Say which kernels changed per launch; empty where none did for sure."""
    found = _changed(result)
    if not found:
        return ""
    shown = found[:_SAID]
    more = f"; {len(found) - _SAID} more below" if len(found) > _SAID else ""
    sure = "Confirmed" if all(one.level == "confirmed" for one in shown) else "Likely"
    return f"{sure}, by their own launches: {'; '.join(map(_one, shown))}{more}."


def largest(result: Result) -> str:
    """The kernel that changed most, as the end of a sentence; empty where none did for sure."""
    for one in _changed(result)[:1]:
        part = units.percent(one.after - one.before, one.before)
        return f"; a launch of {one.name} changed by {part} ({words.LEVELS[one.level][0]})"
    return ""


def _one(one: _Changed) -> str:
    prose = units.prose([one.before, one.after])
    times = f"{prose.size(one.before)} -> {prose.size(one.after)}"
    counts = " and ".join(dict.fromkeys(f"{many:,}" for many in one.launches))
    shapes = f" of {one.shapes} launch shapes" if one.shapes > 1 else ""
    return f"{one.name} {units.percent(one.after - one.before, one.before)} ({times} each, {counts} launches{shapes})"
