"""The levels at which a program repeats: what the host waits for, what it launches, again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tracediff.trace.segments import Flags, Ints, Segments, cycle, mixed, repeats, segments

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


@dataclass(frozen=True)
class Launched:
    """The launches of one process in order of time, all threads: arrays of one length n."""

    start: Ints  # ns
    end: Ints  # ns
    token: Ints  # dense: equal for launches of the same names
    ops: Ints  # of the launch: one, or the nodes of a graph
    kernels: Ints  # of these
    graph: Flags
    reads_back: Flags  # copies from device to host
    waits: Ints  # (m,) of each wait of the host, in order: launches that began before it was over
    # of each of ANCHORS, of each kernel of that kind: how often a launch of each token holds it, (tokens,)
    anchors: dict[str, list[Ints]] = field(default_factory=dict)
    # by token: a graph in which parts repeat, as layers do
    repeats: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def window(self, low: int, high: int) -> Launched:
        """Launches [low, high), and the waits between them."""
        inside = slice(low, high)
        waits = self.waits[(self.waits > low) & (self.waits <= high)] - low
        return Launched(
            self.start[inside], self.end[inside], self.token[inside], self.ops[inside], self.kernels[inside],
            self.graph[inside], self.reads_back[inside], waits, self.anchors, self.repeats,
        )  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """What begins a segment: an event; where given, one that follows a certain launch, or is one."""

    event: str
    token: int = -1  # the last kernel before the event, or the launch itself; -1 any
    before: int = (
        -1
    )  # what was launched before that: a token of a launch, a hash of two launches otherwise; -1 any


@dataclass(frozen=True)
class Found:
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
        self.run = np.flatnonzero(np.append(True, launched.token[1:] != launched.token[:-1]))
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


def _whole(cut: Segments) -> Flags:
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
        run = np.append(True, launched.token[1:] != launched.token[:-1])
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


def segments_with(launched: Launched, start: Ints, kind: str) -> Flags:
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
    return repeats(token[np.append(True, token[1:] != token[:-1])])


def same(one: Ints, other: Ints) -> bool:
    """Tell whether two levels alternate: a start of each between two of the other."""
    return _single(one, other) >= ALTERNATE and _single(other, one) >= ALTERNATE


def _single(one: Ints, other: Ints) -> float:
    """Share of the segments of one level that hold one start of the other."""
    inside = np.diff(np.searchsorted(other, one))
    return float(np.mean(inside == 1)) if len(inside) else 0.0
