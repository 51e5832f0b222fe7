"""What a step would take, as text: the projected step, what decides it then, and what of the time taken away was hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console

from tracediff.formats.recognise import counted
from tracediff.model.causes import CATEGORIES
from tracediff.model.result import WhatIf, WhatIfEdit, WhatIfPhase
from tracediff.report import units
from tracediff.report.blocks import Code, Strong
from tracediff.report.causes import CAUSES
from tracediff.report.console import print_blocks
from tracediff.report.document import (
    Block,
    Heading,
    Items,
    Number,
    Paragraph,
    Span,
    Table,
    markdown,
)
from tracediff.report.escape import neutral
from tracediff.report.postmortem import page

_ALONE = {
    "graph": "with the kernels between two waits as one CUDA graph",
    "async": "with results awaited one step later",
}
_HEAD = ("phase", "steps", "before", "after", "range", "change")
_SMALL = 0.005  # of a step: a smaller part of it is left out of the table of what decides
_SAME = 0.02  # of what was taken away
# What decides a step, as one group: a sentence names groups, the table their parts.
GROUPS = {
    "GPU work": ("compute", "comm", "memcpy"),
    "gaps on the GPU": ("launch_latency", "dependency", "graph_internal"),
    "the host thread": ("launch_api", "host_api", "host_work"),
    "synchronising calls": ("host_sync",), "the GIL": ("gil_wait",), "Python GC": ("gc",), "unattributed time": ("unattributed",),
}  # fmt: skip


def _words(edit: WhatIfEdit) -> list[Span]:
    if edit.kind in _ALONE:
        return [_ALONE[edit.kind]]
    verb = {"without": "without ", "scale": "with ", "fuse": "with one kernel for "}[edit.kind]
    return [verb, Code(edit.text)]


def headline(found: WhatIf) -> list[Span]:
    """The first sentence: of the phase with the most time."""
    phase = found.phases[0]
    write = units.prose([phase.before_ns, phase.after_ns, phase.high_ns])
    now, then = write.size(phase.before_ns), write.size(phase.after_ns)
    said: list[Span] = [
        f"A {_phase(phase)} would take ", Strong(then), ", as now" if now == then else f" instead of {now}",
        f" (range {write.size(phase.low_ns)} to {write.size(phase.high_ns)}), ",
    ]  # fmt: skip
    for number, edit in enumerate(found.edits):
        said += [" and " if number else "", *_words(edit)]
    return [*said, "."]


def _phase(phase: WhatIfPhase) -> str:
    return "step" if phase.phase == "step" else f"{phase.phase} step"


def sentences(found: WhatIf) -> list[str]:
    """What else there is to say, a sentence or two each."""
    phase = found.phases[0]
    said = [
        f"{_largest(phase.deciding_after, phase.after_ns)} (before: {_groups(_shares(phase.deciding_before, phase.before_ns)[:3])})."
    ]
    gained, removed = phase.before_ns - phase.after_ns, phase.removed_ns
    if removed > 0:
        write = units.prose([removed, gained])
        text = f"The changes take {write.size(removed)} per {_phase(phase)} from threads and GPUs. It "
        alike = abs(gained) < _SMALL * phase.before_ns
        if alike:
            text += "stays about as long"
        else:
            text += f"gets {write.size(abs(gained))} {'shorter' if gained > 0 else 'longer'}"
        if removed - gained > _SAME * removed:
            rest = "this time" if alike or gained <= 0 else "the rest"
            text += f": {rest} was hidden behind other work, or another wait takes its place"
        said.append(f"{text}.")
    part = "" if found.steps == found.all_steps else f" of {found.all_steps:,}"
    said.append(
        f"Replayed: {counted(found.steps, 'step')}{part}. Without changes the replay gives each step its measured time."
    )
    said.append(
        "The range holds the step time of a program that is really changed so in 8 of 10 cases, on a host of the same speed (docs/what-if.md)."
    )
    return said


def _shares(deciding: Mapping[str, float], whole: float) -> list[tuple[str, float]]:
    sums = [
        (name, sum(deciding.get(one, 0.0) for one in causes) / whole)
        for name, causes in GROUPS.items()
        if whole
    ]
    return sorted(sums, key=lambda one: -one[1])


def _groups(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {units.share(part)}" for name, part in shares if part > _SMALL)


def _largest(deciding: Mapping[str, float], whole: float) -> str:
    (first, part), *others = _shares(deciding, whole)[:3]
    rest = _groups(others)
    return f"Then {first} decides {units.share(part)} of the step" + (f", {rest}" if rest else "")


def _phase_table(found: WhatIf) -> Table:
    rows: list[list[Span]] = []
    for one in found.phases:
        scale = units.scale_for([one.before_ns, one.after_ns, one.high_ns])
        delta = one.after_ns - one.before_ns
        rows.append([
            one.phase, Number(f"{one.steps:,}"), Number(scale.time(one.before_ns)), Number(scale.time(one.after_ns)),
            Number(f"{scale.number(one.low_ns)} to {scale.time(one.high_ns)}"), Number(f"{scale.delta(delta)} ({units.percent(delta, one.before_ns)})"),
        ])  # fmt: skip
    return Table(_HEAD, rows)


def _deciding_table(phase: WhatIfPhase) -> Table:
    scale = units.scale_for([phase.before_ns, phase.after_ns])
    sides = ((phase.deciding_before, phase.before_ns), (phase.deciding_after, phase.after_ns))
    rows: list[list[Span]] = []
    for name in CATEGORIES:
        times = [(deciding.get(name, 0.0), whole) for deciding, whole in sides]
        if max(times)[0] > _SMALL * phase.before_ns:
            cells = [Number(cell) for ns, of in times for cell in (scale.number(ns), units.share(ns, of))]
            rows.append([CAUSES[name].name, *cells])
    return Table(["what decides", f"before, {scale.unit}", "share", f"after, {scale.unit}", "share"], rows)


def _blocks(found: WhatIf) -> list[Block]:
    blocks: list[Block] = [
        Heading(1, "What if"), Paragraph(headline(found)), Items([[line] for line in sentences(found)]),
        Heading(2, "Steps"), _phase_table(found),
    ]  # fmt: skip
    for phase in found.phases:
        blocks += [Heading(2, f"What decides a {_phase(phase)}"), _deciding_table(phase)]
    if found.warnings:
        blocks += [
            Heading(2, "Warnings"),
            Items([[Code(one.slug), f": {one.message}"] for one in found.warnings]),
        ]
    return blocks


def render_what_if_markdown(report: WhatIf) -> str:
    """Return the report."""
    return f"{markdown(_blocks(neutral(report)))}\n"


def render_what_if_html(report: WhatIf) -> str:
    """Return the page."""
    return page(_blocks(neutral(report)))


def render_what_if_terminal(report: WhatIf, console: Console) -> None:
    """Print the report."""
    print_blocks(console, _blocks(neutral(report)))
