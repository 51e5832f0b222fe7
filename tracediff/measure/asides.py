"""What a verdict on the mean leaves unsaid: a change of a few steps only, another way of launching."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from tracediff.measure.reduction import Reduction
from tracediff.measure.sides import Side
from tracediff.model import Finding, Launch, Note, Phase, Step, Verdict

_CALLED = ("improved", "regressed", "likely_improved", "likely_regressed")
_FEW = 0.25  # the median step changed by less than this part of what the mean did
# What another way of launching changes, in the ranges that launch.
_LAUNCHING = {
    "launch_api",
    "launch_latency",
    "dependency",
    "graph_internal",
    "host_api",
    "host_work",
    "gil_wait",
}
_MOVED = 0.5  # so much of the kernels changed the way in which they are launched


def repeated_captures(sides: Sequence[Side]) -> list[Note]:
    """Warn where a side counts one capture as several runs: copies scatter like nothing that was measured.

    Copies that are packed, scrubbed or exported again have other bytes: their steps begin and end at the same ns.
    """
    notes = []
    for side in sides:
        copies: list[tuple[str, str]] = []
        seen: dict[object, str] = {}
        for run in side.runs:
            for part in run.parts:
                same = _identities(part)
                first = next((seen[one] for one in same if one in seen), None)
                if first is None:
                    seen.update(dict.fromkeys(same, run.name))
                else:
                    copies.append((first, run.name))
        if copies:
            named = ", ".join(f"{other} of {one}" for one, other in copies[:3])
            more = f" and {len(copies) - 3} more" if len(copies) > 3 else ""
            notes.append(
                Note(
                    "repeated-capture",
                    f"{side.label} holds captures more than once (a copy: {named}{more}): copies"
                    " are no repeats, so noise, interval and p are not to be believed. Leave them out",
                )
            )
    return notes


def captures_of_both(baseline: Side, candidate: Side) -> list[Note]:
    """Warn where one capture stands on both sides: of two programs it says nothing."""
    before, after = (
        [(run.name, part) for run in side.runs for part in run.parts] for side in (baseline, candidate)
    )
    known = {identity: name for name, part in reversed(before) for identity in _identities(part)}
    found = (
        (next((known[one] for one in _identities(part) if one in known), None), name) for name, part in after
    )
    both = [(name, other) for name, other in found if name is not None]
    if not both:
        return []
    named = ", ".join(f"{other} is {name}" if other != name else name for name, other in both[:3])
    more = f" and {len(both) - 3} more" if len(both) > 3 else ""
    return [
        Note(
            "same-capture",
            f"{baseline.label} and {candidate.label} hold the same capture ({named}{more}): with itself it has not changed,"
            " whatever the programs did. Give another file where two were meant",
        )
    ]


def _identities(part: Reduction) -> list[object]:
    """What copies of a capture share: equal bytes, or every step at the same instants of the trace's clock."""
    table = part.periods.select("rank", "device", "start_ns", "end_ns")
    instants = hashlib.sha256(b"".join(table[name].to_numpy().tobytes() for name in table.columns)).digest()
    return [part.fingerprint, *([instants] if len(table) else [])]


def launched_otherwise(findings: Sequence[Finding], launch: Launch) -> tuple[list[Finding], str]:
    """Kernels moved into or out of CUDA graphs: the findings that come of it, first and marked, and their sum in words.

    They are those of launching and of the host in the ranges that launch. ('' and the findings as they are where
    nothing moved, or something else explains more.)
    """
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    sure = [one for one in findings if one.level != "within_noise" and one.where.rank is None]
    places = {one.where.range for one in sure if one.cause == "launch_api"}
    group = [one for one in sure if one.cause in _LAUNCHING and one.where.range in places]
    together = sum(one.delta_ns for one in group)
    rest = [one for one in sure if one not in group and one.cause != "batch_mix"]
    if abs(after - before) < _MOVED or not group or any(abs(one.delta_ns) > abs(together) for one in rest):
        return list(findings), ""
    cause = (
        "CUDA graphs launch the kernels now"
        if after > before
        else "CUDA graphs no longer launch the kernels: they are launched one by one"
    )
    marked = [msgspec.structs.replace(one, note=f"{one.note} {cause}.".strip()) for one in group]
    ordered = [*marked, *(one for one in findings if one not in group)]
    said = (
        f"{cause} ({100 * before:.0f} -> {100 * after:.0f} % of them): {together / 1e3:+,.1f} us in {len(group)} findings of"
        " launching and of the host that launches."
    )
    return [msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(ordered, 1)], said


def asides(
    verdict: Verdict, step: Step, phases: Sequence[Phase], launch: Launch, *, explained: bool = False
) -> str:
    """Sentences to follow the reason of a verdict, each with a space before it; '' where there is nothing to say.

    explained: the reason says already that kernels moved into or out of graphs.
    """
    if verdict not in _CALLED:
        return ""
    out = ""
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    if abs(after - before) >= _MOVED and not explained:
        out += f" Kernels launched by CUDA graphs: {100 * before:.0f} -> {100 * after:.0f} %."
    both = [
        (phase.baseline.steps + phase.candidate.steps, phase.phase, phase.delta_p50_ns)
        for phase in phases
        if phase.baseline and phase.candidate and phase.delta_p50_ns is not None
    ]
    if both:
        _, name, median = max(both)
        if abs(median) < _FEW * abs(step.delta_ns):
            out += f" It is not in every step: the median {name} step changed by {median / 1e3:+,.1f} us."
    return out
