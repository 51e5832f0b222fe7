"""What a verdict on the mean leaves unsaid: a change of a few steps only, another way of launching."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.measure.sides import Side
from tracediff.model import Launch, Note, Phase, Step, Verdict

_CALLED = ("improved", "regressed", "likely_improved", "likely_regressed")
_FEW = 0.25  # the median step changed by less than this part of what the mean did
_MOVED = 0.5  # so much of the kernels changed the way in which they are launched


def repeated_captures(sides: Sequence[Side]) -> list[Note]:
    """Warn where a side counts one capture as several runs: copies scatter like nothing that was measured."""
    notes = []
    for side in sides:
        found = [part.fingerprint for part in side.parts]
        copies = len(found) - len(set(found))
        if copies:
            notes.append(
                Note(
                    "repeated-capture",
                    f"{side.label} holds {copies} copies of captures that are there already: copies are no repeats,"
                    " so noise, interval and p are not to be believed. Leave them out",
                )
            )
    return notes


def asides(verdict: Verdict, step: Step, phases: Sequence[Phase], launch: Launch) -> str:
    """Sentences to follow the reason of a verdict, each with a space before it; '' where there is nothing to say."""
    if verdict not in _CALLED:
        return ""
    out = ""
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    if abs(after - before) >= _MOVED:
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
