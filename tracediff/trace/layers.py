"""Layers: NVTX ranges that are named like modules of a model or layers of an engine, and how they are called; and the layers of steps without, by a labelled step.

| who writes them | text | layer | kind |
|-|-|-|-|
| hooks of vLLM and SGLang | `{'Module': 'model.layers.3.mlp', ...}` | `model.layers.3.mlp` | `model.layers.*.mlp` |
| hooks of one's own (docs/layers.md) | `model.layers.3.mlp` | `model.layers.3.mlp` | `model.layers.*.mlp` |
| benchmarks of TensorRT-LLM | `layer_wise_benchmarks layer_idx 3` | `layer_wise_benchmarks layer_idx 3` | `... layer_idx *` |
| TensorRT, in its own domain | `/h.3/attn/MatMul + /h.3/attn/Add` | the same | `/h.*/attn/MatMul + /h.*/attn/Add` |

Operators of PyTorch (`aten::mm, seq = 7`, of `emit_nvtx` or `nsys --pytorch=autograd-nvtx`) are no layers: what they launch belongs to the
layer around them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracediff.kernels.matching import MAX_SEQUENCE, longest_common, role
from tracediff.trace.labels import LIBRARY

NO_LAYER = ""  # of what was launched in none, or in one that is not known
TENSORRT = "TensorRT"  # the domain in which every range but those of a whole inference is a layer

_MODULE = re.compile(r"""^\{.*?['"]Module['"]: ?['"]([^'"]+)['"]""")
_LIBRARY = re.compile(LIBRARY)
_INFERENCE = re.compile(r"(?i)^(?:executioncontext\b|enqueue|execute|tensorrt)")
_ARGUMENTS = re.compile(r", ?(?:seq|op_id|sizes|input_op_ids) ?= ?.*")
# A path of modules with a number in it; `layer 3` and what follows; a text or a class that ends in the name of a part.
_LAYER = re.compile(
    r"^[A-Za-z_]\w*(?:\.\w+)*\.\d+(?:\.\w+)*$|^(?i:layer|block)[ _.:#]*\d+\b"
    r"|(?i:(?<![a-z])(?:layer|block|attn|attention|mlp|ffn|moe|norm|layernorm|rmsnorm|embed_tokens|embedding|lm_head)[ _.:#]*(?:idx)?[ _.:#]*\d*$)"
    r"|^(?:[A-Za-z_]\w*\.)*(?:head|embed|embeddings|wte|wpe|ln_f)$"
    r"|(?:Layer|Block|Attention|MLP|RMSNorm|LayerNorm|Embedding|MoE)(?:_\d+)?$"
)
_NUMBER = re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])|(?<=[Ll]ayer)\d+|(?<=[Bb]lock)\d+")


def layer_of(text: str, *, tensorrt: bool = False) -> str:
    """The layer that a range names, NO_LAYER where it names none. `tensorrt`: it is of TensorRT's own domain."""
    module = _MODULE.match(text)
    if module:
        return module[1]
    text = _ARGUMENTS.sub("", text).strip()
    if tensorrt:
        return NO_LAYER if _INFERENCE.match(text) else text
    return text if not _LIBRARY.match(text) and _LAYER.search(text) else NO_LAYER


def kind_of(layer: str) -> str:
    """All layers that differ in their numbers: `model.layers.3.mlp` -> `model.layers.*.mlp`."""
    return _NUMBER.sub("*", layer)


def numbered(layer: str) -> str:
    """The layer up to its first number: `model.layers.3.mlp` -> `model.layers.3`; NO_LAYER where it has none."""
    number = _NUMBER.search(layer)
    return layer[: number.end()] if number else NO_LAYER


def enclosing(one: str, other: str) -> str:
    """The layer that two neighbours are both of: the same one, or the module around them if it has a number; else NO_LAYER."""
    if one == other:
        return one
    common = []
    for mine, theirs in zip(one.split("."), other.split("."), strict=False):
        if mine != theirs:
            break
        common.append(mine)
    return ".".join(common) if any(part.isdecimal() for part in common) else NO_LAYER


# Layers of a step that nobody labelled: its ops aligned, in order, with those of a labelled step of the same program.
#
# Ops of one template are the same (all GEMMs are one: the library chooses them by shape); of as many pairs, those of equal names
# are taken, so that repeated layers are told apart by their order.


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


def align(names: Sequence[str], ns: Sequence[int], references: Sequence[LayerSequence]) -> Aligned | None:
    """The step with the layers of the reference that is most like it; None where there is none to align with."""
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
    confidence *= _numbered(best.layers, used)
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


def _numbered(layers: Sequence[str], used: Sequence[bool]) -> float:
    """Of the numbered layers, the part of which half the ops or more have a counterpart: a model of another depth lacks some."""
    numbers = [numbered(layer) for layer in layers]
    ops = Counter(filter(None, numbers))
    there = Counter(number for number, found in zip(numbers, used, strict=True) if found)
    return sum(2 * there[number] >= many for number, many in ops.items()) / len(ops) if ops else 1.0


def _template(name: str) -> str:
    """What is the same in both steps; the second kernel of a GEMM that is split stands for itself."""
    found = role(name)
    return name if found == "gemm" and "splitk" in name.lower() and "reduce" in name.lower() else found
