"""What TensorRT's own names say: the operations in a Myelin kernel's name, the layers in a layer's name.

Myelin (TensorRT's graph compiler) names a fused kernel after its operations, three letters each in TensorRT 8
(`__myl_bb0_8_ResTraCasAddMeaSubMulMeaAddSqrDivMulMulAddRes_com_vec`), four and whole words since TensorRT 10
(`__myl_AddCastMeanSubMulMeanAddSqrtDivMulCastMulAdd_myl5_249`). The codes are not documented; those here are
from NVIDIA's talks, trtexec profiles and engine inspector dumps, and an unknown code is shown as it is.
"""

from __future__ import annotations

import re

# A code stands for the first of these that starts with it, so the more common of two comes first.
_OPERATIONS = (
    "add", "subtract", "multiply", "divide", "negate", "exponential", "expand", "erf", "equal", "power",
    "sqrt", "square", "squeeze", "rsqrt", "reciprocal", "logarithm", "absolute", "sine", "cosine", "tanh",
    "sigmoid", "silu", "gelu", "relu", "softmax", "mean", "sum", "maximum", "minimum", "cumsum", "reduce",
    "argmax", "topk", "reshape", "resize", "transpose", "cast", "move", "copy", "slice", "split", "concat",
    "convolution", "constant", "replicate", "repeat", "broadcast", "tile", "pad", "gather", "scatter",
    "scale", "select", "where", "not", "and", "or", "xor", "less", "greater", "clamp", "clip", "round",
    "floor", "ceil", "quantize", "dequantize", "matmul", "gemm", "iota", "unsqueeze", "random",
)  # fmt: skip
_ALIASES = {"fc": "fully connected", "cor": "convolution", "corr": "convolution", "maxr": "reduce max",
            "minr": "reduce min", "eql": "equal", "conc": "concat", "pw": "pointwise"}  # fmt: skip

_MOVEMENT = frozenset(
    ("reshape", "transpose", "cast", "move", "copy", "slice", "split", "concat", "replicate", "repeat",
     "broadcast", "tile", "pad", "expand", "squeeze", "unsqueeze", "constant", "gather", "scatter")
)  # fmt: skip

_PLAIN_LABELS = (("relu", "ReLU"), ("tanh", "tanh"), ("topk", "top-k"))

_MYELIN = re.compile(r"_*my[el]\d*_")
_FUSED_ATTENTION = re.compile(r"(?:_*mye\d*)?_+ge(?:mm|mv)_mha")
_CODES = re.compile(r"[A-Z][A-Za-z]*")
_CODE = re.compile(r"[A-Z][a-z]*")  # a cut name may end in a bare capital


def decode(name: str) -> list[str] | None:
    """Return the operations of a Myelin kernel in order, spelled out; None for any other name.

    A code that is not known stays as it is, with a question mark. A fused attention kernel (`_gemm_mha_v2`)
    carries no list of operations: None, see `describe`.
    """
    if _FUSED_ATTENTION.match(name) or not (start := _MYELIN.match(name)):
        return None
    field = next((field for field in name[start.end() :].split("_") if _CODES.fullmatch(field)), None)
    if field is None:
        return None
    codes = _CODE.findall(field)
    spelled = {code: _spell(code.lower()) for code in set(codes)}
    return [spelled[code] for code in codes]


def describe(name: str) -> str | None:
    """Return a Myelin kernel in words, `LayerNorm: reshape, transpose, ...`; None for any other name."""
    if _FUSED_ATTENTION.match(name):
        return "fused attention"
    operations = decode(name)
    if operations is None:
        return None
    found = " + ".join(patterns(operations))
    return f"{found}: {', '.join(operations)}" if found else ", ".join(operations)


def patterns(operations: list[str]) -> list[str]:
    """Return what a list of operations amounts to, the costliest first; an empty list if nothing is known.

    Two means make a LayerNorm, one mean under a root an RMSNorm. `negate, exponential, add, divide` is a
    sigmoid (SiLU when multiplied), but with a reshape in the middle, as in ResNegExpResAddDivMul, it is what
    Myelin makes of a softmax.
    """
    present = set(operations)
    found: list[str] = []
    if present & {"fully connected", "matmul", "gemm"}:
        found.append("GEMM")
    if "convolution" in present:
        found.append("convolution")
    if operations.count("mean") >= 2:
        found.append("LayerNorm")
    elif "mean" in present and present & {"sqrt", "rsqrt"}:
        found.append("RMSNorm")
    after_exp = operations[operations.index("exponential") + 1 :] if "exponential" in present else []
    softmax = "softmax" in present or "sum" in after_exp
    if softmax or _runs(operations, ("negate", "exponential", "reshape", "add", "divide")):
        found.append("softmax")
    elif "silu" in present or _runs(operations, ("negate", "exponential", "add", "divide", "multiply")):
        found.append("SiLU")
    elif "sigmoid" in present or _runs(operations, ("negate", "exponential", "add", "divide")):
        found.append("sigmoid")
    if present & {"erf", "gelu"}:
        found.append("GELU")
    found.extend(label for op, label in _PLAIN_LABELS if op in present)
    if {"sine", "cosine"} <= present:
        found.append("RoPE")
    if present & {"quantize", "dequantize"}:
        found.append("quantisation")
    if not found and present <= _MOVEMENT:
        found.append("data movement")
    return found


def _spell(code: str) -> str:
    if code in _ALIASES:
        return _ALIASES[code]
    # One letter is what is left of a cut name.
    known = (op for op in _OPERATIONS if len(code) > 1 and op.startswith(code))
    return next(known, f"{code}?")


def _runs(operations: list[str], pattern: tuple[str, ...]) -> bool:
    width = len(pattern)
    return any(tuple(operations[i : i + width]) == pattern for i in range(len(operations) - width + 1))


# "Reformatting CopyNode for Input Tensor 0 to X" (8.x and later), "X input reformatter 0" (before).
_REFORMAT = re.compile(
    r"Reformatting CopyNode for (?:(?:Input|Output) Tensor \d{1,9} to|Network (?:In|Out)put) "
)
_REFORMATTER = re.compile(r" (?:in|out)put reformatter \d{1,9}\Z")
# "(Unnamed Layer* 48) [Shuffle]": the number shifts with every edit of the network, the kind does not.
_UNNAMED = re.compile(r"\(?Unnamed ?Layer\*? ?\d{0,9}\)?(?: ?\[([\w ]{0,64})\])?")
_REGION = re.compile(r"_mye?l?\d{1,9}_\d{1,9}\Z")
_SEPARATOR = re.compile(r"PWN\(|[(\[{)\]},+]")


def layer_set(name: str) -> frozenset[str]:
    """Return the network layers that a TensorRT layer name fuses: `a + b`, `PWN(a, b)`, a reformat of them.

    Numbers that only count (unnamed layers, Myelin regions) are left out. A reformat gives `reformat a`,
    which is not layer `a`: it moves a's data, it does not compute it.
    """
    text = name.strip()
    prefix = ""
    if match := _REFORMAT.match(text):
        text, prefix = text[match.end() :], "reformat "
    elif match := _REFORMATTER.search(text):
        text, prefix = text[: match.start()], "reformat "
    text = _REGION.sub("", text)
    layers = (_layer(piece) for piece in _split_fused(text))
    return frozenset(prefix + layer for layer in layers if layer)


def _layer(piece: str) -> str:
    if match := _UNNAMED.match(piece):
        return f"unnamed {match[1] or 'layer'}"
    # {ForeignNode[first...last]} is a whole Myelin region.
    return piece.strip("{}").removeprefix("$$myelin$$")


def _split_fused(text: str) -> list[str]:
    """Split at + and, inside PWN(), at commas; other brackets belong to a layer's name."""
    pieces: list[str] = []
    stack: list[str] = []
    plain = 0  # open brackets other than PWN(
    pos = start = 0
    for match in _SEPARATOR.finditer(text):
        token, pos = match[0], match.end()
        if token in "([{":
            stack.append(token)
            plain += 1
            continue
        if token in ")]}" and stack:
            opener = stack.pop()
            plain -= opener != "PWN("
            if opener != "PWN(":
                continue
        elif token == "PWN(" and not plain:
            stack.append(token)
        elif plain or token in ")]}" or (token == "," and not stack) or token == "PWN(":
            continue
        pieces.append(text[start : match.start()].strip())
        start = pos
    pieces.append(text[start:].strip())
    return pieces
