"""Layers: NVTX ranges that are named like modules of a model or layers of an engine, and how they are called.

| who writes them | text | layer | kind |
|-|-|-|-|
| hooks of vLLM and SGLang | `{'Module': 'model.layers.3.mlp', ...}` | `model.layers.3.mlp` | `model.layers.*.mlp` |
| hooks of one's own (docs/read.md#layers) | `model.layers.3.mlp` | `model.layers.3.mlp` | `model.layers.*.mlp` |
| benchmarks of TensorRT-LLM | `layer_wise_benchmarks layer_idx 3` | `layer_wise_benchmarks layer_idx 3` | `... layer_idx *` |
| TensorRT, in its own domain | `/h.3/attn/MatMul + /h.3/attn/Add` | the same | `/h.*/attn/MatMul + /h.*/attn/Add` |

Operators of PyTorch (`aten::mm, seq = 7`, of `emit_nvtx` or `nsys --pytorch=autograd-nvtx`) are no layers: what they launch belongs to the
layer around them.
"""

from __future__ import annotations

import re

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
        # which TensorRT 8.6 and later put before layers inside a Myelin region
        text = text.removeprefix("$$myelin$$")
        return NO_LAYER if _INFERENCE.match(text) else text
    return text if not _LIBRARY.match(text) and _LAYER.search(text) else NO_LAYER


def kind_of(layer: str) -> str:
    """All layers that differ in their numbers: `model.layers.3.mlp` -> `model.layers.*.mlp`."""
    return _NUMBER.sub("*", layer)
