"""Events too short to be seen are merged with their like, so that a long step stays small enough to draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracediff.measure.intervals import Index, Ints
from tracediff.measure.kept_steps import Lane

MOST_EVENTS = 4_000  # of one step
_RESOLUTIONS = (4096, 2048, 1024, 512, 256, 128)


def bounded(lanes: list[Lane], length: int) -> tuple[list[Lane], int, int]:
    """Merge what is shorter than a 4096th (2048th, ...) of the step until at most MOST_EVENTS are left.

    Returns the lanes, how many events there were, and below what length they were merged (0: none were).
    """
    events = sum(len(lane.start) for lane in lanes)
    plain = [
        replace(lane, inside=lane.end - lane.start, count=np.ones(len(lane.start), np.int64))
        for lane in lanes
    ]
    if events <= MOST_EVENTS:
        return plain, events, 0
    for resolution in _RESOLUTIONS:
        below = max(length // resolution, 1)
        merged = [_merged(lane, below) for lane in plain]
        if sum(len(lane.start) for lane in merged) <= MOST_EVENTS:
            break
    return merged, events, below


def _merged(lane: Lane, below: int) -> Lane:
    index, owner = merge(lane.start, lane.end, _code(lane), below)
    longest = np.lexsort((np.arange(len(owner)), -lane.inside, owner))
    first = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(index)))[:-1])).astype(np.int64)
    shown = longest[first] if len(index) else index  # a merged event is called what its longest part is
    end = np.full(len(index), np.iinfo(np.int64).min, np.int64)
    np.maximum.at(end, owner, lane.end)
    return replace(
        lane,
        start=lane.start[index],
        end=end,
        what=lane.what[shown],
        group=lane.group[index],
        under=None if lane.under is None else lane.under[index],
        inside=np.bincount(owner, weights=lane.inside, minlength=len(index)).astype(np.int64),
        count=np.bincount(owner, weights=lane.count, minlength=len(index)).astype(np.int64),
    )


def _code(lane: Lane) -> Ints:
    """One number for the group, and for what it would be without the GIL's trace."""
    return lane.group if lane.under is None else lane.group * 64 + lane.under


def merge(start: Ints, end: Ints, group: Index, below: int) -> tuple[Ints, Ints]:
    """Merge events shorter than `below` that start in the same `below` ns of the axis and are of one group.

    Events come in order of start. Returns the first event of each merged one, in order, and for each event which
    merged one it went into.
    """
    size = len(start)
    if not size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if below <= 0:
        return np.arange(size), np.arange(size)
    short = end - start < below
    cell = np.where(short, start // below, -1 - np.arange(size))
    order = np.lexsort((np.arange(size), group, cell))
    fresh = np.ones(size, np.bool_)
    fresh[1:] = (cell[order][1:] != cell[order][:-1]) | (group[order][1:] != group[order][:-1])
    number = np.cumsum(fresh) - 1
    first = order[fresh]
    rank = np.argsort(first, kind="stable")  # in order of start again
    place = np.empty(len(first), np.int64)
    place[rank] = np.arange(len(first))
    owner = np.empty(size, np.int64)
    owner[order] = place[number]
    return first[rank].astype(np.int64), owner
