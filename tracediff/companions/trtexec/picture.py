"""The layers of both engines in their order: a bar a layer, as long as its time, fused layers beside what they replaced.

| number | what it decides | origin |
|-|-|-|
| ROWS, 24 | rows of their own: those that changed most; the others between them are one row | two screens of a telephone |
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tracediff.companions.model import Trtexec, TrtexecLayers, TrtexecRow
from tracediff.report import units
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.report.pictures.style import (
    LINE,
    ROW,
    Layout,
    Sheet,
    areas,
    box,
    cut,
    label,
    marks,
    measured,
    tick,
    typeset,
)

TITLE = "Layers of both engines, in their order"
ROWS = 24
_BAR, _APART = ROW / 2 - 2, 1.5  # height of a bar; what is left free after each layer, px
_NAMES, _SIZES = 0.4, 190.0  # of a wide page: part of it for names, px for times
_ROOM = 0.88  # of the room for names: theirs have more capitals than the mean text
_TITLE = 200  # letters of a name where it is pointed at
_REFORMAT = "reformat"
_NOTABLE = ("fused", "split", "regrouped", "added", "removed")
_WORDS = {"added": "new", "removed": "gone"}
SURE = ("confirmed", "likely")
_NUMBER = re.compile(r"\d+")
# A data type has the colour of its width: what moves to fewer bits is seen at once.
_INKS = {
    _REFORMAT: "--reformat", **dict.fromkeys(("FP64", "INT64", "FP32", "INT32"), "--bits-32"),
    **dict.fromkeys(("FP16", "BF16"), "--bits-16"), **dict.fromkeys(("FP8", "INT8", "UINT8", "BOOL"), "--bits-8"),
    **dict.fromkeys(("FP4", "INT4"), "--bits-4"),
}  # fmt: skip


class Layer(NamedTuple):
    """A part of a bar. kind: data type, or that it is a reformat; '' where the layer info does not say."""

    name: str
    ns: float
    kind: str


class Bars(NamedTuple):
    """A row of the picture. match: what became of the layers, '' where nothing did; sure: whether their time changed beyond noise.

    rows: how many of `Trtexec.rows` it is, like blocks of a model.
    """

    name: str
    match: str
    sides: tuple[list[Layer], list[Layer]]
    sure: bool
    rows: int = 1

    @property
    def times(self) -> list[float]:
        """Of both sides, ns."""
        return [sum(layer.ns for layer in side) for side in self.sides]

    @property
    def delta(self) -> float:
        """Candidate - baseline, ns."""
        before, after = self.times
        return after - before


def blocks(trtexec: Trtexec, names: Sequence[str]) -> list[Bars]:
    """The layers in the order of the engines: those that differ in numbers alone, as in like blocks of a model, are one row.

    names: what each of `trtexec.rows` is called.
    """
    found = trtexec.rows
    alike: dict[tuple[object, ...], list[Bars]] = defaultdict(list)
    for at in _in_order(found):
        one = _bars(found[at], names[at])
        kinds = (tuple(layer.kind for layer in side) for side in one.sides)
        alike[_NUMBER.sub("*", names[at]), one.match, *kinds].append(one)
    return [_block(str(key[0]), every) for key, every in alike.items()]


def rows(trtexec: Trtexec, names: Sequence[str]) -> list[Bars]:
    """The rows of the picture, empty without times on both sides: what changed least is one row between two others."""
    drawn = blocks(trtexec, names)
    if not all(any(one.sides[side] for one in drawn) for side in (0, 1)):
        return []
    most = sorted(drawn, key=lambda one: -abs(one.delta))[:ROWS]
    out: list[Bars] = []
    for own, some in itertools.groupby(drawn, key=lambda one: any(one is each for each in most)):
        every = list(some)
        out += every if own or len(every) == 1 else [_together(every)]
    return out


def _bars(row: TrtexecRow, name: str) -> Bars:
    match = row.match if row.match in _NOTABLE else ""
    one, other = (_layers(side, reformat=row.reformat) for side in (row.baseline, row.candidate))
    return Bars(name, match, (one, other), row.level in SURE)


def _layers(side: TrtexecLayers | None, *, reformat: bool) -> list[Layer]:
    if side is None:
        return []
    of = zip(side.names, side.times_ns, side.each_precision, strict=True)
    return [Layer(name, ns, _REFORMAT if reformat else kind) for name, ns, kind in of if ns is not None]


def _in_order(found: Sequence[TrtexecRow]) -> list[int]:
    """Rows, by their numbers, in the order of the baseline; what the candidate alone has follows the layer before it."""
    ones = sorted((row.baseline.places[0], at) for at, row in enumerate(found) if row.baseline)
    keys = {at: (number, -1) for number, (_, at) in enumerate(ones)}
    others = sorted(
        (place, at) for at, row in enumerate(found) if row.candidate for place in row.candidate.places
    )
    last = -1
    for place, at in others:
        last, _ = keys.setdefault(at, (last, place))
    return sorted(keys, key=keys.__getitem__)


def _block(name: str, every: Sequence[Bars]) -> Bars:
    """Rows of like blocks as one: each layer is the sum of those in its place."""
    first = every[0]
    if len(every) == 1:
        return first
    one, other = (
        [
            Layer(_NUMBER.sub("*", layers[0].name), sum(layer.ns for layer in layers), layers[0].kind)
            for layers in zip(*(each.sides[side] for each in every), strict=True)
        ]
        for side in (0, 1)
    )
    name = say("like_layers", count=f"{len(every)}", name=name)
    return Bars(name, first.match, (one, other), all(each.sure for each in every), len(every))


def _together(every: Sequence[Bars]) -> Bars:
    """Other rows as one: of each kind the sum."""
    sides = []
    for side in (0, 1):
        of: dict[str, list[float]] = defaultdict(list)
        for layer in (layer for each in every for layer in each.sides[side]):
            of[layer.kind].append(layer.ns)
        sides.append([Layer(units.counted(len(each), "layer"), sum(each), kind) for kind, each in of.items()])
    return Bars(say("other_layers", count=f"{len(every)}"), "", (sides[0], sides[1]), sure=False)


def draw(found: Sequence[Bars], layout: Layout) -> Sheet:
    """Lay out the rows: upper bars are the baseline's, lower ones the candidate's."""
    out = Sheet(layout, TITLE)
    kinds = {layer.kind for one in found for side in one.sides for layer in side}
    _, y = out.legend([(_ink(kind), 1.0, kind or "unknown", False) for kind in sorted(kinds)], 0, 0)
    top = out.paragraph(0, y + LINE + 4, say("two_bars"), "--muted") + 4
    head, left, right = ROW, 0.0, layout.width
    if not layout.narrow:
        head, left, right = 0.0, _NAMES * layout.width, layout.width - _SIZES
    high = head + ROW + LINE / 2
    bottom = top + high * len(found)
    axes = out.axes(left, top, right, bottom)
    longest = max(ns for one in found for ns in one.times) or 1.0
    axes.set(xlim=(0, longest), ylim=(bottom - top, 0))
    scale = units.scale_for([longest])
    at = marks(0, longest, 3 if layout.narrow else 5)
    label(axes.xaxis, {ns: tick(ns, scale) + f" {scale.unit}" * (ns == at[-1]) for ns in at})
    apart = _APART * longest / (right - left)
    shapes, inks, titles = [], [], []
    for number, one in enumerate(found):
        y, sizes = high * number, typeset(_sizes(one, scale))
        middle = top + y + ROW / 2
        if layout.narrow:
            out.write(0, middle, cut(one.name, "", _ROOM * layout.width - measured(sizes)))
        else:
            out.write(left - 9, middle, cut(one.name, "", _ROOM * left), "right")
        out.write(layout.width, middle, sizes, "right", _tone(one))
        for side, layers in enumerate(one.sides):
            x, low = 0.0, y + head + side * ROW / 2
            for layer in layers:
                shapes.append(box(x, x + max(layer.ns - apart, layer.ns / 2), low, low + _BAR))
                inks.append((_ink(layer.kind), 1.0))
                titles.append(
                    f"{shorten(layer.name, _TITLE)}: {', '.join(filter(None, (scale.time(layer.ns), layer.kind)))}"
                )
                x += layer.ns
    areas(axes, shapes, inks, titles, [""] * len(shapes))
    out.height = round(bottom + ROW, 1)
    out.description = "; ".join(f"{one.name}: {_sizes(one, scale)}" for one in found)
    return out


def _ink(kind: str) -> str:
    return _INKS.get(kind, "--total")


def _tone(one: Bars) -> str:
    return "--muted" if not one.sure else "--slower" if one.delta > 0 else "--faster"


def _sizes(one: Bars, scale: units.Scale) -> str:
    """Its times, and what became of it."""
    before, after = one.times
    both = scale.both(before, after) if before and after else scale.time(max(before, after))
    return ", ".join(filter(None, (_WORDS.get(one.match, one.match), both)))
