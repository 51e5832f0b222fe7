"""Pictures of a report as SVG: in the page, where its colours are the page's, or as files of their own, on white.

A picture is laid out twice: for a wide page, and for a telephone, where letters keep their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report import waterfall
from tracediff.report.drawing import HALF, NARROW, WIDE, Drawing, Layout
from tracediff.report.escape import markdown_prose, neutral
from tracediff.report.pictures import cause_tree, distribution, divergence, scatter, step_strip

# In the order of the page and of the index.
_OF_BOTH: dict[str, Callable[[Any, Layout], Drawing | None]] = {
    "cause-tree": cause_tree.draw,
    "step-strip": step_strip.draw,
    "divergence": divergence.draw,
    "step-times": distribution.of_steps,
    "kernel-times": scatter.draw,
}
_OF_ONE = {name: _OF_BOTH[name] for name in ("cause-tree", "step-strip", "step-times")}
INDEX = "index.md"
FILES = (INDEX, "waterfall.svg", *(f"{name}.svg" for name in _OF_BOTH))


@dataclass(frozen=True)
class Picture:
    """A picture of the page: both layouts as markup, of which every text is escaped."""

    name: str
    title: str
    svg: Markup


def _drawings(report: Result | Show, layout: Layout) -> dict[str, Drawing]:
    """The pictures that there is data for, in their order."""
    drawings = {
        name: draw(report, layout)
        for name, draw in (_OF_BOTH if isinstance(report, Result) else _OF_ONE).items()
    }
    return {name: one for name, one in drawings.items() if one is not None}


def for_page(report: Result | Show) -> dict[str, Picture]:
    """The pictures that there are, by name and in their order. `report`: made neutral."""
    narrow = _drawings(report, NARROW)
    return {
        name: Picture(name, one.title, Markup(one.svg() + narrow[name].svg()))
        for name, one in _drawings(report, WIDE).items()
    }


def files(report: Result | Show) -> dict[str, bytes]:
    """Every picture as a file: name -> SVG, of one that there is no data for none; and an index, as Markdown."""
    report = neutral(report)
    drawings: dict[str, Drawing] = {}
    if isinstance(report, Result):
        drawings["waterfall"] = waterfall.draw(waterfall.build(report), HALF)
    drawings |= _drawings(report, WIDE)
    index = [
        f"## {one.title}\n\n![{one.title}]({name}.svg)\n\n{markdown_prose(one.description)}\n"
        for name, one in drawings.items()
    ]
    texts = {
        INDEX: "\n".join(index),
        **{f"{name}.svg": one.svg(alone=True) for name, one in drawings.items()},
    }
    return {name: text.encode() for name, text in texts.items()}
