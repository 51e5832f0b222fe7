"""The report of a companion's own command: one way to Markdown and to a page, of templates named after its kind."""

from __future__ import annotations

from typing import Any, TypeAlias

from tracediff.companions.latencies.model import LatencyReport
from tracediff.companions.ncu.model import NcuReport
from tracediff.companions.trtexec.model import TrtexecReport
from tracediff.report import sections, templates, words
from tracediff.report.escape import markdown_cell, markdown_code, neutral
from tracediff.report.html import helpers, own_files

Report: TypeAlias = NcuReport | TrtexecReport | LatencyReport


def render_markdown(report: Report, **more: Any) -> str:
    """Fill the template KIND.md.j2."""
    template = templates.markdown_environment().get_template(f"{report.kind}.md.j2")
    return template.render(**_context(report), words=words, cell=markdown_cell, code=markdown_code, **more)


def render_html(report: Report, comment: str, **more: Any) -> str:
    """Fill the template KIND.html.j2; `comment`: the Markdown that the page offers to copy."""
    template = templates.html_environment().get_template(f"{report.kind}.html.j2")
    styles = [sections.renderer(getattr(report, report.kind)).STYLE]
    return template.render(
        **_context(report), comment=comment, **own_files(styles=styles), **helpers(), **more
    )


def _context(report: Report) -> dict[str, Any]:
    found = neutral(report)
    section = getattr(found, found.kind)
    return {"r": found, found.kind: section, f"{found.kind}_words": sections.renderer(section)}
