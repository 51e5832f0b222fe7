"""Pictures of a comparison as SVG: in the page, where its colours are the page's, or as files of their own, on white.

A picture is laid out twice: for a wide page, and for a telephone, where letters keep their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from tracediff.model import Result
from tracediff.report import waterfall
from tracediff.report.escape import neutral
from tracediff.report.pictures import cause_tree, divergence, step_strip
from tracediff.report.pictures.shapes import NARROW, WIDE, Drawing, Layout

_DRAWN: dict[str, Callable[[Result, Layout], Drawing | None]] = {
    "cause-tree": cause_tree.draw,
    "step-strip": step_strip.draw,
    "divergence": divergence.draw,
}
FILES = ("waterfall.svg", *(f"{name}.svg" for name in _DRAWN))


@dataclass(frozen=True)
class Picture:
    """A picture of the page: both layouts as markup, of which every text is escaped."""

    name: str
    title: str
    svg: Markup


def for_page(result: Result) -> dict[str, Picture]:
    """The pictures that there are, by name and in their order. `result`: made neutral."""
    found = {}
    for name, draw in _DRAWN.items():
        drawings = [one for one in (draw(result, WIDE), draw(result, NARROW)) if one is not None]
        if drawings:
            found[name] = Picture(name, drawings[0].title, Markup("".join(one.svg() for one in drawings)))
    return found


def files(result: Result) -> dict[str, bytes]:
    """Every picture as a file: name -> SVG; of one that there is no data for, none."""
    result = neutral(result)
    found = {"waterfall.svg": waterfall.render_svg(waterfall.build(result), alone=True)}
    for name, draw in _DRAWN.items():
        drawing = draw(result, WIDE)
        if drawing is not None:
            found[f"{name}.svg"] = drawing.svg(alone=True)
    return {name: text.encode() for name, text in found.items()}
