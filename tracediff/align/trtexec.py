"""Layers of one TensorRT engine to those of another, by what their names say they are made of.

Exact names first, then names without the numbers that only count (`_myl5_249`, unnamed layers). What is left is linked by
the network layers that its names, or its ONNX metadata, hold (align/myelin.py): a group of links is a fusion (n -> 1), a
split (1 -> n), a regrouping (n -> m), or one layer that gained or lost a part. Reformats are paired among themselves only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tracediff.align.myelin import decode, layer_set

_FOREIGN = re.compile(r"ForeignNode\[(.*)\]", re.DOTALL)
_REFORMAT = "reformat "
_NAMELESS = "unnamed "
_Key: TypeAlias = tuple[bool, tuple[str, ...]]


@dataclass(frozen=True)
class Layer:
    """What is known of a layer before it is paired. `onnx`: the layers of the network in it, where metadata tells."""

    name: str
    type: str = ""
    onnx: tuple[str, ...] = ()

    @property
    def reformat(self) -> bool:
        """Whether the layer only changes the layout of a tensor."""
        return self.type == "Reformat" or any(part.startswith(_REFORMAT) for part in layer_set(self.name))


@dataclass(frozen=True)
class Pairing:
    """Layers that do the same work, by their numbers on both sides."""

    match: str  # exact | normalised | similar | fused | split | regrouped | added | removed
    confidence: float
    baseline: tuple[int, ...]
    candidate: tuple[int, ...]


def pair(baseline: Sequence[Layer], candidate: Sequence[Layer]) -> list[Pairing]:
    """Pair the layers of two engines; every layer is in exactly one pairing."""
    sides = list(baseline), list(candidate)
    left = list(range(len(sides[0]))), list(range(len(sides[1])))
    found: list[Pairing] = []
    # The type is no part of the key: that it changed is to be said of the layer.
    keys: list[list[_Key]] = [[(layer.reformat, (layer.name,)) for layer in side] for side in sides]
    found += _equal(keys, left, "exact", 1.0)
    for onnx in (True, False):  # several kernels of Myelin bear one name: those of the same layers first
        keys = [[_key(layer, onnx) for layer in side] for side in sides]
        found += _equal(keys, left, "normalised", 0.95)
    found += _linked(sides, left)
    found += [Pairing("removed", 0.8, (one,), ()) for one in left[0]]
    found += [Pairing("added", 0.8, (), (one,)) for one in left[1]]
    return found


def _key(layer: Layer, onnx: bool) -> _Key:
    named = tuple(sorted(layer_set(layer.name)))
    return layer.reformat, (*named, "", *sorted(layer.onnx)) if named and onnx else named


def _equal(
    keys: Sequence[Sequence[_Key]],
    left: tuple[list[int], list[int]],
    match: str,
    confidence: float,
) -> list[Pairing]:
    """Pair layers of the same key in their order; less sure where one side has more of them."""
    groups: list[dict[_Key, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side, group in enumerate(groups):
        for number in left[side]:
            if keys[side][number][1]:
                group[keys[side][number]].append(number)
    found = []
    for key, ones in groups[0].items():
        others = groups[1].get(key, [])
        sure = confidence if len(ones) == len(others) else min(confidence, 0.6)
        found += [Pairing(match, sure, (a,), (b,)) for a, b in zip(ones, others, strict=False)]
    for side in (0, 1):
        gone = {number for one in found for number in (one.candidate if side else one.baseline)}
        left[side][:] = [number for number in left[side] if number not in gone]
    return found


def _linked(sides: tuple[list[Layer], list[Layer]], left: tuple[list[int], list[int]]) -> list[Pairing]:
    """Group what is left by the network layers that both sides name; take the groups out of `left`."""
    parts = [
        {number: _parts(side[number]) for number in numbers if not side[number].reformat}
        for side, numbers in zip(sides, left, strict=True)
    ]
    by_range = [_within(sides[side], parts[side], parts[1 - side]) for side in (0, 1)]
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    owners: dict[str, list[list[tuple[int, int]]]] = defaultdict(lambda: [[], []])
    for side in (0, 1):
        for number, of in parts[side].items():
            for name in of | by_range[side].get(number, set()):
                owners[name][side].append((side, number))
    for ones, others in owners.values():
        if ones and others:
            for node in [*ones, *others]:
                parent[root(node)] = root(ones[0])
    groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for node in sorted(parent):
        groups[root(node)].append(node)
    found = []
    for nodes in groups.values():
        numbers = [[number for of, number in nodes if of == side] for side in (0, 1)]
        names = [set[str]().union(*(parts[side][number] for number in numbers[side])) for side in (0, 1)]
        ranged = any(number in by_range[of] for of, number in nodes)
        sure = 0.6 if ranged else 0.5 + 0.45 * len(names[0] & names[1]) / len(names[0] | names[1])
        tier = _tier(len(numbers[0]), len(numbers[1]))
        found.append(Pairing(tier, round(sure, 2), tuple(numbers[0]), tuple(numbers[1])))
    for side in (0, 1):
        left[side][:] = [number for number in left[side] if (side, number) not in parent]
    return found


def _tier(before: int, after: int) -> str:
    if before == after == 1:
        return "similar"
    return "fused" if after == 1 else "split" if before == 1 else "regrouped"


def _parts(layer: Layer) -> set[str]:
    """Network layers of a name and of its metadata; not what numbers alone tell apart, nor a Myelin kernel's own name."""
    found = set(layer.onnx)
    for part in layer_set(layer.name):
        if ends := _ends(part):
            found |= set(ends)
        elif not part.startswith(_NAMELESS) and decode(part) is None:
            found.add(part)
    return found


def _ends(part: str) -> tuple[str, ...]:
    """The first and the last layer of `ForeignNode[first...last]`."""
    found = _FOREIGN.fullmatch(part)
    return tuple(one for one in found[1].split("...") if one) if found else ()


def _within(
    side: Sequence[Layer], mine: dict[int, set[str]], theirs: dict[int, set[str]]
) -> dict[int, set[str]]:
    """For each {ForeignNode[a...b]} of a side: what the other side runs between a and b, in the order of its file."""
    found: dict[int, set[str]] = {}
    for number in mine:
        ends = [end for part in layer_set(side[number].name) for end in [_ends(part)] if len(end) == 2]
        if side[number].onnx or not ends:
            continue
        for first, last in ends:
            places = [place for place, names in theirs.items() if {first, last} & names]
            inside = [names for place, names in theirs.items() if places and places[0] <= place <= places[-1]]
            if len(places) > 1 and {first, last} <= set[str]().union(*inside):
                found[number] = found.get(number, set[str]()).union(*inside)
    return found
