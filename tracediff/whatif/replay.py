"""A graph of events replayed with edits: when each point comes, which chain of edges decided it, and how long steps then take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.intervals import Index, Intervals, split
from tracediff.accounting.reduction import EventGraph, Reduction
from tracediff.arrays import Bools, Ints
from tracediff.model.causes import BUSY, CATEGORIES
from tracediff.whatif.graph import CAUSE, CROSS, DROPPED, GIL, LAUNCH, OWN, PEER, QUEUE, RUN, WAIT

# What is changed before events are replayed: the lags of some edges become shorter, or the edges go.


Mask = Bools
Causes = npt.NDArray[np.int8]
# Whether a place is meant: its range, thread, GIL holder, the holder's range, CUDA function.
At = Callable[[Sequence[str]], bool]

# Of a graph launch under nsys with --cuda-graph-trace=node, measured on H200s; docs/investigate.md says so.
GRAPH_LAUNCH_NS, GRAPH_NODE_NS, GRAPH_GAP_NS = 20_000, 700, 500
_SOON_NS = 5_000  # after a call, until a thread has to wait for the GIL that the call let go
_BACK = (CAUSE["host_work"], CAUSE["gil_wait"])
_FEWEST = 4  # kernels that are worth a graph
_PREPARES = (CAUSE["host_work"], CAUSE["host_api"])


class Scale(msgspec.Struct, frozen=True):
    """Time of a cause at some places, or of some kernels, times a factor; 0 takes it away, and GPU work with its launch.

    causes: keys of categories; kernel: a pattern (`*`: anything) of names, or `names` themselves, of GPU work.
    """

    causes: tuple[str, ...]
    factor: float
    at: At | None = None
    kernel: str = ""
    names: frozenset[str] = frozenset()


class Fuse(msgspec.Struct, frozen=True):
    """Kernels of these patterns that follow one another on a stream become one; its time is `factor` of their sum."""

    kernels: tuple[str, ...]
    factor: float = 1.0


class Graph(msgspec.Struct, frozen=True):
    """Kernels that a thread launches one by one between two waits become one CUDA graph."""


class Ahead(msgspec.Struct, frozen=True):
    """Synchronising calls await what the same call awaited one step before: the host runs a step ahead of the GPU."""


Edit = Scale | Fuse | Graph | Ahead


class Edited(msgspec.Struct, frozen=True):
    """The graph with its edges changed. removed: of each edge, what of its time threads or GPUs no longer take, ns.

    meant: how many edges each edit found.
    """

    graph: EventGraph
    removed: Ints
    meant: tuple[int, ...]


def edited(graph: EventGraph, names: Sequence[str], edits: Sequence[Edit]) -> Edited:
    """A graph with all edits applied. `names`: of kernels, by the graph's `key`."""
    lag, source, cause, meant = graph.lag.copy(), graph.source.copy(), graph.cause.copy(), []
    for edit in edits:
        if isinstance(edit, Scale):
            meant.append(_scale(graph, names, lag, edit))
        elif isinstance(edit, Fuse):
            meant.append(_fuse(graph, names, lag, edit))
        elif isinstance(edit, Graph):
            meant.append(_to_graphs(graph, names, lag, cause))
        else:
            meant.append(_run_ahead(graph, lag, source))
    left = np.where(lag == DROPPED, 0, lag)
    gone = np.where((graph.kind == GIL) & (lag == DROPPED), _waited(graph), graph.lag - left)
    removed = np.where(np.isin(graph.kind, (OWN, RUN, GIL)), gone, 0)
    return Edited(replace(graph, lag=lag, source=source, cause=cause), removed, tuple(meant))


def matches(name: str, pattern: str) -> bool:
    """Whether a kernel is meant: the pattern is part of its name, letters of any case, `*` stands for anything."""
    return fnmatchcase(name.casefold(), f"*{pattern.casefold()}*".replace("[", "[[]"))


def _named(graph: EventGraph, names: Sequence[str], pattern: str) -> Mask:
    """Which ops have a name that the pattern means."""
    found = np.zeros(len(names) + 1, np.bool_)
    for key in np.unique(graph.key).tolist():
        found[key] = matches(names[key], pattern)
    return found[graph.key]


def _waited(graph: EventGraph) -> Ints:
    """How long the segment was that ends where each edge leads: its own edge leads there from where it begins."""
    begun = np.full(len(graph.time), -1, np.int64)
    own = graph.kind == OWN
    begun[graph.target[own]] = graph.source[own]
    start = begun[graph.target]
    return np.where(start >= 0, graph.time[graph.target] - graph.time[np.maximum(start, 0)], 0)


def _scale(graph: EventGraph, names: Sequence[str], lag: Ints, edit: Scale) -> int:
    meant = np.isin(graph.cause, [CAUSE[one] for one in edit.causes])
    if edit.at is not None:
        meant &= np.array([edit.at(words) for words in graph.words], np.bool_)[graph.word]
    if edit.kernel or edit.names:
        of_them = (
            _named(graph, names, edit.kernel)
            if edit.kernel
            else np.isin(np.array(names), list(edit.names))[graph.key]
        )
        meant &= (graph.op >= 0) & of_them[graph.op]
    on_gpu = meant & (graph.kind == RUN)
    if set(edit.causes) <= set(BUSY):
        ops = np.zeros(len(graph.key) + 1, np.bool_)
        ops[graph.op[on_gpu]] = True
        of_them = ops[graph.op] & (graph.op >= 0)
        if edit.factor == 0:
            _remove(graph, lag, ops)
        else:
            busy = of_them & np.isin(graph.kind, (RUN, PEER))
            _multiply(lag, busy, edit.factor)
        return int(on_gpu.sum())
    waits = meant & (graph.kind == GIL)
    links = meant & ~waits & (graph.kind != WAIT) & ~on_gpu
    if edit.factor == 0:
        lag[waits | (meant & (graph.kind == WAIT))] = DROPPED
        _drop_waits_after(graph, lag, links & (graph.kind == OWN) & (graph.cause == CAUSE["host_sync"]))
    else:
        gone = (_waited(graph) * (1 - edit.factor)).astype(np.int64)
        lag[waits] -= gone[waits]
    _multiply(lag, links, edit.factor)
    return int(meant.sum())


def _multiply(lag: Ints, which: Mask, factor: float) -> None:
    which = which & (lag != DROPPED)
    lag[which] = np.rint(lag[which] * factor).astype(np.int64)


def _remove(graph: EventGraph, lag: Ints, ops: Mask) -> None:
    """Take ops away, and their launching calls where these launched nothing else. `ops`: by op, False for none."""
    of_op = ops[graph.op] & (graph.op >= 0)
    on_gpu = np.isin(graph.kind, (RUN, QUEUE, LAUNCH, CROSS, PEER))
    run = graph.kind == RUN
    calls, kept = (np.unique(graph.call[run & one & (graph.call >= 0)]) for one in (of_op, ~of_op))
    alone = np.isin(graph.call, np.setdiff1d(calls, kept))
    lag[of_op & np.isin(graph.kind, (RUN, QUEUE))] = 0
    lag[of_op & np.isin(graph.kind, (LAUNCH, CROSS, PEER))] = DROPPED
    lag[alone & (graph.kind == WAIT)] = DROPPED
    call = alone & ~on_gpu & (graph.kind == OWN)
    lag[call] = 0
    _drop_waits_after(graph, lag, call)


def _drop_waits_after(graph: EventGraph, lag: Ints, calls: Mask) -> None:
    """A call lets go of the GIL: without it there is no wait to have it back, which begins soon after the call."""
    own = np.flatnonzero(graph.kind == OWN)
    following = dict(zip(graph.source[own].tolist(), own.tolist(), strict=True))
    gone = np.zeros(len(graph.time), np.bool_)
    for edge in np.flatnonzero(calls).tolist():
        after, point = 0, int(graph.target[edge])
        while after <= _SOON_NS and (edge := following.get(point, -1)) >= 0 and graph.cause[edge] in _BACK:
            point = int(graph.target[edge])
            if graph.cause[edge] == CAUSE["gil_wait"]:
                gone[point] = True
            else:
                after += int(graph.lag[edge])
    lag[(graph.kind == GIL) & gone[graph.target]] = DROPPED


def following(graph: EventGraph) -> Ints:
    """The next op on the stream of each one, -1 none; one value more than there are ops, -1."""
    queue, edges = np.flatnonzero(graph.kind == QUEUE), np.flatnonzero(graph.kind == RUN)
    ended_by = np.full(len(graph.time), -1)
    ended_by[graph.target[edges]] = graph.op[edges]
    found = np.full(len(graph.key) + 1, -1)
    previous = ended_by[graph.source[queue]]
    found[previous[previous >= 0]] = graph.op[queue[previous >= 0]]
    return found


def runs(graph: EventGraph) -> Ints:
    """The edge of each op from its start to its end; one value more than there are ops, -1."""
    found = np.full(len(graph.key) + 1, -1)
    edges = np.flatnonzero(graph.kind == RUN)
    found[graph.op[edges]] = edges
    return found


def chained(graph: EventGraph, names: Sequence[str], kernels: Sequence[str]) -> list[list[int]]:
    """The ops of kernels of these patterns that follow one another on a stream; no op is in two chains."""
    after_each = following(graph)
    wanted = [_named(graph, names, one) for one in kernels]
    taken = np.zeros(len(graph.key) + 1, np.bool_)
    found = []
    for first in np.flatnonzero(wanted[0]).tolist():
        chain = [first]
        while len(chain) < len(wanted):
            after = int(after_each[chain[-1]])
            if after < 0 or not wanted[len(chain)][after]:
                break
            chain.append(after)
        if len(chain) == len(wanted) and not taken[chain].any():
            taken[chain] = True
            found.append(chain)
    return found


def _fuse(graph: EventGraph, names: Sequence[str], lag: Ints, edit: Fuse) -> int:
    """Each kernel of the chain after the first goes, with its launch and what the thread does for it; the first takes the time of all."""
    run = runs(graph)
    gone = np.zeros(len(graph.key) + 1, np.bool_)
    chains = chained(graph, names, edit.kernels)
    for chain in chains:
        lag[run[chain[0]]] = round(int(lag[run[chain]].sum()) * edit.factor)
        gone[chain[1:]] = True
    if chains:
        _remove(graph, lag, gone)
        _unused_host(graph, lag, gone)
    return len(chains)


def _unused_host(graph: EventGraph, lag: Ints, gone: Mask) -> None:
    """Take away what a thread does for launches that are gone: from the call before each, in the same range."""
    runs = (graph.kind == RUN) & (graph.call >= 0)
    calls = np.setdiff1d(graph.call[runs & gone[graph.op]], graph.call[runs & ~gone[graph.op]])
    ending = np.full(len(graph.time), -1)
    own = np.flatnonzero(graph.kind == OWN)
    ending[graph.target[own]] = own
    for edge in own[np.isin(graph.call[own], calls)].tolist():
        place = graph.words[graph.word[edge]][0]
        before = int(ending[graph.source[edge]])
        while (
            before >= 0
            and graph.call[before] < 0
            and graph.cause[before] in _PREPARES
            and graph.words[graph.word[before]][0] == place
        ):
            lag[before] = 0
            before = int(ending[graph.source[before]])


def _to_graphs(graph: EventGraph, names: Sequence[str], lag: Ints, cause: Causes) -> int:
    """Kernels that a thread launches between two waits, copies or step starts become one launch; how many do. What they wait for is in the graph."""
    ops_of: dict[int, list[int]] = {}
    run = graph.kind == RUN
    for call, op in zip(graph.call[run].tolist(), graph.op[run].tolist(), strict=True):
        ops_of.setdefault(call, []).append(op)
    copies = np.array([_copies(names[one]) for one in graph.key.tolist()] + [False], np.bool_)
    starts = set(graph.op[np.isin(graph.target, graph.start) & (graph.kind != OWN)].tolist())
    own = np.flatnonzero(graph.kind == OWN)
    following = dict(zip(graph.source[own].tolist(), own.tolist(), strict=True))
    into = dict(zip(graph.target[own].tolist(), own.tolist(), strict=True))
    by_op, waits = np.argsort(graph.op, kind="stable"), np.flatnonzero(graph.kind == GIL)
    sorted_ops, total = graph.op[by_op], 0
    for head in (point for point in following if point not in into):
        group: list[int] = []  # edges of the thread from the first launch on
        ops: list[int] = []
        last = 0  # edges of `group` up to the end of its last launch
        point: int | None = head
        while point is not None:
            edge = following.get(point)
            call = int(graph.call[edge]) if edge is not None else -1
            mine = ops_of.get(call, []) if call >= 0 else []
            alone = len(mine) == 1 and not copies[mine[0]]
            ends = (
                edge is None
                or graph.cause[edge] == CAUSE["host_sync"]
                or (bool(mine) and not alone)
                or (alone and mine[0] in starts)
            )
            if ends:
                if len(ops) >= _FEWEST:
                    places = np.searchsorted(sorted_ops, np.array(ops)[:, None] + (0, 1)).tolist()
                    among = np.concatenate([by_op[low:high] for low, high in places])
                    _one_launch(graph, lag, cause, group[:last], ops, among, waits)
                    total += len(ops)
                group, ops, last = [], [], 0
            if edge is not None and (alone or ops):
                group.append(edge)
                if alone:
                    last = len(group)
                    ops += [] if mine[0] in ops[-1:] else mine
            point = int(graph.target[edge]) if edge is not None else None
    return total


def _copies(name: str) -> bool:
    return "memcpy" in name.lower() and "device-to-device" not in name.lower()


def _one_launch(
    graph: EventGraph, lag: Ints, cause: Causes, edges: list[int], ops: list[int], among: Ints, waits: Ints
) -> None:
    """Make one launch of the edges of a thread. among: the edges of its ops; waits: those of all waits for the GIL."""
    took = GRAPH_LAUNCH_NS + GRAPH_NODE_NS * len(ops)
    keeps = np.array(edges)[graph.cause[edges] != CAUSE["gc"]]
    lag[keeps] = 0
    lag[edges[0]] = took
    lag[waits[np.isin(graph.target[waits], graph.target[edges])]] = DROPPED
    kind, later = graph.kind[among], graph.op[among] != ops[0]
    lag[among[(kind == LAUNCH) & later]] = DROPPED
    first = among[(kind == LAUNCH) & ~later]
    lag[first] = np.where(
        graph.source[first] == graph.source[edges[0]], took, np.minimum(lag[first], GRAPH_GAP_NS)
    )
    queue = among[(kind == QUEUE) & later]
    lag[queue] = np.minimum(lag[queue], GRAPH_GAP_NS)
    cause[among[np.isin(kind, (QUEUE, CROSS)) & later]] = CAUSE["graph_internal"]


def _run_ahead(graph: EventGraph, lag: Ints, source: Index) -> int:
    """Let each synchronising call await what the call of the same number in the step before awaited; how many do."""
    waits = np.flatnonzero(graph.kind == WAIT)
    waits = waits[np.argsort(graph.target[waits], kind="stable")]
    order = np.argsort(graph.start)
    steps = np.searchsorted(graph.start[order], graph.source[waits])
    stretch = graph.stretch[order][np.maximum(np.arange(len(order) + 1) - 1, 0)].tolist()
    numbers: dict[tuple[int, int], int] = {}
    count: dict[int, int] = {}
    for edge, step in zip(waits.tolist(), steps.tolist(), strict=True):
        number = count[step] = count.get(step, -1) + 1
        numbers[step, number] = edge
    for (step, number), edge in numbers.items():
        before = numbers.get((step - 1, number)) if step else None
        if before is None or stretch[step - 1] != stretch[step]:
            lag[edge] = DROPPED
        else:
            source[edge] = graph.source[before]
    return len(waits)


def replay(graph: EventGraph) -> Ints:
    """The time of each point, ns: the latest that its edges allow.

    A point that nothing leads to keeps its time; so does one whose edges are all gone, from the last of their sources on.
    """
    times = graph.time.tolist()
    source, target = graph.source.tolist(), graph.target.tolist()
    lags = graph.lag.tolist()
    now, latest = -1, DROPPED
    for edge, point in enumerate(target):
        if point != now:
            if now >= 0:
                times[now] = latest
            now, latest = point, DROPPED
        step = lags[edge]
        reached = times[source[edge]] + (step if step != DROPPED else 0)
        if reached > latest and (step != DROPPED or latest == DROPPED):
            latest = reached
    if now >= 0:
        times[now] = latest
    return np.array(times, np.int64)


def critical(graph: EventGraph, time: Ints, begin: int, end: int) -> Index:
    """The edges that decided when point `end` came, from the last one back to point `begin` or to what came before it."""
    first = np.searchsorted(graph.target, np.arange(len(time) + 1))
    reached = time[graph.source] + np.where(graph.lag == DROPPED, 0, graph.lag)
    path, point, stop = [], end, int(time[begin])
    while int(time[point]) > stop or (point > begin and int(time[point]) == stop):
        low, high = int(first[point]), int(first[point + 1])
        if low == high:
            break
        edge = low + int(np.argmax(reached[low:high]))
        path.append(edge)
        point = int(graph.source[edge])
    return np.array(path, np.int64)


# Steps before and after edits: how long they take, and what decides it.


class Steps(msgspec.Struct, frozen=True):
    """Steps of one export, arrays of one length. before, after: ns; deciding: ns of what decided it, (2, steps, CATEGORIES).

    row: of `Reduction.periods`. meant: how many edges or ops each edit found. removed: what the edits took from threads and GPUs, ns.
    """

    row: Ints
    before: Ints
    after: Ints
    deciding: Ints
    meant: tuple[int, ...]
    removed: Ints


def project(reduction: Reduction, edits: Sequence[Edit]) -> Steps:
    """Replay the graph of an export with the edits. `reduction.events` is there.

    The first step of a stretch is left out where there are others: what would have been different before it is not known.
    """
    graph = reduction.events
    assert graph is not None
    change = edited(graph, reduction.keys["name"].to_list(), edits)
    after = replay(change.graph)
    kept = _kept(reduction, graph)
    lengths = [(time[graph.end] - time[graph.start])[kept] for time in (graph.time, after)]
    deciding = [_deciding(one, time)[kept] for one, time in ((graph, graph.time), (change.graph, after))]
    sums = np.concatenate(([0], np.cumsum(change.removed)))[
        np.searchsorted(graph.target, np.arange(len(after) + 1))
    ]
    removed = (sums[graph.end + 1] - sums[graph.start + 1])[kept]
    return Steps(graph.period[kept], lengths[0], lengths[1], np.stack(deciding), change.meant, removed)


def _kept(reduction: Reduction, graph: EventGraph) -> Index:
    """The steps that count."""
    of = (
        reduction.periods[graph.period]
        .select("rank", "device")
        .with_columns(stretch=graph.stretch, start=graph.start)
    )
    first = of["start"] == of.select(pl.col("start").min().over("rank", "device", "stretch"))["start"]
    return np.flatnonzero(~first) if not first.all() else np.arange(len(of))


def _deciding(graph: EventGraph, time: Ints) -> Ints:
    """How long which category of edges decided each step, ns: (steps, CATEGORIES), along the chain that ends with the last step of its stretch."""
    found = np.zeros((len(graph.period), len(CATEGORIES)), np.int64)
    for stretch in np.unique(graph.stretch).tolist():
        mine = np.flatnonzero(graph.stretch == stretch)
        first, last = (mine[np.argmin(time[graph.start[mine]])], mine[np.argmax(time[graph.end[mine]])])
        path = critical(graph, time, int(graph.start[first]), int(graph.end[last]))[::-1]
        edges = Intervals(time[graph.source[path]], time[graph.target[path]])
        bounds = np.unique(np.concatenate((time[graph.start[mine]], time[graph.end[mine]])))
        owner, slot, start, end = split(edges, bounds)
        for step in mine.tolist():  # steps of several devices share a chain
            low, high = np.searchsorted(bounds, (time[graph.start[step]], time[graph.end[step]]))
            inside = (slot > low) & (slot <= high)
            np.add.at(found[step], graph.cause[path[owner[inside]]], (end - start)[inside])
    return found
