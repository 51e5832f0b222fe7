"""The three JSON files of trtexec: --exportTimes, --exportProfile, --exportLayerInfo.

Keys as in exportJSONTrace and Profiler::exportJSONProfile of samples/common/sampleReporting.cpp (8.x, 10.x: `startH2dMs`;
7.x: `startInMs`) and as the engine inspector writes layers. trtexec neither escapes names nor avoids `nan`.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from tracediff.errors import TracediffError
from tracediff.load.trtexec import LARGEST, LAYERS, MOST, OBJECTS, Floats, LayerInfo, Profiled, Times, text_of

MS = 1e6  # ns
_DIGITS = 6  # significant ones that an ostream writes
_NO_NUMBER = re.compile(rb'("\s*:\s*)[-+]?(?:nan|inf)(?:\(ind\))?(?=\s*[,}])', re.IGNORECASE)
_ONNX = re.compile(r"\[ONNX Layer: ([^\]\x1e\x1f]+)\]")
_PRECISION = re.compile(
    r"\b(?P<FP4>FP4|E2M1)\b|\b(?P<FP8>FP8|E4M3)\b|\b(?P<BF16>BF16|BFloat16)\b|\b(?P<FP16>FP16|Half)\b|"
    r"\b(?P<FP32>FP32|Float)\b|\b(?P<FP64>FP64|Double)\b|\b(?P<INT4>INT4)\b|\b(?P<INT8>INT8)\b|\b(?P<UINT8>UINT8)\b|"
    r"\b(?P<INT32>INT32)\b|\b(?P<INT64>INT64)\b|\b(?P<BOOL>BOOL)\b",
    re.IGNORECASE,
)
_Read = TypeVar("_Read")


class _Iteration(msgspec.Struct, gc=False):
    startEnqMs: float | None = None  # noqa: N815
    endEnqMs: float | None = None  # noqa: N815
    startH2dMs: float | None = None  # noqa: N815
    startInMs: float | None = None  # noqa: N815
    endD2hMs: float | None = None  # noqa: N815
    endOutMs: float | None = None  # noqa: N815
    h2dMs: float | None = None  # noqa: N815
    inMs: float | None = None  # noqa: N815
    computeMs: float | None = None  # noqa: N815
    d2hMs: float | None = None  # noqa: N815
    outMs: float | None = None  # noqa: N815
    latencyMs: float | None = None  # noqa: N815
    endToEndMs: float | None = None  # noqa: N815


class _Entry(msgspec.Struct, gc=False):
    count: int | None = None
    name: str | None = None
    timeMs: float | None = None  # noqa: N815
    averageMs: float | None = None  # noqa: N815
    medianMs: float | None = None  # noqa: N815


class _Tensor(msgspec.Struct):
    format: str = msgspec.field(name="Format/Datatype", default="")
    datatype: str = msgspec.field(name="Datatype", default="")


class _Layer(msgspec.Struct, rename="pascal"):
    name: str = ""
    layer_type: str = ""
    parameter_type: str = ""
    inputs: list[_Tensor] = []
    outputs: list[_Tensor] = []
    tactic_name: str = ""
    tactic_value: str | int = ""
    metadata: str = ""


class _Layers(msgspec.Struct):
    layers: list[str | _Layer] = msgspec.field(name="Layers", default=[])


def read_times(path: Path) -> Times:
    """Read `--exportTimes`. Raises `TracediffError`: trtexec-large, -damaged, -empty, -bad-number."""
    rows = _decoded(path, list[_Iteration])
    if not rows:
        raise _empty(path, "iteration")
    stamps = _column(path, rows, "startH2dMs", "startInMs"), _column(path, rows, "endD2hMs", "endOutMs")
    values = {
        "gpu_compute": _durations(path, rows, "computeMs"),
        "latency": _durations(path, rows, "latencyMs"),
        "h2d": _durations(path, rows, "h2dMs", "inMs"),
        "d2h": _durations(path, rows, "d2hMs", "outMs"),
    }
    largest = max(float(np.abs(one).max()) for one in stamps)
    if any(row.startEnqMs is not None for row in rows):
        start, end = (_column(path, rows, name) for name in ("startEnqMs", "endEnqMs"))
        _at_least_zero(path, end - start, "endEnqMs - startEnqMs")
        values["enqueue"] = end - start
        largest = max(largest, float(np.abs(end).max()))
    # The order of the file is that of the starts, up to rounding: with ties broken by the other columns, none of it matters.
    order = np.lexsort([*values.values(), stamps[1], stamps[0]])
    return Times(
        {name: MS * one[order] for name, one in values.items()},
        MS * stamps[0][order],
        MS * stamps[1][order],
        MS * 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0 else 0.0,
        any(row.endToEndMs is not None for row in rows),
    )


def _column(path: Path, rows: list[_Iteration], *names: str) -> Floats:
    """The column under the first of its names that a row has; every row needs a finite number."""
    found = np.array(
        [next((one for name in names if (one := getattr(row, name)) is not None), np.nan) for row in rows],
        np.float64,
    )
    (bad,) = np.nonzero(~(np.abs(found) < MOST))
    if len(bad):
        raise _bad(path, f"iteration {bad[0]} has no finite {names[0]}")
    return found


def _durations(path: Path, rows: list[_Iteration], *names: str) -> Floats:
    found = _column(path, rows, *names)
    _at_least_zero(path, found, names[0])
    return found


def _at_least_zero(path: Path, values: Floats, name: str) -> None:
    (bad,) = np.nonzero(values < 0)
    if len(bad):
        raise _bad(path, f"iteration {bad[0]}: {name} is {values[bad[0]]:g}")


def read_profile(path: Path) -> tuple[int | None, tuple[Profiled, ...]]:
    """Read `--exportProfile`: how often the engine ran, and its layers, ns a query.

    Times a query are the layer's sum over the count: a layer of a loop runs more often than the engine, and its own
    average is that of one pass. Raises `TracediffError`: trtexec-large, -damaged, -empty, -bad-number.
    """
    entries = _decoded(path, list[_Entry])
    count = next((entry.count for entry in entries if entry.count is not None), None)
    layers = [entry for entry in entries if entry.name is not None]
    if count is not None and count <= 0:
        raise _bad(path, f"its count of iterations is {count}")
    if not layers:
        raise _empty(path, "layer")
    if len(layers) > LAYERS:
        raise _many(path, LAYERS, "layers")
    found = []
    for entry in layers:
        total, average = entry.timeMs, entry.averageMs
        mean = total / count if total is not None and count else average
        if mean is None or not 0 <= mean < MOST:
            raise _bad(
                path, f"layer {_short(entry.name)}: its time is {'missing' if mean is None else f'{mean:g}'}"
            )
        median = entry.medianMs
        if median is not None and (not 0 <= median < MOST):
            raise _bad(path, f"layer {_short(entry.name)}: its median is {median:g}")
        found.append(Profiled(entry.name or "", MS * mean, None if median is None else MS * median))
    return count, tuple(found)


def read_layers(path: Path) -> tuple[LayerInfo, ...]:
    """Read `--exportLayerInfo`, names alone or in detail. Raises `TracediffError`: trtexec-large, -damaged, -empty."""
    layers = _decoded(path, _Layers).layers
    if not layers:
        raise _empty(path, "layer")
    if len(layers) > LAYERS:
        raise _many(path, LAYERS, "layers")
    return tuple(LayerInfo(one) if isinstance(one, str) else _info(one) for one in layers)


def _info(layer: _Layer) -> LayerInfo:
    ends = [
        (tensors[0].format or tensors[0].datatype) if tensors else ""
        for tensors in (layer.inputs, layer.outputs)
    ]
    formats = [one.strip() for one in ends]
    value = f"{layer.tactic_value:#x}" if isinstance(layer.tactic_value, int) else layer.tactic_value
    tactic = " ".join(filter(None, (layer.tactic_name, value if _says(value) else "")))
    return LayerInfo(
        layer.name,
        layer.parameter_type or layer.layer_type,
        layer.layer_type,
        precision(formats[0]) or precision(formats[1]),
        precision(formats[1]),
        " -> ".join(filter(None, dict.fromkeys(formats))),
        tactic,
        tuple(dict.fromkeys(_ONNX.findall(layer.metadata))),
    )  # fmt: skip


def _says(tactic: str) -> bool:
    """Whether a tactic's number tells one: 0 is that of layers without a choice."""
    return bool(tactic.removeprefix("0x").strip("0"))


def precision(text: str) -> str:
    """Return the data type in a `Format/Datatype`: `Channel major FP16 format where ...`, `Half`; '' where there is none."""
    found = _PRECISION.search(text)
    return found.lastgroup or "" if found else ""


def _decoded(path: Path, kind: type[_Read]) -> _Read:
    try:
        size = path.stat().st_size
        data = b"" if size > LARGEST else path.read_bytes()
    except OSError as error:
        raise TracediffError(
            "trtexec-no-file", f"{path.name}: {error.strerror or error}", fix="check the path"
        ) from error
    if size > LARGEST:
        raise TracediffError(
            "trtexec-large",
            f"{path.name} has {size >> 20} MiB: more than {LARGEST >> 20} are not read",
            fix="measure fewer iterations (--duration, --iterations)",
        )
    if data.count(b"{") > OBJECTS or data.count(b",") > 16 * OBJECTS:
        raise _many(path, OBJECTS, "iterations, layers or tensors")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        first = error
    try:
        # names of layers may be in any encoding, and 0 / 0 is written as it is
        return msgspec.json.decode(_NO_NUMBER.sub(rb"\1null", text_of(data).encode()), type=kind)
    except (msgspec.MsgspecError, RecursionError):
        raise TracediffError(
            "trtexec-damaged",
            f"{path.name} begins like a file of trtexec, but cannot be read: {first}",
            fix="copy it whole, or export it again",
        ) from first


def _many(path: Path, most: int, what: str) -> TracediffError:
    return TracediffError(
        "trtexec-large", f"{path.name} holds more than {most:,} {what}",
        fix="measure fewer iterations (--duration, --iterations)",
    )  # fmt: skip


def _short(name: str | None) -> str:
    return repr(name if name is None or len(name) <= 60 else f"{name[:60]}...")


def _bad(path: Path, why: str) -> TracediffError:
    return TracediffError("trtexec-bad-number", f"{path.name}: {why}", fix="export it again")


def _empty(path: Path, what: str) -> TracediffError:
    return TracediffError("trtexec-empty", f"{path.name} holds no {what}", fix="see what trtexec printed")
