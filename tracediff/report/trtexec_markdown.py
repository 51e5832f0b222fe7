"""Two engines compared by trtexec, as Markdown."""

from __future__ import annotations

from typing import Any

from tracediff.model.trtexec import TrtexecReport
from tracediff.report import templates, trtexec_words
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, neutral


def render_trtexec_markdown(report: TrtexecReport, top: int = 10) -> str:
    """Return the report of `tracediff trtexec`."""
    report = neutral(report)
    return (
        templates.markdown_environment()
        .get_template("trtexec.md.j2")
        .render(r=report, t=report.trtexec, top=top, **helpers())
    )


def helpers() -> dict[str, Any]:
    """Return what the templates may call."""
    return {"trt_words": trtexec_words, "cell": markdown_cell, "code": markdown_code, "plain": Markdown}
