"""The events of successive steps as a graph: points in time, and what each of them waited for.

A point is the instant at which something on a host thread or on a GPU begins or ends. An edge leads from an earlier point to one that
cannot come sooner than `lag` ns after it. The time of a point is the latest that its edges allow; lags are chosen so that this is the
time that was observed, to the nanosecond:
    own      a thread goes on: a segment of its time (host work, a call, a garbage collection), as long as it was
    run      an op from its start to its end
    queue    an op after the one before it on its stream
    launch   an op after the call that launched it
    wait     a synchronising call returns after the op that it awaited has ended
    gil      a wait for the GIL ends after the holder let go
    held     what the holder works from when it took the GIL until a thread waits for that
    cross    an op after one of another stream, found by how often it starts just after it
    peer     a collective ends after the last rank has begun it
    join     a thread that does nothing while another works goes on after it
Of several edges the one that held the point back carries the delay that was seen. The others carry the shortest delay of their kind
in the capture: they bind once the first one is shorter. So waits that were hidden come out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Index
from tracediff.accounting.reduction import EventGraph
from tracediff.accounting.walk import NO_STATE, STATES, Hosts, places_of
from tracediff.arrays import Bools, Ints
from tracediff.model.causes import BUSY, CATEGORIES
from tracediff.trace.periods import COMM, MEMCPY, Timeline, Unit
from tracediff.trace.threads import SYNC, Places, Thread

OWN, RUN, QUEUE, LAUNCH, WAIT, GIL, HELD, CROSS, PEER, JOIN = range(10)
DROPPED = np.iinfo(np.int64).min  # lag of an edge that is gone
CAUSE = {name: number for number, name in enumerate(CATEGORIES)}

# of an export; of a longer capture some stretches of successive steps
MOST_OPS = {"all": 120_000, "some": 20_000}
STRETCHES = 4
_FEW, _LEAST = 0.1, 4  # quantile that stands for the shortest delay of a kind; ops that show one of a stream
# Where a capture shows no delay of a kind: ns on an H200.
_QUEUE_NS, _NODE_NS, _LAUNCH_NS, _RETURN_NS, _SYNC_NS = 1_000, 500, 5_000, 5_000, 3_000
_AHEAD_NS = 20_000  # launched so long before it began, and before the one before it had ended, an op waited for its stream
_LATE_NS = 3_000  # beyond what launch and stream explain: something else was awaited
_CROSS_NS, _CROSS_SURE_NS = 5_000, 2_000  # after an op of another stream
_NEVER = np.iinfo(np.int64).max
_SILENT_NS = 50_000  # without any event of a thread
_HANDED_NS = 2_000_000  # from one thread to the next, at most; and a quarter of the silence

_CAUSE_OF_STATE = np.array([CAUSE[name] for name in (*STATES, "host_work")], np.int8)
_IN_LAUNCH = np.where(
    np.isin(_CAUSE_OF_STATE, [CAUSE["host_sync"], CAUSE["host_api"]]), CAUSE["launch_api"], _CAUSE_OF_STATE
)
_GIL_STATE, _SYNC_STATE = STATES.index("gil_wait"), STATES.index("host_sync")
Words = tuple[str, str, str, str, str]  # range, thread, GIL holder, its range, CUDA function


def record(
    timeline: Timeline,
    periods: pl.DataFrame,
    places: Places,
    threads: dict[int, Thread],
    hosts: Hosts,
    of: str = "all",
) -> EventGraph:
    """The graph of an export; of a long one the graphs of some stretches, side by side. `timeline`: with streams; `of`: key of MOST_OPS."""
    parts = _Parts()
    for low, high in stretches(timeline.units, MOST_OPS[of]):
        _Stretch(parts, timeline, periods, places, threads, hosts, low, high).build()
    return parts.graph()


def stretches(units: list[Unit], most_ops: int) -> list[tuple[int, int]]:
    """Periods [low, high) of the first unit that are replayed: all of them, or some stretches of equal length, evenly spaced."""
    count = len(units[0].step)
    ops = sum(
        int(np.searchsorted(one.start, one.bounds[-1]) - np.searchsorted(one.start, one.bounds[0]))
        for one in units
    )
    if ops <= most_ops:
        return [(0, count)]
    length = max(most_ops * count // (STRETCHES * ops), 1)
    starts = (np.arange(STRETCHES) * (count - length) // (STRETCHES - 1)).tolist()
    return [
        (low, low + length)
        for number, low in enumerate(starts)
        if not number or low >= starts[number - 1] + length
    ]


class _Parts:
    """Points, edges, ops and periods of all stretches, as they come."""

    def __init__(self) -> None:
        self.points = self.ops = self._calls = self._most = 0
        self._begun: list[int] = []  # the first point of each stretch
        self.words: dict[Words, int] = {}
        self._time: list[Ints] = []
        self._edges: dict[str, list[Index]] = {
            name: [] for name in ("source", "target", "lag", "kind", "cause", "word", "op", "call")
        }
        self._key: list[Index] = []
        self._step: list[Ints] = []
        self._periods: list[tuple[int, int, int, int]] = []

    def begin(self, calls: int) -> None:
        """A stretch. It may share events with the one before it: its points come after all of that one, and its calls have other numbers."""
        self._begun.append(self.points)
        self._calls, self._most = self._most, self._most + calls

    def add_points(self, time: Ints) -> int:
        """The number of the first of some new points."""
        first = self.points
        self._time.append(time)
        self.points += len(time)
        return first

    def add_ops(self, key: Index) -> int:
        first = self.ops
        self._key.append(key)
        self._step.append(np.full(len(key), -1))
        self.ops += len(key)
        return first

    def add_period(self, row: int, start: int, end: int, stretch: int, ops: Ints) -> None:
        """A step of the stretch that came last, and the places of its ops among those of that stretch."""
        self._step[-1][ops] = len(self._periods)
        self._periods.append((row, start, end, stretch))

    def add(
        self,
        kind: int,
        source: Index,
        target: Index,
        lag: Index,
        cause: Index | int = 0,
        word: Index | int = 0,
        op: Index | int = -1,
        call: Index | int = -1,
    ) -> None:
        """Some edges of one kind."""
        size = len(source)
        each: dict[str, Index | int] = {
            "source": source, "target": target, "lag": lag, "kind": kind, "cause": cause, "word": word, "op": op,
            "call": np.where(np.asarray(call) >= 0, np.asarray(call) + self._calls, -1),
        }  # fmt: skip
        for name, values in each.items():
            self._edges[name].append(np.broadcast_to(np.asarray(values, np.int64), (size,)))

    def word(self, *words: str) -> int:
        """The number of a place."""
        return self.words.setdefault((*words, *[""] * (5 - len(words)))[:5], len(self.words))  # type: ignore[arg-type]

    def graph(self) -> EventGraph:
        """All of it, with points in an order in which every edge leads forward."""
        none = [np.empty(0, np.int64)]
        time = np.concatenate(none + self._time)
        edges = {name: np.concatenate([*none, *parts]) for name, parts in self._edges.items()}
        rank = _ranked(time, edges["source"], edges["target"])
        order = np.lexsort((rank, time, np.searchsorted(self._begun, np.arange(len(time)), side="right")))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        edges["source"], edges["target"] = place[edges["source"]], place[edges["target"]]
        forward = edges["source"] < edges["target"]  # a circle of edges without length: clocks that disagree
        by_target = np.lexsort((edges["source"], edges["target"]))
        by_target = by_target[forward[by_target]]
        edges = {name: values[by_target] for name, values in edges.items()}
        rows = np.array(self._periods, np.int64).reshape(-1, 4)
        words = [list(one) for one in self.words]
        return EventGraph(
            time=time[order],
            source=edges["source"].astype(np.int32), target=edges["target"].astype(np.int32), lag=edges["lag"],
            kind=edges["kind"].astype(np.int8), cause=edges["cause"].astype(np.int8), word=edges["word"].astype(np.int32),
            op=edges["op"].astype(np.int32), call=edges["call"].astype(np.int32),
            key=np.concatenate(none + self._key).astype(np.int32), step=np.concatenate(none + self._step).astype(np.int32), words=words,
            period=rows[:, 0], start=place[rows[:, 1]], end=place[rows[:, 2]], stretch=rows[:, 3],
        )  # fmt: skip


def _ranked(time: Ints, source: Ints, target: Ints) -> Ints:
    """Among points of one instant: how many edges of no length lead to each, one after the other."""
    rank = np.zeros(len(time), np.int64)
    same = np.flatnonzero(time[source] == time[target])
    for _ in range(64):
        before = rank.copy()
        np.maximum.at(rank, target[same], rank[source[same]] + 1)
        if (rank == before).all():
            break
    return rank


class _Host:
    """The segments of one thread in a stretch: `bounds` are its points, `first` the number of the first of them."""

    def __init__(self, parts: _Parts, hosts: Hosts, tid: int, low: int, high: int) -> None:
        self.tid, self.thread = tid, hosts.thread(tid)
        doing = self.thread.during(low, high)
        inside = doing.bounds[(doing.bounds > low) & (doing.bounds < high)]
        self.bounds = np.unique(np.concatenate(([low], inside, [high])))
        slot = np.searchsorted(doing.bounds, self.bounds[:-1], side="right")
        self.state = (
            np.append(doing.state, NO_STATE)[slot] if len(doing.state) else np.full(len(slot), NO_STATE)
        )
        self.api, self.label = doing.api[slot], doing.label[slot]
        self.first = parts.add_points(self.bounds)
        self.start, self.end = self.bounds[:-1], self.bounds[1:]
        self.own = self.end - self.start  # what the thread takes by itself; less of a wait
        self.awaited: dict[
            int, tuple[int, int]
        ] = {}  # segment -> the end of the op that it awaited: its point, and when it was

    def before(self, instant: Ints) -> Ints:
        """The last point at or before each instant, as a place in `bounds`; -1 none."""
        return np.searchsorted(self.bounds, instant, side="right") - 1

    def segments(self, low: int, high: int) -> slice:
        """The segments within [low, high)."""
        return slice(*np.searchsorted(self.start, (low, high)).tolist())


class _Stretch:
    """One stretch of successive steps: the periods [low, high) of the first unit, and what lies beside them on the others."""

    def __init__(
        self,
        parts: _Parts,
        timeline: Timeline,
        periods: pl.DataFrame,
        places: Places,
        threads: dict[int, Thread],
        hosts: Hosts,
        low: int,
        high: int,
    ) -> None:
        self.parts, self.timeline, self.hosts = parts, timeline, hosts
        self.threads, self.places, self.number = threads, places, low
        parts.begin(len(timeline.launches.start))
        first = timeline.units[0]
        begun, ended = int(first.bounds[low]), int(first.bounds[high])
        self.rows = periods.filter((pl.col("start_ns") < ended) & (pl.col("end_ns") > begun))
        # from what launched the first step to as much again after the last one: where the step after it begins depends on that
        launched = self.rows["window_start"].drop_nulls().to_list()[:1]
        self.low = min([begun, *self.rows["start_ns"].to_list(), *launched])
        self.high = max([ended, *self.rows["end_ns"].to_list()]) + ended - int(first.bounds[high - 1])
        pids = {unit.pid for unit in timeline.units}
        tids = sorted(tid for tid in timeline.launchers if tid >> 24 & 0xFFFFFF in pids and tid >= 0)
        self.host = {tid: _Host(parts, hosts, tid, self.low, self.high) for tid in tids}

    def build(self) -> None:
        """Add the points and edges of the stretch."""
        ops = self._ops()
        for host in self.host.values():
            self._syncs(host, ops)
        words = {tid: self._words(host) for tid, host in self.host.items()}
        self._gil(words)
        self._joins()
        for tid, host in self.host.items():
            self._own(host, words[tid][0])
        self._periods(ops)

    # GPU work.

    def _ops(self) -> dict[str, Ints]:
        """Points and edges of all ops that touch the stretch; their columns, in order of (unit, start)."""
        columns: dict[str, list[Ints]] = {}
        for number, unit in enumerate(self.timeline.units):
            assert unit.stream is not None
            inside = np.flatnonzero((unit.start < self.high) & (unit.end > self.low))
            period = np.searchsorted(unit.bounds, unit.start[inside], side="right") - 1
            step = np.append(unit.step, -1)[np.where(period < len(unit.step), period, -1)]
            each: dict[str, Any] = {
                "start": unit.start[inside], "end": unit.end[inside], "stream": unit.stream[inside], "kind": unit.kind[inside],
                "key": unit.key[inside], "launch": unit.launch[inside], "later": unit.later_node[inside], "graph": unit.graph[inside],
                "unit": np.full(len(inside), number), "step": np.where(period >= 0, step, -1), "pid": np.full(len(inside), unit.pid),
            }  # fmt: skip
            for name, values in each.items():
                columns.setdefault(name, []).append(values.astype(np.int64))
        ops = {name: np.concatenate(values) for name, values in columns.items()}
        size = len(ops["start"])
        ops["begin"] = self.parts.add_points(ops["start"]) + np.arange(size)
        ops["finish"] = self.parts.add_points(ops["end"]) + np.arange(size)
        ops["op"] = self.parts.add_ops(ops["key"]) + np.arange(size)
        ops["word"] = self._word_of_launch(ops["launch"])
        call, lag = self._launch_points(ops)
        before, gap = _stream_before(ops)
        self._op_starts(ops, call, lag, before, gap)
        transfer = self._collectives(ops)
        cause = np.array([CAUSE[name] for name in BUSY])[ops["kind"]]
        self.parts.add(
            RUN, ops["begin"], ops["finish"], transfer, cause, ops["word"], ops["op"], ops["launch"]
        )
        return ops

    def _word_of_launch(self, launch: Ints) -> Ints:
        """The place of each op: where it was launched, by which call."""
        launches, seen = self.timeline.launches, np.unique(launch)
        found = np.full(len(seen), self.parts.word(""))
        for tid in np.unique(launches.tid[seen[seen >= 0]]).tolist():
            mine = np.flatnonzero((seen >= 0) & (launches.tid[seen] == tid)) if len(launches.tid) else seen
            texts = self._place_texts(
                tid, self.hosts.thread(tid).label_at(launches.start[seen[mine]]), launches.start[seen[mine]]
            )
            for at, text in zip(mine.tolist(), texts, strict=True):
                found[at] = self.parts.word(
                    text, self._role(tid), "", "", self._call(int(launches.api[seen[at]]))
                )
        return found[np.searchsorted(seen, launch)]

    def _launch_points(self, ops: dict[str, Ints]) -> tuple[Ints, Ints]:
        """The point that each op's launch waits for, and how long after it the op began; -1 without a launch in the stretch.

        It is the return of the call, where ops launched by this function usually begin after it; else its start.
        """
        launches, size = self.timeline.launches, len(ops["start"])
        point, lag = np.full(size, -1), np.zeros(size, np.int64)
        for tid, host in self.host.items():
            mine = np.flatnonzero(ops["launch"] >= 0)
            mine = mine[launches.tid[ops["launch"][mine]] == tid] if len(mine) else mine
            mine = mine[launches.start[ops["launch"][mine]] >= host.bounds[0]] if len(mine) else mine
            if not len(mine):
                continue
            launch = ops["launch"][mine]
            after = ops["start"][mine] - launches.end[launch]
            api = launches.api[launch]
            begun = np.zeros(len(mine), np.bool_)
            for one in np.unique(api).tolist():
                here = (api == one) & ~ops["later"][mine].astype(np.bool_)
                if here.any():
                    begun |= (api == one) & (np.median(after[here]) < 0)
            begun |= after < 0
            at = host.before(np.where(begun, launches.start[launch], launches.end[launch]))
            late = host.bounds[at] > ops["start"][mine]  # GPU and host clocks that disagree
            at = np.where(late, host.before(ops["start"][mine]), at)
            point[mine], lag[mine] = host.first + at, ops["start"][mine] - host.bounds[at]
        return point, lag

    def _op_starts(self, ops: dict[str, Ints], call: Ints, lag: Ints, before: Ints, gap: Ints) -> None:
        """The edges to the starts of ops: from their launch, from their stream, from another stream."""
        size = len(ops["start"])
        launched, queued = call >= 0, before >= 0
        node = ops["later"].astype(np.bool_) & queued
        same = node & (ops["launch"][before] == ops["launch"])
        api = np.append(self.timeline.launches.api, -1)[ops["launch"]]
        ahead = launched & (lag > np.maximum(_AHEAD_NS, gap)) & queued & (gap >= 0) & ~same
        queue_ns = _least(gap[ahead], _QUEUE_NS) if ahead.sum() >= _LEAST else _QUEUE_NS
        least_gap = np.where(same, _least(gap[same], _NODE_NS), queue_ns)
        least_gap = np.minimum(least_gap, np.maximum(gap, 0))
        least_lag = np.full(size, _LAUNCH_NS)
        # the stream was idle when it was launched
        empty = launched & ~ops["later"].astype(np.bool_) & (~queued | (gap > lag))
        for one in np.unique(api[launched]).tolist():
            here = api == one
            least_lag[here] = _least(lag[here & empty], _LAUNCH_NS)
        least_lag = np.minimum(least_lag, lag)
        by_launch = launched & ~same & (~queued | (lag - least_lag < gap - least_gap))
        by_queue = queued & ~by_launch
        rest = np.where(by_launch, lag - least_lag, gap - least_gap)
        other, behind = _other_stream(ops, rest)
        crossed = (other >= 0) & (rest > _LATE_NS)  # that held it back
        drawn = by_launch & ~crossed
        cause = np.where(ops["later"] == 1, CAUSE["graph_internal"], CAUSE["dependency"])
        link = {"op": ops["op"], "call": ops["launch"], "word": ops["word"]}

        def add(kind: int, which: Bools, source: Ints, lags: Ints, cause: Ints | int) -> None:
            at = np.flatnonzero(which)
            causes = cause[at] if isinstance(cause, np.ndarray) else cause
            words = {name: values[at] for name, values in link.items()}
            self.parts.add(kind, source[at], ops["begin"][at], lags[at], causes, **words)

        previous = np.where(gap >= 0, ops["finish"][before], ops["begin"][before])
        whole = np.where(gap >= 0, gap, ops["start"] - ops["start"][before])
        add(
            QUEUE, queued, previous, np.where(by_queue & ~crossed, whole, np.minimum(least_gap, whole)), cause
        )
        add(LAUNCH, launched & ~same, call, np.where(drawn, lag, least_lag), CAUSE["launch_latency"])
        add(CROSS, other >= 0, ops["finish"][other], behind, CAUSE["dependency"])
        # nothing known before it: it keeps its distance from the op before it on the device, at the start of a stretch from that
        first = ~queued & ~launched & (other < 0)
        first[0] = False
        at = np.arange(size)
        first &= np.append(False, ops["unit"][1:] == ops["unit"][:-1])
        add(QUEUE, first, ops["begin"][at - 1], ops["start"] - ops["start"][at - 1], CAUSE["dependency"])

    def _collectives(self, ops: dict[str, Ints]) -> Ints:
        """How long after its start each op ends by itself. A collective that all ranks run ends after the last one has begun it."""
        own = ops["end"] - ops["start"]
        comm = np.flatnonzero((ops["kind"] == COMM) & (ops["step"] >= 0))
        units = len(self.timeline.units)
        if units < 2 or not len(comm):
            return own
        table = pl.DataFrame(
            {"at": comm, "unit": ops["unit"][comm], "step": ops["step"][comm], "start": ops["start"][comm]}
        )
        table = table.sort("unit", "start").with_columns(ordinal=pl.int_range(pl.len()).over("unit", "step"))
        table = table.with_columns(
            count=pl.len().over("unit", "step"), last=pl.col("start").max().over("step", "ordinal")
        )
        together = ["step", "ordinal"]
        table = table.filter(pl.len().over(together) == units, pl.col("count").n_unique().over("step") == 1)
        table = table.with_columns(after=pl.Series(ops["end"][table["at"].to_numpy()]) - pl.col("last"))
        table = table.filter((pl.col("after") >= 0).all().over(together))
        pairs = table.join(table, on=together, suffix="_peer").filter(pl.col("at") != pl.col("at_peer"))
        at, peer = pairs["at"].to_numpy(), pairs["at_peer"].to_numpy()
        words = ops["word"][at], ops["op"][at], ops["launch"][at]
        after = pairs["after"].to_numpy()
        self.parts.add(PEER, ops["begin"][peer], ops["finish"][at], after, CAUSE["comm"], *words)
        own[table["at"].to_numpy()] = table["after"].to_numpy()
        return own

    # Host threads.

    def _syncs(self, host: _Host, ops: dict[str, Ints]) -> None:
        """Let synchronising calls return after the op that they awaited."""
        calls, names, kinds = host.thread.outer_calls(self.low, self.high)
        launches = self.timeline.launches
        mine = np.flatnonzero((ops["pid"] == host.tid >> 24 & 0xFFFFFF) & (ops["launch"] >= 0))
        if not len(mine):
            return
        issued = launches.start[ops["launch"][mine]]
        order = np.argsort(issued, kind="stable")
        mine, issued = mine[order], issued[order]
        end = ops["end"][mine]
        latest = np.maximum.accumulate(end)
        which = np.maximum.accumulate(np.where(end == latest, np.arange(len(end)), 0))
        copies = np.flatnonzero(ops["kind"][mine] == MEMCPY)
        found: list[tuple[int, int, int, int]] = []  # segment, op, name of the call, its call
        for number in np.flatnonzero(kinds == SYNC).tolist():
            begin, stop = int(calls.start[number]), int(calls.end[number])
            inside = host.segments(begin, stop)
            waits = np.flatnonzero(host.state[inside] == _SYNC_STATE)
            last = int(np.searchsorted(issued, begin, side="right")) - 1
            if last < 0 or not len(waits) or begin < self.low or stop > self.high:
                continue
            if latest[last] <= stop:
                op = int(which[last])
            else:  # it awaited only a part of what had been launched
                known = copies[copies <= last] if len(copies) else copies
                known = known[end[known] <= stop]
                known = known[-64:]
                if not len(known) or end[known].max() <= begin:
                    early = np.flatnonzero(end[: last + 1] <= stop)[-512:]
                    early = early[end[early] > begin]
                    known = early if len(early) else known
                if not len(known):
                    continue
                op = int(known[np.argmax(end[known])])
            found.append((inside.start + int(waits[-1]), int(mine[op]), int(names[number]), number))
        if not found:
            return
        segment, op_at, name = (np.array([one[column] for one in found]) for column in range(3))
        after = host.end[segment] - ops["end"][op_at]
        waited = ops["end"][op_at] > host.start[segment]
        whole = host.end[segment] - host.start[segment]
        for one in np.unique(name).tolist():
            here = name == one
            returns = np.minimum(_least(after[here & waited], _RETURN_NS), after)
            alone = whole[here & ~waited]
            by_itself = np.minimum(int(np.median(alone)) if len(alone) else _SYNC_NS, whole)
            after = np.where(here & ~waited, returns, after)
            host.own[segment[here]] = np.where(waited, by_itself, whole)[here]
        ends = zip(ops["finish"][op_at].tolist(), ops["end"][op_at].tolist(), strict=True)
        host.awaited = dict(zip(segment.tolist(), ends, strict=True))
        place = self._words(host)[0]
        self.parts.add(
            WAIT, ops["finish"][op_at], host.first + segment + 1, after, CAUSE["host_sync"], place[segment], ops["op"][op_at],
            self._call_of(host)[segment],
        )  # fmt: skip

    def _call_of(self, host: _Host) -> Ints:
        """The launch during which each segment of a thread lies; -1 none."""
        launches = self.timeline.launches
        mine = np.flatnonzero(launches.tid == host.tid) if len(launches.tid) else np.empty(0, np.int64)
        mine = mine[np.argsort(launches.start[mine], kind="stable")]
        if not len(mine):
            return np.full(len(host.start), -1)
        at = np.searchsorted(launches.start[mine], host.start, side="right") - 1
        inside = (at >= 0) & (host.start < launches.end[mine[at]])
        return np.where(inside, mine[at], -1)

    def _words(self, host: _Host) -> tuple[Ints, list[str]]:
        """The place of each segment of a thread, and the text of its range."""
        texts = self._place_texts(host.tid, host.label, host.start)
        role = self._role(host.tid)
        words = [
            self.parts.word(text, role, "", "", self._call(api))
            for text, api in zip(texts, host.api.tolist(), strict=True)
        ]
        return np.array(words, np.int64), texts

    def _gil(self, words: dict[int, tuple[Ints, list[str]]]) -> None:
        """Let waits for the GIL end when the holder lets go. What the holder does begins after what the waiting thread did last before it."""
        for host in self.host.values():
            spans, holders = self.hosts.gil_holders(host.tid >> 24 & 0xFFFFFF)
            waits = np.flatnonzero(host.state == _GIL_STATE)
            place, texts = words[host.tid]
            edges: list[tuple[int, int, int]] = []
            for one in waits.tolist():
                begin, stop = int(host.start[one]), int(host.end[one])
                held = int(np.searchsorted(spans.start, stop)) - 1
                while held > 0 and holders[held] == host.tid:
                    held -= 1
                holder = int(holders[held]) if held >= 0 else -1
                taken = max(int(spans.start[held]), self._last_range(holder, begin)) if held >= 0 else begin
                released = min(int(spans.end[held]), stop) if held >= 0 else stop
                label = np.array([-1])
                if holder >= 0:
                    middle = (max(begin, int(spans.start[held])) + released) // 2
                    label = self.hosts.thread(holder).label_at(np.array([middle]))
                inside = self.places.name(int(self.places.ids(label)[0]))
                place[one] = self.parts.word(texts[one], self._role(host.tid), self._role(holder), inside)
                other = self.host.get(holder)
                at = int(other.before(np.array([released]))[0]) if other is not None else -1
                if other is not None and other is not host and other.bounds[at] > begin:
                    edges.append((other.first + at, one, stop - int(other.bounds[at])))
                else:
                    begun = min(taken, begin)
                    at = max(int(host.before(np.array([begun]))[0]), 0)
                    awaited = host.awaited.get(at, (-1, 0))
                    origin, since = host.first + at, int(host.bounds[at])
                    if (
                        since < awaited[1] <= begun
                    ):  # it began while the thread waited for the GPU, which was done by then
                        origin, since = awaited
                    # until it is asked for the GIL the holder works beside the thread: only the rest is a wait
                    asked = self.parts.add_points(np.array([begin]))
                    word = self.parts.word(inside, self._role(holder))
                    edge = np.array([[origin], [asked], [begin - since]])
                    self.parts.add(HELD, edge[0], edge[1], edge[2], CAUSE["host_work"], word)
                    edges.append((asked, one, stop - begin))
                host.own[one] = 0
            if edges:
                sources, segments, lags = (np.array([edge[column] for edge in edges]) for column in range(3))
                ends = host.first + segments + 1
                self.parts.add(GIL, sources, ends, lags, CAUSE["gil_wait"], place[segments])

    def _last_range(self, tid: int, instant: int) -> int:
        """When the innermost range of a thread last changed, up to an instant: it may hold the GIL while it waits for something."""
        ranges, _ = self.hosts.thread(tid).places
        at = int(np.searchsorted(ranges.start, instant, side="right")) - 1
        if at < 0:
            return 0
        return int(ranges.end[at]) if ranges.end[at] <= instant else int(ranges.start[at])

    def _joins(self) -> None:
        """A thread that is silent while another one works, and works when that is silent: each goes on when the other has finished."""
        silent = {
            tid: np.flatnonzero((host.state == NO_STATE) & (host.own > _SILENT_NS))
            for tid, host in self.host.items()
        }
        for tid, host in self.host.items():
            for other_tid, other in self.host.items():
                if tid == other_tid or tid >> 24 & 0xFFFFFF != other_tid >> 24 & 0xFFFFFF:
                    continue
                mine, theirs = silent[tid], silent[other_tid]
                for one in mine.tolist():
                    # the silences of the other thread around its work within mine
                    low = int(np.searchsorted(other.end[theirs], host.start[one]))
                    high = int(np.searchsorted(other.start[theirs], host.end[one])) - 1
                    if low >= high or low >= len(theirs):
                        continue
                    first, last = int(theirs[low]), int(theirs[high])
                    begun, done = int(other.end[first]), int(other.start[last])
                    handed, back = begun - int(host.start[one]), int(host.end[one]) - done
                    most = min(_HANDED_NS, int(host.own[one]) // 4)
                    if not (0 <= handed <= most and 0 <= back <= most and begun < done):
                        continue
                    host.own[one] = other.own[first] = 0
                    source = np.array([host.first + one, other.first + last])
                    target = np.array([other.first + first + 1, host.first + one + 1])
                    word = self.parts.word("", self._role(tid))
                    self.parts.add(JOIN, source, target, np.array([handed, back]), CAUSE["host_work"], word)

    def _own(self, host: _Host, words: Ints) -> None:
        call = self._call_of(host)
        cause = np.where(call >= 0, _IN_LAUNCH[host.state], _CAUSE_OF_STATE[host.state])
        sync = host.state == _SYNC_STATE
        kinds = np.where(sync, CAUSE["host_sync"], cause)  # a call that copies and waits is a wait
        at = host.first + np.arange(len(host.start))
        self.parts.add(OWN, at, at + 1, host.own, kinds, words, -1, call)

    # Periods.

    def _periods(self, ops: dict[str, Ints]) -> None:
        """The points at which each step starts and ends: the start of an op, or of a whole capture the end of its last one."""
        units = np.repeat(
            np.arange(len(self.timeline.units)), [len(unit.step) for unit in self.timeline.units]
        )
        for row, begin, stop in self.rows.select("period", "start_ns", "end_ns").iter_rows():
            mine = np.flatnonzero(ops["unit"] == units[row])
            start, end = ops["start"][mine], ops["end"][mine]
            first, after = np.searchsorted(start, (begin, stop)).tolist()
            if after < len(mine) and start[after] == stop:
                last = ops["begin"][mine[after]]
            elif (end == stop).any():
                last = ops["finish"][mine[np.flatnonzero(end == stop)[0]]]
            else:
                continue
            if start[first] == begin:
                self.parts.add_period(
                    row, int(ops["begin"][mine[first]]), int(last), self.number, mine[first:after]
                )

    # Words.

    def _place_texts(self, tid: int, label: Index, start: Ints) -> list[str]:
        place = places_of(self.places, self.hosts, tid, label, start)
        return list(map(self.places.name, place.tolist()))

    def _role(self, tid: int) -> str:
        return self.threads[tid].role if tid in self.threads else ""

    def _call(self, api: int) -> str:
        return self.timeline.api_names.get(api, ("", ""))[0] if api >= 0 else ""


def _stream_before(ops: dict[str, Ints]) -> tuple[Ints, Ints]:
    """The op before each one on its stream, -1 none, and the time between them: negative where it began before that one ended."""
    order = np.lexsort((ops["end"], ops["start"], ops["stream"], ops["unit"]))
    same = (ops["stream"][order][1:] == ops["stream"][order][:-1]) & (
        ops["unit"][order][1:] == ops["unit"][order][:-1]
    )
    before = np.full(len(order), -1)
    before[order[1:]] = np.where(same, order[:-1], -1)
    return before, np.where(before >= 0, ops["start"] - ops["end"][before], 0)


def _other_stream(ops: dict[str, Ints], rest: Ints) -> tuple[Ints, Ints]:
    """The op of another stream of the device that an op awaited, -1 none, and how long after its end it began.

    Looked for where more than _LATE_NS of its start is unexplained. Believed of a kind of op if most of those began just after one of
    another stream; the others of that kind awaited one as well, which had ended by then.
    """
    size = len(ops["start"])
    other, behind = np.full(size, -1), np.zeros(size, np.int64)
    late = rest > _LATE_NS
    for unit in np.unique(ops["unit"][late]).tolist():
        mine = np.flatnonzero(ops["unit"] == unit)
        streams = np.unique(ops["stream"][mine]).tolist()
        if len(streams) < 2:
            continue
        nearest = np.full(len(mine), -1)  # the op of any other stream that ended last before each one began
        for stream in streams:
            theirs, here = mine[ops["stream"][mine] != stream], ops["stream"][mine] == stream
            theirs = theirs[np.argsort(ops["end"][theirs], kind="stable")]
            at = np.searchsorted(ops["end"][theirs], ops["start"][mine[here]], side="right") - 1
            nearest[here] = np.where(at >= 0, theirs[at], -1)
        distance = np.where(nearest >= 0, ops["start"][mine] - ops["end"][nearest], _NEVER)
        key, delayed = ops["key"][mine], late[mine]
        just = delayed & (distance <= np.minimum(_CROSS_NS, rest[mine]))
        for kind in np.unique(key[just]).tolist():
            all_of_it = key == kind
            after = just & all_of_it
            if after.sum() < 2 or 2 * after.sum() <= (delayed & all_of_it).sum():
                continue
            usual = int(np.median(distance[after]))
            before = key[np.searchsorted(mine, nearest[after])]
            if usual > _CROSS_SURE_NS and 2 * np.bincount(before).max() <= after.sum():
                continue
            which = np.flatnonzero(all_of_it & (nearest >= 0) & (after | ~delayed))
            other[mine[which]] = nearest[which]
            behind[mine[which]] = np.where(after[which], distance[which], np.minimum(usual, distance[which]))
    return other, behind


def _least(values: Ints, otherwise: int) -> int:
    """The shortest delay of a kind, as far as a capture shows any."""
    return int(np.quantile(values, _FEW)) if len(values) else otherwise
