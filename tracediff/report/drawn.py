"""What only pages draw, as sections: every step in order, steps event by event, and the other pictures."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tracediff.model import Result
from tracediff.model.pictures import Timeline, TimelineStep
from tracediff.model.show import Show
from tracediff.report import lanes, palette, pictures, units, words, workloads
from tracediff.report import sections as sections_of
from tracediff.report.blocks import Block, Cell, Code, Figure, Lanes, Line, Section, Span, Strong, lead
from tracediff.report.causes import run_name
from tracediff.report.escape import shorten
from tracediff.report.fields import Category
from tracediff.report.grammar import say
from tracediff.report.kernels import kernels_by_phase
from tracediff.report.pictures import divergence

Report = Result | Show
STRIP = "step-strip"


def sections(report: Report) -> list[Section]:
    """Those that hold something, in the order of a page: every step, timelines, other pictures."""
    drawn = pictures.for_page(report)
    strip = drawn.pop(STRIP, None)
    found = []
    if strip:
        found.append(
            Section(STRIP, strip.title, [*_strip_lead(report), _figure(strip)], menu="Every step", open=True)
        )
    if timelines := lanes.drawn(report):
        parts = [_timeline(report, number, one) for number, one in enumerate(timelines)]
        pattern = "timelines" if isinstance(report, Result) else "timelines_of_one"
        pattern = pattern if words.unit(report) == "step" else "timelines_whole"
        text = " ".join([say(pattern), *_not_drawn(report)])
        found.append(
            Section("timelines", "Steps event by event", [lead(text), *parts], menu="Timelines", open=True)
        )
    if drawn:
        parts = [
            Section(name, one.title, [lead(_described(report, name)), _figure(one)])
            for name, one in drawn.items()
        ]
        titles = "; ".join(one.title for one in drawn.values())
        whole = isinstance(report, Show)
        found.append(
            Section(
                "pictures", "More pictures", parts, gist=titles, menu="Pictures", printed=True, open=whole
            )
        )
    return found


def _figure(of: pictures.Picture) -> Figure:
    return Figure(of.svg, "", look="drawn")


def _strip_lead(report: Report) -> list[Block]:
    strip = report.step_strip
    if strip is None or len(report.ranks) < 2:
        return [lead(say("strip"))]
    which = "whose idle time changed most" if isinstance(report, Result) else "which is idle longest"
    rank = words.one_rank(report, strip.rank, strip.device)
    return [lead(say("strip_of_rank", rank=rank, which=which, ranks=words.ranks(report)))]


def _not_drawn(report: Report) -> list[str]:
    """Which workloads and ranks have no timeline."""
    left = report.timelines
    assert left is not None
    said = []
    if left.strata_left_out:
        said.append(say("timelines_workloads", count=units.counted(left.strata_left_out, "workload")))
    if left.ranks_left_out:
        less = "whose idle time changed less" if isinstance(report, Result) else "that are idle for less time"
        said.append(say("timelines_ranks", count=words.some_ranks(report, left.ranks_left_out), less=less))
    return said


def _described(report: Report, name: str) -> str:
    """What a picture shows."""
    if name == "cause-tree":
        root = report.cause_tree[0]
        unit = words.unit(report)
        typical = "typical" if root.kind == "typical" else "mean"
        return say("cause_tree", typical=typical, step=units.step(root.key, unit))
    if isinstance(report, Show):
        return say("step_times_of_one")
    if name == "step-times":
        return say("step_times")
    if name == "kernel-times":
        return say(
            "kernel_times", per=words.per_step(kernels_by_phase(report)[0].phase, unit=words.unit(report))
        )
    one = divergence.shown(report)
    assert one is not None
    steps = {
        side: shorten(divergence.step_words(getattr(one, side)), 60) for side in ("baseline", "candidate")
    }
    workload = workloads.workload_name(report.strata[one.stratum], " of ") + f" on rank {one.rank}" * (
        len(report.ranks) > 1
    )
    which = "The longest of each side:" if one.kind == "worst" else "The typical"
    return say("divergence", which=which, workload=workload, **steps)


# Steps event by event


def _timeline(report: Report, number: int, one: Timeline) -> Section:
    two, unit = isinstance(report, Result), words.unit(report)
    stratum = report.strata[one.stratum]
    what = workloads.workload(stratum, one.kind) if unit == "step" else say("whole_capture")
    sides = [("baseline", one.baseline), ("candidate", one.candidate)] if two else [("step", one.baseline)]
    there = [(side, step) for side, step in sides if step]
    if len(report.ranks) > 1:
        what += f", {words.one_rank(report, one.rank, there[0][1].device)}"
    scale = units.scale_for([step.period_ns for _, step in there])
    heads = [_head(side, step, scale, two=two) for side, step in sides]
    times = [step.period_ns for _, step in there]
    if len(times) == 2 and unit != "round":  # captures of so many rounds each
        delta = times[1] - times[0]
        heads.append([f"{scale.time(abs(delta))} {units.word(delta)}"])
    if not one.exact:
        heads.append([say("nearest_step")])
    if not stratum.compared:
        heads.append([say("not_in_mean", reason=stratum.reason.replace("_", " "))])
    label = say("lanes_of_two", what=what) if two else what
    title = what if number == 0 else f"{what}: {units.arrow(map(scale.time, times))}"
    found: list[Block] = [Lanes("lanes", f"{number}", label, heads)]
    found += [] if unit == "round" else [_numbers(report, there)]
    return Section("", title, found, folded=number > 0)


def _head(side: str, step: TimelineStep | None, scale: units.Scale, *, two: bool) -> list[Span]:
    name: list[Span] = [Strong(side), " "] if two else []
    if not step:
        return [*name, say("no_such_step")]
    which = [shorten(run_name(step.run), 40)] + ([] if step.number is None else [f"step {step.number}"])
    return [*name, Cell(scale.time(step.period_ns), small=", ".join(which))]


def _numbers(report: Report, steps: list[tuple[str, TimelineStep]]) -> Section:
    """The categories of these very steps, and where they are in the traces."""
    names = ("baseline_ns", "candidate_ns")

    def row(category: str | Cell, times: Sequence[int]) -> Category:
        delta = times[1] - times[0] if len(times) == 2 else None
        return Category(category, delta_ns=delta, **dict(zip(names, times, strict=False)))  # type: ignore[arg-type]

    found = [(key, [step.accounting.get(key, 0) for _, step in steps]) for key in palette.BY_KEY]
    listed = [row(key, times) for key, times in found if any(times)]
    listed.append(row(Cell("step"), [step.period_ns for _, step in steps]))
    if len(steps) == 1:
        whole = steps[0][1].period_ns
        listed = [replace(one, share=one.baseline_ns / whole) for one in listed]  # type: ignore[operator]
    made = sections_of.table(report, "timeline", listed, look="plain", depth=3)
    made = replace(made, caption="", rows=made.rows[:-1], foot=made.rows[-1])
    places: list[Span] = [f"In {words.viewer(report)}: "]
    for at, (_, step) in enumerate(steps):
        places += ["; "] * bool(at) + [
            Code(step.run),
            f" from {step.start_ns} to {step.start_ns + step.period_ns} ns",
        ]
    events = " and ".join(f"{step.events:,}" for _, step in steps)
    thread = say("lanes_thread", events=events, thread=steps[-1][1].thread or "unknown")
    title = say("steps_in_numbers" if len(steps) == 2 else "step_in_numbers")
    return Section("", title, [made, Line([*places, f". {thread}"], "note")], folded=True)
