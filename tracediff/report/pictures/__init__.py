"""Pictures of a report: in the page, where their colours are the page's, or as files of their own, on white.

A picture is laid out twice: for a wide page, and for a telephone, where letters keep their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
from markupsafe import Markup

from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report import waterfall, words
from tracediff.report.escape import markdown_prose, neutral
from tracediff.report.pictures import cause_tree, distribution, divergence, fall, scatter, step_strip, style
from tracediff.report.pictures.style import HALF, HALF_NARROW, NARROW, WIDE, Layout, Sheet

# In the order of the page and of the index.
_OF_BOTH: dict[str, Callable[[Any, Layout], Sheet | None]] = {
    "cause-tree": cause_tree.draw,
    "step-strip": step_strip.draw,
    "divergence": divergence.draw,
    "step-times": distribution.of_steps,
    "kernel-times": scatter.draw,
}
_OF_ONE = {name: _OF_BOTH[name] for name in ("cause-tree", "step-strip", "step-times")}
_OF_STEPS = ("step-strip", "step-times")
INDEX, KINDS = "index.md", ("svg", "png")
FIRST = "waterfall.png"  # what a comment shows
FILES = (INDEX, *(f"{name}.{kind}" for name in ("waterfall", *_OF_BOTH) for kind in KINDS))


def _drawn(report: Result | Show) -> dict[str, Callable[[Any, Layout], Sheet | None]]:
    """What can be drawn; of captures that were not cut not what is of their steps."""
    if not isinstance(report, Result):
        return _OF_ONE
    whole = words.unit(report) != "step"
    return {name: draw for name, draw in _OF_BOTH.items() if not (whole and name in _OF_STEPS)}


class Picture(msgspec.Struct, frozen=True):
    """A picture of the page: both layouts as markup, of which every text is escaped."""

    title: str
    described: str
    svg: Markup


def for_page(report: Result | Show) -> dict[str, Picture]:
    """The pictures that there are, by name and in their order. `report`: made neutral."""
    return {name: each for name in _drawn(report) if (each := one(report, name))}


def one(report: Result | Show, name: str) -> Picture | None:
    """One of them; None where there is no data for it."""
    with style.canvas():
        sheets = [sheet for layout in (WIDE, NARROW) if (sheet := _OF_BOTH[name](report, layout))]
        svg = Markup("".join(each.svg() for each in sheets))
    return Picture(sheets[0].title, sheets[0].description, svg) if sheets else None


def of_fall(figure: waterfall.Waterfall) -> style.Later:
    """The waterfall of a page."""
    return style.Later(partial(fall.draw, figure), HALF, HALF_NARROW)


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
        yield "waterfall", fall.draw(waterfall.build(report), HALF)
    for name, draw in _drawn(report).items():
        if sheet := draw(report, WIDE):
            yield name, sheet
