"""The result as one HTML file that works offline: nothing is loaded, nothing can be sent."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from markupsafe import Markup

from tracediff.model import Accounting, Result
from tracediff.model.common import ABSENT
from tracediff.report import (
    document,
    figures,
    first,
    kernel_words,
    launch_words,
    measured,
    names,
    palette,
    phase_table,
    phrases,
    pictures,
    rows,
    sections,
    system_words,
    templates,
    timelines,
    units,
    waterfall,
    words,
    workloads,
)
from tracediff.report.drawing import HALF, HALF_NARROW
from tracediff.report.escape import neutral, shorten
from tracediff.report.markdown import render_markdown
from tracediff.report.pictures import divergence

_LONGEST_NAME = 600


def render_html(result: Result) -> str:
    """Return the page."""
    result = neutral(result)
    environment = templates.html_environment(words.unit(result))
    figure = waterfall.build(result)
    kernels = rows.kernels_by_phase(result)
    places = {row: place for one in kernels for row, place in one.places.items()}
    listed: dict[int, int] = {}  # row of the result -> that which has its anchor: several phases may list it
    for one in kernels:
        for shown in (one.beyond, one.within, one.untested):
            for row in shown.rows:
                listed.setdefault(places[id(row)], id(row))
    return environment.get_template("report.html.j2").render(
        r=result,
        # A drawing of fixed words: beside our own files the only text of the page that is not escaped.
        svg=Markup("".join(waterfall.draw(figure, layout).svg() for layout in (HALF, HALF_NARROW))),
        figure=figure,
        verdict=words.VERDICTS[result.verdict],
        first_lines=first.lines(result),
        phase_lines=phase_table.lines(result),
        comment=render_markdown(result),
        insights=phrases.remarks(result),
        timelines=timelines.build(result),
        pictures=pictures.for_page(result),
        divergence=divergence,
        kernel_number=lambda row: places[id(row)],
        kernels=kernels,
        kernel_first=lambda row: id(row) in listed.values(),
        kernels_listed=set(listed),
        kernel_notes=sections.kernel_notes(result),
        parts=measured.parts(result),
        of_peak=measured.of_peak(result),
        alone=False,
        **sections.context(result),
        **own_files(["timelines.js"], sections.styles(result)),
        **helpers() | {"cut": lambda found, limit=rows.PAGE: rows.cut(found, limit)},
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
    (re.compile(r"(?<=\d) us\b(?!-)"), "\u00a0\u00b5s"),
    (re.compile(r"(?<=\d) (ns|ms|s)\b(?!-)"), "\u00a0\\1"),
    (re.compile(r" -> "), " \u2192 "),
)


def typography(text: object) -> str:
    """Set figures and units properly: a minus sign, thin space before a percent sign, \u00b5s."""
    out = str(text)
    for pattern, replacement in _TYPOGRAPHY:
        out = pattern.sub(replacement, out)
    return out


def _scale_of(table: Iterable[object], *paths: str) -> units.Scale:
    """Choose the scale that all the named fields of a table share; a missing side counts for nothing."""
    getters = [_optional(path) for path in paths]
    values = [getter(row) for row in table for getter in getters]
    return units.scale_for([value for value in values if value is not ABSENT])


def _optional(path: str) -> Callable[[object], float | None]:
    side, _, rest = path.partition(".")
    if not rest:
        return attrgetter(side)

    def get(row: object) -> float | None:
        value = getattr(row, side)
        return attrgetter(rest)(value) if value else None

    return get


def _long(name: str) -> str:
    return shorten(name, _LONGEST_NAME)


def _categories(accounting: Accounting) -> list[str]:
    return palette.order(set(accounting.baseline) | set(accounting.candidate))


def helpers() -> dict[str, Any]:
    """Return what templates may call; they compute nothing themselves."""
    return {
        "units": units,
        "words": words,
        "system_words": system_words,
        "names": names,
        "palette": palette,
        "phase_table": phase_table,
        "figures": figures,
        "cut": rows.cut,
        "by_kernel": rows.kernel_order,
        "launch_words": launch_words,
        "layers_of": measured.layers_of,
        "limits_title": measured.LIMITS,
        "most_rows": rows.LIMIT,
        "kind_of": document.style,
        "kernel_words": kernel_words,
        "by_gap": rows.gap_order,
        "by_range": rows.range_order,
        "by_rank": rows.rank_order,
        "most_ranks": rows.RANKS,
        "ordered": sorted,
        "scale_of": _scale_of,
        "unit": units.symbol,
        "typo": typography,
        "long": _long,
        "shorten": shorten,
        "categories": _categories,
        "two": True,  # sides
        "workload": workloads.workload,
        "workload_name": workloads.workload_name,
        "workloads": workloads,
        "timeline_words": timelines.WORDS,
        "crop": timelines.crop,
        "KINDS": {*timelines.WORDS, *palette.BY_KEY},
    }
