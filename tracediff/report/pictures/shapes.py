"""What every picture is made of: shapes as data, which templates/picture.svg.j2 writes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from tracediff.report import palette, templates
from tracediff.report.escape import shorten

SIZE = 12.5  # of all letters, px
_LETTER = 7.3  # mean width of one, in a wide font
_BASELINE = 0.35  # of the size: how far below its middle a text stands
MARGIN = 12.0  # of a picture in a file of its own


@dataclass(frozen=True)
class Layout:
    """For which pages a picture is laid out."""

    name: str
    width: float

    @property
    def narrow(self) -> bool:
        """Whether it is the one for telephones."""
        return self.width < 600


WIDE = Layout("wide-picture", 900.0)
NARROW = Layout("narrow-picture", 344.0)
HALF = Layout("wide-figure", 640.0)  # beside other things
HALF_NARROW = Layout("narrow-figure", 344.0)


@dataclass(frozen=True)
class Rect:
    """A filled area. `fill`: a variable of the palette, as in the other shapes; href: within the page."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    opacity: float = 1.0
    title: str = ""
    href: str = ""


@dataclass(frozen=True)
class Line:
    """A path, stroked or (width 0) filled. round: its ends, so that a line of no length is a dot."""

    path: str
    colour: str
    width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0
    round: bool = False


@dataclass(frozen=True)
class Text:
    """A text at its baseline. anchor: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str
    colour: str
    bold: bool = False


@dataclass
class Drawing:
    """A picture: shapes in the order of drawing. `description`: the same in words."""

    layout: Layout
    title: str
    description: str = ""
    height: float = 0.0
    shapes: list[Rect | Line | Text] = field(default_factory=list)

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0, title: str = "", href: str = ""
    ) -> None:  # fmt: skip
        """Add a filled area; titles and links are for the wide layout, where there is something to point with."""
        if self.layout.narrow:
            title, href = "", ""
        self.shapes.append(
            Rect(
                round(x, 2),
                round(y, 2),
                round(width, 2),
                round(height, 2),
                fill,
                round(opacity, 3),
                title,
                href,
            )
        )

    def line(
        self, path: str, colour: str, width: float = 1.0, *, dashed: bool = False, opacity: float = 1.0, round: bool = False
    ) -> None:  # fmt: skip
        """Add a path."""
        if path:
            self.shapes.append(Line(path, colour, width, dashed, opacity, round))

    def write(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        colour: str = "--ink",
        *,
        bold: bool = False,
    ) -> None:
        """Add a text around the height y; nothing where it is empty."""
        if not text:
            return
        self.shapes.append(
            Text(round(x, 2), round(y + _BASELINE * SIZE, 2), typeset(text), anchor, colour, bold)
        )

    @property
    def linked(self) -> bool:
        """Whether any of it leads somewhere."""
        return any(isinstance(one, Rect) and one.href for one in self.shapes)

    def svg(self, *, alone: bool = False) -> str:
        """The picture as an `<svg>` element whose colours follow the page, or `alone` as a file of its own."""
        template = templates.html_environment().get_template("picture.svg.j2")
        return template.render(d=self, alone=alone, margin=MARGIN, size=SIZE, colours=palette.LIGHT)


def typeset(text: str) -> str:
    """Micro sign, a narrow space before a percent sign, a true minus and arrow."""
    text = text.replace(" us", " \u00b5s").replace(" %", "\u202f%").replace(" -> ", " \u2192 ")
    return re.sub(r"(?<![\w.])-(?=<?\d)", "\u2212", text)


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """Points as a path."""
    return "".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(points))


def room(width: float) -> int:
    """How many letters fit into a width."""
    return max(int((width - 6) / _LETTER), 0)


def fitting(text: str, width: float, least: int = 7) -> str:
    """The text, its end cut off to a width; '' where not even `least` letters fit."""
    letters = room(width)
    if len(text) <= letters:
        return text
    return f"{text[: letters - 1].rstrip()}\u2026" if letters >= least else ""


def cut(text: str, after: str, width: float) -> str:
    """A text and what follows it; the middle of the text gives way."""
    return shorten(text, max(room(width) - len(after), 8)) + after


def wrapped(text: str, width: float, most: int = 2) -> list[str]:
    """The text in at most so many lines of a width, the last one cut."""
    lines = textwrap.wrap(text, max(room(width), 8))
    return lines if len(lines) <= most else [*lines[: most - 1], fitting(" ".join(lines[most - 1 :]), width)]


def spread(wanted: list[float], apart: float, low: float, high: float) -> list[float]:
    """Places in the order of `wanted`, near them and at least so far apart, where there is room for that."""
    order = sorted(range(len(wanted)), key=lambda one: wanted[one])
    places = [0.0] * len(wanted)
    least = low
    for one in order:
        places[one] = least = max(wanted[one], least)
        least += apart
    most = high
    for one in reversed(order):
        places[one] = most = min(places[one], most)
        most -= apart
    return places
