"""Which of the levels at which a program repeats is its step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracediff.trace.levels import (
    ALTERNATE,
    ANCHORS,
    EVENTS,
    GRAPH,
    LAUNCH,
    MIN_ALIKE,
    MIN_SEGMENTS,
    ONCE,
    RESULT,
    SYNC,
    TELLING,
    Events,
    Found,
    Launched,
    Mark,
    holding,
    measured,
    same,
    segments_with,
)
from tracediff.trace.segments import Ints, segments

WINDOW = 200_000  # launches in which marks are chosen
_FEW = MIN_SEGMENTS + 2  # waits for a result that are too few to tell
_SUPPORT = 3  # kernels that run once in a step, where no wait tells it
_ACCUMULATED = 8  # parts of a step that are alike, at most: batches whose gradients are summed
_LIKE_STEPS = 0.8  # share of ops in recurring classes, under which segments may be requests
_OFTEN = {"sampling": 4.0, "optimiser": 1.5}  # times as often as a level begins: there is a finer one
MAYBE_PARTS = 0.7  # confidence at most, where a larger level may be the step
_RECURRING, _PARTS = 10, 8  # such a level occurs so often, and usually holds so many of the segments at most
_SELDOM = 0.15  # share of steps, at most, that something is done before


@dataclass(frozen=True)
class Outer:
    """A larger level that may be the step as well. least, most: segments of the chosen one in a segment of it."""

    level: Found
    least: int
    most: int


@dataclass(frozen=True)
class Choice:
    """The level that is the step, or why none is."""

    level: Found | None
    refusal: str  # code, "" where a level is chosen
    found: list[Found]  # all levels that were looked at
    results: int = 0  # times that the host waits for a result, with a kernel in between
    outer: Outer | None = None


def choose(launched: Launched, layers: list[Ints], *, all_events: bool = False) -> Choice:
    """Choose the level that is the step, by the surest event that gives one.

    `layers`: starts of ranges that are named like layers, by family; `all_events`: look at the others too.
    O(n log n) for n launches and each of some forty marks.
    """
    found: list[Found] = []
    choice, results = None, 0
    if len(launched.token) > 1:
        events = Events(launched)
        for event in EVENTS:
            pool = [
                one for mark in events.marks(event) if (one := measured(launched, mark, events.starts(mark)))
            ]
            found += pool
            if (
                choice is None
                or choice.refusal == "parts"
                or (choice.level and _finer(launched, choice.level))
            ):
                choice = _better(choice, _of_event(launched, event, pool, layers))
            elif not all_events:
                break
        results = len(events.starts(Mark(RESULT)))
        if 1 < results < MIN_SEGMENTS and not (choice and choice.level and choice.level.holds("optimiser")):
            return Choice(None, "few", found, results)
    if choice is not None and choice.level is not None:
        return Choice(refined(launched, choice.level), "", found, results, _outer(choice.level, found))
    kernels = np.unique(launched.token[launched.kernels > 0])
    if len(kernels) == 1 and not launched.graph.any():
        return Choice(None, "one-kernel", found, results)
    if not any(one.mark.event == RESULT for one in found) and 0 < results < _FEW:
        return Choice(None, "few", found, results)
    return Choice(None, choice.refusal if choice else "nothing-repeats", found, results)


def _outer(level: Found, found: list[Found]) -> Outer | None:
    """A larger level that may be the step: what the host waits for inside it are then parts, as drafts and sampled tokens are.

    An optimiser ends it, or it recurs and holds a few segments, now more, now fewer. Requests hold many and are few.
    """
    if level.mark.event != RESULT or level.holds("optimiser"):
        return None
    larger = []
    for one in found:
        if (
            one.mark.event != RESULT
            or one.cycle
            or one.cut.alike < MIN_ALIKE
            or one.count > 0.6 * level.count
        ):
            continue
        inside = np.diff(np.searchsorted(level.cut.start, one.cut.start))[
            1:
        ]  # a capture may begin within the first
        few = one.count >= _RECURRING and inside.max() > inside.min() and np.median(inside) <= _PARTS
        if inside.min() >= 1 and (few or one.holds("optimiser")):
            larger.append(Outer(one, int(inside.min()), int(inside.max())))
    return max(
        larger,
        key=lambda one: (one.level.holds("optimiser"), one.level.cut.alike, one.level.count),
        default=None,
    )


def _of_event(launched: Launched, event: str, pool: list[Found], layers: list[Ints]) -> Choice | None:
    """What the levels of one event say; None where they say nothing."""
    if not pool:
        return None
    for kind in ANCHORS:
        anchored = [one for one in pool if one.holds(kind)]
        if anchored:
            # a level that holds a sampler once is not left for a request, however regular requests are
            step = _finest(anchored)
            if step is None and kind in TELLING:
                step = max(anchored, key=lambda one: one.count)
            if step is not None:
                # a prefill in a step samples as well: a finer level that always samples is not left either
                finest = _finest(pool)
                if finest is not None and finest.count > step.count and _always(launched, finest, kind):
                    step, anchored = finest, [finest]
                return _named(_phased(launched, step, anchored, kind), layers)
    best = _supported(launched, pool) if event == LAUNCH else _finest(pool)
    if best is None:
        return Choice(None, "parts", []) if event == RESULT else None
    return _named(_phased(launched, best, pool, ""), layers)


def _always(launched: Launched, level: Found, kind: str) -> bool:
    """Tell whether segments hold a kernel of one of the ANCHORS, be it several times."""
    return float(np.mean(segments_with(launched, level.cut.start, kind)[1:-1])) >= ONCE


def _named(level: Found, layers: list[Ints]) -> Choice:
    """A level that is chosen, unless it is only sure that its segments are named like layers."""
    if (
        level.mark.event != RESULT
        and not level.anchored
        and any(same(one, level.cut.start) for one in layers)
    ):
        return Choice(None, "layers", [])
    if level.sure:
        return Choice(level, "", [])
    return Choice(
        None, "may-be-layers" if level.mark.event in (GRAPH, SYNC) and not level.layered else "unsure", []
    )


def _finer(launched: Launched, level: Found) -> bool:
    """Tell whether steps may be shorter: samplers or optimisers run far more often than the level begins.

    Or its segments are unlike, as requests of different lengths are.
    """
    if level.anchored:
        return False
    return level.cut.alike < _LIKE_STEPS or any(
        int(times[launched.token].sum()) > often * level.count
        for kind, often in _OFTEN.items()
        for times in launched.anchors.get(kind, [])
    )


def _better(one: Choice | None, other: Choice | None) -> Choice | None:
    """The first choice, unless the other one is a finer level around samplers or optimisers.

    Parts of a step that follow one another in a cycle are a step only around those.
    """
    if one is None or other is None:
        return one or other
    if other.level is None or (one.level is None and one.refusal != "parts"):
        return one
    if one.level is None:
        return other if other.level.anchored else one
    more = other.level.count / one.level.count
    finer = any(other.level.holds(kind) and more > often for kind, often in _OFTEN.items())
    unlike = one.level.cut.alike < _LIKE_STEPS and other.level.layered and more > _OFTEN["sampling"]
    return other if finer or unlike else one


def _finest(pool: list[Found]) -> Found | None:
    """The one with the most segments that are no parts of a cycle; a step holds several parts, not one and a bit."""
    most = np.inf
    for one in sorted(pool, key=lambda one: -one.count):
        if one.cycle:
            most = min(most, 0.6 * one.count)
        elif one.count <= most:
            return one
    return None


def _supported(launched: Launched, pool: list[Found]) -> Found | None:
    """Where no event tells: the finest level in which layers repeat, or a few of which always make a larger one.

    A lone kernel that runs at times (for an odd length, for a new page) makes no step: several must run as often.
    """
    token = launched.token[np.append(True, launched.token[1:] != launched.token[:-1])]
    counts = np.bincount(token)
    several = [
        one for one in pool
        if not one.cycle and int((np.abs(counts - one.count) <= 1 + one.count // 50).sum()) >= _SUPPORT
    ]  # fmt: skip
    layered = sorted((one for one in several if one.layered), key=lambda one: -one.count)
    if not layered:
        return min(several, key=lambda one: one.count, default=_finest(pool))
    step = layered[0]
    for one in layered[1:]:
        inside = np.diff(np.searchsorted(step.cut.start, one.cut.start))
        usual = int(np.bincount(inside).argmax())
        if 2 <= usual <= _ACCUMULATED and float(np.mean(inside == usual)) >= ALTERNATE:
            step = one
    return step


def _phased(launched: Launched, level: Found, pool: list[Found], anchor: str) -> Found:
    """Of the levels that alternate with it, the one whose segments begin where a step does.

    That is next to the optimiser, else soonest before the embedding, else soonest after the sampler, else where
    the host pauses longest (by 20 %).
    """
    if level.mark.event == LAUNCH:
        pool = [level, *_equally_often(launched, level)]
    about = 1 + level.count // 50
    alternating = [
        one for one in pool
        if one is level or (abs(one.count - level.count) <= about and same(level.cut.start, one.cut.start))
    ]  # fmt: skip
    if len(alternating) == 1:
        return level
    if anchor == "optimiser":
        # a wait before it counts as well: see `refined`
        return min(alternating, key=lambda one: _near(launched, one.cut.start, anchor))
    if all(one.holds("embedding") for one in alternating):
        return min(alternating, key=lambda one: _until(launched, one.cut.start, "embedding"))
    if anchor in ("sampling", "ranking") and level.mark.event != LAUNCH:
        return min(alternating, key=lambda one: _since(launched, one.cut.start, anchor))
    pauses = [_pause(launched, one.cut.start) for one in alternating]
    longest = int(np.argmax(pauses))
    mine = next(number for number, one in enumerate(alternating) if one is level)
    return alternating[longest] if pauses[longest] > 1.2 * pauses[mine] else level


def _equally_often(launched: Launched, level: Found) -> list[Found]:
    """The levels of all launches that occur about as often as a level has segments, forty at most."""
    events = Events(launched)
    values, counts = np.unique(events.run_token, return_counts=True)
    off = np.abs(counts - level.count)
    near = np.argsort(off, kind="stable")[:40]
    marks = [Mark(LAUNCH, int(values[one])) for one in near if off[one] <= 1 + level.count // 50]
    return [one for mark in marks if (one := measured(launched, mark, events.starts(mark)))]


def _until(launched: Launched, start: Ints, anchor: str) -> float:
    """Median number of launches from the start of a segment to the first kernel of an anchor."""
    place = np.append(holding(launched, anchor), len(launched.token))
    return float(np.median(place[np.searchsorted(place[:-1], start)] - start))


def _since(launched: Launched, start: Ints, anchor: str) -> float:
    """Median number of launches from the last kernel of an anchor to the start of a segment."""
    place = holding(launched, anchor)
    last = np.searchsorted(place, start) - 1
    return float(np.median((start - place[np.maximum(last, 0)])[last >= 0]))


def _near(launched: Launched, start: Ints, anchor: str) -> float:
    """The shorter one of both ways."""
    return min(_since(launched, start, anchor), _until(launched, start, anchor))


def _pause(launched: Launched, start: Ints) -> float:
    """Median time, ns, from the end of the call before to the start of a segment."""
    inner = start[start > 0]
    return float(np.median(launched.start[inner] - launched.end[inner - 1]))


def measure(launched: Launched, mark: Mark) -> Found | None:
    """The level that a mark makes of all launches, None where it does not repeat."""
    level = measured(launched, mark, Events(launched).starts(mark))
    return refined(launched, level) if level else None


def refined(launched: Launched, level: Found) -> Found:
    """The same steps without what is none, from where work for them begins.

    Around samplers, a small segment without one is joined with the next: what a request needs before its first
    step. An optimiser that the host let run after its wait belongs to the step before, and so does all that
    comes before the embedding in a few steps only.
    """
    start = level.cut.start
    if level.holds("sampling"):
        small = level.cut.ops < np.median(level.cut.ops) / 2
        void = ~segments_with(launched, start, "sampling") & small
        void[[0, -1]] = False
        start = start[~np.append(False, void[:-1])]
    if level.holds("optimiser"):
        start = _after(start, holding(launched, "optimiser"), len(launched.token))
    if float(np.mean(segments_with(launched, start, "embedding"))) >= ONCE:
        start = _before(start, holding(launched, "embedding"), launched)
    if np.array_equal(start, level.cut.start):
        return level
    return replace(level, cut=segments(start, launched.token, launched.ops))


def _after(start: Ints, place: Ints, count: int) -> Ints:
    """Move the starts behind the launches at `place` in the first third of their segments."""
    third = start + np.diff(start, append=count) // 3
    last = np.searchsorted(place, third) - 1
    inside = (last >= 0) & (place[np.maximum(last, 0)] >= start)
    inside[0] = False
    return np.where(inside, place[np.maximum(last, 0)] + 1, start)


def _before(start: Ints, place: Ints, launched: Launched) -> Ints:
    """Move the starts that are farther from the first launch at `place` than usual to the usual distance.

    Only where the host asks for a result on the way, as generate() does of a request before its first step: the
    inputs of a step are asked for nothing.
    """
    count = len(launched.token)
    first = np.append(place, count)[np.searchsorted(place, start)]
    far = first - start
    inside = first < np.append(start[1:], count)
    usual = int(np.median(far[inside]))
    asked = np.append(0, np.cumsum(launched.reads_back))
    moved = inside & (far > usual)
    moved &= asked[np.where(moved, first - usual, start)] > asked[start]
    moved[0] = False
    if float(np.mean(moved)) > _SELDOM:
        return start
    return np.where(moved, first - usual, start)
