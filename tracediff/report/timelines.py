"""Timelines of single steps as data: both sides' lanes on one axis, positions in the units of the drawing.

The drawing is stretched to the width of the page, so only x is a position; heights are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from tracediff.accounting.intervals import Ints
from tracediff.model import Crop, CropSide, Finding, Result, Stratum, Timeline, TimelineLane, TimelineStep
from tracediff.model.common import ABSENT
from tracediff.model.show import Show
from tracediff.report import names, palette, units
from tracediff.report.escape import shorten
from tracediff.report.pictures.style import tick
from tracediff.steps.sample import merge

WIDTH = 8_000  # of the drawing; a pixel of a page is some eight of them
_THINNEST = 6  # an event narrower than this is drawn this wide
_MOST_EVENTS = 4_800  # that can be pointed at, in all figures together
_MOST_A_LANE = (400, 300, 250, 200, 160, 125, 100, 80, 60)  # the first with which they keep to that
_OPEN = 2  # times as many of a lane of the figure that a page opens with
# Of the axis: what is shorter shares one thing to point at with its neighbours.
_CELLS = (2000, 1000, 500, 250, 125, 60)
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
    paint: list[Paint] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
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
    """One step, both sides above each other. `ticks`: (percent of the axis, text); length: of the axis, ns."""

    timeline: Timeline
    number: int
    stratum: Stratum
    sides: list[SideDrawing]
    ticks: list[tuple[float, str]]
    unit: str
    scale: units.Scale
    height: int
    merged_below_ns: int
    groups: list[str]  # drawn, in the order of the legend
    texts: list[str]  # of the events
    length: int

    @property
    def first(self) -> bool:
        """Whether a page opens with it."""
        return not self.number

    @property
    def cut(self) -> bool:
        """Whether an event goes on after its step."""
        return any(row.cut for one in self.sides for row in one.rows)

    @property
    def steps(self) -> list[TimelineStep]:
        """The steps that there are."""
        return [one.step for one in self.sides if one.step is not None]


_Sides = list[tuple[str, TimelineStep | None]]


def build(result: Result | Show) -> list[Figure]:
    """Lay out every timeline of the result."""
    if result.timelines is None:
        return []
    drawn = [one for one in result.timelines.steps if one.stratum < len(result.strata)]
    of_sides: list[_Sides] = [
        [("step", one.baseline)]
        if one.candidate is ABSENT
        else [("baseline", one.baseline), ("candidate", one.candidate)]
        for one in drawn
    ]
    many = [
        lane.start.count(" ") + 1
        for sides in of_sides
        for _, step in sides
        if step is not None
        for lane in step.lanes
    ]
    fitting = (most for most in _MOST_A_LANE if sum(min(size, most) for size in many) <= _MOST_EVENTS)
    most = next(fitting, _MOST_A_LANE[-1])
    texts = [names.short(name) for name in result.timelines.names]
    return [
        _figure(one, number, result.strata[one.stratum], sides, texts, most * (1 if number else _OPEN))
        for number, (one, sides) in enumerate(zip(drawn, of_sides, strict=True))
    ]


def _figure(
    timeline: Timeline, number: int, stratum: Stratum, given: _Sides, texts: list[str], most: int
) -> Figure:
    steps = [step for _, step in given if step is not None]
    length = max(step.period_ns for step in steps)
    merged = max(step.merged_below_ns for step in steps)
    lanes = _in_order((lane.kind, lane.name) for step in steps for lane in step.lanes)
    sides: list[SideDrawing] = []
    said: dict[str, int] = {}
    y = 0
    for side, step in given:
        top, rows = y, []
        y += _HEAD
        own = {(lane.kind, lane.name): lane for lane in step.lanes} if step is not None else {}
        for kind, name in lanes:
            height = _HEIGHTS.get(kind, 10)
            row = Row(kind, name, y, height)
            if step is not None and (kind, name) in own:
                row, below = _with_events(row, own[kind, name], length, step.period_ns, most, said, texts)
                merged = max(merged, below)
            rows.append(row)
            y += height + _GAP
        end = 100.0 if step is None else round(100 * step.period_ns / length, 3)
        sides.append(SideDrawing(side, step, top, rows, end, y - top - _GAP))
        y += _BETWEEN
    scale = units.scale_for([length])
    return Figure(
        timeline, number, stratum, sides, _ticks(0, length, 8, 0.985), units.symbol(scale), scale, y - _BETWEEN,
        merged, _groups(row for one in sides for row in one.rows), list(said), length,
    )  # fmt: skip


def _in_order(lanes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Kinds and names of lanes, each once: by kind, else as they came."""
    return sorted(
        dict.fromkeys(lanes), key=lambda lane: _ORDER.index(lane[0]) if lane[0] in _ORDER else len(_ORDER)
    )


def _ticks(anchor: int, length: int, wanted: int, last: float) -> list[tuple[float, str]]:
    """Marks of an axis whose 0 is at `anchor`, ns from its begin; none beyond a part `last` of it."""
    scale = units.scale_for([length])
    marks = [
        mark for mark in nice_ticks(-anchor, length - anchor, wanted) if 0 <= mark + anchor <= last * length
    ]
    return [(round(100 * (mark + anchor) / length, 3), tick(mark, scale)) for mark in marks]


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Choose round values between the ends, about as many as wanted."""
    if high <= low:
        return [low]
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _groups(rows: Iterable[Row]) -> list[str]:
    """What is drawn, in the order of the legend."""
    seen = {paint.group for row in rows for paint in row.paint}
    return [key for key in dict.fromkeys((*WORDS, *palette.BY_KEY)) if key in seen]


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


@dataclass(frozen=True)
class _Columns:
    """The events of a lane as arrays; ns."""

    start: Ints
    end: Ints
    what: Ints
    group: Ints
    inside: Ints  # of each: how much of it its events cover
    count: Ints
    row: Ints


def _columns(lane: TimelineLane) -> _Columns:
    start = numbers(lane.start)
    end = start + numbers(lane.length)
    return _Columns(
        start, end, numbers(lane.what), numbers(lane.group),
        numbers(lane.inside) if lane.inside else end - start,
        numbers(lane.count) if lane.count else np.ones(len(start), np.int64),
        numbers(lane.row) if lane.row else np.full(len(start), -1, np.int64),
    )  # fmt: skip


def _with_events(
    drawn: Row,
    lane: TimelineLane,
    length: int,
    period: int,
    most: int,
    said: dict[str, int],
    texts: list[str],
) -> tuple[Row, int]:
    """A row with what is painted, what can be pointed at and names on long events; and below what length events are one to point at.

    length: of the axis; period: where the step ends on it, ns. said: the texts of the figure so far.
    """
    of = _columns(lane)
    many = len(of.start)
    below, parts = 0, [np.array([one]) for one in range(many)]
    if many > most:
        for cells in _CELLS:
            below = max(math.ceil(length / cells), 1)
            first, owner = merge(of.start, of.end, np.zeros(many, np.int64), below)
            if len(first) <= most:
                break
        order = np.argsort(owner, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(owner, minlength=len(first)))[:-1])
    events, labels = [], []
    for part in parts:
        begin, stop = int(of.start[part[0]]), int(of.end[part].max())
        name = shorten(texts[int(of.what[part[np.argmax(of.inside[part])]])], _MAX_NAME)
        count = int(of.count[part].sum())
        text = said.setdefault(_text(of, part, count, name, texts), len(said))
        rows = np.unique(of.row[part])
        row = int(rows[0]) if len(rows) == 1 else -1
        events.append(Event(begin, stop - begin, text, row, count, int(of.inside[part].sum())))
        if lane.kind in ("range", "gc") and stop - begin >= _LABEL_FROM * length and len(part) == 1:
            labels.append(_label(begin, stop, length, name))
    thinnest = 1 if lane.kind == "idle" or many > _DENSE else _THINNEST
    cut = lane.kind != "idle" and bool((of.end >= period).any())
    paint = _paint(of, texts, WIDTH, length, period, thinnest)
    return replace(drawn, paint=paint, labels=labels, events=events, cut=cut), below


def _text(of: _Columns, part: Ints, count: int, longest: str, texts: list[str]) -> str:
    """What is said of an event, or of neighbours: what they are, those with the most time first, and the longest."""
    sums: dict[int, int] = {}
    for group, ns in zip(of.group[part].tolist(), of.inside[part].tolist(), strict=True):
        sums[group] = sums.get(group, 0) + ns
    words = [_word(texts[one]) for one in sorted(sums, key=lambda one: (-sums[one], one))]
    more = longest not in ("", words[0])
    if count > 1:
        return " and ".join(words[:2]) + (f", longest {longest}" if more else "")
    return f"{words[0]}: {longest}" if more else words[0]


def _word(key: str) -> str:
    return WORDS.get(key) or palette.category(key).label


def _label(begin: int, stop: int, length: int, text: str) -> Label:
    return Label(round(100 * begin / length, 2), round(100 * (stop - begin) / length, 2), text)


def _paint(of: _Columns, texts: list[str], width: int, length: int, period: int, thinnest: int) -> list[Paint]:  # fmt: skip
    """Every event as a stroke of a path, a path a group; `width` units for `length` ns.

    Strokes keep their true width, so that a dense lane shows each group's share: merged events of one place are drawn
    one after another. One thinner than allowed is widened as far as the lane is free behind it; none goes beyond the end of the step.
    """
    merged = of.count > 1
    end = np.where(merged, of.start + of.inside, of.end)
    last = max(min(-(-width * period // length), width), 1)
    left = np.minimum((2 * width * of.start + length) // (2 * length), last - 1)
    right = np.maximum((2 * width * end + length) // (2 * length), left + 1)
    following = np.append(left[1:], last)
    widened = np.maximum(right, np.minimum(left + thinnest, following))
    right = np.minimum(np.where(merged, right, widened), last)
    strokes: dict[int, list[list[int]]] = {}
    reach = 0
    for x, stop, pushed, one in zip(
        left.tolist(), right.tolist(), merged.tolist(), of.group.tolist(), strict=True
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
_CROP_WIDTH = 1200


@dataclass(frozen=True)
class CropPart:
    """One side of a crop. marks: where the cause is; outside: what is not of this step; both (left, width) in percent."""

    side: str
    crop: CropSide
    y: int
    height: int
    rows: list[Row]
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
    parts: list[CropPart] = []
    y = 0
    for name, side in sides:
        rows, top = [], y
        y += _CROP_HEAD
        own = {(lane.kind, lane.name): lane for lane in side.lanes}
        # its own streams, and of everything else what either side has
        shared = ((lane.kind, lane.name) for _, other in sides for lane in other.lanes if lane.kind != "gpu" or other is side)  # fmt: skip
        for lane in _in_order(shared):
            paint, labels = _crop_lane(own[lane], found.length_ns, texts) if lane in own else ([], [])
            rows.append(Row(*lane, y, _CROP_LANE, paint, labels))
            y += _CROP_LANE + _CROP_GAP
        longest = max(side.lengths, default=0)
        marks = [_part(start, length, found) for start, length in zip(side.starts, side.lengths, strict=True)]
        mark = units.scale_for([longest]).time(longest) if longest else ""
        parts.append(CropPart(name, side, top, y - top, rows, marks, mark, _outside(side, found)))
        y += _CROP_GAP * 3
    groups = [one for one in _groups(row for part in parts for row in part.rows) if one not in _SAID]
    edge = "end" if found.at_end else "start"
    of = "start of the step" if found.anchor < 0 else f"{edge} of {shorten(texts[found.anchor], _MAX_NAME)}"
    return CropDrawing(
        parts, _ticks(found.anchor_ns, found.length_ns, 6, 0.97), units.symbol(units.scale_for([found.length_ns])),
        round(100 * found.anchor_ns / found.length_ns, 2), f"the {of}", y - _CROP_GAP * 3, groups,
    )  # fmt: skip


def _part(start: int, length: int, whole: Crop) -> tuple[float, float]:
    return round(100 * start / whole.length_ns, 2), max(round(100 * length / whole.length_ns, 2), 0.25)


def _outside(side: CropSide, whole: Crop) -> list[tuple[float, float]]:
    """What of the crop lies before the start or after the end of the step."""
    before = side.step_start_ns - side.start_ns
    after = side.start_ns + whole.length_ns - side.step_end_ns
    out = [(0, before), (whole.length_ns - after, after)]
    return [_part(start, length, whole) for start, length in out if length > 0]


def _crop_lane(lane: TimelineLane, length: int, texts: list[str]) -> tuple[list[Paint], list[Label]]:
    of = _columns(lane)
    long = np.flatnonzero((of.count == 1) & (of.end - of.start >= _CROP_LABEL * length)).tolist()
    labels = []
    for at in long:
        name, group = texts[int(of.what[at])], texts[int(of.group[at])]
        if lane.kind == "idle":  # by its cause, then where
            name = f"{_word(group)}, {name}" if name else _word(group)
        labels.append(_label(int(of.start[at]), int(of.end[at]), length, shorten(name, _CROP_NAME)))
    return _paint(of, texts, _CROP_WIDTH, length, length, 1), labels
