"""Two engines compared by trtexec, as one HTML file that works offline, in the look of the other pages."""

from __future__ import annotations

from tracediff.model.trtexec import TrtexecReport
from tracediff.report import templates, trtexec_words
from tracediff.report.escape import neutral
from tracediff.report.html import helpers, own_files
from tracediff.report.trtexec_markdown import render_trtexec_markdown
from tracediff.report.words import VERDICTS


def render_trtexec_html(report: TrtexecReport) -> str:
    """Return the page."""
    report = neutral(report)
    return (
        templates.html_environment()
        .get_template("trtexec.html.j2")
        .render(
            r=report,
            comment=render_trtexec_markdown(report),
            verdict=VERDICTS[report.trtexec.verdict],
            trtexec=report.trtexec,
            trt_words=trtexec_words,
            **own_files(styles=["ncu.css"]),
            **helpers(),
        )
    )
