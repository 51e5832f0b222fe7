"""The report of one capture as one HTML file that works offline, in the look of the page of a comparison."""

from __future__ import annotations

from tracediff.measure.evidence import kernel_sql
from tracediff.model.show import Show, ShowPhase
from tracediff.report import figures, names, show_words, templates, timelines
from tracediff.report.escape import neutral
from tracediff.report.gil_grid import grid_of
from tracediff.report.html import helpers, own_files
from tracediff.report.show_markdown import render_show_markdown


def render_show_html(report: Show) -> str:
    """Return the page."""
    report = neutral(report)
    places = {id(row): place for place, row in enumerate(report.kernels)}
    return (
        templates.html_environment()
        .get_template("show.html.j2")
        .render(
            r=report,
            books=show_words.books(report),
            show_words=show_words,
            comment=render_show_markdown(report),
            timelines=timelines.build_show(report),
            kernel_number=lambda row: places[id(row)],
            one_kernel_sql=lambda row: kernel_sql(row.kernel.names),
            grid=grid_of((row.waiter, row.holder, row.ns, None) for row in report.gil_matrix),
            short_names=lambda found: " + ".join(names.short(name) for name in found),
            phase_strip=lambda phase: _strip(report, phase),
            **own_files(["timelines.js"], ["show.css"]),
            **helpers(),
        )
    )


def _strip(report: Show, phase: ShowPhase) -> figures.Strip | None:
    """Step times of a phase: a line of dots a run."""
    runs = []
    for number, mean in zip(phase.runs, phase.runs_ns, strict=False):
        own = [one.period_ns for one in report.samples if one.run == number and one.phase == phase.phase]
        name = report.input.runs[number].name if number < len(report.input.runs) else f"run {number + 1}"
        runs.append(("run", name, mean, own))
    return figures.strip_of(runs)
