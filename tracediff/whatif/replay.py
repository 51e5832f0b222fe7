"""A graph of events replayed with edits: when each point comes, which chain of edges decided it, and how long steps then take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Index, Intervals, Ints, split
from tracediff.accounting.reduction import EventGraph, Reduction
from tracediff.model.causes import CATEGORIES
from tracediff.whatif.edits import Edit, edited
from tracediff.whatif.graph import DROPPED


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


@dataclass(frozen=True)
class Steps:
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
