"""Kernels compared by their counters, as one HTML file that works offline, in the look of the other pages."""

from __future__ import annotations

from tracediff.measure import ncu_rules
from tracediff.model import Ncu, NcuRow
from tracediff.model.ncu import NcuReport
from tracediff.report import ncu_words, templates
from tracediff.report.escape import neutral
from tracediff.report.html import helpers, own_files
from tracediff.report.ncu_markdown import render_ncu_markdown


def render_ncu_html(report: NcuReport) -> str:
    """Return the page."""
    report = neutral(report)
    return (
        templates.html_environment()
        .get_template("ncu.html.j2")
        .render(
            r=report,
            comment=render_ncu_markdown(report),
            best=_best(report.ncu),
            tone=_tone(report.ncu),
            kernel_rows=0,
            **section(report.ncu),
            rules=ncu_rules,
            **own_files(styles=["ncu.css"]),
            **helpers(),
        )
    )


def section(ncu: Ncu | None) -> dict[str, object]:
    """Return what `_ncu.html.j2` needs beside the helpers of every page."""
    return {"ncu": ncu, "ncu_words": ncu_words}


def _best(ncu: Ncu) -> NcuRow | None:
    return next((row for row in ncu.rows if row.change in ("faster", "slower")), None)


def _tone(ncu: Ncu) -> str:
    changes = {row.change for row in ncu.rows}
    both = {"faster", "slower"} <= changes
    return (
        "unsure" if both else "good" if "faster" in changes else "bad" if "slower" in changes else "neutral"
    )
