"""Single steps in words and tables, for every output: a sentence, what is known of the step, its categories and places."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tracediff.model.causes import BUSY, SURELY
from tracediff.model.show import Show, StepDiff, StepPlace
from tracediff.report import palette, units, words
from tracediff.report.amounts import NAMED
from tracediff.report.causes import idle_named, idle_title, run_name
from tracediff.report.fields import ChosenCategory
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE, MOSTLY, NEARLY


def with_sentences(report: Show) -> Show:
    """The report with the sentence of each step and the titles of its places."""
    host_only = report.coverage.baseline["kernels"] == "not_captured"
    steps = [
        replace(one, places=[replace(place, title=title(place, host_only=host_only)) for place in one.places])
        for one in report.chosen
    ]
    return replace(report, chosen=[replace(one, text=sentence(report, one)) for one in steps])


def title(place: StepPlace, *, host_only: bool) -> str:
    """A place in a list."""
    return place.kernel or idle_title(place, host_only=host_only)


def sentence(report: Show, one: StepDiff) -> str:
    """Say `Step 117 took 98.2 ms, 97.2 ms longer than a typical generation step: Python GC in _schedule 96.8 ms`."""
    prose = units.prose([one.ns, one.typical_ns, one.delta_ns])
    slots = {"name": name(report, one), "size": prose.size(one.ns), "typical": _typical(one)}
    if abs(one.delta_ns) < SURELY * one.typical_ns:
        return say("step_same", typical_size=prose.size(one.typical_ns), **slots)
    longer = one.delta_ns > 0
    said = _made_of(one, prose, longer=longer)
    pattern = "step_longer" if longer else "step_shorter"
    slots["change"] = prose.size(one.delta_ns)
    return say(f"{pattern}_by", parts=", ".join(said), **slots) if said else say(pattern, **slots)


def _made_of(one: StepDiff, prose: units.Spoken, *, longer: bool) -> list[str]:
    """The parts of the difference, and the largest one against it."""
    parts = _parts(one)
    more = [part for part in parts if (part.delta_ns > 0) == longer]
    less = [part for part in parts if (part.delta_ns > 0) != longer]
    said, covered = [], 0.0
    for part in more[:NAMED]:
        if abs(part.delta_ns) < LITTLE * abs(one.delta_ns) or covered >= NEARLY * abs(one.delta_ns):
            break
        covered += abs(part.delta_ns)
        said.append(
            say("step_part" if longer else "step_part_less", part=part.name, size=prose.size(part.delta_ns))
        )
    if less and abs(less[0].delta_ns) > LITTLE * abs(one.delta_ns):
        pattern = "step_while_less" if longer else "step_while_more"
        said.append(say(pattern, part=less[0].name, size=prose.size(less[0].delta_ns)))
    return said


def name(report: Show, one: StepDiff) -> str:
    """`Step 117`, with its run and rank where there are several; one with first uses is called so."""
    said = [f"Step {one.number}"]
    said += [f"of {run_name(one.run)}"] if len(report.input.runs) > 1 else []
    said += [f"on rank {one.rank}"] if one.ranks else []
    return " ".join([*said, *["(first uses)"] * one.start_up])


def _typical(one: StepDiff) -> str:
    return "a typical " + units.step("" if one.like == "all" else one.phase)


class _Part(msgspec.Struct, frozen=True):
    name: str
    delta_ns: float


def _parts(one: StepDiff) -> list[_Part]:
    """What the difference is made of, the largest first: waits by place, GPU work by category or the kernel that holds most of it."""
    found = []
    for row in one.accounting:
        if row.category in BUSY:
            kernels = [place for place in one.places if place.cause == row.category]
            most = max(kernels, key=lambda place: abs(place.delta_ns), default=None)
            alone = most is not None and most.delta_ns * row.delta_ns > MOSTLY * row.delta_ns**2
            found.append(_Part(_kernel(most) if most and alone else words.cause(row.category), row.delta_ns))
    found += [_Part(idle_named(place), place.delta_ns) for place in one.places if place.cause not in BUSY]
    return sorted((part for part in found if part.delta_ns), key=lambda part: -abs(part.delta_ns))


def _kernel(place: StepPlace) -> str:
    if place.kernel.startswith("["):
        return place.kernel
    more = place.count - place.typical_count
    if abs(more) < 0.5:
        return say("step_kernel", kernel=place.kernel)
    count = units.count(abs(more))
    pattern = "step_launches_more" if more > 0 else "step_launches_fewer"
    return say(f"{pattern}_one" if count == "1" else pattern, count=count, kernel=place.kernel)


def facts(report: Show, one: StepDiff) -> list[str]:
    """Where and when it ran, and what it is beside: a line each."""
    where = say(
        "step_where_rank" if one.ranks else "step_where", run=run_name(one.run), workload=workload(one), rank=f"{one.rank}",
        viewer=words.viewer(report), start=seconds(one.start_ns), end=seconds(one.end_ns),
    )  # fmt: skip
    gpu = report.coverage.baseline["kernels"] == "captured"
    like = "sizes" if one.like == "phase" and one.ctx_reqs is not None else one.like
    lines = [say("step_gpu_work", where=where) if gpu else where]
    lines.append(say(f"step_like_{like}", steps=units.counted(one.typical_steps, "step")))
    if one.start_up:
        lines.append(say("step_start_up"))
    longest = next(
        (place for place in one.places if place.longest and place.delta_ns > LITTLE * abs(one.delta_ns)), None
    )
    if longest is not None and longest.longest is not None:
        at = longest.longest
        ends = {"start": seconds(at.start_ns), "end": seconds(at.end_ns)}
        lines.append(say("step_longest", title=words.sentence(longest.title), **ends))
    if one.ranks:
        scale = units.prose([row.ns for row in one.ranks])
        said = (
            say(
                "step_rank", rank=f"{row.rank}", size=scale.size(row.ns), change=scale.delta(row.delta_ns),
                own=scale.delta(row.own_delta_ns),
            )
            for row in one.ranks
        )  # fmt: skip
        lines.append("; ".join(said))
    return lines


def workload(one: StepDiff) -> str:
    """`generation step of 4 generation requests`."""
    said = []
    if one.ctx_reqs:
        requests = units.counted(one.ctx_reqs, "context request")
        tokens = "" if one.ctx_tokens is None else units.counted(one.ctx_tokens, "token")
        said.append(say("context", requests=requests, tokens=tokens) if tokens else requests)
    if one.gen_reqs:
        said.append(units.counted(one.gen_reqs, "generation request"))
    kind = units.step(one.phase)
    return f"{kind} of {' and '.join(said)}" if said else kind


def seconds(ns: int) -> str:
    """Trace time as nsys writes it: `12.203456789 s`."""
    return f"{ns / 1e9:.6f} s"


def categories(one: StepDiff) -> list[ChosenCategory]:
    """The categories that differ; with the others together the rows add up to the step."""
    most = max((abs(row.delta_ns) for row in one.accounting), default=0.0)
    rows = [row for row in one.accounting if row.delta_ns and abs(row.delta_ns) >= SURELY * most]
    rows.sort(key=lambda row: -abs(row.delta_ns))
    lines = [
        ChosenCategory(palette.category(row.category).label, row.ns, row.typical_ns, row.delta_ns)
        for row in rows
    ]
    rest = [row for row in one.accounting if row not in rows and (row.ns or row.typical_ns)]
    if rest:
        sums = [sum(getattr(row, field) for row in rest) for field in ("ns", "typical_ns", "delta_ns")]
        lines.append(ChosenCategory(units.counted(len(rest), "other"), *sums))
    return [*lines, ChosenCategory("step", one.ns, one.typical_ns, one.delta_ns)]


def places(one: StepDiff) -> list[StepPlace]:
    """The places that hold most of the difference."""
    most = max((abs(row.delta_ns) for row in one.places), default=0.0)
    return [row for row in one.places if row.delta_ns and abs(row.delta_ns) >= SURELY * most]
