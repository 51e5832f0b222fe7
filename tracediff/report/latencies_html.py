"""Latencies without a profiler, as one HTML file that works offline, in the look of the other pages."""

from __future__ import annotations

from tracediff.model import Latencies
from tracediff.model.latencies import LatencyReport
from tracediff.report import latencies_words, templates, words
from tracediff.report.escape import neutral
from tracediff.report.html import helpers, own_files
from tracediff.report.latencies_markdown import render_latencies_markdown


def render_latencies_html(report: LatencyReport) -> str:
    """Return the page."""
    report = neutral(report)
    return (
        templates.html_environment()
        .get_template("latencies.html.j2")
        .render(
            r=report,
            comment=render_latencies_markdown(report),
            verdict=words.VERDICTS[report.latencies.verdict],
            **section(report.latencies),
            **own_files(styles=["latencies.css"]),
            **helpers(),
        )
    )


def section(latencies: Latencies | None) -> dict[str, object]:
    """Return what `_latencies.html.j2` needs beside the helpers of every page."""
    return {"latencies": latencies, "latencies_words": latencies_words}
