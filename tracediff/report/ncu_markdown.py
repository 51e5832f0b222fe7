"""Kernels compared by their counters, as Markdown."""

from __future__ import annotations

from typing import Any

from tracediff.model.ncu import NcuReport
from tracediff.report import ncu_words, templates
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, neutral

_DETAILED = 10  # kernels whose figures are unfolded


def render_ncu_markdown(report: NcuReport, top: int = 10) -> str:
    """Return the report of `tracediff ncu`."""
    report = neutral(report)
    return (
        templates.markdown_environment()
        .get_template("ncu.md.j2")
        .render(r=report, top=top, detailed=_DETAILED, **helpers())
    )


def helpers() -> dict[str, Any]:
    """Return what the templates may call."""
    return {"words": ncu_words, "cell": markdown_cell, "code": markdown_code, "plain": Markdown}
