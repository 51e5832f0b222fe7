"""Kernels of one side to kernels of the other, in tiers.

The modal op sequences of a phase are aligned; ops that stay the same are anchors. Blocks between anchors are
aligned again by what the kernels are: replaced one by one (`name`, `template`, `sequence`), n -> 1 (`fused`),
1 -> n (`split`), `added`, `removed`. Kernels outside the modal sequences are matched by key. Each op of each side
ends up in exactly one row; a kernel used in two roles is divided between rows by its uses in the sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from tracediff.kernels import categories as kernel_categories
from tracediff.kernels import names as kernel_names

# A capture has few distinct names and blocks, and each is asked for again and again.
normalise = lru_cache(1 << 16)(kernel_names.normalise)
category = lru_cache(1 << 16)(kernel_categories.category)

# Longer modal sequences than this are matched by key only: alignment is quadratic in the worst case.
MAX_SEQUENCE = 4000
_FUSE = 6  # the most ops a fused or split block is looked for among
_CONFIDENCE = {"exact": 1.0, "name": 0.95, "template": 0.85, "sequence": 0.65, "fused": 0.7, "split": 0.7, "added": 0.8,
               "removed": 0.8}  # fmt: skip


@dataclass(frozen=True, order=True)
class OpKey:
    """What an op is: name and launch shape ('' where it has none)."""

    name: str
    grid: str = ""
    block: str = ""


Ops: TypeAlias = tuple[OpKey, ...]
Pair: TypeAlias = tuple[Ops, Ops]


@dataclass(frozen=True)
class Match:
    """One row of the kernel table: these ops of the baseline are those of the candidate."""

    match: str
    confidence: float
    baseline: Ops
    candidate: Ops
    block: int = -1


@dataclass(frozen=True)
class Matching:
    """Rows, and for each side (phase, op) -> [(row, share of the op's time in that row)]; shares sum to 1."""

    rows: list[Match]
    baseline: dict[tuple[str, OpKey], list[tuple[int, float]]]
    candidate: dict[tuple[str, OpKey], list[tuple[int, float]]]


def match_kernels(
    baseline: dict[str, tuple[Sequence[OpKey], set[OpKey]]],
    candidate: dict[str, tuple[Sequence[OpKey], set[OpKey]]],
) -> Matching:
    """Match the ops of both sides.

    Arguments: phase -> (modal sequence, every op seen in that phase).
    """
    uses: list[tuple[str, Ops, Ops]] = []  # phase, baseline ops, candidate ops
    for phase in sorted(baseline.keys() | candidate.keys()):
        one, all_one = baseline.get(phase, ((), set()))
        other, all_other = candidate.get(phase, ((), set()))
        aligned = _align(list(one), list(other)) if max(len(one), len(other)) <= MAX_SEQUENCE else []
        uses += [(phase, *pair) for pair in aligned]
        seen_one = {op for pair in aligned for op in pair[0]}
        seen_other = {op for pair in aligned for op in pair[1]}
        uses += [
            (phase, *pair)
            for pair in _by_key(all_one - seen_one, all_other - seen_other, seen_one, seen_other)
        ]
    return _rows(uses)


def _align(one: list[OpKey], other: list[OpKey]) -> list[Pair]:
    if other < one:  # both ways round the same alignment: swapping the sides must only swap the pairs
        return [(a, b) for b, a in _align(other, one)]
    pairs: list[Pair] = []
    i = j = 0
    for a, b in _common(one, other):
        pairs += [*_align_block(tuple(one[i:a]), tuple(other[j:b])), ((one[a],), (other[b],))]
        i, j = a + 1, b + 1
    return pairs + _align_block(tuple(one[i:]), tuple(other[j:]))


def _common(one: list[OpKey], other: list[OpKey]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence, by rows of whole vectors: quadratic, but never worse."""
    ids = {op: number for number, op in enumerate(dict.fromkeys((*one, *other)))}
    a = np.array([ids[op] for op in one], np.int32)
    b = np.array([ids[op] for op in other], np.int32)
    # length[i][j]: of the longest common subsequence of one[i:] and other[j:]
    length = np.zeros((len(a) + 1, len(b) + 1), np.int16)
    for i in range(len(a) - 1, -1, -1):
        below = length[i + 1]
        best = np.maximum(below[:-1], below[1:] + (b == a[i]))
        length[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    found = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1, j] >= length[i, j + 1]:
            i += 1
        else:
            j += 1
    return found


@lru_cache(1 << 12)
def _align_block(one: Ops, other: Ops) -> list[Pair]:
    """Cheapest way to turn one block into the other; costs say what an engineer would call it."""
    # Beyond a size it is a wholesale rewrite (another attention backend, a compiled model): position says nothing any more.
    if not one or not other or len(one) * len(other) > 10_000:
        return _apart(one, other)
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {(0, 0): (0.0, (0, 0))}
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if i == j == 0:
                continue
            options = []
            if i:
                options.append((best[i - 1, j][0] + 1.0, (i - 1, j)))
            if j:
                options.append((best[i, j - 1][0] + 1.0, (i, j - 1)))
            if i and j:
                options.append((best[i - 1, j - 1][0] + _unlike(one[i - 1], other[j - 1]), (i - 1, j - 1)))
                for n in range(2, _FUSE + 1):
                    if n <= i:
                        cost = _merge_cost(one[i - n : i], other[j - 1])
                        options.append((best[i - n, j - 1][0] + cost, (i - n, j - 1)))
                    if n <= j:
                        cost = _merge_cost(other[j - n : j], one[i - 1])
                        options.append((best[i - 1, j - n][0] + cost, (i - 1, j - n)))
            best[i, j] = min(options)
    pairs = []
    at = (len(one), len(other))
    while at != (0, 0):
        back = best[at][1]
        pairs.append((one[back[0] : at[0]], other[back[1] : at[1]]))
        at = back
    return pairs[::-1]


def _unlike(one: OpKey, other: OpKey) -> float:
    """0 for the same op; removing one and adding the other costs 2."""
    if one == other:
        return 0.0
    if one.name == other.name:
        return 0.1
    if normalise(one.name) == normalise(other.name):
        return 0.2
    if category(one.name) == category(other.name):
        return 0.5
    same = {category(one.name), category(other.name)}
    # kernels of pointwise kinds replace each other freely; a GEMM is not replaced by a softmax: dearer than both apart
    return (
        0.8
        if same <= {"elementwise", "activation", "norm", "quantisation", "copy", "other", "softmax"}
        else 2.5
    )


# Work that does not disappear into a pointwise kernel: it can only be fused with its own kind.
_HEAVY = frozenset({"gemm", "attention", "moe", "communication"})


def _merge_cost(many: Ops, single: OpKey) -> float:
    """N -> 1 is likely where the one does what one of the n did; the same kind n times -> 1 is likeliest."""
    kinds = {category(op.name) for op in many}
    kind = category(single.name)
    impossible = 2.0 * len(many)
    if single in many or not kinds & _HEAVY <= {kind}:
        return impossible
    # the same code at another grid does its own work, not that of its neighbour as well
    if 0 < sum(op.name == single.name for op in many) < len(many):
        return impossible
    if kinds == {kind}:
        return 0.1 + 0.2 * len(many)
    if kind in kinds or kind == "other":
        return 0.4 + 0.25 * len(many)
    return impossible


def _apart(one: Iterable[OpKey], other: Iterable[OpKey]) -> list[Pair]:
    """Every op alone: removed, added."""
    return [((op,), ()) for op in one] + [((), (op,)) for op in other]


def _by_key(one: set[OpKey], other: set[OpKey], seen_one: set[OpKey], seen_other: set[OpKey]) -> list[Pair]:
    """Ops outside the modal sequence: same key, same name, same template, else alone.

    An op that the other side has inside its modal sequence (`seen_*`) joins the row that it has there.
    """
    same = [*sorted(one & seen_other), *sorted(other & seen_one)]
    one, other = one - seen_other, other - seen_one
    pairs: list[Pair] = [((op,), (op,)) for op in (*same, *sorted(one & other))]
    one, other = one - other, other - one
    for key in (str, normalise):  # of the name
        groups: dict[str, tuple[list[OpKey], list[OpKey]]] = {}
        for side, ops in enumerate((one, other)):
            for op in sorted(ops):
                groups.setdefault(key(op.name), ([], []))[side].append(op)
        for mine, theirs in groups.values():
            if mine and theirs:
                pairs.append((tuple(mine), tuple(theirs)))
                one, other = one - set(mine), other - set(theirs)
    return pairs + _apart(sorted(one), sorted(other))


def _rows(uses: list[tuple[str, Ops, Ops]]) -> Matching:
    # an op added (or removed) that the other side also has stays with its own kind: the row's count changes
    own = {one for _, one, other in uses if one == other and len(one) == 1}
    identity: dict[Pair, int] = {}
    rows: list[Match] = []
    counts: tuple[Counter[tuple[str, OpKey, int]], Counter[tuple[str, OpKey, int]]] = (Counter(), Counter())
    for phase, one, other in uses:
        lone = one or other
        pair = (one, other) if (one and other) or lone not in own else (lone, lone)
        if pair not in identity:
            identity[pair] = len(rows)
            tier = _tier(*pair)
            rows.append(Match(tier, _CONFIDENCE[tier], *pair))
        for side, ops in enumerate((one, other)):
            for op in ops:
                counts[side][phase, op, identity[pair]] += 1
    return Matching(rows, _shares(counts[0]), _shares(counts[1]))


def _shares(counts: Counter[tuple[str, OpKey, int]]) -> dict[tuple[str, OpKey], list[tuple[int, float]]]:
    totals: Counter[tuple[str, OpKey]] = Counter()
    for (phase, op, _), count in counts.items():
        totals[phase, op] += count
    shares: dict[tuple[str, OpKey], list[tuple[int, float]]] = {}
    for (phase, op, row), count in sorted(counts.items()):
        shares.setdefault((phase, op), []).append((row, count / totals[phase, op]))
    return shares


def _tier(one: Ops, other: Ops) -> str:
    if not one:
        return "added"
    if not other:
        return "removed"
    if one == other:
        return "exact"
    if {op.name for op in one} == {op.name for op in other}:
        return "name"
    if {normalise(op.name) for op in one} == {normalise(op.name) for op in other} and (
        len(one) == len(other) or min(len(one), len(other)) > 1
    ):
        return "template"
    if len(one) > 1 and len(other) == 1:
        return "fused"
    if len(one) == 1 and len(other) > 1:
        return "split"
    return "sequence"
