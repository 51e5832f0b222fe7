"""Segments of a launch sequence: which of them hold the same work, and how regularly kinds of work follow one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

ALIKE = 0.15  # Bray-Curtis distance of the contents of two segments of one class, at most
IN_ORDER = 0.4  # the same of their sequences of three: another order of the same content, beyond
RECURS = 3  # segments of a class, and segments that hold a sequence of three, to count as recurring
LONGEST_CYCLE = 200  # segments after which the classes of a structured sequence begin again
CYCLES = 4  # of them in a structured sequence, at least
STRUCTURED = 0.9  # share of segments whose class is that of the segment one cycle later
_REPEATS, _PART = 0.5, 4  # share of launches that begin a part that repeats; launches of a part
_DISTINCT = 3000  # distinct segments that are clustered; rarer ones are classes of their own
_LEADERS = 300  # classes, likewise


@dataclass(frozen=True)
class Segments:
    """A cut of n launches into k segments, the first and the last of which may be parts."""

    start: Ints  # (k,) index of the first launch of each; the last one ends with the launches
    ops: Ints  # (k,)
    kind: Ints  # (k,) the class, 0 the one with the most segments
    recurring: Flags  # (k,) class of at least RECURS segments
    alike: float  # share of ops in recurring classes, edges left out
    known: float  # share of ops inside sequences of three launches that at least RECURS segments hold
    ordered: float  # share of ops in segments with the sequence of launches of their class


def segments(start: Ints, token: Ints, ops: Ints) -> Segments:
    """Cluster the segments that begin at `start` (sorted, from 0 on, below n); O(n log n) for n launches.

    A run of one launch counts once: how often a kernel is launched in a row depends on lengths.
    """
    count, launches = len(start), len(token)
    total = np.add.reduceat(ops, start)
    kept = np.ones(launches, np.bool_)
    kept[1:] = token[1:] != token[:-1]
    kept[start] = True
    place = np.flatnonzero(kept)
    owner = np.searchsorted(start, place, side="right") - 1
    kind = _classes(token[place], owner, count)
    sizes = np.bincount(kind)
    grams = _threes(token[place], owner)
    # ops of a collapsed run, by its first launch
    weight = np.add.reduceat(ops, place)
    inner = np.ones(count, np.bool_)
    inner[[0, -1]] = count < 3
    recurring = sizes[kind] >= RECURS
    known = _held_by(grams, owner)[grams] >= RECURS
    ordered = _in_order(grams, owner, kind, sizes)
    return Segments(
        start, total, kind, recurring,
        _share(total, recurring & inner, inner), _share(weight, known & inner[owner], inner[owner]),
        _share(total, ordered & inner, inner),
    )  # fmt: skip


def _share(weight: Ints, of: Flags, among: Flags) -> float:
    return float(weight[of].sum()) / max(float(weight[among].sum()), 1.0)


def mixed(values: npt.NDArray[np.integer]) -> Words:
    """Spread small numbers over 64 bits (splitmix64)."""
    x = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def _threes(token: Ints, owner: Ints) -> Ints:
    """Dense id of each launch with its neighbours in the same segment; an end of the segment is a neighbour too."""
    words = mixed(token)
    same = owner[1:] == owner[:-1]
    before, after = np.zeros(len(token), np.uint64), np.zeros(len(token), np.uint64)
    before[1:][same] = words[:-1][same]
    after[:-1][same] = words[1:][same]
    joined = (
        before * np.uint64(0x9E3779B97F4A7C15) + words * np.uint64(3) + after * np.uint64(0xC2B2AE3D27D4EB4F)
    )
    return np.unique(joined, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _bags(item: Ints, owner: Ints, wide: int) -> tuple[Ints, Ints, Ints]:
    """(owner, item, how often) of every different pair, in order of owner."""
    pairs, counts = np.unique(owner * wide + item, return_counts=True)
    return pairs // wide, pairs % wide, counts.astype(np.int64)


def _classes(token: Ints, owner: Ints, count: int) -> Ints:
    """The class of each segment: of the first leader, in order of frequency, that it is like."""
    alike = np.zeros(count, np.uint64)
    starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    alike[owner[starts]] = np.add.reduceat(mixed(token), starts)
    _, first, distinct, often = np.unique(alike, return_index=True, return_inverse=True, return_counts=True)
    rank = np.lexsort((first, -often))[:_DISTINCT]
    number = np.full(len(first), -1, np.int64)
    number[rank] = np.arange(len(rank))
    place_of = np.full(count, -1, np.int64)
    place_of[first[rank]] = np.arange(len(rank))
    chosen = place_of[owner] >= 0
    wide = int(token.max()) + 1
    bag = np.zeros((len(rank), wide), np.float32)
    np.add.at(bag, (place_of[owner[chosen]], token[chosen]), 1)
    label = _leaders(bag)
    label = np.concatenate([label, label.max() + 1 + np.arange(len(first) - len(rank))])
    number[number < 0] = len(rank) + np.arange(len(first) - len(rank))
    kind = label[number[distinct.reshape(-1)]]
    order = np.argsort(-np.bincount(kind), kind="stable")
    renamed = np.empty(len(order), np.int64)
    renamed[order] = np.arange(len(order))
    return np.asarray(renamed[kind], np.int64)


def _leaders(bag: npt.NDArray[np.float32]) -> Ints:
    """The class of each row of (rows, items): rows come in order of frequency, the first of a class leads it."""
    label = np.full(len(bag), -1, np.int64)
    size = bag.sum(axis=1)
    for number in range(len(bag)):
        open_rows = np.flatnonzero(label < 0)
        if not len(open_rows):
            break
        lead = open_rows[0]
        if number >= _LEADERS:
            label[open_rows] = number + np.arange(len(open_rows))
            break
        mine = bag[lead] > 0
        shared = np.minimum(bag[open_rows][:, mine], bag[lead][mine]).sum(axis=1)
        distance = 1 - 2 * shared / (size[open_rows] + size[lead])
        label[open_rows[distance <= ALIKE]] = number
        label[lead] = number
    return label


def _held_by(item: Ints, owner: Ints) -> Ints:
    """In how many segments each item occurs."""
    wide = int(item.max()) + 1
    return np.bincount(np.unique(owner * wide + item) % wide, minlength=wide)


def _in_order(gram: Ints, owner: Ints, kind: Ints, sizes: Ints) -> Flags:
    """Of each segment: its sequences of three are those of the median member of its class."""
    wide = int(gram.max()) + 1
    who, item, often = _bags(gram, owner, wide)
    total = np.bincount(who, weights=often, minlength=len(kind))
    leader = _typical(who, item, often, kind, len(sizes))
    lead_who = leader[kind[who]]
    # how often the leader of each owner's class holds the item: the pair (leader, item) is looked up
    key = who * wide + item
    at = np.searchsorted(key, lead_who * wide + item)
    at = np.minimum(at, len(key) - 1)
    theirs = np.where(key[at] == lead_who * wide + item, often[at], 0)
    shared = np.bincount(who, weights=np.minimum(often, theirs), minlength=len(kind))
    distance = 1 - 2 * shared / np.maximum(total + total[leader[kind]], 1)
    return np.asarray(distance <= IN_ORDER, np.bool_)


def _typical(who: Ints, item: Ints, often: Ints, kind: Ints, classes: int) -> Ints:
    """The segment that stands for each class: the most frequent one, the earliest of several."""
    word = np.zeros(len(kind), np.uint64)
    starts = np.flatnonzero(np.append(True, who[1:] != who[:-1]))
    word[who[starts]] = np.add.reduceat(mixed(item) * often.astype(np.uint64), starts)
    joined = mixed(kind) ^ word
    _, first, count = np.unique(joined, return_index=True, return_counts=True)
    order = np.lexsort((-first, count))
    found = np.zeros(classes, np.int64)
    found[kind[first[order]]] = first[order]  # the last one written stays
    return found


def repeats(sequence: Ints) -> bool:
    """Tell whether parts come again and again in a sequence: layers do in a step, little does in a layer."""
    if len(sequence) < _PART * RECURS:
        return False
    words = mixed(sequence)
    joined = sum(
        words[place : len(words) - _PART + 1 + place] * np.uint64(2 * place + 3) for place in range(_PART)
    )
    _, which, often = np.unique(joined, return_inverse=True, return_counts=True)
    return bool(np.mean(often[which.reshape(-1)] >= RECURS) >= _REPEATS)


def cycle(kind: Ints) -> int:
    """After how many segments the classes begin again, 0 where they do not: parts of a step follow one another so.

    Runs of one class (a batch of one size, then of another) are no cycle: the class a cycle later must be
    surer than that of the next segment. O(LONGEST_CYCLE * k).
    """
    inner = kind[1:-1]
    if len(inner) < 2 * CYCLES:
        return 0
    longest = min(LONGEST_CYCLE, len(inner) // CYCLES)
    share = np.array([np.mean(inner[step:] == inner[:-step]) for step in range(1, longest + 1)])
    frequency = np.bincount(inner) / len(inner)
    least = max(float(share[0]), float((frequency**2).sum()))
    good = (share >= STRUCTURED) & (share >= (1 + least) / 2) & (share > share[0])
    good[0] = False
    return int(np.flatnonzero(good)[0]) + 1 if good.any() else 0
