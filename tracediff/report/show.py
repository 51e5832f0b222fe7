"""The report of one capture as a page, as Markdown and on a terminal: the sections of a comparison with one side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup
from rich.console import Console

from tracediff.model.show import Show
from tracediff.report import blocks, lanes, pictures, sections, show_words, templates, units, words, workloads
from tracediff.report.blocks import Block, Code, Items, Line, Section, Span, Strong, Table, grid
from tracediff.report.console import print_section, print_titled, print_warnings
from tracediff.report.document import report_markdown
from tracediff.report.escape import neutral
from tracediff.report.html import helpers, own_files
from tracediff.report.markdown import LIMIT, cut_to_limit, length

_BAR = 20  # letters of the longest bar


def render_show_html(report: Show) -> str:
    """Return the page."""
    report = neutral(report)
    first = [sections.accounting(report), sections.waits(report)]
    known: dict[str, Any] = {
        **own_files(["lanes.js"], ["show.css"]),
        **helpers(),
        "two": False,
        "r": report,
        "books": show_words.books(report),
        "show_words": show_words,
        "left_out": workloads.left_out(report),
        "comment": render_show_markdown(report),
        "timelines": lanes.drawn(report),
        "lanes": Markup(lanes.data(report)),  # JSON, of which no letter begins a tag
        "pictures": pictures.for_page(report),
        "asked": sections.asked(report),
        "first": [one for one in first if one is not None],
        "sections": sections.sections(report),
    }
    return templates.html_environment().get_template("show.html.j2").render(known)


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
        return report_markdown(
            report.tool, asked(report, top), top, width, "Every row is in the JSON (`chosen`)."
        )
    found = sections.sections(report)
    folds = [blocks.titled(one, 1) for one in found if one.depth <= 1]
    folds += [(one.title, blocks.printed(one, 2)) for one in found if one.id == "capture"]
    said = [[Code(one.slug), f" {one.message}"] for one in report.warnings[:rows]]
    if missing := words.all_missing(report):
        said += [[text] for text in missing]
    if said:
        count = units.counted(len(report.warnings) + len(missing), "warning")
        left = len(report.warnings) - rows
        more = [Line([f"{left} more are in the JSON (warnings)."])] if left > 0 else []
        folds.append((count, [Items(said), *more]))
    shown = [(title, printed) for title, printed in folds if printed]
    note = "Times are means per step. Timelines, distributions and every row are in the HTML report and the JSON."
    return report_markdown(report.tool, [opening(report, top)], top, width, note, shown)


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
            print_section(console, section, 1, top)
    print_warnings(report.warnings, words.all_missing(report), console)


def asked(report: Show, top: int) -> list[Section]:
    """The single steps that were asked for, and nothing else."""
    return [Section("", one.text, sections.chosen(report, one, top)) for one in report.chosen]


def opening(report: Show, top: int) -> Section:
    """The step, what is in its time, and the first `top` of what the GPU waited for."""
    books = show_words.books(report)
    said = f"{words.sentence(show_words.what_a_step_is(report))}; {show_words.runs(report)}; {show_words.spread(report)}."
    busy = [f"GPU busy {books.busy}, idle {books.idle}."] if show_words.captured(report, "kernels") else []
    facts = [*busy, said, f"{show_words.machine(report)}.", *workloads.left_out(report)]
    hidden = any(one.hidden for one in books.lines)
    notes = [Line(["Hidden: behind GPU work, so that it costs nothing."], "note")] if hidden else []
    parts = [
        Section("", "What is in the time of a step", [_accounting(report, books), *notes]),
        *_waits(report, top),
    ]
    return Section("", report.sentence, [*(Line([text], "note") for text in facts), *parts])


def _accounting(report: Show, books: show_words.Books) -> Table:
    """The categories, whose printed times add up to that of the step."""
    heads = ["Category", books.scale.unit, "% of the step", "sd over runs", "hidden", ""]
    rows = [
        [one.label, one.time, one.share, one.sd, one.hidden, "\u2588" * round(_BAR * one.bar)]
        for one in books.lines
    ]
    sd = "" if report.step.sd_ns is None else books.scale.number(report.step.sd_ns)
    rows.append(["step", books.total, "100.00 %", sd, "", ""])
    kept = [at for at in range(len(heads)) if any(row[at] for row in rows)]
    made = grid(
        "accounting",
        [heads[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        right=range(1, len(kept) - 1),
    )
    heads_of = [*made.heads[:-1], replace(made.heads[-1], look="spare")]
    return replace(made, heads=heads_of, rows=made.rows[:-1], foot=made.rows[-1])


def _waits(report: Show, top: int) -> list[Section]:
    if not report.idle:
        return []
    shown = report.idle[:top]
    scale = units.scale_for([one.ns for one in shown])
    items: list[Sequence[Span]] = []
    for one in shown:
        facts = [f"{units.share(one.share)} of the step", *show_words.facts(one)]
        item: list[Span] = [
            Strong(words.sentence(one.title)),
            f": {scale.time(one.ns)}, {'; '.join(facts)}",
        ]
        for number, (name, value) in enumerate(show_words.elsewhere(one)):
            item += [f"{', ' if number else '; at '}{name} ", Code(value)]
        items.append(item)
    left = len(report.idle) + report.idle_left_out - len(shown)
    more: list[Block] = (
        [Line([f"{left} more are in the JSON (", Code("idle"), ")."], "note")] if left > 0 else []
    )
    return [Section("", show_words.waits(report), [Items(items), *more])]
