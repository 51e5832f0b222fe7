"""Layers of a step that nobody labelled: its ops aligned, in order, with those of a labelled step of the same program.

Ops of one template are the same (all GEMMs are one: the library chooses them by shape); of as many pairs, those of equal names
are taken, so that repeated layers are told apart by their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracediff.kernels.matching import MAX_SEQUENCE, longest_common, role

Enclosing = Callable[[str, str], str]  # the layer that two neighbours are both of, '' none


@dataclass(frozen=True)
class LayerSequence:
    """What `steps` steps launched, in order: arrays of one length. layers: '' none; ns: of each op, in one of the steps."""

    steps: int
    names: tuple[str, ...]
    layers: tuple[str, ...]
    ns: tuple[int, ...]


@dataclass(frozen=True)
class Aligned:
    """The layer of each op of a step, '' none; which of them have a counterpart.

    confidence: 0 to 1, a product: the parts of the kernel time of both steps that have a counterpart; the squares of the same of kernels that
    both have (a step that has more of them does other work); and of the numbered layers, the part with a counterpart.
    """

    layers: list[str]
    matched: list[bool]
    confidence: float


def align(
    names: Sequence[str],
    ns: Sequence[int],
    references: Sequence[LayerSequence],
    enclosing: Enclosing,
    numbered: Callable[[str], str],
) -> Aligned | None:
    """The step with the layers of the reference that is most like it; None where there is none to align with.

    `numbered`: the numbered layer that a layer is in, '' none.
    """
    if not references or not 0 < len(names) <= MAX_SEQUENCE:
        return None
    kinds = [_template(name) for name in names]
    counts = Counter(kinds)

    def shared(reference: LayerSequence) -> float:
        theirs = Counter(map(_template, reference.names))
        return (counts & theirs).total() / max(counts.total(), theirs.total())

    best = max(
        (one for one in references if len(one.names) <= MAX_SEQUENCE), key=lambda one: (shared(one), one.steps), default=None
    )  # fmt: skip
    if best is None:
        return None
    theirs = [_template(name) for name in best.names]
    pairs = longest_common(names, best.names, kinds, theirs)
    layers = [""] * len(names)
    matched = [False] * len(names)
    used = [False] * len(theirs)
    for mine, other in pairs:
        layers[mine], matched[mine], used[other] = best.layers[other], True, True
    confidence = _share(ns, matched) * _share(best.ns, used)
    confidence *= (
        _agreement(kinds, ns, matched, set(theirs)) * _agreement(theirs, best.ns, used, set(kinds))
    ) ** 2
    confidence *= _numbered(best.layers, used, numbered)
    known = [at for at, found in enumerate(matched) if found]
    for before, after in pairwise(known):
        if after - before > 1:
            layer = enclosing(layers[before], layers[after])
            layers[before + 1 : after] = [layer] * (after - before - 1)
    return Aligned(layers, matched, confidence)


def _share(ns: Sequence[int], chosen: Sequence[bool]) -> float:
    weights = np.asarray(ns, np.float64)
    total = weights.sum()
    return float(weights[np.asarray(chosen, np.bool_)].sum() / total) if total else 0.0


def _agreement(kinds: Sequence[str], ns: Sequence[int], matched: Sequence[bool], others: set[str]) -> float:
    """Of the time of ops of templates that the other sequence has too, the part with a counterpart."""
    both = [at for at, kind in enumerate(kinds) if kind in others]
    return _share([ns[at] for at in both], [matched[at] for at in both])


def _numbered(layers: Sequence[str], used: Sequence[bool], numbered: Callable[[str], str]) -> float:
    """Of the numbered layers, the part of which half the ops or more have a counterpart: a model of another depth lacks some."""
    numbers = [numbered(layer) for layer in layers]
    ops = Counter(filter(None, numbers))
    there = Counter(number for number, found in zip(numbers, used, strict=True) if found)
    return sum(2 * there[number] >= many for number, many in ops.items()) / len(ops) if ops else 1.0


def _template(name: str) -> str:
    """What is the same in both steps; the second kernel of a GEMM that is split stands for itself."""
    found = role(name)
    return name if found == "gemm" and "splitk" in name.lower() and "reduce" in name.lower() else found
