"""What every picture is made of: shapes as data, axes, and texts that fit; drawn as SVG."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import escape

from tracediff.report import palette, units
from tracediff.report.escape import shorten

SIZE = 12.5  # of all letters, px
LINE = 17.0  # from a line of text to the next
_LETTER = 7.3  # mean width of one, in a wide font
_BASELINE = 0.35  # of the size: how far below its middle a text stands
_MARGIN = 12.0  # of a picture in a file of its own


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

_Paint = Callable[[str], str]  # a variable of the palette -> a colour as CSS


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

    def svg(self, paint: _Paint, *, alone: bool) -> str:
        """As an element; in a file of its own it leads nowhere."""
        fill = 'fill="transparent"' if self.fill == "none" else f'style="fill:{paint(self.fill)}"'
        faint = f' fill-opacity="{self.opacity}"' if self.opacity < 1 else ""
        title = f"<title>{escape(self.title)}</title>" if self.title else ""
        size = f'x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"'
        out = f"<rect {size} {fill}{faint}>{title}</rect>"
        if not self.href or alone:
            return out
        return f'<a href="{escape(self.href)}" aria-label="{escape(self.title)}">{out}</a>'


@dataclass(frozen=True)
class Line:
    """A path, stroked or (width 0) filled. round: its ends, so that a line of no length is a dot."""

    path: str
    colour: str
    width: float = 1.0
    dashed: bool = False
    opacity: float = 1.0
    round: bool = False

    def svg(self, paint: _Paint, *, alone: bool) -> str:
        """As an element."""
        style = f"fill:{paint(self.colour)}"
        if self.width:
            style = f"fill:none;stroke:{paint(self.colour)};stroke-width:{self.width}"
            style += ";stroke-dasharray:3 3" * self.dashed + ";stroke-linecap:round" * self.round
        style += f";opacity:{self.opacity}" if self.opacity < 1 else ""
        return f'<path d="{self.path}" style="{style}"/>'


@dataclass(frozen=True)
class Text:
    """A text at its baseline. anchor: start, middle or end."""

    x: float
    y: float
    text: str
    anchor: str
    colour: str
    bold: bool = False

    def svg(self, paint: _Paint, *, alone: bool) -> str:
        """As an element."""
        style = f"{'font-weight:bold;' * self.bold}text-anchor:{self.anchor};fill:{paint(self.colour)}"
        return f'<text x="{self.x}" y="{self.y}" style="{style}">{escape(self.text)}</text>'


@dataclass(frozen=True)
class Change:
    """A line of the list under a picture: what changed, by how much (in its colour), and what follows both."""

    name: str
    size: str
    colour: str
    after: str = ""


@dataclass
class Drawing:
    """A picture: shapes in the order of drawing. `description`: the same in words. A `y` of texts is the top of their line."""

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
        x, y, width, height = (round(one, 2) for one in (x, y, width, height))
        self.shapes.append(Rect(x, y, width, height, fill, round(opacity, 3), typeset(title), href))

    def line(
        self, path: str, colour: str, width: float = 1.0, *, dashed: bool = False, opacity: float = 1.0, round: bool = False
    ) -> None:  # fmt: skip
        """Add a path."""
        if path:
            self.shapes.append(Line(path, colour, width, dashed, opacity, round))

    def write(
        self, x: float, y: float, text: str, anchor: str = "start", colour: str = "--ink", *, bold: bool = False
    ) -> None:  # fmt: skip
        """Add a text around the height y; nothing where it is empty."""
        if text:
            place = round(x, 2), round(y + _BASELINE * SIZE, 2)
            self.shapes.append(Text(*place, typeset(text), anchor, colour, bold))

    def paragraph(self, x: float, y: float, text: str, colour: str = "--ink", *, most: int = 2) -> float:
        """Write a text in lines as wide as there is room; return where the next line begins."""
        for line in wrapped(typeset(text), self.layout.width - x, most):
            self.write(x, y + 9, line, colour=colour)
            y += LINE
        return y

    def changes(self, rows: Iterable[Change], y: float) -> float:
        """List numbered changes; return where it ends."""
        for number, row in enumerate(rows, start=1):
            self.write(0, y + 9, str(number), bold=True)
            if self.layout.narrow:
                y = self.paragraph(16, y, row.name)
                y = self.paragraph(16, y, row.size + row.after, row.colour) + 4
            else:
                self.write(110, y + 9, row.size, "end", row.colour, bold=True)
                self.write(122, y + 9, cut(row.name, row.after, self.layout.width - 122))
                y += LINE + 2
        return y + 4

    def legend(self, entries: Iterable[tuple[str, float, str, bool]], x: float, y: float) -> tuple[float, float]:  # fmt: skip
        """Write colour, opacity, word, and whether it is the first among them, beside each other; return where the last one ends."""
        left = x
        for colour, opacity, word, bold in entries:
            width = 30 + (8.2 if bold else _LETTER) * len(word)
            if x + width > self.layout.width + 12:
                x, y = left, y + LINE + 2
            self.rect(x, y + 3, 12, 12, colour, opacity)
            self.write(x + 17, y + 9, word, colour="--ink" if bold else "--muted", bold=bold)
            x += width
        return x, y

    def pointers(self, ends: Sequence[tuple[float, float, int]], y: float, left: float, colour: str, *, dashed: bool = False) -> None:  # fmt: skip
        """Write numbers below y, each with a line to its end (x, top), and apart from each other. `ends`: x, top, number."""
        for (x, top, number), place in zip(
            ends, spread([one[0] for one in ends], 12, left, self.layout.width - 5), strict=True
        ):
            self.line(f"M{x:.1f} {top:.1f}V{y:.1f}L{place:.1f} {y + 5:.1f}", colour, dashed=dashed)
            self.write(place, y + 13, str(number), "middle", bold=True)

    def level(self, y: float, text: str, left: float, right: float, colour: str = "--rule") -> None:
        """Rule a height of an axis from left to right, its text before it."""
        self.line(f"M{left:g} {y:.1f}H{right:g}", colour)
        self.write(left - 6, y, text, "end", "--muted")

    @property
    def linked(self) -> bool:
        """Whether any of it leads somewhere."""
        return any(isinstance(one, Rect) and one.href for one in self.shapes)

    def svg(self, *, alone: bool = False) -> str:
        """The picture as an `<svg>` element whose colours follow the page, or `alone` as a file of its own, on white."""
        width, height = self.layout.width, self.height
        description = f"<desc>{escape(self.description)}</desc>"
        paint: _Paint = palette.LIGHT.__getitem__ if alone else "var({})".format
        if alone:
            wide, high = width + 2 * _MARGIN, height + 2 * _MARGIN
            size = f'width="{wide}" height="{high}"'
            head = (
                f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{-_MARGIN} {-_MARGIN} {wide} {high}" {size}>\n'
                f"<title>{escape(self.title)}</title>{description}\n"
                f'<rect x="{-_MARGIN}" y="{-_MARGIN}" {size} fill="{paint("--paper")}"/>'
            )
        else:
            role = "group" if self.linked else "img"
            name = f'class="picture {self.layout.name}" role="{role}" aria-label="{escape(self.title)}"'
            head = f'<svg {name} viewBox="0 0 {width} {height}">\n{description}'
        shapes = "\n".join(one.svg(paint, alone=alone) for one in self.shapes)
        font = "sans-serif" if alone else "var(--sans)"
        return f'{head}\n<g style="font:{SIZE}px {font}">\n{shapes}\n</g>\n</svg>\n'


# Texts that fit.


def typeset(text: str) -> str:
    """Micro sign, a narrow space before a percent sign, a true minus and arrow."""
    text = text.replace(" us", " \u00b5s").replace(" %", "\u202f%").replace(" -> ", " \u2192 ")
    return re.sub(r"(?<![\w.])-(?=<?\d)", "\u2212", text)


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


# Lines and axes.


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """Points as a path."""
    return "".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(points))


def dots_of(points: Iterable[tuple[float, float]]) -> str:
    """Points as a path of round dots."""
    return "".join(f"M{x:.4g} {y:.4g}h0" for x, y in points)


@dataclass(frozen=True)
class Axis:
    """A mapping of values to positions, evenly or by powers: `low` lies at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The position of a value."""
        if self.high <= self.low:
            part = 0.5
        elif self.log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * part, 2)

    def ticks(self, most: int) -> list[float]:
        """Round values on the axis, about so many."""
        ticks = log_ticks if self.log else nice_ticks
        return ticks(self.low, self.high, most)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Choose round values between the ends, about as many as wanted."""
    if high <= low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Choose round values between the ends, at most so many: 1, 2, 5; 1, 3; or powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        marks = [
            mark for power in powers for factor in factors if low <= (mark := factor * 10.0**power) <= high
        ]
        if len(marks) <= most:
            break
    return marks[:: math.ceil(len(marks) / max(most, 1)) or 1]


def tick(ns: float, scale: units.Scale) -> str:
    """A round time on an axis, without its unit."""
    return f"{ns / scale.factor:,.6g}"


_TICK = 44.0  # px that a tick's number needs
_LEAST_NS = 1.0  # what is left of a sum that should be zero has no decade
LOG_FROM = 12.0  # a range wider than this factor gets a logarithmic axis


def axis_of(values: Sequence[float], start: float, end: float, log_from: float = LOG_FROM) -> Axis:
    """Choose an axis that holds all values, by powers where they spread over more than a factor of `log_from`."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= _LEAST_NS and high / low > log_from:
        return Axis(low / 1.1, high * 1.1, start, end, log=True)
    room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return Axis(low - room, high + room, start, end)


def draw_times(out: Drawing, axis: Axis, scale: units.Scale, y: float, top: float | None = None) -> None:
    """Write an axis of times below y, its unit at its end. `top`: rule it from there on."""
    unit = units.symbol(scale) + (", log" if axis.log else "")
    out.write(axis.end + 8, y + 13, unit, "end", "--muted")
    last, free = axis.end - 8.0 * len(unit), axis.start - 20
    most = int((axis.end - axis.start) / _TICK) if axis.log else 5
    for mark in axis.ticks(most):
        x, text = axis.at(mark), tick(mark, scale)
        half = 3.8 * len(text)
        out.line(
            f"M{x:g} {y:g}v4" if top is None else f"M{x:g} {top:g}V{y:g}", "--rule" if top else "--muted"
        )
        if x - half >= free and x + half <= last:
            out.write(x, y + 13, text, "middle", "--muted")
            free = x + half + 6
