"""The report of one capture as a page, as Markdown and on a terminal: the sections of a comparison with one side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from tracediff.model.show import Show
from tracediff.report import (
    blocks,
    lanes,
    pictures,
    sections,
    show_words,
    templates,
    units,
    words,
    workloads,
)
from tracediff.report.console import (
    has_unicode,
    print_heading,
    print_line,
    print_more,
    print_section,
    print_table,
    print_warnings,
)
from tracediff.report.escape import markdown_cell, markdown_code, markdown_figure, neutral, shorten
from tracediff.report.html import helpers, own_files
from tracediff.report.markdown import LIMIT, cut_to_limit, length
from tracediff.report.templates import markdown_environment


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


def _printed(report: Show) -> list[tuple[str, Sequence[blocks.Block]]]:
    """The sections that text formats have, by title."""
    found = [blocks.titled(one, 1) for one in sections.sections(report) if one.depth <= 1]
    return [(title, printed) for title, printed in found if printed]


# Markdown: the step and what is in it first, the rest folded, within a comment's limit.


def render_show_markdown(report: Show, top: int = 10) -> str:
    """Return the report; `top` is how many idle causes and kernels it shows."""
    report = neutral(report)
    if report.chosen:
        text = _steps_markdown(report, top)
        return text if length(text) < LIMIT else cut_to_limit(text)
    text = ""
    for rows, width in ((100, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        text = _markdown(report, min(top, 10 * rows), rows, width)
        if length(text) < LIMIT:
            return text
    return cut_to_limit(text)


def _steps_markdown(report: Show, top: int) -> str:
    template = markdown_environment().get_template("show_steps.md.j2")
    answers = [(one.text, sections.chosen(report, one, top)) for one in report.chosen]
    return template.render(r=report, answers=answers, top=top)


def _markdown(report: Show, top: int, rows: int, width: int) -> str:
    causes = report.idle[:top]
    return (
        markdown_environment()
        .get_template("show.md.j2")
        .render(
            r=report,
            books=show_words.books(report),
            left_out=workloads.left_out(report),
            words=show_words,
            base=words,
            units=units,
            rows=rows,
            top=top,
            figure=markdown_figure,
            code=lambda value: markdown_code(value, width),
            cell=lambda value: markdown_cell(value, width),
            idle_scale=units.scale_for([cause.ns for cause in causes]),
            causes=causes,
            causes_left=len(report.idle) + report.idle_left_out - len(causes),
            sections=_printed(report),
            width=width,
        )
    )


# The terminal: the step, what is in it, what the GPU waited for, what to doubt.

_ALL = 500  # rows of a single step
_BAR = 40  # columns of the longest bar


def render_show_terminal(report: Show, console: Console, top: int = 5) -> None:
    """Print the report; `top` is how many rows of a list are shown."""
    report = neutral(report)
    if report.chosen:
        _steps(report, console, top)
        return
    books = show_words.books(report)
    print_line(console, (report.sentence, "bold"), indent=0)
    if show_words.captured(report, "kernels"):
        print_line(console, f"GPU busy {books.busy}, idle {books.idle}")
    print_line(
        console,
        (
            f"{show_words.what_a_step_is(report)}; {show_words.runs(report)}; {show_words.spread(report)}",
            "dim",
        ),
    )
    print_line(console, (show_words.machine(report), "dim"))
    for text in workloads.left_out(report):
        print_line(console, (text, "yellow"))
    _accounting(report, books, console)
    _idle(report, console, top)
    for section in sections.sections(report):
        if section.depth <= 1:
            print_section(console, section, 1, top)
    print_warnings(report.warnings, words.all_missing(report), console)


def _steps(report: Show, console: Console, top: int) -> None:
    """The steps that were asked for, and nothing else."""
    for number, one in enumerate(report.chosen):
        if number:
            console.print()
        print_line(console, (one.text, "bold"), indent=0)
        print_section(console, blocks.Section("", "", sections.chosen(report, one, top)), 1, _ALL)
    print_warnings(report.warnings, [], console)


def _accounting(report: Show, books: show_words.Books, console: Console) -> None:
    print_heading(console, "What is in the time of a step")
    full = "█" if has_unicode(console) else "#"
    sd = bool(books.lines and books.lines[0].sd)
    rows: list[list[str | Text]] = [
        [line.label, f"{line.time} {books.scale.unit}", line.share, *[Text(f"sd {line.sd}", "dim")] * sd]
        for line in books.lines
    ]
    total = ("step", f"{books.total} {books.scale.unit}", "100.00 %", *[""] * sd)
    rows.append([Text(cell, "bold") for cell in total])
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    bar = max(6, min(_BAR, console.width - sum(widths) - 10))
    for row, line in zip(rows, books.lines, strict=False):
        row.append(Text(full * round(bar * line.bar), "cyan"))
    rows[-1].append("")
    print_table(console, (), rows, left=(0, len(rows[0]) - 1))
    hidden = [
        f"{words.cause(row.category)} {units.scale_for([row.hidden_ns]).time(row.hidden_ns)}"
        for row in report.accounting
        if row.hidden_ns
    ]
    if hidden:
        print_line(console, (f"hidden behind GPU work: {', '.join(hidden)} per step", "dim"))


def _idle(report: Show, console: Console, top: int) -> None:
    if not report.idle:
        return
    shown = report.idle[:top]
    scale = units.scale_for([cause.ns for cause in shown])
    print_heading(console, show_words.waits(report))
    for cause in shown:
        print_line(console, (f"{cause.rank}. {words.sentence(cause.title)}", "bold"), hang=3)
        facts = [f"{units.share(cause.share)} of the step", *show_words.facts(cause)]
        print_line(console, (scale.time(cause.ns), "cyan"), f"; {'; '.join(facts)}", indent=5)
        rest = [f"{name} {shorten(value, 120)}" for name, value in show_words.elsewhere(cause)]
        if rest:
            print_line(console, ("at: ", "dim"), ", ".join(rest), indent=5)
    print_more(console, len(report.idle) + report.idle_left_out - len(shown))
