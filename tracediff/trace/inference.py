"""Steps of a capture without step labels: what the host waits for, again and again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tracediff.arrays import Bools, Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import run_sql, sql
from tracediff.kernels.names import normalise
from tracediff.model import Note, Repeats
from tracediff.trace.periods import Segments, begins, blocks, cycle, mixed, repeats, segments

# The levels at which a program repeats: what the host waits for, what it launches, again and again.


RESULT, COPY, GRAPH, SYNC, LAUNCH = "result", "copy", "graph", "sync", "launch"
EVENTS = (RESULT, COPY, GRAPH, SYNC, LAUNCH)  # the surest first
# kinds of kernels that run once in a step, the surest first; a router ranks as well, in every layer
ANCHORS = ("sampling", "optimiser", "ranking", "embedding")
TELLING = ANCHORS[:2]  # those that end a step

MIN_SEGMENTS = 4  # that begin after a result
MIN_OTHER = 7  # begun by anything else
MIN_COVER = 0.6  # share of all ops in segments, edges without a counterpart left out
MIN_ALIKE = 0.6  # share of ops in recurring classes
MIN_KNOWN = 0.75  # or, after a result, in recurring sequences of three
MIN_CONFIDENCE = 0.6
UNSURE = 0.5  # confidence where nothing says that segments are more than layers
ONCE = 0.8  # share of segments with an anchor
ALTERNATE = 0.9  # share of segments with one start of another level: the two are one level
_PRODUCERS = 12  # of each kind of event
_BINS = 16  # of counts of launches
_BURST = 0.25  # of a step's launches: an optimiser's kernels are nearer to one another


class Launched(msgspec.Struct, frozen=True):
    """The launches of one process in order of time, all threads: arrays of one length n."""

    start: Ints  # ns
    end: Ints  # ns
    token: Ints  # dense: equal for launches of the same names
    ops: Ints  # of the launch: one, or the nodes of a graph; ns until the next launch where graphs were recorded as a whole
    kernels: Ints  # of these
    graph: Bools
    reads_back: Bools  # copies from device to host
    waits: Ints  # (m,) of each wait of the host, in order: launches that began before it was over
    # of each of ANCHORS, of each kernel of that kind: how often a launch of each token holds it, (tokens,)
    anchors: dict[str, list[Ints]] = msgspec.field(default_factory=dict)
    # by token: a graph in which parts repeat, as layers do
    repeats: Bools = msgspec.field(default_factory=lambda: np.zeros(0, np.bool_))

    def window(self, low: int, high: int) -> Launched:
        """Launches [low, high), and the waits between them."""
        inside = slice(low, high)
        waits = self.waits[(self.waits > low) & (self.waits <= high)] - low
        return Launched(
            self.start[inside], self.end[inside], self.token[inside], self.ops[inside], self.kernels[inside],
            self.graph[inside], self.reads_back[inside], waits, self.anchors, self.repeats,
        )  # fmt: skip


class Mark(msgspec.Struct, frozen=True):
    """What begins a segment: an event; where given, one that follows a certain launch, or is one."""

    event: str
    token: int = -1  # the last kernel before the event, or the launch itself; -1 any
    # what was launched before that: a token of a launch, a hash of two launches otherwise; -1 any
    before: int = -1


class Found(msgspec.Struct, frozen=True):
    """A level: a mark and the segments that it begins."""

    mark: Mark
    cut: Segments
    cover: float
    confidence: float
    cycle: int  # segments of a part of a step come in a cycle; 0 where they do not
    once: dict[str, float]  # kind of anchor -> share of segments that hold one of them once
    layered: bool  # the median segment holds something several times

    @property
    def count(self) -> int:
        """Segments, edges too."""
        return len(self.cut.start)

    def holds(self, kind: str) -> bool:
        """Tell whether segments hold a kernel of one of the ANCHORS once."""
        return self.once.get(kind, 0.0) >= ONCE

    @property
    def anchored(self) -> bool:
        """Segments hold a sampler or an optimiser once."""
        return any(self.holds(kind) for kind in TELLING)

    @property
    def sure(self) -> bool:
        """Good enough for steps."""
        return self.confidence >= MIN_CONFIDENCE

    @property
    def steps(self) -> Ints:
        """First launches of the steps; what precedes them is in no step, the last one may be a part."""
        return self.cut.start if self.cut.recurring[0] else self.cut.start[1:]


class Events:
    """Where each kind of event would begin a segment, and what was launched before: arrays of one length each."""

    def __init__(self, launched: Launched) -> None:
        self.launched = launched
        count = len(launched.token)
        self.graphs = int(launched.token.max()) + 1  # the token of any graph
        self.token = np.where(launched.graph, self.graphs, launched.token)
        index = np.arange(count)
        # the last launch with a kernel, up to each launch
        self.work = np.maximum.accumulate(np.where(launched.kernels > 0, index, -1))
        waits = np.unique(launched.waits[launched.waits > 0])
        # right after a copy to the host: a wait for anything launched later is no wait for that result
        after = waits[launched.reads_back[waits - 1]]
        self.run = np.flatnonzero(begins(launched.token))
        self.run_token = launched.token[self.run]
        copied = np.flatnonzero(launched.reads_back)
        graphs = np.flatnonzero(launched.graph)
        # event -> first launches after it, the last kernel before it, what was launched before that
        self.of: dict[str, tuple[Ints, Ints, Ints]] = {
            RESULT: (after, *self._producer(after - 1)),
            COPY: (copied + 1, *self._producer(copied)),
            GRAPH: (graphs, launched.token[graphs], launched.token[graphs]),
            SYNC: (waits, *self._producer(waits - 1)),
        }

    def _producer(self, index: Ints) -> tuple[Ints, Ints]:
        """The token of the last kernel up to each launch, and a hash of two launches before it; -1 where there is none."""
        work = self.work[index]
        run = np.searchsorted(self.run, work, side="right") - 1
        one, two = (self.run_token[np.maximum(run - back, 0)] for back in (1, 2))
        before = (mixed(one * (self.graphs + 1) + two) >> np.uint64(2)).astype(np.int64)
        return np.where(work >= 0, self.token[work], -1), np.where(run >= 2, before, -1)

    def starts(self, mark: Mark) -> Ints:
        """First launches of the segments that a mark begins, sorted, all of them with a kernel before the next."""
        if mark.event == LAUNCH:
            mine = self.run_token == mark.token
            if mark.before >= 0:
                mine[1:] &= self.run_token[:-1] == mark.before
                mine[:1] = False
            position = self.run[mine]
        else:
            position, producer, before = self.of[mark.event]
            mine = np.ones(len(position), np.bool_)
            if mark.token >= 0:
                mine &= producer == mark.token
            if mark.before >= 0:
                mine &= before == mark.before
            position = position[mine]
        position = np.unique(position)
        position = position[position < len(self.token)]
        # copies alone belong to the step before
        following = np.append(position[1:], len(self.token))
        return np.asarray(position[self.work[following - 1] >= position], np.int64)

    def marks(self, event: str) -> Iterator[Mark]:
        """Every mark of an event that is tried: any, and the most frequent ones."""
        if event == LAUNCH:
            yield from self._launches()
            return
        position, producer, before = self.of[event]
        if not len(position):
            return
        yield Mark(event)
        if event == GRAPH:
            return
        tokens, counts = np.unique(producer[producer >= 0], return_counts=True)
        for number in np.argsort(-counts, kind="stable")[:_PRODUCERS]:
            token = int(tokens[number])
            deeper, often = np.unique(before[(producer == token) & (before >= 0)], return_counts=True)
            if len(tokens) > 1:
                yield Mark(event, token)
            if len(deeper) > 1:
                frequent = np.argsort(-often, kind="stable")[: _PRODUCERS // 2]
                yield from (Mark(event, token, int(deeper[one])) for one in frequent)

    def _launches(self) -> Iterator[Mark]:
        """Of the launches (and of the pairs of launches) that occur about equally often: the most regular ones."""
        wide = self.graphs + 1
        single = _most_regular(self.run_token, self.run)
        yield from (Mark(LAUNCH, token) for token in single)
        pairs = self.run_token[:-1] * wide + self.run_token[1:]
        yield from (Mark(LAUNCH, pair % wide, pair // wide) for pair in _most_regular(pairs, self.run[1:]))


def _most_regular(token: Ints, place: Ints) -> list[int]:
    """One token of each of the _BINS most populated bins of counts: the one with the most regular distances."""
    order = np.argsort(token, kind="stable")
    values, first, counts = np.unique(token[order], return_index=True, return_counts=True)
    gap = np.diff(place[order], append=0).astype(np.float64)
    inner = np.append(token[order][1:] == token[order][:-1], False)
    group = np.repeat(np.arange(len(values)), counts)
    many = np.maximum(counts - 1, 1)
    mean = np.bincount(group, weights=gap * inner, minlength=len(values)) / many
    square = np.bincount(group, weights=gap**2 * inner, minlength=len(values)) / many
    spread = np.sqrt(np.maximum(square - mean**2, 0)) / np.maximum(mean, 1)
    often = np.flatnonzero(counts >= MIN_OTHER)
    bins = (np.log(counts[often]) / np.log(1.02)).astype(np.int64)
    populated, size = np.unique(bins, return_counts=True)
    chosen = []
    for one in populated[np.lexsort((populated, -size))[:_BINS]]:
        mine = often[bins == one]
        chosen.append(int(values[mine[np.lexsort((first[mine], spread[mine]))[0]]]))
    return chosen


def measured(launched: Launched, mark: Mark, start: Ints) -> Found | None:
    """The level of the segments that begin at `start`, None where too little of them repeats; O(n log n)."""
    needed = MIN_SEGMENTS if mark.event == RESULT else MIN_OTHER
    if len(start) < needed:
        return None
    cut = segments(start if start[0] == 0 else np.append(0, start), launched.token, launched.ops)
    cover = float(cut.ops[_whole(cut)].sum()) / float(cut.ops.sum())
    if cover < MIN_COVER or not (cut.alike >= MIN_ALIKE or (mark.event == RESULT and cut.known >= MIN_KNOWN)):
        return None
    once = {kind: _once(launched, cut.start, kind) for kind in launched.anchors}
    layered = _layered(launched, cut)
    confidence = cut.ordered * min(1.0, cover / 0.8)
    best = max((share for kind, share in once.items() if share >= ONCE), default=None)
    if best is not None:
        confidence *= min(1.0, best / 0.95)
    elif mark.event not in (RESULT, COPY) and not layered:
        confidence = min(confidence, UNSURE)
    return Found(mark, cut, cover, confidence, _cycle(launched, cut), once, layered)


def _cycle(launched: Launched, cut: Segments) -> int:
    """After how many segments the same kinds of work follow, or a sampler or an optimiser runs; 0: they do not."""
    found = [cycle(cut.kind)]
    for kind in TELLING:
        inside = segments_with(launched, cut.start, kind)
        found.append(cycle(inside.astype(np.int64)) if inside.any() else 0)
    return max(found)


def _whole(cut: Segments) -> Bools:
    """Which segments are steps: all between the edges, and an edge that is like others."""
    whole = np.ones(len(cut.start), np.bool_)
    whole[[0, -1]] = cut.recurring[[0, -1]]
    return whole


def _once(launched: Launched, start: Ints, kind: str) -> float:
    """The largest share of segments that hold one and the same telling kernel, once as a rule; edges do not count.

    A kernel that is launched several times in a row is there once; an optimiser is, whatever kernels it takes.
    """
    if kind == "optimiser":
        place = holding(launched, kind)
        # the distance inside which half of the launches lie is that of steps
        gap = np.sort(np.diff(place))
        far = gap[np.searchsorted(np.cumsum(gap), gap.sum() / 2)] if len(gap) else 0
        found = [place[np.append(True, np.diff(place) > _BURST * far)[: len(place)]]]
    else:
        run = begins(launched.token)
        found = [np.flatnonzero((times[launched.token] > 0) & run) for times in launched.anchors[kind]]
    best = 0.0
    for place in found:
        inside = np.bincount(np.searchsorted(start, place, side="right") - 1, minlength=len(start))[1:-1]
        some, one = float(np.mean(inside > 0)), float(np.mean(inside == 1))
        best = max(best, some if one >= some / 2 else one)
    return best


def holding(launched: Launched, kind: str) -> Ints:
    """The launches that hold a kernel of one of the ANCHORS."""
    holds = [times[launched.token] for times in launched.anchors.get(kind, [])]
    return np.flatnonzero(np.sum(holds, axis=0)) if holds else np.zeros(0, np.int64)


def segments_with(launched: Launched, start: Ints, kind: str) -> Bools:
    """Which segments hold a kernel of one of the ANCHORS."""
    inside = np.zeros(len(start), np.bool_)
    inside[np.searchsorted(start, holding(launched, kind), side="right") - 1] = True
    return inside


def _layered(launched: Launched, cut: Segments) -> bool:
    """Of most segments of the largest class: something repeats in them."""
    mine = np.flatnonzero(cut.kind == 0)[:3]
    end = np.append(cut.start[1:], len(launched.token))
    return any(_repeats(launched, int(cut.start[one]), int(end[one])) for one in mine)


def _repeats(launched: Launched, low: int, high: int) -> bool:
    token = launched.token[low:high]
    if len(launched.repeats) and launched.repeats[token].any():
        return True
    return repeats(token)


def same(one: Ints, other: Ints) -> bool:
    """Tell whether two levels alternate: a start of each between two of the other."""
    return _single(one, other) >= ALTERNATE and _single(other, one) >= ALTERNATE


def _single(one: Ints, other: Ints) -> float:
    """Share of the segments of one level that hold one start of the other."""
    inside = np.diff(np.searchsorted(other, one))
    return float(np.mean(inside == 1)) if len(inside) else 0.0


# Which of the levels at which a program repeats is its step.


WINDOW = 200_000  # launches in which marks are chosen
_FEW = MIN_SEGMENTS + 2  # waits for a result that are too few to tell
_SUPPORT = 3  # kernels that run once in a step, where no wait tells it
_ACCUMULATED = 8  # parts of a step that are alike, at most: batches whose gradients are summed
_LIKE_STEPS = 0.8  # share of ops in recurring classes, under which segments may be requests
_OFTEN = {"sampling": 4.0, "optimiser": 1.5}  # times as often as a level begins: there is a finer one
MAYBE_PARTS = 0.7  # confidence at most, where a larger level may be the step
_RECURRING, _FEW_PARTS = 10, 8  # it occurs so often, and usually holds so many of the segments at most
# of a step, at most: drafts are one to a dozen, codebooks of a frame of speech up to 32; each a sampled token with its check
_DRAFTS = 33
_SELDOM = 0.15  # share of steps, at most, that something is done before


class Outer(msgspec.Struct, frozen=True):
    """A larger level that may be the step as well. least, most: segments of the chosen one in a segment of it."""

    level: Found
    least: int
    most: int


class Choice(msgspec.Struct, frozen=True):
    """The level that is the step, or why none is."""

    level: Found | None
    refusal: str  # code, "" where a level is chosen
    found: list[Found]  # all levels that were looked at
    results: int = 0  # times that the host waits for a result, with a kernel in between
    outer: Outer | None = None


def choose(
    launched: Launched, layers: list[Ints], unit: Repeats = "cycle", *, all_events: bool = False
) -> Choice:
    """Choose the level that is the step, by the surest event that gives one.

    `layers`: starts of ranges that are named like layers, by family; `unit`: what is a step where parts come in a cycle, drafts and their check too;
    `all_events`: look at the others too.
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
            if unit == "part":
                pool = [replace(one, cycle=0) for one in pool]
            found += pool
            level = choice.level if choice else None
            if choice is None or choice.refusal == "parts" or (level and _finer(launched, level)):
                choice = _better(choice, _of_event(launched, event, pool, layers, unit))
            elif not all_events:
                break
        results = len(events.starts(Mark(RESULT)))
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
        if one.mark.event != RESULT or one.cycle:
            continue
        if one.cut.alike < MIN_ALIKE or one.count > 0.6 * level.count:
            continue
        # a capture may begin within the first
        inside = np.diff(np.searchsorted(level.cut.start, one.cut.start))[1:]
        few = one.count >= _RECURRING and inside.max() > inside.min() and np.median(inside) <= _FEW_PARTS
        if inside.min() >= 1 and (few or one.holds("optimiser")):
            larger.append(Outer(one, int(inside.min()), int(inside.max())))
    return max(
        larger,
        key=lambda one: (one.level.holds("optimiser"), one.level.cut.alike, one.level.count),
        default=None,
    )


def _of_event(
    launched: Launched, event: str, pool: list[Found], layers: list[Ints], unit: Repeats
) -> Choice | None:
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
                rounds = [one for one in pool if one.sure and _drafted(one, step)]
                if rounds and unit == "cycle":
                    step = max(rounds, key=lambda one: one.count)
                    anchored, kind = rounds, ""
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


def _drafted(larger: Found, level: Found) -> bool:
    """Tell whether segments are drafts and their check: of the few in each of a larger level one is twice as large as any other, or more.

    A draft model has less than half of the layers of what it drafts for, or it saves nothing. Prefill and decoding run the same layers.
    """
    inside = np.searchsorted(level.cut.start, larger.cut.start)
    many = np.diff(inside)[1:]  # a capture may begin within the first
    if larger.count >= level.count or not len(many) or many.min() < 1 or not 1 < np.median(many) <= _DRAFTS:
        return False
    parts = [np.sort(level.cut.ops[low:high]) for low, high in pairwise(inside[1:].tolist())]
    return float(np.mean([len(one) == 1 or one[-1] >= 2 * one[-2] for one in parts])) >= ALTERNATE


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
    finer = finer and not _drafted(one.level, other.level)
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
    token = launched.token[begins(launched.token)]
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


INFERRED = "inferred"  # how steps were found; a confidence follows
PHASE = "step"  # of all inferred steps: what kinds of work they hold is told by their ops
_MISSING = 0.02  # share of a process's ops without a recorded launch, beyond which cuts are doubted
_LONGEST = 50_000  # launches of a step that are searched for repetitions
_LISTED = 6  # levels that a refusal can name

# Kernels that run once in a step, by normalised name. A router's top-k runs in every layer.
_ANCHORS = {
    "sampling": re.compile(r"(?i)argmax|sampl|multinomial|gumbel"),
    "optimiser": re.compile(
        r"(?i)adam|sgd|optimi[sz]er|lamb(?!da)|adagrad|rmsprop|adafactor|multi_tensor_apply|amp_update_scale"
    ),
    "ranking": re.compile(r"(?i)^(?!.*(?:moe|expert|rout)).*top_?[kp]"),
    "embedding": re.compile(r"(?i)^(?!.*backward).*(?:embedding|indexselect|vectorized_gather|vocab|lookup)"),
}
# What parts of a step are called: layers, modules, operators of a library.
_PARTS = (
    r"(?i)\b(?:layers?|blocks?|attn|attention|mlp|moe|experts?)\b|layer_?norm|FSDP::|nn\.Module|^aten::|^h\.\d"
    r"|transformerblock|decoderlayer|encoderlayer"
)


class Level(msgspec.Struct, frozen=True):
    """One way to cut the launches of a process into segments, all of which something begins."""

    event: str  # result: the host waits for a copy to it; copy; sync; graph: a graph launch; launch
    producer: str  # kernel whose result is copied or waited for, or the launch itself; "" any
    segments: int
    launches: int  # of the median segment, 0 unknown
    confidence: float  # 0 to 1


class Inference(msgspec.Struct, frozen=True):
    """What inference found. The processes of one capture are cut by one rule; the least sure one is told."""

    source: str | None  # as `step_source` of a result; None where it refuses
    event: str  # of the level that was chosen, see Level; "" where it refuses
    confidence: float
    # why it refuses, "" where it does not. no-launches; nothing-repeats; few: too few repetitions; one-kernel;
    # launches-missing: over 2 % of the ops have no recorded launch; calls-lost: half of the segments or more may hold
    # calls that were not recorded, and the work of several steps; layers: segments are ranges that are named like
    # layers; may-be-layers: the host synchronises or launches a graph, and waits for no result; parts: segments
    # follow one another in a cycle and nothing larger repeats; unsure: under a confidence of 0.6
    refusal: str
    levels: tuple[Level, ...]  # of the process with the most ops, the surest first


class _Process(msgspec.Struct, frozen=True):
    pid: int
    tid: int  # the thread that launches most ops, or the one whose loop is cut
    loops: int  # threads that launch and wait by themselves, beside one another; 1: what all threads launched is one loop
    launched: Launched
    ops: int
    missing: float  # share of its ops whose launch was not recorded
    parts: list[Ints]  # first launches in ranges that are named like layers, by family


def infer_steps(capture: Capture, unit: Repeats = "cycle") -> Inference:
    """Fill the tables `step` and `step_text`, where steps are found; say how, or why not. `unit`: what is one where parts come in a cycle.

    Adds the warning steps-inferred where steps are found. All processes are cut by the rule that fits the one
    with the most ops; where it does not fit, a process has no steps.
    """
    processes, names = _processes(capture)
    if not processes:
        return Inference(None, "", 0.0, "no-launches", ())
    processes.sort(key=lambda one: -one.ops)
    main = processes[0]
    choice = _choose(main, unit)
    if choice.level is None:
        every = _choose(main, unit, all_events=True)
        return Inference(None, "", 0.0, choice.refusal, _levels(every, names))
    if 2 * _stretches(capture, main.pid) >= choice.level.count:
        return Inference(None, "", 0.0, "calls-lost", _levels(choice, names))
    first = choice.level
    if choice.outer is not None:
        first = replace(first, confidence=min(first.confidence, MAYBE_PARTS))
    found = [(main, first)]
    for process in processes[1:]:
        level = measure(process.launched, choice.level.mark)
        if level is None or not level.sure:
            level = _choose(process, unit).level
        if level is not None and level.mark.event == choice.level.mark.event:
            found.append((process, level))
    _fill(capture, found)
    capture.warnings.append(_note(capture, found, names, choice.outer))
    confidence = min(level.confidence for _, level in found)
    return Inference(
        f"{INFERRED} (confidence {confidence:.2f})", choice.level.mark.event, confidence, "",
        _levels(choice, names),
    )  # fmt: skip


def _stretches(capture: Capture, pid: int) -> int:
    """How often the profiler stopped to record the calls of a process for a while."""
    return sum(row[-1] for row in capture.db.execute(sql("formats/call_lost")).fetchall() if row[0] == pid)


def _choose(process: _Process, unit: Repeats, *, all_events: bool = False) -> Choice:
    """The step of a process; of a long one from the middle of it, then held against all of it."""
    launched = process.launched
    if process.missing > _MISSING:
        found = choose(launched.window(0, WINDOW), process.parts, unit, all_events=True)
        return Choice(None, "launches-missing", found.found, found.results)
    count = len(launched.token)
    low = max((count - WINDOW) // 2, 0)
    parts = [one[(one >= low) & (one < low + WINDOW)] - low for one in process.parts]
    choice = choose(launched.window(low, low + WINDOW), parts, unit, all_events=all_events)
    if choice.level is None or count <= WINDOW:
        return choice
    level = measure(launched, choice.level.mark)
    if level is None or not level.sure:
        return Choice(None, "unsure", choice.found, choice.results)
    return Choice(level, "", choice.found, choice.results, choice.outer)


# --- reading


def _processes(capture: Capture) -> tuple[list[_Process], list[str]]:
    """What each process launched, and the name of every token."""
    db = capture.db
    keys, tokens, names, reads_back = _tokens(capture)
    db.register("op_token", {"key": keys, "token": tokens, "reads_back": reads_back})
    try:
        rows = {
            name: np.asarray(values)
            for name, values in db.execute(sql("trace/step_launch")).fetchnumpy().items()
        }
        graphs = db.execute(sql("trace/step_graph")).fetchnumpy()
        waits = db.execute(sql("trace/step_sync")).fetchnumpy()
        all_ops = dict(db.execute(sql("trace/step_ops")).fetchall())
    finally:
        db.unregister("op_token")
        db.execute("DROP TABLE IF EXISTS launched")
    parts = run_sql(db, "trace/step_layer", pattern=_PARTS).fetchnumpy()
    token, inside = _dense(rows, graphs, names)
    anchors = {
        kind: [
            _times(number, inside, len(names)) for number, name in enumerate(names) if pattern.search(name)
        ]
        for kind, pattern in _ANCHORS.items()
    }
    repeated = np.zeros(len(names) + len(inside), np.bool_)
    for number, nodes in inside.items():
        repeated[number] = repeats(nodes)
    edges = [0, *(np.flatnonzero(np.diff(rows["pid"])) + 1).tolist(), len(token)]
    found = []
    for low, high in pairwise(edges):
        if high > low:
            part = {name: values[low:high] for name, values in rows.items()}
            found.append(_process(part, token[low:high], waits, parts, anchors, repeated, all_ops))
    return found, [*names, *([""] * len(inside))]


def _tokens(capture: Capture) -> tuple[npt.NDArray[Any], npt.NDArray[Any], list[str], npt.NDArray[Any]]:
    """Of every op_key: its token, equal for kernels of one template; the name of each token."""
    rows = capture.db.execute("SELECT key, kind, name FROM op_key ORDER BY key").fetchall()
    number: dict[str, int] = {}
    tokens = [
        number.setdefault(normalise(name) if kind == 0 else name, len(number)) for _, kind, name in rows
    ]
    return (
        np.array([key for key, _, _ in rows], np.uint64), np.array(tokens, np.int32), list(number),
        # the host waits right after a copy of unknown kind as it does after one to it
        np.array([name in ("[memcpy DtoH]", "[memcpy of unknown kind]") for _, _, name in rows], np.bool_),
    )  # fmt: skip


def _dense(
    rows: dict[str, npt.NDArray[Any]], graphs: dict[str, Any], names: list[str]
) -> tuple[Ints, dict[int, Ints]]:
    """The token of each launch (that of a graph stands behind those of ops), and the nodes of each graph."""
    contents = np.asarray(graphs["content"], np.uint64)
    values, first = np.unique(contents, return_index=True)
    token = rows["token"].astype(np.int64)
    several = token < 0
    token[several] = len(names) + np.searchsorted(values, rows["content"][several].astype(np.uint64))
    # a GEMM of one shape clears its workspace, of another it does not: a memset counts as the launch before it
    before = np.arange(len(token)) * (token != names.index("[memset]") if "[memset]" in names else 1)
    token = token[np.maximum.accumulate(before)]
    nodes = np.split(np.asarray(graphs["token"], np.int64), first[1:])
    return token, {len(names) + number: nodes[number] for number in range(len(values))}


def _times(token: int, inside: dict[int, Ints], count: int) -> Ints:
    """How often each token's launch holds the kernel of one token."""
    times = np.zeros(count + len(inside), np.int64)
    times[token] = 1
    for number, nodes in inside.items():
        times[number] = int((nodes[begins(nodes)] == token).sum())
    return times


def _process(
    part: dict[str, npt.NDArray[Any]],
    token: Ints,
    waits: dict[str, Any],
    parts: dict[str, Any],
    anchors: dict[str, list[Ints]],
    repeated: Bools,
    all_ops: dict[int, int],
) -> _Process:
    pid = int(part["pid"][0])
    ops = int(part["ops"].sum())
    missing = 1 - ops / max(all_ops.get(pid, 0), 1)
    tids, number = np.unique(part["tid"], return_inverse=True)
    main = int(tids[np.argmax(np.bincount(number.reshape(-1), weights=part["ops"]))])
    mine, blocking = np.asarray(waits["pid"]) == pid, part["waits"].astype(np.bool_)
    over, waiting = (
        np.concatenate([np.asarray(waits[name])[mine], part[name][blocking]]) for name in ("end_ns", "tid")
    )
    loops = _loops(part, over, waiting, main)
    if len(loops) > 1:  # the one in the middle: that with most work was the luckiest
        main = loops[len(loops) // 2]
        own = part["tid"] == main
        part, token = {name: values[own] for name, values in part.items()}, token[own]
        over = over[waiting == main]
    start, end = part["start_ns"].astype(np.int64), part["end_ns"].astype(np.int64)
    mine = np.asarray(parts["pid"]) == pid
    family = np.asarray(parts["family"], np.int64)[mine]
    inside = np.searchsorted(start, np.asarray(parts["start_ns"], np.int64)[mine])
    # what a graph holds that was recorded as a whole is not known: what repeats is weighed by time then
    closed = bool(part["closed"].any())
    launched = Launched(
        start=start, end=end, token=token, ops=np.diff(start, append=end[-1]) if closed else part["ops"].astype(np.int64),
        kernels=part["kernels"].astype(np.int64),
        graph=part["graph"].astype(np.bool_), reads_back=part["reads_back"].astype(np.bool_),
        waits=np.searchsorted(start, np.sort(over.astype(np.int64))).astype(np.int64),
        anchors={} if closed else anchors,
        repeats=repeated,
    )  # fmt: skip
    families = [np.unique(inside[family == one]) for one in np.unique(family)]
    return _Process(pid, main, max(len(loops), 1), launched, ops, missing, families)


def _loops(part: dict[str, npt.NDArray[Any]], over: Ints, waiting: Ints, main: int) -> list[int]:
    """The threads of a process that run loops of their own, beside one another, least work first; [] where there is one loop.

    `over`, `waiting`: the end of each wait and its thread. They wait by themselves, and launch at least half as much as the `main` one. Most
    changes from one of them to another come in the middle of its work, not after it waited: steps that threads hand on are one loop.
    """
    tid, start = part["tid"], part["start_ns"]
    work = {one: int(part["ops"][tid == one].sum()) for one in np.unique(waiting).tolist()}
    loops = sorted(
        (one for one, ops in work.items() if 2 * ops >= work.get(main, math.inf)), key=work.__getitem__
    )
    at = np.flatnonzero((tid[1:] != tid[:-1]) & np.isin(tid[1:], loops) & np.isin(tid[:-1], loops))
    waited = 0
    for one in loops:
        ends, left = np.sort(over[waiting == one]), at[tid[at] == one]
        waited += int((np.searchsorted(ends, start[left + 1]) > np.searchsorted(ends, start[left])).sum())
    return loops if len(at) >= MIN_SEGMENTS and 2 * waited < len(at) else []


# --- what is said


def _levels(choice: Choice, names: list[str]) -> tuple[Level, ...]:
    """The surest levels, each once; waits for a result that are too few for steps are told as well."""
    order = sorted(choice.found, key=lambda one: (EVENTS.index(one.mark.event), -one.confidence, one.count))
    kept: list[Found] = []
    for one in order:
        if len(kept) < _LISTED and not any(same(one.cut.start, other.cut.start) for other in kept):
            kept.append(one)
    levels = [_level(one, names) for one in kept]
    if choice.results and not any(one.event == RESULT for one in levels):
        levels.insert(0, Level(RESULT, "", choice.results, 0, 0.0))
    return tuple(levels)


def _level(found: Found, names: list[str]) -> Level:
    return Level(
        found.mark.event, names[found.mark.token] if 0 <= found.mark.token < len(names) else "", found.count,
        int(np.median(np.diff(found.cut.start))), round(found.confidence, 2),
    )  # fmt: skip


def _fill(capture: Capture, found: list[tuple[_Process, Found]]) -> None:
    starts = [process.launched.start[level.steps] for process, level in found]
    many = [len(one) for one in starts]
    columns = {
        "pid": np.repeat([process.pid for process, _ in found], many),
        "tid": np.repeat([process.tid for process, _ in found], many),
        "start_ns": np.concatenate(starts),
    }
    capture.db.register("inferred", columns)
    run_sql(capture.db, "trace/step_inferred", phase=PHASE)
    capture.db.unregister("inferred")


def _blocks(process: _Process, found: Found) -> int:
    """How many repetitions a step of the largest class holds, where no sampler or optimiser says that it is one."""
    mine = np.flatnonzero(found.cut.kind == 0)
    if found.anchored or not len(mine):
        return 1
    low = found.cut.start[mine[0]]
    high = np.append(found.cut.start, len(process.launched.token))[mine[0] + 1]
    return blocks(process.launched.token[low : min(high, low + _LONGEST)])


# What begins a step, by the event of its level.
BEGINS = {
    "result": "the host waits for a result", "copy": "a result is copied to the host", "sync": "the host synchronises",
    "graph": "a CUDA graph is launched", "launch": "a kernel is launched that recurs",
}  # fmt: skip


def _note(
    capture: Capture, found: list[tuple[_Process, Found]], names: list[str], outer: Outer | None
) -> Note:
    parts = []
    for process, one in found:
        level = _level(one, names)
        parts.append(
            (f"process {process.pid}: " if len(found) > 1 else "")
            + f"{len(one.steps) - 1} steps of about {level.launches} launching calls, each from where {BEGINS[level.event]}"
            + _of(level)
            + (
                f", of one of {process.loops} threads that launch and wait by themselves"
                if process.loops > 1
                else ""
            )
            + f" (confidence {one.confidence:.2f})"
        )
    several = {number for process, one in found if (number := _blocks(process, one)) > 1}
    if several:
        parts.append(f"each holds {max(several)} repetitions: these may be several steps")
    if outer is not None:
        level = _level(outer.level, names)
        many = " to ".join(dict.fromkeys((str(outer.least), str(outer.most))))
        parts.append(
            f"these may be parts of steps, {many} of them in each of {level.segments}, which begin where the host waits for"
            f" another result{_of(level)}: an NVTX range around each step settles it"
        )
    unsure = any(level.mark.event not in ("result", "copy") and not level.anchored for _, level in found)
    return Note(
        "steps-inferred",
        f"{capture.name}: no step labels; steps were inferred from what the program repeats: {'; '.join(parts)}"
        + (". The host waits for no result in them: these may be layers, or several steps" if unsure else ""),
    )


def _of(level: Level) -> str:
    """The kernel that a level begins with, in brackets; nothing where it is of any."""
    return f" ({level.producer})" if level.producer else ""
