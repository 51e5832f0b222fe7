"""Segments of a launch sequence: which of them hold the same work, and how regularly kinds of work follow one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracediff.trace.workloads import ALIKE, IN_ORDER, RECURS, heaviest_first, leaders

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

LONGEST_CYCLE = 200  # segments after which the classes of a structured sequence begin again
CYCLES = 4  # of them in a structured sequence, at least
STRUCTURED = 0.9  # share of segments whose class is that of the segment one cycle later
_REPEATS, _PART = 0.5, 4  # share of launches that begin a part that repeats; launches of a part
_MOST_BLOCKS, _SAME = 65, 0.95  # blocks of a sequence; share of launches that are those of a block later
_DISTINCT = 3000  # distinct segments that are clustered; rarer ones are classes of their own
_MOST_CLASSES = 300  # likewise


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
    """Cluster the segments that begin at `start` (sorted, from 0 on, below n).

    A run of one launch counts once: how often a kernel is launched in a row depends on lengths. O(n) for n launches, and
    O(m log m) for the m launches of the segments that differ.
    """
    count, launches = len(start), len(token)
    total = np.add.reduceat(ops, start)
    kept = np.ones(launches, np.bool_)
    kept[1:] = token[1:] != token[:-1]
    kept[start] = True
    place = np.flatnonzero(kept)
    runs, weight = token[place], np.add.reduceat(ops, place)
    first, which, often = _distinct(runs, np.searchsorted(place, start))
    chosen, owner = _launches_of(first, np.searchsorted(place, start), len(place))
    runs, weight = runs[chosen], weight[chosen]
    kind = _classes(runs, owner, often)
    sizes = np.bincount(kind, weights=often)
    grams = _threes(runs, owner)
    held = _held_by(grams, owner, often)[grams] >= RECURS
    # a share: segments of one sequence may have longer runs
    known = np.bincount(owner, weights=weight * held) / np.bincount(owner, weights=weight)
    known = known[which] * total
    ordered = _in_order(grams, owner, kind, often)[which]
    inner = np.ones(count, np.bool_)
    inner[[0, -1]] = count < 3
    all_inner = max(float(total[inner].sum()), 1.0)
    kind = kind[which]
    recurring = sizes[kind] >= RECURS
    return Segments(
        start, total, kind, recurring,
        float(total[recurring & inner].sum()) / all_inner, float(known[inner].sum()) / all_inner,
        float(total[ordered & inner].sum()) / all_inner,
    )  # fmt: skip


def _distinct(token: Ints, start: Ints) -> tuple[Ints, Ints, Ints]:
    """The first segment of each sequence of launches, which of these each segment is, and how often each occurs."""
    length = np.diff(start, append=len(token))
    powers = np.full(int(length.max()), 0x9E3779B97F4A7C15, np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    words = mixed(np.arange(int(token.max()) + 1))[token]
    words *= powers[np.arange(len(token)) - np.repeat(start, length)]
    _, first, which, often = np.unique(
        np.add.reduceat(words, start), return_index=True, return_inverse=True, return_counts=True
    )
    return first, which.reshape(-1), often.astype(np.int64)


def _launches_of(chosen: Ints, start: Ints, count: int) -> tuple[Ints, Ints]:
    """Indices of the launches of some segments, and the place of each launch's segment among them."""
    length = np.diff(start, append=count)[chosen]
    owner = np.repeat(np.arange(len(chosen)), length)
    inside = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
    return start[chosen][owner] + inside, owner


def mixed(values: npt.NDArray[np.integer]) -> Hashes:
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


def _classes(token: Ints, owner: Ints, often: Ints) -> Ints:
    """The class of each distinct segment, 0 the one with the most segments; the most frequent ones lead."""
    count = len(often)
    starts = np.searchsorted(owner, np.arange(count))
    content = np.add.reduceat(mixed(token), starts)
    _, first, bag_of = np.unique(content, return_index=True, return_inverse=True)
    bag_of = bag_of.reshape(-1)
    rank = np.lexsort((first, -np.bincount(bag_of, weights=often)))
    row = np.full(count, -1, np.int64)
    row[first[rank[:_DISTINCT]]] = np.arange(min(len(rank), _DISTINCT))
    chosen = row[owner] >= 0
    wide = int(token.max()) + 1
    rows = min(len(rank), _DISTINCT)
    bag = np.bincount(row[owner[chosen]] * wide + token[chosen], minlength=rows * wide)
    # what is rarer or unlike all is a class of its own
    label = len(rank) + np.arange(len(rank))
    bags = bag.reshape(rows, wide).astype(np.float32)
    classes, apart = leaders(bags, _MOST_CLASSES, nearest=False)
    label[:rows] = np.where(apart <= ALIKE, classes, label[:rows])
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    kind = np.unique(label[place[bag_of]], return_inverse=True)[1].reshape(-1)
    return heaviest_first(kind, often)


def _held_by(item: Ints, owner: Ints, often: Ints) -> Ints:
    """In how many segments each item occurs."""
    wide = int(item.max()) + 1
    pairs = np.unique(owner * wide + item)
    return np.bincount(pairs % wide, weights=often[pairs // wide], minlength=wide)


def _in_order(gram: Ints, owner: Ints, kind: Ints, often: Ints) -> Flags:
    """Of each distinct segment: its sequences of three are those of the most frequent one of its class."""
    wide = int(gram.max()) + 1
    who, item, times = _bags(gram, owner, wide)
    total = np.bincount(who, weights=times, minlength=len(kind))
    order = np.argsort(often, kind="stable")
    leader = np.zeros(int(kind.max()) + 1, np.int64)
    leader[kind[order]] = order  # the last one written stays
    # how often the leader of each owner's class holds the item: the pair (leader, item) is looked up
    key = who * wide + item
    sought = leader[kind[who]] * wide + item
    at = np.minimum(np.searchsorted(key, sought), len(key) - 1)
    theirs = np.where(key[at] == sought, times[at], 0)
    shared = np.bincount(who, weights=np.minimum(times, theirs), minlength=len(kind))
    distance = 1 - 2 * shared / np.maximum(total + total[leader[kind]], 1)
    return np.asarray(distance <= IN_ORDER, np.bool_)


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


def blocks(sequence: Ints) -> int:
    """Of how many equal blocks a sequence consists, in each of which parts repeat; 1 where it does not.

    Layers come again in a step, but a block of them is no surer than one; the steps of a request are. O(64 n).
    """
    collapsed = sequence[np.append(True, sequence[1:] != sequence[:-1])]
    for count in range(2, _MOST_BLOCKS):
        step = round(len(collapsed) / count)
        if step < _PART * RECURS:
            break
        near = {lag: _alike(collapsed, lag) for lag in range(step - 2, step + 3)}
        lag = max(near, key=lambda one: near[one])
        smaller = max(_alike(collapsed, max(round(lag / part), 1)) for part in range(2, 65))
        if near[lag] >= _SAME and 1 - near[lag] <= (1 - smaller) / 2 and repeats(collapsed[:lag]):
            return count
    return 1


def _alike(sequence: Ints, lag: int) -> float:
    return float(np.mean(sequence[lag:] == sequence[:-lag]))


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
