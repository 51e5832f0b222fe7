"""Timelines of single steps as data: both sides' lanes on one axis, positions in the units of the drawing.

The drawing is stretched to the width of the page, so only x is a position; heights are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tracediff.accounting.intervals import Ints
from tracediff.model import Crop, CropSide, Finding, Result, Stratum, Timeline, TimelineLane, TimelineStep
from tracediff.model.common import ABSENT
from tracediff.model.show import Show
from tracediff.report import names, palette, units
from tracediff.report.drawing import nice_ticks
from tracediff.report.escape import shorten
from tracediff.steps.sample import merge

WIDTH = 8_000  # of the drawing; a pixel of a page is some eight of them
_THINNEST = 6  # an event narrower than this is drawn this wide
_MOST_EVENTS = 4_800  # that can be pointed at, in all figures together
_MOST_A_LANE = (400, 300, 250, 200, 160, 125, 100, 80, 60)  # the first with which they keep to that
_OPEN = 2  # times as many of a lane of a figure that is open
_CELLS = (
    2000,
    1000,
    500,
    250,
    125,
    60,
)  # of the axis: what is shorter shares one thing to point at with its neighbours
_DENSE = 200  # events of a lane above which none is widened; those of idle time never are: their widths are read as shares
_LABEL_FROM = 0.05  # of the axis: a range this long carries its name
_MAX_NAME = 64
_HEIGHTS = {"gpu": 18, "idle": 13, "api": 11, "range": 13, "gil": 10, "holders": 10, "gc": 13}
_ORDER = tuple(_HEIGHTS)
_GAP, _HEAD, _BETWEEN = 3, 20, 12  # between lanes, above a side's lanes, between the sides
WORDS = {
    "gemm": "GEMM",
    "attention": "attention",
    "compute": "other compute",
    "comm": "communication",
    "memcpy": "copy",
    "range": "range",
    "gil_hold": "holds the GIL",
    "gil_wait": "waits for the GIL",
    "gil_other": "another thread holds the GIL",
    "gc": "Python GC",
}


@dataclass(frozen=True)
class Paint:
    """All events of one colour of a lane: horizontal strokes as wide as the lane is high."""

    group: str
    path: str


@dataclass(frozen=True)
class Event:
    """One thing that can be pointed at: an event, or neighbours too short for that (`many`), which cover so many ns.

    begin, length: ns of the step. text: index into the texts of the figure. row: index of its kernel row, -1 none.
    """

    begin: int
    length: int
    text: int
    row: int
    many: int
    covered: int


@dataclass(frozen=True)
class Label:
    """A name on a long event, in percent of the axis."""

    left: float
    width: float
    text: str


@dataclass(frozen=True)
class Row:
    """One lane: `y` from the top of the drawing, px."""

    kind: str
    name: str
    y: int
    height: int
    paint: list[Paint]
    events: list[Event]
    labels: list[Label]
    cut: bool = False  # an event goes on after the step

    @property
    def packed(self) -> str:
        """The events for the script: begin (after that of the event before), length, text, row + 1, many, covered in base 36.

        What follows the last number that says something is left out: 0 of the row, 1 event, all of the length covered.
        """
        out, before = [], 0
        for one in self.events:
            tail = [
                one.row + 1,
                one.many if one.many > 1 else 0,
                one.covered if one.covered != one.length else 0,
            ]
            while tail and not tail[-1]:
                tail.pop()
            out.append(",".join(map(_base36, [one.begin - before, one.length, one.text, *tail])))
            before = one.begin
        return " ".join(out)


@dataclass(frozen=True)
class SideDrawing:
    """One side's lanes, or why there are none."""

    side: str
    step: TimelineStep | None
    y: int
    rows: list[Row]
    end: float  # of the step, percent of the axis
    height: int


@dataclass(frozen=True)
class Figure:
    """One step, both sides above each other. `ticks`: (percent of the axis, text)."""

    timeline: Timeline
    number: int
    stratum: Stratum
    sides: list[SideDrawing]
    ticks: list[tuple[float, str]]
    unit: str
    scale: units.Scale
    height: int
    merged_below_ns: int
    groups: list[str] = field(default_factory=list)  # drawn, in the order of the legend
    texts: list[str] = field(default_factory=list)  # of the events
    first: bool = True  # the one that a page opens with
    length: int = 0  # of the axis, ns

    @property
    def cut(self) -> bool:
        """Whether an event goes on after its step."""
        return any(row.cut for one in self.sides for row in one.rows)

    @property
    def steps(self) -> list[TimelineStep]:
        """The steps that there are."""
        return [one.step for one in self.sides if one.step is not None]


def build(result: Result | Show) -> list[Figure]:
    """Lay out every timeline of the result."""
    if result.timelines is None:
        return []
    sides: list[_Given] = [
        (
            one,
            result.strata[one.stratum],
            [("step", one.baseline)]
            if one.candidate is ABSENT
            else [("baseline", one.baseline), ("candidate", one.candidate)],
        )
        for one in result.timelines.steps
        if one.stratum < len(result.strata)
    ]
    return _build(sides, result.timelines.names)


_Given = tuple[Timeline, Stratum, list[tuple[str, TimelineStep | None]]]


def _build(given: Sequence[_Given], known: Sequence[str]) -> list[Figure]:
    many = [
        lane.start.count(" ") + 1
        for _, _, sides in given
        for _, step in sides
        if step is not None
        for lane in step.lanes
    ]
    fitting = (most for most in _MOST_A_LANE if sum(min(size, most) for size in many) <= _MOST_EVENTS)
    most = next(fitting, _MOST_A_LANE[-1])
    texts = [names.short(name) for name in known]
    return [
        replace(_figure(one, number, texts, most * (1 if number else _OPEN)), first=not number)
        for number, one in enumerate(given)
    ]


def _figure(drawn: _Given, number: int, texts: list[str], most: int) -> Figure:
    timeline, stratum, given = drawn
    steps = [step for _, step in given if step is not None]
    length = max(step.period_ns for step in steps)
    lanes = _lanes(steps)
    scale = units.scale_for([length])
    sides: list[SideDrawing] = []
    y, merged = 0, max(step.merged_below_ns for step in steps)
    said: dict[str, int] = {}
    for side, step in given:
        top, rows = y, []
        y += _HEAD
        own = {(lane.kind, lane.name): lane for lane in step.lanes} if step is not None else {}
        period = step.period_ns if step is not None else length
        for kind, name in lanes:
            height = _HEIGHTS.get(kind, 10)
            found = own.get((kind, name))
            if found is None:
                rows.append(Row(kind, name, y, height, [], [], []))
            else:
                paint, events, labels, below = _events(found, (length, period), most, said, texts)
                ends = numbers(found.start) + numbers(found.length)
                cut = kind != "idle" and bool((ends >= period).any())
                rows.append(Row(kind, name, y, height, paint, events, labels, cut))
                merged = max(merged, below)
            y += height + _GAP
        end = 100.0 if step is None else round(100 * step.period_ns / length, 3)
        sides.append(SideDrawing(side, step, top, rows, end, y - top - _GAP))
        y += _BETWEEN
    seen = {paint.group for side in sides for row in side.rows for paint in row.paint}
    ticks = [
        (round(100 * mark / length, 3), f"{mark / scale.factor:,.6g}")
        for mark in nice_ticks(0, length, 8)
        if mark <= 0.985 * length
    ]
    legend = [key for key in dict.fromkeys((*WORDS, *palette.BY_KEY)) if key in seen]
    return Figure(
        timeline, number, stratum, sides, ticks, units.symbol(scale), scale,
        y - _BETWEEN, merged, legend, list(said), length=length,
    )  # fmt: skip


def _lanes(steps: list[TimelineStep]) -> list[tuple[str, str]]:
    """The lanes of all sides in a fixed order: the same rows on both."""
    seen: dict[tuple[str, str], None] = {}
    for step in steps:
        for lane in step.lanes:
            seen.setdefault((lane.kind, lane.name))
    known = list(seen)
    return sorted(
        known,
        key=lambda lane: (_ORDER.index(lane[0]) if lane[0] in _ORDER else len(_ORDER), known.index(lane)),
    )


def numbers(column: str) -> Ints:
    """A column of a lane as an array."""
    return np.array(column.split(), np.int64)


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    out = ""
    while number:
        number, rest = divmod(number, 36)
        out = digits[rest] + out
    return out or "0"


def _events(
    lane: TimelineLane, axis: tuple[int, int], most: int, said: dict[str, int], texts: list[str]
) -> tuple[list[Paint], list[Event], list[Label], int]:
    """What is painted, what can be pointed at, names on long events, and below what length events are one to point at.

    axis: its length and where the step ends on it, ns. said: the texts of the figure so far.
    """
    length, period = axis
    start, what, group = (numbers(column) for column in (lane.start, lane.what, lane.group))
    end = start + numbers(lane.length)
    inside = numbers(lane.inside) if lane.inside else end - start
    count = numbers(lane.count) if lane.count else np.ones(len(start), np.int64)
    row = numbers(lane.row) if lane.row else np.full(len(start), -1, np.int64)
    below, parts = 0, [np.array([one]) for one in range(len(start))]
    if len(start) > most:
        for cells in _CELLS:
            below = max(math.ceil(length / cells), 1)
            first, owner = merge(start, end, np.zeros(len(start), np.int64), below)
            if len(first) <= most:
                break
        order = np.argsort(owner, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(owner, minlength=len(first)))[:-1])
    events, labels = [], []
    for part in parts:
        begin, stop = int(start[part[0]]), int(end[part].max())
        sums: dict[int, int] = {}
        for one, ns in zip(group[part].tolist(), inside[part].tolist(), strict=True):
            sums[one] = sums.get(one, 0) + ns
        longest = int(part[np.argmax(inside[part])])
        name = shorten(texts[int(what[longest])], _MAX_NAME)
        covered, many = int(inside[part].sum()), int(count[part].sum())
        words = [_word(texts[one]) for one in sorted(sums, key=lambda one: (-sums[one], one))]
        if many > 1:
            longest_one = "" if name in ("", words[0]) else f", longest {name}"
            text = f"{' and '.join(words[:2])}{longest_one}"
        else:
            text = words[0] if name in ("", words[0]) else f"{words[0]}: {name}"
        rows = np.unique(row[part])
        events.append(
            Event(
                begin, stop - begin, said.setdefault(text, len(said)), int(rows[0]) if len(rows) == 1 else -1,
                many, covered,
            )
        )  # fmt: skip
        if lane.kind in ("range", "gc") and stop - begin >= _LABEL_FROM * length and len(part) == 1:
            labels.append(
                Label(round(100 * begin / length, 2), round(100 * (stop - begin) / length, 2), name)
            )
    thinnest = 1 if lane.kind == "idle" or len(start) > _DENSE else _THINNEST
    shown = np.where(count > 1, start + inside, end)
    painted = _paint(start, shown, count > 1, group, (length, thinnest, period), texts)
    return painted, events, labels, below


def _word(key: str) -> str:
    return WORDS.get(key) or palette.category(key).label


def _paint(
    start: Ints,
    end: Ints,
    merged: npt.NDArray[np.bool_],
    group: Ints,
    axis: tuple[int, int, int],
    texts: list[str],
) -> list[Paint]:
    """Every event as a stroke of a path, a path a group.

    Strokes keep their true width, so that a dense lane shows each group's share: merged events of one place are drawn
    one after another. One thinner than allowed is widened as far as the lane is free behind it; none goes beyond the end of the step.
    `axis`: ns, thinnest, ns of the step.
    """
    length, thinnest, period = axis
    last = max(min(-(-WIDTH * period // length), WIDTH), 1)
    left = np.minimum((2 * WIDTH * start + length) // (2 * length), last - 1)
    right = np.maximum((2 * WIDTH * end + length) // (2 * length), left + 1)
    following = np.append(left[1:], last)
    widened = np.minimum(np.maximum(right, np.minimum(left + thinnest, following)), last)
    right = np.where(merged, np.minimum(right, last), widened)
    strokes: dict[int, list[list[int]]] = {}
    reach = 0
    for x, stop, pushed, one in zip(
        left.tolist(), right.tolist(), merged.tolist(), group.tolist(), strict=True
    ):
        if pushed and x < reach:
            x, stop = reach, min(stop + reach - x, last)
        reach = max(reach, stop)
        own = strokes.setdefault(one, [])
        if own and x <= own[-1][1]:  # touches the stroke before it
            own[-1][1] = max(own[-1][1], stop)
        elif x < stop:
            own.append([x, stop])
    return [
        Paint(texts[one], "".join(f"M{x} 0h{stop - x}" for x, stop in own))
        for one, own in sorted(strokes.items())
    ]


# The crop at a cause: a static picture of the same lanes, small enough to stand beside it.

_CROP_LANE, _CROP_GAP, _CROP_HEAD = 15, 2, 18
_CROP_LABEL = 0.09  # of the width: what is this long carries its name
_CROP_NAME = 40
_SAID = {"range", "gil_hold", "gil_other"}  # by the names of their lanes
_CROP_CELLS = 1200  # of the width, on which strokes begin and end


@dataclass(frozen=True)
class CropRow:
    """One lane of a crop, of the side's top `y` px."""

    kind: str
    name: str
    y: int
    paint: list[Paint]
    labels: list[Label]


@dataclass(frozen=True)
class CropPart:
    """One side of a crop. marks: where the cause is; outside: what is not of this step; both (left, width) in percent."""

    side: str
    crop: CropSide
    y: int
    height: int
    rows: list[CropRow]
    marks: list[tuple[float, float]]
    mark: str  # how long the longest is
    outside: list[tuple[float, float]]


@dataclass(frozen=True)
class CropDrawing:
    """A crop as it is drawn; `ticks`: (percent of the width, text), from what is aligned, which is at `anchor` percent."""

    parts: list[CropPart]
    ticks: list[tuple[float, str]]
    unit: str
    anchor: float
    aligned: str
    height: int
    groups: list[str]


def crop(result: Result, finding: Finding) -> CropDrawing | None:
    """The drawing of a finding's crop; None without one."""
    found = finding.evidence.crop
    if found is None or result.timelines is None:
        return None
    texts = [names.short(name) for name in result.timelines.names]
    given = [("baseline", found.baseline), ("candidate", found.candidate)]
    sides = [(name, side) for name, side in given if side is not None]
    scale = units.scale_for([found.length_ns])
    parts: list[CropPart] = []
    y = 0
    for name, side in sides:
        rows, top = [], y
        y += _CROP_HEAD
        for kind, title in _crop_lanes(side, [other for _, other in sides]):
            lane = next((one for one in side.lanes if (one.kind, one.name) == (kind, title)), None)
            rows.append(
                CropRow(kind, title, y, *(_crop_lane(lane, found.length_ns, texts) if lane else ([], [])))
            )
            y += _CROP_LANE + _CROP_GAP
        longest = max(side.lengths, default=0)
        parts.append(
            CropPart(
                name, side, top, y - top, rows,
                [_part(start, length, found.length_ns) for start, length in zip(side.starts, side.lengths, strict=True)],
                units.scale_for([longest]).time(longest) if longest else "", _outside(side, found),
            )
        )  # fmt: skip
        y += _CROP_GAP * 3
    groups = {paint.group for part in parts for row in part.rows for paint in row.paint}
    at = found.anchor_ns
    ticks = [
        (round(100 * (mark + at) / found.length_ns, 2), f"{mark / scale.factor:,.6g}")
        for mark in nice_ticks(-at, found.length_ns - at, 6)
        if 0 <= mark + at <= 0.97 * found.length_ns
    ]
    edge = "end" if found.at_end else "start"
    return CropDrawing(
        parts, ticks, units.symbol(scale), round(100 * at / found.length_ns, 2),
        "the start of the step" if found.anchor < 0 else f"the {edge} of {shorten(texts[found.anchor], _MAX_NAME)}",
        y - _CROP_GAP * 3, [key for key in dict.fromkeys((*WORDS, *palette.BY_KEY)) if key in groups - _SAID],
    )  # fmt: skip


def _crop_lanes(side: CropSide, sides: list[CropSide]) -> list[tuple[str, str]]:
    """The rows of a side: its own streams, and of everything else what either side has."""
    seen = dict.fromkeys(
        (lane.kind, lane.name) for one in sides for lane in one.lanes if lane.kind != "gpu" or one is side
    )
    return sorted(seen, key=lambda one: _ORDER.index(one[0]) if one[0] in _ORDER else len(_ORDER))


def _part(start: int, length: int, whole: int) -> tuple[float, float]:
    return round(100 * start / whole, 2), max(round(100 * length / whole, 2), 0.25)


def _outside(side: CropSide, whole: Crop) -> list[tuple[float, float]]:
    """What of the crop lies before the start or after the end of the step."""
    before = side.step_start_ns - side.start_ns
    after = side.start_ns + whole.length_ns - side.step_end_ns
    out = [(0, before)] if before > 0 else []
    if after > 0:
        out.append((whole.length_ns - after, after))
    return [_part(start, length, whole.length_ns) for start, length in out]


def _crop_lane(lane: TimelineLane, length: int, texts: list[str]) -> tuple[list[Paint], list[Label]]:
    start, what, group = (numbers(column) for column in (lane.start, lane.what, lane.group))
    end = start + numbers(lane.length)
    count = numbers(lane.count) if lane.count else np.ones(len(start), np.int64)
    cells = np.array([start, end]) * _CROP_CELLS // length
    low, high = cells[0], np.maximum(cells[1], cells[0] + 1)
    strokes: dict[int, list[tuple[int, int]]] = {}
    for x, stop, one in zip(low.tolist(), high.tolist(), group.tolist(), strict=True):
        strokes.setdefault(one, []).append((x, stop - x))
    paint = [
        Paint(texts[one], "".join(f"M{x} 0h{width}" for x, width in own))
        for one, own in sorted(strokes.items())
    ]
    labels = [
        Label(
            round(100 * begin / length, 2),
            round(100 * (stop - begin) / length, 2),
            shorten(_crop_text(texts[name], texts[of], lane.kind), _CROP_NAME),
        )
        for begin, stop, name, of, many in zip(
            start.tolist(), end.tolist(), what.tolist(), group.tolist(), count.tolist(), strict=True
        )
        if many == 1 and stop - begin >= _CROP_LABEL * length
    ]
    return paint, labels


def _crop_text(name: str, group: str, kind: str) -> str:
    """What an event is called: idle time by its cause, then where."""
    if kind != "idle":
        return name
    return f"{_word(group)}, {name}" if name else _word(group)
