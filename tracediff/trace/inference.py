"""Steps of a capture without step labels, from the launches that repeat on the launching thread."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tracediff.formats.capture import Capture
from tracediff.formats.database import run_sql, sql
from tracediff.model import Note
from tracediff.trace.workloads import IRREGULAR

# The repeating part of a launch sequence, where nothing labels it.

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

INFERRED = "inferred"  # how steps were found; a confidence follows
MIN_REPETITIONS = 4  # equal to the modal one
MIN_CONFIDENCE = 0.7
MIN_COVERAGE = 0.5  # share of all ops that lie in repetitions: a corner of a capture is no step loop
_WAITED = 0.9  # share of the modal repetitions in which the host waits, for the mark to be a step's
_TOLERANCE = 0.1  # ops more or fewer than in the modal repetition, relative to it: still a regular step

# An odd base has an inverse modulo 2**64: the hash of a slice does not depend on where in the sequence it is.
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 2**64)


@dataclass(frozen=True)
class Level:
    """One way to cut the launches of a process into segments, all of which something begins."""

    event: str  # result: the host waits for a copy to it; copy; sync; graph: a graph launch; launch
    producer: str  # kernel (or graph) whose result is copied or waited for, or the launch itself; "" any
    segments: int
    launches: int  # of the median segment
    confidence: float  # 0 to 1


@dataclass(frozen=True)
class Inference:
    """What inference found. The processes of one capture are cut by themselves; the least sure one is told."""

    source: str | None  # as `step_source` of a result; None where it refuses
    event: str  # of the level that was chosen, see Level; "" where it refuses
    confidence: float
    refusal: str  # why it refuses, a code; "" where it does not
    levels: tuple[Level, ...]  # the best first


@dataclass(frozen=True)
class Launched:
    """The launches of one thread in order, arrays of one length."""

    content: Words  # equal for launches of the same names
    ops: Ints  # ops of the launch: one, or the nodes of a graph
    graph: npt.NDArray[np.bool_]
    reads_back: npt.NDArray[np.bool_]  # copies from device to host
    waits: Ints  # synchronising calls of the thread before the launch


@dataclass(frozen=True)
class Repetition:
    """Where the repetitions begin, and how alike they are."""

    start: Ints  # index of the first launch of each; the last one is open
    regular: npt.NDArray[np.bool_]  # of each: the ops of the modal one, within 10 %; true for the open one
    confidence: float  # share of the ops of all repetitions that lie in those equal to the modal one
    equal: int  # repetitions equal to the modal one
    launches: int  # in the modal repetition
    ops: int  # in the modal repetition
    graph: bool  # the modal repetition launches a CUDA graph


def find_repetition(launched: Launched) -> Repetition | None:
    """Find the repetition that is a step.

    None where fewer than 4 repetitions are equal, or they hold less than 0.7 of the ops. O(n log n) for n
    launches.
    """
    if len(launched.content) <= MIN_REPETITIONS:
        return None
    slices = _Slices(launched)
    events = _events(launched)
    begin, end, mark = _between_marks(slices.token, launched.graph, events)
    if not len(begin):
        return None
    modal = _modal(slices, begin, end, mark)
    good = (
        (modal.count >= MIN_REPETITIONS)
        & (modal.confidence >= MIN_CONFIDENCE)
        & (modal.covered >= MIN_COVERAGE * slices.ops_before[-1])
    )
    waits = [_waits(event, begin, end, mark, modal) for event in events]
    seen = next((number for number, one in enumerate(waits) if (good & (one.usual >= _WAITED)).any()), None)
    if seen is None:
        # a repetition without a wait, in a loop with waits, is a part of a step
        chosen = np.flatnonzero(good & ~np.any([one.ever for one in waits], axis=0))
        if not len(chosen):
            return None
        chosen = chosen[modal.ops[chosen] == modal.ops[chosen].max()]
    else:
        chosen = np.flatnonzero(good & (waits[seen].usual >= _WAITED))
        chosen = chosen[modal.ops[chosen] == modal.ops[chosen].min()]
    event = events[seen or 0]
    # of the marks of the same repetition: the one with the most equal ones, then a graph launch, then the one
    # soonest after a wait, then the earliest
    first = begin[modal.first[chosen]]
    since = first - np.searchsorted(event, event[first], side="left")
    best = chosen[np.lexsort((first, since, ~launched.graph[first], -modal.confidence[chosen]))[0]]
    mine = np.flatnonzero(mark == modal.mark[best])
    start = np.append(begin[mine], end[mine[-1]])
    return _measured(slices, start if seen is None else _after_wait(start, event), launched.graph)


def _events(launched: Launched) -> tuple[Ints, Ints, Ints]:
    """Running counts of what may end a step, the surest kind first.

    Synchronising calls that wait for a copy to the host; copies to the host (another thread may wait for
    them); any synchronising call (a layer may hold one, and a kernel may write to the host's memory).
    """
    copies: Ints = np.cumsum(launched.reads_back) - launched.reads_back
    after_wait = np.flatnonzero(np.diff(launched.waits)) + 1
    for_result = after_wait[np.diff(copies[after_wait], prepend=0) > 0]
    results = np.zeros(len(copies), np.int64)
    results[for_result] = 1
    return np.cumsum(results), copies, launched.waits


class _Slices:
    """Hashes and op counts of any slice of the sequence, in constant time each."""

    def __init__(self, launched: Launched) -> None:
        _, self.first, token = np.unique(launched.content, return_index=True, return_inverse=True)
        self.token: Ints = token.reshape(-1).astype(np.int64)
        self.ops_of_token: Ints = launched.ops[self.first]
        count = len(self.token)
        powers = np.full(count, _BASE, np.uint64)
        inverses = np.full(count + 1, _INVERSE, np.uint64)
        powers[0] = inverses[0] = 1
        terms = _mixed(self.token.astype(np.uint64)) * np.multiply.accumulate(powers)
        self._inverse = np.multiply.accumulate(inverses)
        self._prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        self.ops_before: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(launched.ops)])

    def hashes(self, begin: Ints, end: Ints) -> Words:
        return np.asarray((self._prefix[end] - self._prefix[begin]) * self._inverse[begin], np.uint64)

    def ops(self, begin: Ints, end: Ints) -> Ints:
        return self.ops_before[end] - self.ops_before[begin]


def _mixed(values: Words) -> Words:
    """Spread small numbers over 64 bits (splitmix64)."""
    x = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _between_marks(
    token: Ints, graph: npt.NDArray[np.bool_], events: tuple[Ints, ...]
) -> tuple[Ints, Ints, Ints]:
    """The segments from every mark to the next one of its kind, sorted by kind and place: begin, end, mark.

    Marks are all launches of a content; all graph launches (a program may hold a graph for each batch size);
    the first launch after every event of a kind, given as running counts.
    """
    position = np.argsort(token, kind="stable").astype(np.int64)
    mark = token[position]
    often = np.bincount(token)[mark] > MIN_REPETITIONS
    kinds = [np.flatnonzero(graph), *(np.flatnonzero(np.diff(event)) + 1 for event in events)]
    position = np.concatenate([position[often], *kinds])
    more = [np.full(len(kind), int(token.max()) + 1 + number, np.int64) for number, kind in enumerate(kinds)]
    mark = np.concatenate([mark[often], *more])
    same = mark[1:] == mark[:-1]
    return position[:-1][same], position[1:][same], mark[:-1][same]


@dataclass(frozen=True)
class _Modal:
    """The most frequent segment of each mark, arrays of one length."""

    mark: Ints
    first: Ints  # the segment: index of its first occurrence
    count: Ints
    ops: Ints
    covered: Ints  # ops of all segments of the mark
    confidence: npt.NDArray[np.float64]
    kind: Ints  # of every segment: its distinct segment
    chosen: Ints  # of every mark: its distinct segment


def _modal(slices: _Slices, begin: Ints, end: Ints, mark: Ints) -> _Modal:
    alike = slices.hashes(begin, end) ^ _mixed(mark.astype(np.uint64) + np.uint64(1 << 32))
    _, first, kind, count = np.unique(alike, return_index=True, return_inverse=True, return_counts=True)
    ops = slices.ops(begin, end)
    order = np.lexsort((first, ops[first], count, mark[first]))
    last = np.flatnonzero(np.append(np.diff(mark[first][order]) != 0, True))
    chosen = order[last]
    marks = mark[first[chosen]]
    covered = np.bincount(mark, weights=ops)[marks].astype(np.int64)
    return _Modal(
        marks, first[chosen], count[chosen], ops[first[chosen]], covered,
        count[chosen] * ops[first[chosen]] / np.maximum(covered, 1), kind.reshape(-1), chosen,
    )  # fmt: skip


@dataclass(frozen=True)
class _Waits:
    """Of each mark: how its segments hold events of one kind."""

    usual: npt.NDArray[np.float64]  # share of the modal segments with an event
    ever: npt.NDArray[np.bool_]  # any segment has one


def _waits(event: Ints, begin: Ints, end: Ints, mark: Ints, modal: _Modal) -> _Waits:
    """`event`: events before each launch."""
    grows = (event[end] > event[begin]).astype(np.float64)
    usual = np.bincount(modal.kind, weights=grows)[modal.chosen] / modal.count
    return _Waits(usual, np.bincount(mark, weights=grows)[modal.mark] > 0)


def _after_wait(marks: Ints, event: Ints) -> Ints:
    """Move every mark back to the first launch after the wait before it, by the usual distance at most."""
    since = marks - np.searchsorted(event, event[marks], side="left")
    values, counts = np.unique(since, return_counts=True)
    usual = values[np.argmax(counts)]
    start = marks - np.minimum(since, usual)
    start[1:] = np.maximum(start[1:], marks[:-1] + 1)
    return np.asarray(start, np.int64)


def _measured(slices: _Slices, start: Ints, graph: npt.NDArray[np.bool_]) -> Repetition | None:
    begin, end = start[:-1], start[1:]
    modal = _modal(slices, begin, end, np.zeros(len(begin), np.int64))
    confidence, count = float(modal.confidence[0]), int(modal.count[0])
    if confidence < MIN_CONFIDENCE or count < MIN_REPETITIONS:
        return None
    low, high = int(begin[modal.first[0]]), int(end[modal.first[0]])
    before = start[:1] - (high - low)
    if before[0] >= 0 and slices.hashes(before, start[:1])[0] == slices.hashes(begin, end)[modal.first[0]]:
        # a capture that begins with a step has no wait, or no other mark, before it
        return _measured(slices, np.concatenate([before, start]), graph)
    return Repetition(
        start=start,
        regular=np.append(_regular(slices, start, low, high), True),
        confidence=confidence,
        equal=count,
        launches=high - low,
        ops=int(modal.ops[0]),
        graph=bool(graph[low:high].any()),
    )


def _regular(slices: _Slices, start: Ints, low: int, high: int) -> npt.NDArray[np.bool_]:
    """Of each closed repetition: whether its ops are those of launches [low, high), within the tolerance."""
    kinds = len(slices.ops_of_token)
    usual = np.bincount(slices.token[low:high], minlength=kinds)
    token = slices.token[start[0] : start[-1]]
    repetition = np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))
    pairs, counts = np.unique(repetition * kinds + token, return_counts=True)
    which = pairs % kinds
    # |found - usual| summed over the contents that are there, and usual over those that are not
    excess = (np.abs(counts - usual[which]) - usual[which]) * slices.ops_of_token[which]
    size = int((usual * slices.ops_of_token).sum())
    off = size + np.bincount(pairs // kinds, weights=excess, minlength=len(start) - 1)
    return np.asarray(off <= _TOLERANCE * size, np.bool_)


# Phase of the steps with the ops of the modal repetition. Others (a context, an evaluation) are IRREGULAR.
REGULAR = "step"


@dataclass(frozen=True)
class _Found:
    """The repetition of one process."""

    pid: int
    tid: int
    start_ns: Ints  # of the launching call that begins each repetition
    repetition: Repetition


def infer_steps(capture: Capture) -> Inference:
    """Fill the tables `step` and `step_text`, where steps are found; say how, or why not.

    Adds the warning steps-inferred. Each process with GPU work is looked at by itself; the confidence is the
    lowest of them.
    """
    launches = capture.db.execute(sql("trace/step_launch")).fetchnumpy()
    pids = np.asarray(launches["pid"], np.int64)
    edges = [0, *(np.flatnonzero(np.diff(pids)) + 1).tolist(), len(pids)]
    found = []
    for low, high in pairwise(edges):
        if high > low:
            part = {name: np.asarray(values[low:high]) for name, values in launches.items()}
            one = _of_process(capture, part)
            if one is not None:
                found.append(one)
    if not found:
        return Inference(None, "", 0.0, "nothing-repeats", ())
    _fill(capture, found)
    capture.warnings.append(_note(capture, found))
    confidence = min(one.repetition.confidence for one in found)
    return Inference(f"{INFERRED} (confidence {confidence:.2f})", "launch", confidence, "", ())


def _of_process(capture: Capture, part: dict[str, np.ndarray]) -> _Found | None:
    start = part["start_ns"].astype(np.int64)
    tid = int(part["tid"][0])
    waits = np.asarray(capture.db.execute(sql("trace/step_sync"), [tid]).fetchnumpy()["start_ns"], np.int64)
    repetition = find_repetition(
        Launched(
            content=part["content"].astype(np.uint64),
            ops=part["ops"].astype(np.int64),
            graph=part["graph"].astype(np.bool_),
            reads_back=part["reads_back"].astype(np.bool_),
            waits=np.searchsorted(waits, start, side="left").astype(np.int64),
        )
    )
    if repetition is None:
        return None
    return _Found(int(part["pid"][0]), tid, start[repetition.start], repetition)


def _fill(capture: Capture, found: list[_Found]) -> None:
    columns = {
        "pid": np.concatenate([np.full(len(one.start_ns), one.pid, np.int64) for one in found]),
        "tid": np.concatenate([np.full(len(one.start_ns), one.tid, np.int64) for one in found]),
        "start_ns": np.concatenate([one.start_ns for one in found]),
        "regular": np.concatenate([one.repetition.regular for one in found]),
    }
    capture.db.register("inferred", columns)
    run_sql(capture.db, "trace/step_inferred", regular=REGULAR, irregular=IRREGULAR)
    capture.db.unregister("inferred")


def _note(capture: Capture, found: list[_Found]) -> Note:
    parts = []
    for one in found:
        what = one.repetition
        parts.append(
            (f"process {one.pid}: " if len(found) > 1 else "")
            + f"{what.equal} of {len(what.start) - 1} repetitions"
            + f" are the same {what.launches} launches of {what.ops} ops"
            + (" (with a CUDA graph)," if what.graph else ",")
            + f" and hold {what.confidence:.0%} of their ops (confidence {what.confidence:.2f})"
        )
    return Note(
        "steps-inferred",
        f"{capture.name}: no step labels; steps were inferred from the launches that repeat:"
        f" {'; '.join(parts)}. Steps with other ops are listed as irregular and not compared",
    )
