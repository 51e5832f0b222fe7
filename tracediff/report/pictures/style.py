"""One style for all pictures: matplotlib without pyplot, letters of one size, colours of the palette, and the same bytes twice.

Places on a sheet are in px from its upper left corner; matplotlib is imported where something is drawn.
"""

from __future__ import annotations

import io
import logging
import math
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from markupsafe import Markup, escape

from tracediff.report import palette, units
from tracediff.report.escape import shorten

if TYPE_CHECKING:
    from xml.etree import ElementTree

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SIZE = 12.5  # of all letters, px
LINE = 17.0  # from a line of text to the next, and around what stands apart
ROW = 22.0  # of a bar, a cell, a heading
AXIS = 72.0  # room for the figures of an axis
PLOT = 144.0  # height of a plot
DOTS = 150  # of a plot, a curve, a row: more of them cannot be told apart
PALE = float(palette.LIGHT["--pale"])  # opacity of what gives way to others, or may be noise
FAINT = 0.15  # opacity of what lies under lines and letters
LOG_FROM = 10.0  # a range wider than this factor gets a logarithmic axis
SOLID: Literal["-"] = "-"
DASHED: Literal["--"] = "--"
_INCH = 72  # px, of which an SVG speaks to matplotlib; a PNG has twice as many


class Layout(msgspec.Struct, frozen=True):
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


def colour(name: str) -> str:
    """A variable of the palette as a colour; a page takes it back to the variable, so that it follows its theme."""
    return palette.LIGHT[name]


def _settings() -> dict[str, Any]:
    return {
        "figure.dpi": _INCH, "savefig.dpi": _INCH, "svg.fonttype": "none", "svg.hashsalt": "tracediff",
        "text.parse_math": False, "path.simplify": False, "font.family": "DejaVu Sans", "font.size": SIZE,
        "text.color": colour("--ink"), "grid.color": colour("--rule"), "grid.linewidth": 1.0,
        "axes.axisbelow": True, "xtick.bottom": False, "ytick.left": False, "lines.scale_dashes": False, "lines.dashed_pattern": (3.0, 3.0), "lines.markeredgewidth": 0.0,
        **{f"axes.spines.{one}": False for one in ("left", "right", "top", "bottom")},
        **{f"{axis}tick.{what}": 0.0 for axis in "xy" for what in ("major.size", "minor.size")},
        **{f"{axis}tick.labelcolor": colour("--muted") for axis in "xy"},
    }  # fmt: skip


_ONE_AT_A_TIME = threading.RLock()  # the settings are those of the whole process


@contextmanager
def canvas() -> Iterator[None]:
    """Draw with our settings alone, whatever the user's are."""
    # where its cache of fonts stands is no news of ours
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib.artist

    # the help on the properties of each class, which nobody reads here, would take half of the time of the import
    matplotlib.artist.ArtistInspector.get_aliases = lambda _: {}  # type: ignore[method-assign,assignment]
    matplotlib.artist.ArtistInspector.get_setters = lambda _: []  # type: ignore[method-assign,assignment]
    plain = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")}
    settings: dict[Any, Any] = {**plain, **_settings()}
    with _ONE_AT_A_TIME, matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks
        yield


class Change(msgspec.Struct, frozen=True):
    """A line of the list under a picture: what changed, by how much (in its colour), and what follows both."""

    name: str
    size: str
    colour: str
    after: str = ""


class Sheet:
    """A picture: axes and texts under each other on a page of one width; `height` is set when all is there.

    `description` says it in words.
    """

    def __init__(self, layout: Layout, title: str) -> None:
        from matplotlib.figure import Figure
        from matplotlib.transforms import Affine2D

        self.layout, self.title, self.description, self.height = layout, title, "", 0.0
        self._figure = Figure()
        self._page = Affine2D()
        self._px = self._page + self._figure.dpi_scale_trans
        self._axes: list[tuple[Axes, tuple[float, float, float, float]]] = []

    def axes(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes without marks between these edges."""
        found = self._figure.add_axes((0, 0, 1, 1), frameon=False)
        self._axes.append((found, (left, top, right, bottom)))
        found.xaxis.set_visible(False)
        found.yaxis.set_visible(False)
        return found

    def write(
        self, x: float, y: float, text: str, anchor: str = "left", ink: str = "--ink", *, bold: bool = False
    ) -> None:  # fmt: skip
        """Write a text around the height y; nothing where it is empty."""
        if text:
            weight = "bold" if bold else "normal"
            self._figure.text(
                x, y + 0.35 * SIZE, typeset(text), ha=anchor, va="baseline", color=colour(ink), weight=weight, transform=self._px
            )  # fmt: skip

    def number(self, places: Mapping[int, tuple[float, float]]) -> None:
        """Write numbers at their places; one that would lie on another stands beside it, towards the middle of the sheet."""
        taken: list[tuple[float, float]] = []
        for number, (x, y) in places.items():
            # one way: to and fro over the middle has no end
            aside = -SIZE if x > self.layout.width / 2 else SIZE
            while any(abs(x - at) < SIZE and abs(y - height) < SIZE for at, height in taken):
                x += aside
            taken.append((x, y))
            self.write(x, y, str(number), "center", bold=True)

    def line(self, xs: Sequence[float], ys: Sequence[float], ink: str, width: float = 1.0, *, dashed: bool = False) -> None:  # fmt: skip
        """Draw a line on the sheet, over all axes."""
        from matplotlib.lines import Line2D

        style = DASHED if dashed else SOLID
        self._figure.add_artist(
            Line2D(xs, ys, color=colour(ink), linewidth=width, linestyle=style, transform=self._px)
        )

    def box(self, x: float, y: float, width: float, height: float, ink: str, opacity: float = 1.0) -> None:
        """Fill an area of the sheet."""
        from matplotlib.patches import Rectangle

        self._figure.add_artist(
            Rectangle(
                (x, y), width, height, color=colour(ink), alpha=opacity, linewidth=0, transform=self._px
            )
        )

    def paragraph(self, x: float, y: float, text: str, ink: str = "--ink", *, most: int = 2) -> float:
        """Write a text in lines as wide as there is room; return where the next line begins."""
        for line in wrapped(typeset(text), self.layout.width - x, most):
            self.write(x, y + 9, line, ink=ink)
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
                self.write(110, y + 9, row.size, "right", row.colour, bold=True)
                self.write(122, y + 9, cut(row.name, row.after, self.layout.width - 122))
                y += LINE + 2
        return y + 4

    def legend(self, entries: Iterable[tuple[str, float, str, bool]], x: float, y: float) -> tuple[float, float]:  # fmt: skip
        """Write colour, opacity, word, and whether it is the first among them, beside each other; return where the last one ends."""
        left = x
        for ink, opacity, word, bold in entries:
            width = 30 + measured(word, "bold" if bold else "normal")
            if x + width > self.layout.width + 12:
                x, y = left, y + LINE + 2
            self.box(x, y + 3, 12, 12, ink, opacity)
            self.write(x + 17, y + 9, word, ink="--ink" if bold else "--muted", bold=bold)
            x += width
        return x, y

    def _finished(self, margin: float = 0.0) -> Figure:
        """The figure, every part of it in its place; with a margin on white, else on nothing."""
        width, height = self.layout.width + 2 * margin, self.height + 2 * margin
        self._figure.set_size_inches(width / _INCH, height / _INCH)
        self._figure.patch.set_visible(margin > 0)
        self._page.clear().translate(margin, margin).scale(1 / _INCH, -1 / _INCH).translate(0, height / _INCH)
        for axes, (left, top, right, bottom) in self._axes:
            corner = (left + margin) / width, 1 - (bottom + margin) / height
            axes.set_position((*corner, (right - left) / width, (bottom - top) / height))
        return self._figure

    def png(self) -> bytes:
        """The picture on white."""
        out = io.BytesIO()
        self._finished(LINE).savefig(
            out, format="png", dpi=2 * _INCH, facecolor="white", metadata={"Software": None}
        )
        return out.getvalue()

    def svg(self, *, alone: bool = False) -> str:
        """The picture as an element of a page, whose colours and letters it takes; or `alone` as a file, on white and without links."""
        from xml.etree.ElementTree import fromstring

        from matplotlib.backends.backend_svg import FigureCanvasSVG

        figure, out = self._finished(), io.StringIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None})  # type: ignore[no-untyped-call]
        shapes = "".join(_elements(fromstring(out.getvalue()), alone=alone))
        width, height, title = self.layout.width, self.height, escape(self.title)
        about = f"<desc>{escape(typeset(self.description))}</desc>"
        if alone:
            corner, wide, high = -LINE, width + 2 * LINE, height + 2 * LINE
            size = f'width="{wide:g}" height="{high:g}"'
            head = f'xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{corner} {corner} {wide:g} {high:g}" {size}'
            about = f'<title>{title}</title>{about}<rect x="{corner}" y="{corner}" {size} fill="white"/>'
        else:
            role = "group" if 'href="' in shapes else "img"
            head = f'class="picture {self.layout.name}" role="{role}" aria-label="{title}" viewBox="0 0 {width:g} {height:g}"'
        font = "sans-serif" if alone else "var(--sans)"
        return (
            f'<svg {head}>{about}<g style="font:{SIZE}px {font};stroke-linejoin:round">{shapes}</g></svg>\n'
        )


class Later:
    """A picture in every layout, which is drawn where a page shows it: other formats have the same section without it."""

    def __init__(self, draw: Callable[[Layout], Sheet | None], *layouts: Layout) -> None:
        self._draw, self._layouts = draw, layouts

    def __html__(self) -> str:
        """As markup of which all text is escaped; '' where there is nothing to draw."""
        with canvas():
            sheets = [self._draw(one) for one in self._layouts]
            return Markup("".join(one.svg() for one in sheets if one))


# From matplotlib's SVG to that of a page.

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_VARIABLE = {value: f"var({name})" for name, value in palette.LIGHT.items()}
_STYLES = {
    "fill", "fill-opacity", "opacity", "stroke", "stroke-dasharray", "stroke-linecap", "stroke-opacity", "stroke-width", "text-anchor"
}  # fmt: skip

_POINTED = ' fill="transparent"'  # nothing to see, and yet there for a pointer
_POINT = re.compile(r"([MLz])\s*(-?[\d.]+)?\s*(-?[\d.]+)?")


def _elements(root: ElementTree.Element, *, alone: bool) -> Iterator[str]:
    """Shapes and texts without ids, metadata, clips and groups; dots as one path; titles and, not `alone`, links as elements."""
    markers = root.iterfind(f".//{_SVG}defs/{_SVG}path")
    radius = {f"#{one.get('id')}": float(one.get("d", "").split()[2]) for one in markers if "C" in one.get("d", "")}  # fmt: skip

    def walk(parent: ElementTree.Element) -> Iterator[str]:
        for one in parent:
            tag = one.tag.removeprefix(_SVG)
            if tag == "g":
                yield from walk(one)
            elif tag == "a":
                target, _, title = one.get(_LINK, "").partition(" ")
                label = f"<title>{escape(title)}</title>"
                (area,) = one
                looks = _style(area, alone=alone).replace(' style="fill:none"', _POINTED)
                shape = f'<path d="{_compact(area.get("d", ""))}"{looks}>{label}</path>'
                if target and not alone:
                    shape = f'<a href="{escape(target)}" aria-label="{escape(title)}">{shape}</a>'
                yield shape
            elif tag == "path":
                yield f'<path d="{_compact(one.get("d", ""))}"{_style(one, alone=alone)}/>'
            elif tag == "text":
                place = f'x="{float(one.get("x", 0)):.1f}" y="{float(one.get("y", 0)):.1f}"'
                yield f"<text {place}{_style(one, alone=alone)}>{escape(one.text or '')}</text>"
        dots = parent.findall(f"{_SVG}use")
        if dots:
            path = "".join(f"M{float(one.get('x', 0)):.1f} {float(one.get('y', 0)):.1f}h0" for one in dots)
            looks = _style(dots[0], alone=alone).replace('"fill', '"stroke').replace(";fill", ";stroke")
            wide = f";stroke-width:{2 * radius[dots[0].get(_LINK, '')]:g};stroke-linecap:round"
            yield f'<path d="{path}"{looks[:-1]}{wide}"/>'

    return walk(root)


def _style(one: ElementTree.Element, *, alone: bool) -> str:
    found = dict(part.split(": ", 1) for part in one.get("style", "").split("; ") if part)
    variables = {} if alone else _VARIABLE
    kept = {key: variables.get(value, value) for key, value in found.items() if key in _STYLES}
    if found.get("font-weight") == "700":
        kept["font-weight"] = "bold"
    if kept.get("text-anchor") == "start":
        del kept["text-anchor"]
    return f' style="{";".join(f"{key}:{value}" for key, value in kept.items())}"' if kept else ""


def _compact(path: str) -> str:
    """A path with one decimal; what goes straight across, up or down says so."""
    out: list[str] = []
    last, start = ("", ""), ("", "")
    for code, *numbers in _POINT.findall(path):
        if code == "z":
            if last == start:  # it closes by itself
                out.pop()
            out.append("z")
            continue
        x, y = place = tuple(f"{float(one):.1f}".removesuffix(".0") for one in numbers)
        if code == "M" or (last[0] != x and last[1] != y):
            out.append(f"{code}{x} {y}")
        elif last != place:
            out.append(f"V{y}" if last[0] == x else f"H{x}")
        last = x, y
        start = last if code == "M" else start
    return "".join(out)


# Areas, and what can be pointed at.

_Place = tuple[float, float]


def box(left: float, right: float, low: float, high: float) -> list[_Place]:
    """The corners of an area of axes."""
    return [(left, low), (right, low), (right, high), (left, high)]


def areas(
    axes: Axes,
    shapes: Sequence[Sequence[_Place]],
    inks: Sequence[tuple[str, float]] = (),
    titles: Iterable[str] = (),
    links: Iterable[str] = (),
    on: str = "",
) -> None:
    """Fill areas of axes over each other with variables of the palette and opacities, without any: with nothing.

    Each may have a title, which a page shows where it is pointed at, and with it a link within the page, '' none. `on`: so that
    nothing shines through.
    """
    from matplotlib.collections import PolyCollection

    fills: Any = [mixed(*one, on) if on else (colour(one[0]), one[1]) for one in inks] or "none"
    urls = [f"{link} {typeset(title)}" for title, link in zip(titles, links, strict=True)]
    found = PolyCollection(shapes, facecolors=fills, edgecolors="none", linewidths=0, urls=urls or None)
    axes.add_collection(found, autolim=False)


def mixed(name: str, part: float, other: str) -> str:
    """A colour between two variables of the palette; a page mixes those of its theme."""
    if part == 1:
        return colour(name)
    both = [[int(colour(one)[at : at + 2], 16) for at in (1, 3, 5)] for one in (name, other)]
    found = "#" + "".join(f"{round(part * a + (1 - part) * b):02x}" for a, b in zip(*both, strict=True))
    share = "calc(100%*var(--pale))" if part == PALE else f"{100 * part:g}%"
    _VARIABLE.setdefault(found, f"color-mix(in srgb,var({name}) {share},var({other}))")
    return found


def rules(axes: Axes, places: Sequence[float], ink: str, width: float, *, dashed: bool = False) -> None:
    """Lines from the foot of axes, 0, to their top, 1."""
    if places:
        xs = [x for at in places for x in (at, at, math.nan)]
        style = DASHED if dashed else SOLID
        axes.plot(xs, [0, 1, math.nan] * len(places), color=ink, linewidth=width, linestyle=style)


# Axes.


def marks(low: float, high: float, most: int, *, log: bool = False) -> list[float]:
    """Round values from low to high, about or (log: 1, 2, 5; 1, 3; or powers of ten) at most so many."""
    from matplotlib.ticker import MaxNLocator

    if not log:
        found = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [float(one) for one in found if low <= one <= high]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    out: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        out = [
            mark for power in powers for factor in factors if low <= (mark := factor * 10.0**power) <= high
        ]
        if len(out) <= most:
            break
    return out[:: math.ceil(len(out) / max(most, 1)) or 1]


def tick(ns: float, scale: units.Scale) -> str:
    """A round time on an axis, without its unit."""
    return f"{ns / scale.factor:,.6g}"


def label(axis: Axis, texts: Mapping[float, str]) -> None:
    """Rule an axis at these values and name them."""
    axis.set_visible(True)
    axis.grid(visible=True)
    axis.set_ticks(list(texts), labels=[typeset(one) for one in texts.values()])


def span(values: Sequence[float]) -> tuple[float, float, bool]:
    """The ends of an axis that holds all values, and whether it goes by powers: where they spread over more than a factor."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if round(low) > 0 and high / low > LOG_FROM:
        return low / 1.1, high * 1.1, True
    room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room, False


def time_axis(axes: Axes, values: Sequence[float], width: float) -> None:
    """Make x an axis of times that holds all values; its unit stands at the last mark, of a log axis at the first. `width`: of the axes, px. One that is cut begins at a mark, with strokes across its foot."""
    low, high, log = span(values)
    if log:
        axes.set_xscale("log")
        axes.xaxis.minorticks_off()
    scale = units.scale_for(values)
    most = int(width / (3 * LINE))
    found = marks(low, high, max(most, 2) if log else min(5, most), log=log)
    if not log and low > 0 and len(found) > 1:
        low = max(2 * found[0] - found[1], 0.0) if found[0] > low else low
        found = list(dict.fromkeys([low, *found]))
        if low > 0:
            axes.text(2 / width, 0, "//", va="bottom", color=colour("--muted"), transform=axes.transAxes)
    axes.set_xlim(low, high)
    unit = f" {scale.unit}" + ", log" * log
    label(axes.xaxis, {at: tick(at, scale) + unit * (at == found[0 if log else -1]) for at in found})


# Texts that fit.


def typeset(text: str) -> str:
    """Micro sign, a narrow space before a percent sign, a true minus and arrow."""
    text = re.sub(r" us\b", " \u00b5s", text).replace(" %", "\u202f%").replace(" -> ", " \u2192 ")
    return re.sub(r"(?<![\w.])-(?=<?\d)", "\u2212", text)


def room(width: float) -> int:
    """How many letters fit into a width."""
    return max(int((width - 6) / measured(ascii_lowercase) * len(ascii_lowercase)), 0)


@cache
def measured(text: str, weight: str = "normal") -> float:
    """Width of a text, px, in the font that pictures are laid out with; those of a page are narrower."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", weight=weight, size=SIZE)
    width, *_ = text_to_path.get_text_width_height_descent(typeset(text), font, ismath=False)
    return float(width)


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
    """The text in at most so many lines of a width, the last one cut. Names with digits and underscores are wider than words."""
    for letters in range(max(room(width), 8), 7, -1):
        lines = textwrap.wrap(text, letters)
        if len(lines) > most:
            rest = " ".join(lines[most - 1 :])
            lines[most - 1 :] = [f"{rest[: letters - 1].rstrip()}\u2026"]
        if all(measured(line) <= width for line in lines):
            break
    return lines
