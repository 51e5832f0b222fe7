"""A graph of events replayed: when each point comes, and which chain of edges decided it."""

from __future__ import annotations

import numpy as np

from tracediff.accounting.intervals import Index, Ints
from tracediff.accounting.reduction import EventGraph

DROPPED = np.iinfo(np.int64).min  # lag of an edge that is gone


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
