"""The report of one capture as a page, as Markdown and on a terminal: the sections of a comparison with one side."""

from __future__ import annotations

from msgspec.structs import replace
from rich.console import Console

from tracediff.model.show import IdleCause, Show
from tracediff.report import blocks, drawn, fields, lanes, sections, show_words, units, words, workloads
from tracediff.report.amounts import NAMED
from tracediff.report.blocks import Block, Cell, Code, Items, Line, Link, Section, Span, Table, flattened
from tracediff.report.console import print_section, print_titled, print_warnings
from tracediff.report.document import markdown
from tracediff.report.escape import neutral, shorten
from tracediff.report.grammar import say
from tracediff.report.markdown import LIMIT, cut_to_limit, length, said_by
from tracediff.report.page import Page, render


def render_show_html(report: Show) -> str:
    """Return the page."""
    report = neutral(report)
    asked = sections.asked(report)
    waits = sections.waits(report)
    first = [*_advice(report), *([waits] if waits else [])]
    title = (
        report.chosen[0].text
        if report.chosen
        else say("show_title", label=report.input.label, size=units.exact(report.step.mean_ns))
    )
    page = Page(
        title=title,
        heading=report.sentence,
        tone="neutral",
        sides=[("capture", report.input.label)],
        said=_said(report),
        measured=_alerts(report),
        columns=[Section("", say("show_fall"), [_accounting(report)]), _first_waits(report)],
        sections=[*asked, *first, *drawn.sections(report), *sections.sections(report)],
        lanes=lanes.data(report),
        keys="one" if lanes.drawn(report) else "",
        format=f", format {report.format_version} of a report on one capture",
        skip="idle" if waits else "reading",
        tool=report.tool,
        comment=render_show_markdown(report),
    )
    return render(page, ["lanes.js"])


def _said(report: Show) -> list[Block]:
    """The step in figures, how steps were told apart, on which machine."""
    step_ns = report.step.mean_ns
    cells = [Cell(units.exact(step_ns), step_ns, small=say("mean_step"))]
    if show_words.captured(report, "kernels"):
        cells += [
            Cell(show_words.busy(report), small=say("busy")),
            Cell(show_words.idle(report), small=say("idle")),
        ]
    return [Line(cells, "size"), *(Line([text]) for text in _facts(report))]


def _facts(report: Show) -> list[str]:
    """How steps were told apart, how many there are and how far runs differ; on which machine."""
    slots = {"step": words.sentence(show_words.what_a_step_is(report)), "runs": show_words.runs(report)}
    return [
        say("steps_and_runs", spread=show_words.spread(report), **slots),
        say("on_machine", machine=show_words.machine(report)),
    ]


def _advice(report: Show) -> list[Section]:
    """The advice, what gains most first; nothing without any."""
    if not report.advice:
        return []
    replayed = any(one.after_ns is not None for one in report.advice)
    notes = [Line([say("advice_replayed")], "note")] if replayed else []
    said: list[Block] = [Items([[one.text] for one in report.advice]), *notes]
    return [Section("advice", say("advice"), said, depth=1, menu=say("advice"), printed=True)]


def _alerts(report: Show) -> list[Block]:
    notes = [*workloads.left_out(report), *words.all_missing(report, silent=False)]
    items: list[list[Span]] = [[text] for text in notes[:NAMED]]
    if more := notes[NAMED:]:
        items.append([Link(say("more", count=f"{len(more)}"), "capture")])
    return [Items(items, "alerts")] if items else []


def _first_waits(report: Show) -> Section:
    """The largest waits, and how many more there are."""
    found: list[Block] = []
    shown = report.idle[:NAMED]
    scale = units.scale_for([one.ns for one in shown], units.both(report.step.mean_ns, report.step.idle_ns))
    if shown:
        found.append(Items([_wait(one, scale) for one in shown], "sizes"))
    else:
        found.append(Line([say("never_idle")]))
    if more := len(report.idle) - len(shown):
        found.append(Line([Link(say("more", count=f"{more + report.idle_left_out}"), "idle")], "note"))
    if report.warnings:
        count = units.counted(len(report.warnings), "warning")
        found.append(Line([Link(count, "warnings"), f": {report.warnings[0].message}"], "note"))
    return Section("", show_words.waits(report), found)


def _wait(one: IdleCause, scale: units.Scale) -> list[Span]:
    title = Link(shorten(words.sentence(one.title), 170), f"idle-{one.rank}")
    facts = [f"{units.share(one.share)} of the step", show_words.on_rank(one)]
    return [Cell(scale.time(one.ns), one.ns), title, " ", ", ".join(text for text in facts if text)]


def render_show_markdown(report: Show, top: int = 10) -> str:
    """Return the report within a comment's limit; `top` is how many waits and kernels it shows."""
    report = neutral(report)
    text = ""
    for rows, width in ((100, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        text = _markdown(report, min(top, 10 * rows), rows, width)
        if length(text) < LIMIT:
            return text
    return cut_to_limit(text)


def _markdown(report: Show, top: int, rows: int, width: int) -> str:
    if report.chosen:
        return markdown(
            asked(report, top), level=2, width=width, note=said_by(report.tool, "every_row", field="chosen")
        )
    found = sections.sections(report)
    folds = [blocks.titled(one, 1) for one in found if one.depth <= 1]
    folds += [(one.title, blocks.printed(one, 2)) for one in found if one.id == "capture"]
    said = [[Code(one.slug), f" {one.message}"] for one in report.warnings[:rows]]
    if said:
        left = len(report.warnings) - rows
        more = [Line([f"{left} more are in the JSON (warnings)."])] if left > 0 else []
        folds.append((units.counted(len(report.warnings), "warning"), [Items(said), *more]))
    if missing := words.all_missing(report):
        folds.append(("Not captured", [Items([[text] for text in missing])]))
    shown = [(title, printed) for title, printed in folds if printed]
    note = said_by(report.tool, "show_in_the_page")
    return markdown([opening(report, top)], folds=shown, note=note, level=2, most=top, width=width)


def render_show_terminal(report: Show, console: Console, top: int = 5) -> None:
    """Print the report; `top` is how many rows of a list are shown."""
    report = neutral(report)
    for number, one in enumerate(asked(report, top) or [opening(report, top)]):
        if number:
            console.print()
        print_titled(console, one)
    if report.chosen:
        print_warnings(report.warnings, [], console)
        return
    for section in sections.sections(report):
        if section.depth <= 1:
            print_section(console, section, top)
    print_warnings(report.warnings, words.all_missing(report), console)


def asked(report: Show, top: int) -> list[Section]:
    """The single steps that were asked for, and nothing else."""
    return [Section("", one.text, sections.chosen(report, one, top)) for one in report.chosen]


def opening(report: Show, top: int) -> Section:
    """The step, what is in its time, and the first `top` of what the GPU waited for."""
    busy = (
        [say("busy_idle", busy=show_words.busy(report), idle=show_words.idle(report))]
        if show_words.captured(report, "kernels")
        else []
    )
    facts = [*busy, *_facts(report), *workloads.left_out(report)]
    hidden = any(one.hidden_ns for one in report.accounting)
    notes = [Line([say("hidden_means")], "note")] if hidden else []
    parts = [
        Section("", say("show_parts"), [replace(_accounting(report), caption=""), *notes]),
        *_advice(report),
        *_waits(report, top),
    ]
    return Section("", report.sentence, [*(Line([text], "note") for text in facts), *parts])


def _accounting(report: Show) -> Table:
    """The categories with bars of the colours that timelines have."""
    there, whole = fields.of_one(report)
    longest = max((row.ns for row in report.accounting), default=0.0) or 1.0
    made = sections.table(report, "step", [*there, whole], known={"longest": longest}, look="plain bars")
    rows = [
        replace(row, look="" if one.baseline_ns else "zero")
        for row, one in zip(made.rows, there, strict=False)
    ]
    heads = [replace(head, text="", look="spare") if head.look == "twin" else head for head in made.heads]
    return replace(made, heads=heads, rows=rows, foot=made.rows[-1])


def _waits(report: Show, top: int) -> list[Section]:
    found = sections.waits(report)
    if found is None:
        return []
    tables = (one for one in found.blocks if isinstance(one, Table))
    return [
        replace(
            found, id="", blocks=[replace(flattened(one, top), caption="", look="plain") for one in tables]
        )
    ]
