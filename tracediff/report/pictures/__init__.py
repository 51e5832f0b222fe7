"""Pictures of a report: in the page, where their colours are the page's, or as files of their own, on white.

A picture is laid out twice: for a wide page, and for a telephone, where letters keep their size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report import waterfall
from tracediff.report.escape import markdown_prose, neutral
from tracediff.report.pictures import fall, step_strip, style
from tracediff.report.pictures.style import HALF, HALF_NARROW, NARROW, WIDE, Sheet

WATERFALL, STRIP = "waterfall", "step-strip"  # in the order of the index
INDEX, KINDS = "index.md", ("svg", "png")
FIRST = f"{WATERFALL}.png"  # what a comment shows
FILES = (INDEX, *(f"{name}.{kind}" for name in (WATERFALL, STRIP) for kind in KINDS))


@dataclass(frozen=True)
class Picture:
    """A picture of the page: both layouts as markup, of which every text is escaped."""

    title: str
    described: str
    svg: Markup


def strip(report: Result | Show) -> Picture | None:
    """Every step in order; None where there are none. `report`: made neutral."""
    with style.canvas():
        sheets = [sheet for layout in (WIDE, NARROW) if (sheet := step_strip.draw(report, layout))]
        svg = Markup("".join(each.svg() for each in sheets))
    return Picture(sheets[0].title, sheets[0].description, svg) if sheets else None


def of_fall(figure: waterfall.Waterfall) -> Markup:
    """The waterfall of a page."""
    return style.for_page(partial(fall.draw, figure), HALF, HALF_NARROW)


def files(report: Result | Show, only: Iterable[str] = ()) -> dict[str, bytes]:
    """Every picture as a file, SVG and PNG, of one that there is no data for none; and an index, as Markdown. `only`: these names."""
    with style.canvas():
        sheets = {name: one for name, one in _sheets(neutral(report)) if not only or name in only}
        out = {f"{name}.svg": one.svg(alone=True).encode() for name, one in sheets.items()}
        out |= {f"{name}.png": one.png() for name, one in sheets.items()}
    index = [
        f"## {one.title}\n\n![{one.title}]({name}.svg)\n\n{markdown_prose(one.description)}\n"
        for name, one in sheets.items()
    ]
    return {INDEX: "\n".join(index).encode(), **out}


def _sheets(report: Result | Show) -> Iterator[tuple[str, Sheet]]:
    if isinstance(report, Result):
        yield WATERFALL, fall.draw(waterfall.build(report), HALF)
    if sheet := step_strip.draw(report, WIDE):
        yield STRIP, sheet
