"""A report as a notebook shows it: a piece of HTML without scripts, whose styles touch nothing else on the page.

Everything that comes out of a trace is escaped; the waterfall is an image inside the piece.
"""

from __future__ import annotations

import base64
from typing import Any

from markupsafe import Markup

from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report import (
    blocks,
    first,
    phase_table,
    pictures,
    sections,
    show_words,
    step_words,
    units,
    waterfall,
    words,
)
from tracediff.report.document import Table, plain
from tracediff.report.escape import neutral
from tracediff.report.html import helpers
from tracediff.report.templates import html_environment

CAUSES = 5


def comparison_html(result: Result) -> str:
    """The first sentence, phases, waterfall and causes of a comparison."""
    result = neutral(result)
    figure = waterfall.build(result)
    picture = base64.b64encode(pictures.files(result, ["waterfall"])["waterfall.svg"]).decode()
    causes, small = words.listed(result)
    scale = words.finding_scale(causes[:CAUSES])
    verdict = words.VERDICTS[result.verdict]
    what, *others = first.lines(result)
    return _render(
        sentence=what,
        tone=verdict.tone,
        lines=others,
        tables=[_phases(result)],
        picture=Markup(f"data:image/svg+xml;base64,{picture}"),  # digits and letters
        described=waterfall.text_figure(figure),
        heading="Causes",
        causes=[
            (
                words.sentence(one.title),
                f"{words.size(one, scale, words.unit(result))}, {words.evidence(one, result)}",
            )
            for one in causes[:CAUSES]
        ],
        more=_more(len(causes) - CAUSES, len(small)),
    )


def _more(causes: int, small: int) -> str:
    said = [f"{causes} more"] if causes > 0 else []
    said += [f"{small} smaller"] if small else []
    return f"{' and '.join(said)}: .findings" if said else ""


def _phases(result: Result) -> Table:
    found = phase_table.table(result)
    rows = [
        [row.phase, row.word, row.baseline, row.candidate, row.delta, row.percent, row.repeat]
        for row in found.rows
    ]
    header = [f"{found.unit} per {words.unit(result)}", "Verdict", "Baseline", "Candidate"]
    header += ["Change", "%", "A repeat"]
    if result.verdict == "not_comparable":
        header, rows = [header[0], *header[2:4]], [[row[0], *row[2:4]] for row in rows]
    return Table(header, rows)


def show_html(report: Show) -> str:
    """The first sentence, phases and waits of one capture; of single steps that were asked for, each with what differs."""
    report = neutral(report)
    if report.chosen:
        first, *rest = report.chosen
        return _render(
            sentence=first.text,
            lines=step_words.facts(report, first),
            tables=[
                plain(one, CAUSES) for one in sections.chosen(report, first) if isinstance(one, blocks.Table)
            ],
            heading="More steps",
            causes=[(one.text, "") for one in rest],
        )
    scale = units.scale_for([row.baseline.p50_ns for row in report.phases if row.baseline])
    phases = [
        [row.phase, f"{row.baseline.steps:,}", *map(scale.number, (row.baseline.mean_ns, row.baseline.p50_ns, row.baseline.p99_ns))]
        for row in report.phases
        if row.baseline
    ]  # fmt: skip
    waits = units.scale_for([one.ns for one in report.idle[:CAUSES]])
    more = len(report.idle) + report.idle_left_out - CAUSES
    return _render(
        sentence=report.sentence,
        lines=[f"{show_words.runs(report)}; {show_words.spread(report)}", show_words.machine(report)],
        tables=[Table([f"{scale.unit} per step", "Steps", "Mean", "p50", "p99"], phases)],
        heading=show_words.waits(report),
        causes=[
            (words.sentence(one.title), f"{waits.time(one.ns)}, {units.share(one.share)} of the step")
            for one in report.idle[:CAUSES]
        ],
        more=f"{more} more: .idle" if more > 0 else "",
    )


def _render(**parts: Any) -> str:
    known = {"tone": "neutral", "picture": "", "described": "", "more": "", **helpers(), **parts}
    return html_environment().get_template("notebook.html.j2").render(known)
