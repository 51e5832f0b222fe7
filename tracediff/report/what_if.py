"""What a step would take, as text: the projected step, what decides it then, and what of the time taken away was hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracediff.formats.recognise import counted
from tracediff.model.causes import CATEGORIES, SURELY
from tracediff.model.result import WhatIf, WhatIfEdit, WhatIfPhase
from tracediff.report import units
from tracediff.report.amounts import NAMED
from tracediff.report.blocks import Block, Code, Items, Line, Section, Span, Strong, Table, grid
from tracediff.report.causes import CAUSES
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE

_ALONE = {
    "graph": "with the kernels between two waits as one CUDA graph",
    "async": "with results awaited one step later",
}
_HEAD = ("phase", "steps", "before", "after", "range", "change")
# What decides a step, as one group: a sentence names groups, the table their parts.
GROUPS = {
    "GPU work": ("compute", "comm", "memcpy"),
    "gaps on the GPU": ("launch_latency", "dependency", "graph_internal"),
    "the host thread": ("launch_api", "host_api", "host_work"),
    "synchronising calls": ("host_sync",), "the GIL": ("gil_wait",), "Python GC": ("gc",), "unattributed time": ("unattributed",),
}  # fmt: skip


def _words(edit: WhatIfEdit) -> list[str]:
    if edit.kind in _ALONE:
        return [_ALONE[edit.kind]]
    verb = {"without": "without ", "scale": "with ", "fuse": "with one kernel for "}[edit.kind]
    return [verb, Code(edit.text)]


def headline(found: WhatIf) -> list[str]:
    """The first sentence: of the phase with the most time."""
    phase = found.phases[0]
    write = units.both(phase.before_ns, phase.after_ns)
    now, then = write.size(phase.before_ns), write.size(phase.after_ns)
    said: list[str] = [
        f"A{units.a_step(phase.phase)[1:]} would take ", Strong(then), ", as now" if now == then else f" instead of {now}",
        f" (range {write.number(phase.low_ns)} to {write.size(phase.high_ns)}), ",
    ]  # fmt: skip
    for number, edit in enumerate(found.edits):
        said += [" and " if number else "", *_words(edit)]
    return [*said, "."]


def sentences(found: WhatIf) -> list[str]:
    """What else there is to say, a sentence or two each."""
    phase = found.phases[0]
    said = [
        say(
            "whatif_deciding",
            after=_groups(_shares(phase.deciding_after, phase.after_ns)[:NAMED]),
            before=_groups(_shares(phase.deciding_before, phase.before_ns)[:NAMED]),
        )
    ]
    gained, removed = phase.before_ns - phase.after_ns, phase.removed_ns
    if removed > 0:
        write = units.prose([removed, gained])
        longer, what = ("shorter", "the rest") if gained > 0 else ("longer", "this time")
        becomes = f"gets {write.size(gained)} {longer}"
        if abs(gained) < SURELY * phase.before_ns:
            becomes, what = "stays about as long", "this time"
        pattern = "whatif_hidden" if removed - gained > LITTLE * removed else "whatif_taken"
        slots = {"removed": write.size(removed), "step": units.step(phase.phase)}
        said.append(say(pattern, becomes=becomes, what=what, **slots))
    steps = counted(found.steps, "step")
    if found.steps < found.all_steps:
        steps = say("steps_of", steps=f"{found.steps:,}", all=f"{found.all_steps:,}")
    return [*said, say("whatif_replayed", steps=steps), say("whatif_range")]


def _shares(deciding: Mapping[str, float], whole: float) -> list[tuple[str, float]]:
    sums = [
        (name, sum(deciding.get(one, 0.0) for one in causes) / whole)
        for name, causes in GROUPS.items()
        if whole
    ]
    return sorted(sums, key=lambda one: -one[1])


def _groups(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {units.share(part)}" for name, part in shares if part > SURELY)


def _phase_table(found: WhatIf) -> Table:
    rows: list[list[Span]] = []
    for one in found.phases:
        scale = units.scale_for([one.before_ns, one.after_ns, one.high_ns])
        delta = one.after_ns - one.before_ns
        rows.append([
            one.phase, f"{one.steps:,}", scale.time(one.before_ns), scale.time(one.after_ns),
            f"{scale.number(one.low_ns)} to {scale.time(one.high_ns)}", f"{scale.delta(delta)} ({units.percent(delta, one.before_ns)})",
        ])  # fmt: skip
    return grid("steps", _HEAD, rows, right=range(1, len(_HEAD)))


def _deciding_table(phase: WhatIfPhase) -> Table:
    scale = units.scale_for([phase.before_ns, phase.after_ns])
    sides = ((phase.deciding_before, phase.before_ns), (phase.deciding_after, phase.after_ns))
    rows: list[list[Span]] = []
    for name in CATEGORIES:
        times = [(deciding.get(name, 0.0), whole) for deciding, whole in sides]
        if max(times)[0] > SURELY * phase.before_ns:
            cells = [cell for ns, of in times for cell in (scale.number(ns), units.share(ns, of))]
            rows.append([CAUSES[name].name, *cells])
    heads = ["what decides", f"before, {scale.unit}", "share", f"after, {scale.unit}", "share"]
    return grid("deciding", heads, rows, right=range(1, 5))


def document(found: WhatIf) -> Section:
    """What a step would take, what decides it, and what to doubt."""
    parts: list[Block] = [
        Line(headline(found), "first"), Items([[line] for line in sentences(found)]), Section("", "Steps", [_phase_table(found)]),
    ]  # fmt: skip
    parts += [
        Section("", f"What decides {units.a_step(one.phase)}", [_deciding_table(one)]) for one in found.phases
    ]
    if found.warnings:
        said = [[Code(one.slug), f": {one.message}"] for one in found.warnings]
        parts.append(Section("", "Warnings", [Items(said)]))
    return Section("", "What if", parts)
