"""Latencies without a profiler, as Markdown."""

from __future__ import annotations

from tracediff.model.latencies import LatencyReport
from tracediff.report import latencies_words, templates, words
from tracediff.report.escape import markdown_cell, markdown_code, neutral


def render_latencies_markdown(report: LatencyReport) -> str:
    """Return the report of `tracediff latencies`."""
    report = neutral(report)
    return (
        templates.markdown_environment()
        .get_template("latencies.md.j2")
        .render(
            r=report, latencies_words=latencies_words, words=words, code=markdown_code, cell=markdown_cell,
        )
    )  # fmt: skip
