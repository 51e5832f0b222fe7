"""Causes as blocks, the same for every output: in a line each, as the list of the first screen, and with all that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tracediff.kernels.names import short
from tracediff.model import Finding, FindingPart, Result
from tracediff.model.causes import CAUSES
from tracediff.model.pictures import CropSide
from tracediff.report import fields, lanes, phrases, units, values, words
from tracediff.report import first as first_screen
from tracediff.report.amounts import NAME, NAMED, PAGE, TEXT
from tracediff.report.blocks import (
    Block,
    Cell,
    Code,
    Figure,
    Items,
    Lanes,
    Line,
    Link,
    Listing,
    Section,
    Span,
    Strong,
    Table,
    facts,
    grid,
)
from tracediff.report.causes import run_name
from tracediff.report.causes import title as cause_title
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.report.pictures import runs
from tracediff.report.sections import table


def in_lines(
    result: Result, found: Sequence[Finding], width: int = 110, page: str = "", *, advise: bool = False
) -> Items:
    """Causes in a line each: what, how much, how sure, what it is made of, where.

    width: of names; page: that of the report, which they lead to. advise: before and after too, and what to do, but what the first
    screen says.
    """
    items, said_first = [], first_screen.advised(result) if advise else ""
    for one in found:
        room = width + NAME // 2
        title = words.sentence(
            one.title if len(one.title) <= room else shorten(cause_title(one, shortly=True), room)
        )
        held = words.held(result, one) if one.level != "within_noise" else ""
        said = [
            words.brief_size(one, result),
            ", ".join(text for text in (words.evidence(one, result), held) if text),
            words.explains(one, result),
            _before_and_after(one, words.finding_scale([one], result)) if advise else "",
            words.parts_line(one, words.finding_scale([one], result)),
        ]
        name: Span = Link(title, f"finding-{one.rank}", page) if page else Strong(title)
        item = [name, f": {'; '.join(text for text in said if text)}"]
        for what, value in words.places(one)[:2]:
            item += [f"; {what} ", Code(shorten(value, min(width, 60)))]
        if advise and one.next and result.verdict != "no_change" and one.next.rstrip(".") != said_first:
            item.append(f"; next: {one.next.rstrip('.')}")
        items.append(item)
    return Items(items)


def first(result: Result, most: int = 5) -> Section:
    """The causes of the first screen: how much of the change each is, how sure it is, what it is made of; and how many more there are."""
    listed, small = words.listed(result)
    found: list[Block] = []
    if listed:
        found.append(Items([_beside_its_size(one, result) for one in listed[:most]], "sizes"))
        found += _key(listed[:most], result)
    else:
        found.append(Line([_none(result)]))
    counts = (("more cause", len(listed[most:])), ("small one", len(small)))
    more = " and ".join(units.counted(count, noun) for noun, count in counts if count)
    links: list[Span] = [Link(more, "findings"), ", "] if more else []
    if result.warnings:
        links += [Link(units.counted(len(result.warnings), "warning"), "warnings"), ", "]
    if links:
        found.append(Line(links[:-1], "note"))
    return Section("", say("differences" if result.verdict == "not_comparable" else "causes"), found)


def _beside_its_size(one: Finding, result: Result) -> list[Span]:
    title = Link(words.sentence(shorten(one.title, TEXT)), f"finding-{one.rank}")
    parts = words.parts_line(one, words.finding_scale([one], result))
    size = words.brief_unit(one, result).delta(one.delta_ns)
    other = "" if words.of_first(one, result) else words.per_step_of(one, words.unit(result))
    return [
        Cell(size, one.delta_ns, _tone(one)), title, " ", _sure(one, result),
        *(f", {text}" for text in (other, words.explains(one, result), shorten(parts, 160)) if text),
    ]  # fmt: skip


def _tone(one: Finding) -> Any:
    return values.tone(one.delta_ns, one.level, (one.ci_low_ns, one.ci_high_ns))


def _sure(one: Finding, result: Result) -> Cell:
    level = "" if one.cause == "batch_mix" else f" lv-{one.level}"
    return Cell(
        words.evidence(one, result),
        title=words.level_words(one.level, one.ci_low_ns, one.ci_high_ns)[1],
        mark=f"lv{level}",
    )


def _key(found: Sequence[Finding], result: Result) -> list[Block]:
    """What the marks of these causes mean."""
    if result.verdict == "not_comparable":
        return []
    judged = [one for one in found if one.cause != "batch_mix"]
    unsure = [one for one in judged if words.evidence(one, result) == words.UNSURE[0]]
    levels = {one.level for one in judged if one not in unsure}
    keys = [(f"key_{level}", level) for level in words.LEVELS if level in levels]
    keys += [("key_unsure", "within_noise")] if unsure else []
    return [Line([Cell(say(key), mark=f"lv lv-{level}")], "note") for key, level in keys]


def _none(result: Result) -> str:
    """Why no cause is listed."""
    if result.verdict == "not_comparable":
        return say("none_judged")
    if result.launched:
        return say("none_but_launches")
    return say("none_large" if result.findings else "none_moved")


def section(result: Result) -> Section:
    """The causes with all that is known of them, remarks, and those that may be noise."""
    listed, small = words.listed(result)
    shown = listed[:PAGE]
    lead = say("sure_first") if listed and result.verdict != "not_comparable" else _none(result)
    found: list[Block] = [Line([lead], "lead")] if listed or not small else []
    scale = words.finding_scale(shown, result)
    found += [cause(result, one, scale, folded=at >= NAMED) for at, one in enumerate(shown)]
    if len(listed) > PAGE:
        found.append(Line([say("rows_left_short", left=f"{len(listed) - PAGE}", field="findings")], "note"))
    if said := phrases.remarks(result):
        found.append(Section("insights", phrases.REMARK, [Items([[text] for text in said])]))
    if small:
        title = say("causes_smaller", causes=units.counted(len(small), "small cause"))
        found.append(Section("", title, [smaller(result, small, PAGE, anchors=True)], folded=True))
    return Section("findings", "Causes", found, menu="Causes", open=True)


def smaller(result: Result, found: Sequence[Finding], limit: int, *, anchors: bool = False) -> Table:
    """Causes in a table."""
    return table(
        result, "causes", found, limit=limit, look="plain", ids=lambda one: f"finding-{one.rank}" if anchors else "",
    )  # fmt: skip


def cause(result: Result, one: Finding, scale: units.Scale, *, folded: bool = False) -> Section:
    """All that is known of a cause. Text formats have its place and its parts in lines, pages and post-mortems in tables."""
    said: list[Block] = [Line(_size(one, result, scale), "size")]
    if one.next:
        said.append(Line([Strong("Next:"), f" {one.next}"]))
    if one.note:
        said.append(Line([one.note], "note"))
    for what, text in (
        ("of it", shorten(words.parts_line(one, words.finding_scale([one], result)), 300)),
        ("at", ", ".join(f"{name} {shorten(value, 120)}" for name, value in words.places(one))),
    ):
        if text:
            said.append(Line([f"{what}: {text}"], "brief"))
    if elsewhere := words.elsewhere(one, scale):
        said.append(Line([say("elsewhere", sizes=elsewhere)], "note"))
    said.append(_where(one, result))
    strip = runs.run_strip(one)
    figure = [Figure(strip, say("run_dots", step=words.unit(result)))] if strip else []
    found: list[Block] = [Section("", "", [Section("", "", said, depth=1), *figure], columns=True, depth=1)]
    if one.evidence.crop and result.timelines:
        found.append(_crop(one, result))
    if len(one.parts) > 1:
        own = [
            _of_cause(part, one)
            for part in sorted(one.parts, key=lambda part: (part.follows, -abs(part.delta_ns)))
        ]
        title = say("parts_of", rank=f"{one.rank}")
        fine = units.scale_for([part.delta_ns for part in one.parts], words.page_unit(result))
        found.append(table(result, "parts", own, title=title, scale=fine, look="plain", depth=2))
    if one.evidence.moments:
        sides = ", ".join(moment.side for moment in one.evidence.moments)
        title = say("open_in", viewer=words.viewer(result), sides=sides)
        found.append(Section("", title, [replace(_moments(one), caption=title)], folded=True))
    if one.evidence.query:
        found.append(Section("", say("sql"), queries(one, words.unit(result)), folded=True, depth=3))
    return Section(
        f"finding-{one.rank}", words.sentence(one.title), found, depth=1, look="cause", number=f"{one.rank}", folded=folded,
        gist=scale.delta(one.delta_ns),
    )  # fmt: skip


def _of_cause(part: FindingPart, one: Finding) -> FindingPart:
    """A part as sure as its cause, which is tested as one. Idle time has no launches to count."""
    part = replace(part, level=one.level)
    idle = CAUSES[part.cause].kind == "idle"
    return replace(part, count_baseline=None, count_candidate=None) if idle else part


def _size(one: Finding, result: Result, scale: units.Scale) -> list[Span]:
    noise = one.level == "within_noise"
    texts = (
        "" if noise else words.held(result, one),
        words.explains(one, result),
        _before_and_after(one, scale),
    )
    return [
        Cell(words.size(one, scale, words.unit(result)), one.delta_ns, _tone(one)),
        _sure(one, result),
        *(Cell(text) for text in texts if text),
    ]  # fmt: skip


def _before_and_after(one: Finding, scale: units.Scale) -> str:
    """Its time on both sides; of one that others follow from it is not the whole."""
    return "" if any(part.follows for part in one.parts) else words.both_sides(one, scale)


def _where(one: Finding, result: Result) -> Table:
    """Its place, what was counted, and each of several runs."""
    evidence = one.evidence
    told = [("cause", fields.cause(one.cause))]
    told += [(name, Cell(value, code=True)) for name, value in words.place(one.where)]
    if evidence.count_baseline is not None and evidence.count_candidate is not None:
        both = units.arrow(map(units.count, (evidence.count_baseline, evidence.count_candidate)))
        told.append((words.what_is_counted(one), Cell(both)))
    if len(evidence.runs_baseline_ns) + len(evidence.runs_candidate_ns) > 2:
        scale = words.finding_scale([one], result)
        for side, listed in (
            ("baseline", evidence.runs_baseline_ns),
            ("candidate", evidence.runs_candidate_ns),
        ):
            told.append(
                (f"each run of the {side}, {scale.unit}", Cell(", ".join(map(scale.number, listed[:PAGE]))))
            )
    return facts("where", [(name, [cell]) for name, cell in told], depth=2, look="where")


def _crop(one: Finding, result: Result) -> Lanes:
    """Where it happens in a step of both sides, aligned."""
    crop = one.evidence.crop
    assert crop is not None and result.timelines is not None
    if crop.anchor < 0:
        aligned = say("aligned_at_step")
    else:
        name = shorten(short(result.timelines.names[crop.anchor]), 64)
        aligned = say("aligned_at_end" if crop.at_end else "aligned_at_start", kernel=name)
    sides = ("baseline", crop.baseline), ("candidate", crop.candidate)
    heads = [_crop_head(side, of, len(result.ranks) > 1) for side, of in sides if of]
    label = say("crop", rank=f"{one.rank}", aligned=aligned)
    caption = say("crop_framed" if any(lanes.frames(crop)) else "crop_whole", aligned=aligned)
    return Lanes("crop", str(one.rank), label, heads, caption)


def _crop_head(side: str, of: CropSide, ranks: bool) -> list[Span]:
    step = [] if of.number is None else [f"step {of.number}"]
    rank = [f"rank {of.rank}"] * ranks
    where = ", ".join(["", shorten(run_name(of.run), 40), *step, *rank])
    if not of.lengths:
        return [Strong(side), say("crop_none"), where]
    longest = units.scale_for(of.lengths).time(max(of.lengths))
    return [Strong(side), say("crop_longest"), Strong(longest), where]


def _moments(one: Finding) -> Table:
    listed: list[list[Span | Cell]] = []
    for at in one.evidence.moments[:PAGE]:
        length = units.exact(at.end_ns - at.start_ns)
        listed.append([at.side, Code(at.run), f"{at.start_ns}", f"{at.end_ns}", f"{at.what}, {length}"])
        if at.step_start_ns is not None and at.step_end_ns is not None:
            length = units.exact(at.step_end_ns - at.step_start_ns)
            whole = say("moment_step", length=length)
            if at.cause_ns is not None:
                whole = say("moment_step_of", length=length, size=units.exact(at.cause_ns))
            listed.append([at.side, Code(at.run), f"{at.step_start_ns}", f"{at.step_end_ns}", whole])
    return grid("moments", ["Side", "Capture", "From, ns", "To, ns", "What"], listed, right=(2, 3), depth=2)


def queries(one: Finding, unit: str) -> list[Block]:
    """SQL that shows a cause on both sides, and in the step that has most of it."""
    of = "whole_unit" if unit != "step" else "typical_of" if one.part == "typical" else "mean_of"
    step = say(of, unit=unit, step=units.step(one.where.phase or ""))
    found: list[Block] = [
        Line([Code("tracediff query BASELINE CANDIDATE"), say("query_of_both", step=step)]),
        Listing(one.evidence.query, "sql"),
    ]
    most = max(one.evidence.moments, key=lambda at: at.cause_ns or 0, default=None)
    if most and most.query and most.cause_ns:
        size = units.exact(most.cause_ns)
        found.append(Line([Code(f"tracediff query {most.run}"), say("query_of_moment", size=size)]))
        found.append(Listing(most.query, "sql"))
    return found
