"""Steps event by event, and the parts of them that show a cause, as plain JSON: templates/lanes.js draws them.

`{texts, groups, beyond, events, figures, crops}`. groups: key -> [name, colour as a variable of the page]; beyond: the same of what is hatched. events: [text, group, row of the
kernel table or -1], each once. A figure or a crop is `{length, scale, sides}`, a side `{side, lanes, ...}`, a lane `{kind, name, of,
after, length, event}`: of each event the time from the end of the one before, its own, both in tens of ns, and its index into events. Where
neighbours of one group are one event, `count` says of all how many they are, and `covered` of those of several how much they fill.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from tracediff.accounting.intervals import union
from tracediff.accounting.reduction import Lane
from tracediff.arrays import Ints
from tracediff.model import Crop, Result, Timeline, TimelineLane
from tracediff.model.common import ABSENT
from tracediff.model.show import Show
from tracediff.report import names, palette, units
from tracediff.report.amounts import NAME
from tracediff.report.escape import shorten
from tracediff.stats.rules import NEARLY
from tracediff.steps.sample import merge_lane

_UNIT = 10  # ns of a number
_MOST_EVENTS = 5_000  # of a figure, beyond which it is drawn in so many cells of its axis
_CELLS = 250
_SEEN = 0.003  # of the width of a drawing, about 3 px: what is shorter cannot be told
_TOUCH = 0.001  # about 1 px: between frames that are further apart the GPU is seen to be idle
_ORDER = ("gpu", "idle", "api", "range", "gil", "holders", "gc")
GROUPS = {
    "gemm": ("GEMM", "--cat-compute"),
    "attention": ("attention", "--tl-attention"),
    "compute": ("other compute", "--tl-compute"),
    "comm": ("communication", "--cat-comm"),
    "memcpy": ("copy", "--cat-memcpy"),
    "range": ("range", "--tl-range"),
    "gil_hold": ("holds the GIL", "--tl-hold"),
    "gil_wait": ("waits for the GIL", "--cat-gil-wait"),
    "gil_other": ("another thread holds the GIL", "--tl-other"),
    "gc": ("Python GC", "--cat-gc"),
}
# What is hatched.
BEYOND = ("beyond the step; \u203a: goes on in the next", "--tl-beyond")


def data(result: Result | Show) -> str:
    """Everything that the page draws event by event, safe within a script element; '' where there is nothing."""
    if result.timelines is None:
        return ""
    page = _Page(result.timelines.names)
    figures = [page.figure(one) for one in drawn(result)]
    findings = result.findings if isinstance(result, Result) else []
    crops = {str(one.rank): page.crop(one.evidence.crop) for one in findings if one.evidence.crop}
    if not figures and not crops:
        return ""
    groups = {key: page.groups[key] for key in [*GROUPS, *palette.BY_KEY, *page.groups] if key in page.groups}
    found = {"groups": groups, "beyond": BEYOND, "texts": page.texts, "events": list(page.events), "figures": figures, "crops": crops}  # fmt: skip
    return msgspec.json.encode(found).decode().replace("<", "\\u003c")


def drawn(result: Result | Show) -> list[Timeline]:
    """The steps that are drawn, in their order."""
    steps = result.timelines.steps if result.timelines else []
    return [one for one in steps if one.stratum < len(result.strata)]


class _Page:
    """What the figures of a page share."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._names = texts
        self.texts = [shorten(names.short(one), NAME) for one in texts]
        self.groups: dict[str, tuple[str, str]] = {}
        self.events: dict[tuple[int, str, int], int] = {}

    def figure(self, timeline: Timeline) -> dict[str, Any]:
        """A step of both sides, or of the one that there is."""
        two = timeline.candidate is not ABSENT
        given = [("baseline" if two else "step", timeline.baseline), ("candidate", timeline.candidate)]
        sides = [(side, step) for side, step in given if step is not None and step is not ABSENT]
        length = max(step.period_ns for _, step in sides)
        lanes = _seen([[_lane(one) for one in step.lanes] for _, step in sides], length)
        below = max(step.merged_below_ns for _, step in sides)
        if sum(len(one.start) for own in lanes for one in own) > _MOST_EVENTS:
            below = max(below, length // _CELLS)
            lanes = [[merge_lane(one, below) for one in own] for own in lanes]
        return {
            **_axis(length),
            "below": _spoken(below) if below else "",
            "sides": [
                {"side": side, "period": step.period_ns, "lanes": self._lanes(own, lanes)}
                for (side, step), own in zip(sides, lanes, strict=True)
            ],
        }

    def crop(self, crop: Crop) -> dict[str, Any]:
        """Parts of a step of both sides, aligned, with marks where the cause is."""
        sides = [one for one in (crop.baseline, crop.candidate) if one is not None]
        lanes = _seen([[_lane(one) for one in side.lanes] for side in sides], crop.length_ns)
        return {
            **_axis(crop.length_ns),
            "anchor": crop.anchor_ns,
            "sides": [
                {
                    "side": "baseline" if side is crop.baseline else "candidate",
                    "lanes": self._lanes(own, lanes, gpu=False),
                    "marks": marks,
                    "from": side.step_start_ns - side.start_ns,
                    "to": side.step_end_ns - side.start_ns,
                }
                for side, own, marks in zip(sides, lanes, frames(crop), strict=True)
            ],
        }

    def _lanes(
        self, own: Sequence[Lane], both: Iterable[Sequence[Lane]], *, gpu: bool = True
    ) -> list[dict[str, Any]]:
        """The lanes of a side in the order of all, with empty ones for those that only the other side has; `gpu`: of streams too."""
        there = {_place(one): one for one in own}
        others = [_place(one) for lanes in both for one in lanes if gpu or one.kind != "gpu"]
        order = sorted(dict.fromkeys([*others, *there]), key=lambda one: _ORDER.index(one[0]))
        return [
            self._events(there[one]) if one in there else {"kind": one[0], "name": one[1], "of": one[2], "after": [], "length": [], "event": []}
            for one in order
        ]  # fmt: skip

    def _events(self, lane: Lane) -> dict[str, Any]:
        what = zip(lane.what.tolist(), lane.group.tolist(), lane.columns["row"].tolist(), strict=True)
        events = [self._event(*one) for one in what]
        start, end = _units(lane.start), _units(lane.end)
        found = {
            "kind": lane.kind,
            "name": lane.name,
            "of": lane.of,
            "after": (start - np.append(0, end[:-1])).tolist(),
            "length": (end - start).tolist(),
            "event": events,
        }
        merged = lane.count > 1
        if merged.any():
            found |= {"count": lane.count.tolist(), "covered": _units(lane.inside[merged]).tolist()}
        return found

    def _event(self, what: int, group: int, row: int) -> int:
        key = self._names[group]
        name, ink = GROUPS.get(key) or (palette.category(key).label, palette.variable(key))
        self.groups.setdefault(key, (name, ink))
        return self.events.setdefault((what, key, row), len(self.events))


def frames(crop: Crop) -> list[list[tuple[int, int]]]:
    """Start and length of the frames around a cause, by side: those that touch are one; none where they would hold nearly everything."""
    found, gap = [], int(_TOUCH * crop.length_ns)
    for side in filter(None, (crop.baseline, crop.candidate)):
        starts, lengths = np.array(side.starts, np.int64), np.array(side.lengths, np.int64)
        joined = union(starts, starts + lengths + gap)
        found.append(
            list(zip(joined.start.tolist(), (joined.end - joined.start - gap).tolist(), strict=True))
        )
    framed = min((sum(length for _, length in one) for one in found if one), default=0)
    return found if framed <= NEARLY * crop.length_ns else [[] for _ in found]


def _seen(lanes: list[list[Lane]], length: int) -> list[list[Lane]]:
    """The lanes of both sides without those of ranges that are too short to be seen on either."""
    shown = {_place(one) for own in lanes for one in own if one.kind != "range" or np.any(one.end - one.start > _SEEN * length)}  # fmt: skip
    return [[one for one in own if _place(one) in shown] for own in lanes]


def _place(lane: Lane) -> tuple[str, str, str]:
    """What is one lane on both sides."""
    return lane.kind, lane.name, lane.of


def _spoken(ns: int) -> str:
    scale = units.scale_for([ns])
    return f"{scale.number(ns)} {units.symbol(scale)}"


def _axis(length: int) -> dict[str, Any]:
    scale = units.scale_for([length])
    return {"length": length, "scale": [scale.factor, scale.decimals, units.symbol(scale)]}


def _units(ns: Ints) -> Ints:
    return (ns + _UNIT // 2) // _UNIT


def numbers(column: str) -> Ints:
    """A column of a lane as an array."""
    return np.array(column.split(), np.int64)


def _lane(given: TimelineLane) -> Lane:
    start, length = numbers(given.start), numbers(given.length)
    many = len(start)
    return Lane(
        given.kind, given.name, given.of, start, start + length, numbers(given.what), numbers(given.group), [], (),
        columns={"row": numbers(given.row) if given.row else np.full(many, -1, np.int64)},
        inside=numbers(given.inside) if given.inside else length,
        count=numbers(given.count) if given.count else np.ones(many, np.int64),
    )  # fmt: skip
