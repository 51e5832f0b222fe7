"""The result as one HTML file that works offline: nothing is loaded, nothing can be sent."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from markupsafe import Markup

from tracediff.model import Result
from tracediff.report import (
    blocks,
    findings,
    first,
    lanes,
    names,
    palette,
    phase_table,
    pictures,
    rows,
    sections,
    templates,
    units,
    waterfall,
    words,
    workloads,
)
from tracediff.report.blocks import Section
from tracediff.report.escape import neutral, shorten
from tracediff.report.markdown import render_markdown
from tracediff.report.pictures import divergence, runs

_LONGEST_NAME = 600


def render_html(result: Result) -> str:
    """Return the page."""
    result = neutral(result)
    environment = templates.html_environment(words.unit(result))
    figure = waterfall.build(result)
    kernels = rows.kernels_by_phase(result)
    return environment.get_template("report.html.j2").render(
        r=result,
        svg=pictures.of_fall(figure),
        figure=figure,
        verdict=words.VERDICTS[result.verdict],
        first_lines=first.lines(result),
        phases=sections.phases(result, phase_table.short(phase_table.lines(result))),
        comment=render_markdown(result),
        causes=findings.first(result),
        findings=findings.section(result),
        timelines=lanes.drawn(result),
        lanes=Markup(lanes.data(result)),  # JSON, of which no letter begins a tag
        pictures=pictures.for_page(result),
        divergence=divergence,
        kernels=kernels,
        asked=sections.asked(result),
        sections=sections.sections(result),
        **own_files(["lanes.js"]),
        **helpers(),
    )


def document(sections: Sequence[Section]) -> str:
    """Write sections whole, as a page without scripts."""
    return (
        templates.html_environment()
        .get_template("document.html.j2")
        .render(
            sections=sections,
            stylesheet=Markup(palette.stylesheet() + "\n" + templates.text("document.css")),
            **helpers() | {"full": False},
        )
    )


def own_files(scripts: Iterable[str] = (), styles: Iterable[str] = ()) -> dict[str, str]:
    """Return `style`, `script` and `policy` of a page: those of every page, then the files named, all our own."""
    script = "".join(map(templates.text, ["report.js", *scripts]))
    style = "".join(map(templates.text, ["report.css", *styles]))
    return {
        "style": Markup(palette.stylesheet() + "\n" + style),
        "script": Markup(script),
        "policy": _policy(script),
    }


def _policy(script: str) -> str:
    """Forbid everything but the style sheet, images inside the file, and this one script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


_TYPOGRAPHY: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<![\w.])-(?=<?\d)"), "\u2212"),
    (re.compile(r"(?<=\d) %"), "\u202f%"),
    (re.compile(r"(?<=[\d\]]) us\b(?!-)"), "\u00a0\u00b5s"),
    (re.compile(r"(?<=[\d\]]) (ns|ms|s)\b(?!-)"), "\u00a0\\1"),
    (re.compile(r" -> "), " \u2192 "),
)


def typography(text: object) -> str:
    """Set figures and units properly: a minus sign, thin space before a percent sign, \u00b5s."""
    out = str(text)
    for pattern, replacement in _TYPOGRAPHY:
        out = pattern.sub(replacement, out)
    return out


def _long(name: str) -> str:
    return shorten(name, _LONGEST_NAME)


def _scale_of(table: Iterable[object], *paths: str) -> units.Scale:
    """Choose the scale that all the named fields of a table share."""
    return units.scale_for([attrgetter(path)(row) for row in table for path in paths])


def _head(text: str, unit: str) -> str:
    """The head of a column with its unit."""
    return text.replace("{}", "\u00b5s" if unit == "us" else unit)


def _class_of(*names: str) -> Markup:
    """The attribute of an element that has some of these classes."""
    found = " ".join(name for name in names if name)
    return Markup(' class="{}"').format(found) if found else Markup()


def helpers() -> dict[str, Any]:
    """Return what templates may call; they compute nothing themselves."""
    return {
        "units": units,
        "words": words,
        "names": names,
        "palette": palette,
        "phase_table": phase_table,
        "runs": runs,
        "cut": rows.cut,
        "scale_of": _scale_of,
        "unit": units.symbol,
        "typo": typography,
        "long": _long,
        "shorten": shorten,
        "head": _head,
        "class_of": _class_of,
        "kind_of": blocks.span_kind,
        "part_names": blocks.PARTS,
        "two": True,  # sides
        "full": True,  # the page has our styles and script
        "workload": workloads.workload,
        "workload_name": workloads.workload_name,
        "workloads": workloads,
    }
