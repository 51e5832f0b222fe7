"""What TensorRT's trtexec measured of an engine, from the files it writes: its log, and what its --export options name.

A run is one call of trtexec. Its files lie in a folder, or are named together with commas between them; they are known
by what they hold: the log's performance summary, `--exportTimes`, `--exportProfile`, `--exportLayerInfo`. A folder of
such folders holds several runs. Formats: samples/common/sampleReporting.cpp and sampleEngines.cpp of NVIDIA/TensorRT.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from tracediff.errors import TracediffError
from tracediff.formats.selection import own_label

Floats = npt.NDArray[np.float64]
HEAD = 1 << 16  # bytes by which a file is recognised
MOST = 1e12  # ms (and queries a second): no figure is so large
LAYERS = 100_000  # of an engine
LARGEST = 256 << 20  # bytes of a JSON file
OBJECTS = 1_000_000  # in a JSON file: iterations, or layers and their tensors
OPTIONS = (
    "--exportTimes=times.json --exportProfile=profile.json --exportLayerInfo=layers.json --separateProfileRun"
    " --profilingVerbosity=detailed > log.txt"
)
CAPTURE = f"trtexec --loadEngine=ENGINE {OPTIONS}"
_KINDS = {
    "trtexec-log": "log", "trtexec-times": "times", "trtexec-profile": "profile", "trtexec-layers": "layer info"
}  # fmt: skip
_FIXES = {
    "trtexec-no-file": "check the path",
    "trtexec-nothing": CAPTURE,
    "trtexec-unknown-file": CAPTURE,
    "trtexec-two-of-a-kind": "a folder for each run; a folder of such folders is a side of several runs",
    "trtexec-no-summary": "run it without --buildOnly and --skipInference, and copy the whole log",
    "trtexec-large": "measure fewer iterations (--duration, --iterations)",
    "trtexec-damaged": "copy it whole, or export it again",
    "trtexec-bad-number": "run trtexec, or export its file, again",
    "trtexec-empty": "see what trtexec printed",
    "trtexec-failed": "see the lines with [E] in the log, and run it again",
    "trtexec-log-twice": "a log for each run, in a folder for each",
}
_SHAPES = (
    ("trtexec-times", re.compile(r'\s*\[\s*\{\s*"start(?:Enq|H2d|In|Compute)Ms"\s*:')),
    ("trtexec-profile", re.compile(r'\s*\[\s*\{\s*"count"\s*:')),
    ("trtexec-profile", re.compile(r'\s*\[\s*\{\s*"name"\s*:\s*"[^"\\]{0,8000}"\s*,\s*"timeMs"\s*:')),
    ("trtexec-layers", re.compile(r'\s*\{\s*"(?:Layers|Bindings)"\s*:\s*\[')),
    ("trtexec-log", re.compile(r"[\s\S]*?(?:&&&& RUNNING TensorRT\.trtexec|=== Performance summary ===)")),
)


@dataclass(frozen=True)
class Log:
    """What trtexec printed. Times in ns; a figure is min, max, mean, median, p90, ... by metric."""

    version: str  # 10.3.0, '' where it is not in the file
    device: str  # GPU model
    options: dict[str, str]  # name as printed -> value, of those that change what is measured
    profiled: bool  # the layer profiler ran while the latencies were measured
    figures: dict[str, dict[str, float]]
    throughput: float | None  # queries a second
    queries: int | None  # measured, and before them to warm up
    warmups: int | None
    unstable: float | None  # % coefficient of variation of the GPU compute time, where trtexec warns of it


@dataclass(frozen=True, eq=False)
class Times:
    """One value an iteration, ns, in order of their start; `enqueue` is None where the file has none (7.x)."""

    values: dict[str, Floats]  # gpu_compute, latency, enqueue, h2d, d2h
    start: Floats  # of the copy of the inputs
    end: Floats  # of the copy of the outputs
    rounding: float  # ns that the last digit of the largest time stamp stands for
    with_warmups: bool  # written by a version that exports the warm-ups as well (with `endToEndMs`)

    def after(self, warmups: int) -> Times:
        """Without the first iterations."""
        values = {name: one[warmups:] for name, one in self.values.items()}
        return replace(self, values=values, start=self.start[warmups:], end=self.end[warmups:])


@dataclass(frozen=True)
class Profiled:
    """A layer of the profile; ns per query."""

    name: str
    mean: float
    median: float | None


@dataclass(frozen=True)
class LayerInfo:
    """A layer of the engine. Only the name where it was built without `--profilingVerbosity=detailed`."""

    name: str
    type: str = ""
    subtype: str = ""
    precision: str = ""  # of the first input, as trt-engine-explorer has it
    output_precision: str = ""
    format: str = ""  # of the first input and output
    tactic: str = ""
    onnx: tuple[str, ...] = ()  # ONNX layers, from Metadata (10.x)


@dataclass(frozen=True, eq=False)
class Run:
    """One call of trtexec, as far as its files are there."""

    name: str
    log: Log | None = None
    times: Times | None = None
    profile: tuple[Profiled, ...] | None = None
    iterations: int | None = None  # of the profile
    layers: tuple[LayerInfo, ...] | None = None
    files: tuple[str, ...] = ()  # 'log', 'times', ... that are there
    skipped: tuple[str, ...] = ()  # logs without a summary


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a comparison."""

    label: str
    runs: tuple[Run, ...] = field(default=())


def recognise(head: object) -> str | None:
    """Name what a file is by its first bytes (or text): trtexec-log, -times, -profile, -layers; None where it is none."""
    if isinstance(head, bytes | bytearray):
        head = text_of(bytes(head))
    if not isinstance(head, str):
        return None
    head = head.removeprefix("\ufeff")
    return next((kind for kind, shape in _SHAPES if shape.match(head)), None)


def text_of(data: bytes) -> str:
    """Decode: UTF-8, or UTF-16 as PowerShell redirects it."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data[: len(data) // 2 * 2].decode("utf-16", "replace")
    return data.decode("utf-8", "replace")


def kind_of(path: Path) -> str | None:
    """Recognise a file; None also where it cannot be read or is no plain file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return recognise(file.read(HEAD))
    except OSError:
        return None


def read(word: str) -> Side:
    """Read the runs of a side: a folder, a folder of folders, a file, or files with commas between them; label=PATH names it.

    Raises `TracediffError`: trtexec-no-file, trtexec-unknown-file, trtexec-two-of-a-kind, trtexec-nothing, and those
    of `read_log`, `read_times`, `read_profile`, `read_layers`.
    """
    label, rest = own_label(word)
    side = _read(rest)
    return side if label is None else replace(side, label=label)


def _error(slug: str, what: str, fix: str = "") -> TracediffError:
    return TracediffError(slug, what, fix=fix or _FIXES[slug])


def _read(word: str) -> Side:
    path = Path(word)
    if path.is_dir():
        name = path.resolve().name
        runs = _of_folder(path)
        if not runs:
            raise _error("trtexec-nothing", f"{name}: no file of trtexec in this folder")
        return Side(name, tuple(runs))
    paths = [path] if path.exists() else [Path(one) for one in word.split(",") if one]
    kinds = {}
    for one in paths:
        if one.is_dir():
            what = f"{one}: a folder, and folders cannot be listed with commas"
            fix = "name a folder alone (a folder of folders is a side of several runs), or files with commas"
            raise _error("trtexec-no-file", what, fix)
        if not one.is_file():
            raise _error("trtexec-no-file", f"{one}: there is no such file or folder")
        kind = kind_of(one)
        if kind is None:
            what = f"{one.name} is neither a log of trtexec nor a file of its --export options"
            raise _error("trtexec-unknown-file", what)
        kinds[one] = kind
    if not kinds:
        raise _error("trtexec-no-file", "no file was named")
    label = paths[0].name + (f" + {len(paths) - 1}" if len(paths) > 1 else "")
    return Side(label, (_run(label, kinds),))


def _of_folder(folder: Path) -> list[Run]:
    try:
        mine = _kinds_in(folder)
        if mine:
            return [_run(folder.resolve().name, mine)]
        inside = [(one.name, _kinds_in(one)) for one in sorted(folder.iterdir()) if one.is_dir()]
    except OSError as error:
        raise _error("trtexec-no-file", f"{folder.name}: {error.strerror or error}") from error
    return [_run(name, kinds) for name, kinds in inside if kinds]


def _kinds_in(folder: Path) -> dict[Path, str]:
    return {path: kind for path in sorted(folder.iterdir()) if (kind := kind_of(path))}


def _run(name: str, kinds: Mapping[Path, str]) -> Run:
    run, seen = Run(name), dict[str, Path]()
    skipped: list[Path] = []
    for path, kind in kinds.items():
        if kind == "trtexec-log" and (log := read_log(path)) is None:
            skipped.append(path)
            continue
        if kind in seen:
            both = f"{seen[kind].name} and {path.name} are both a {_KINDS[kind]} of trtexec"
            raise _error("trtexec-two-of-a-kind", f"{name}: {both}: which one belongs to the run?")
        seen[kind] = path
        if kind == "trtexec-log":
            run = replace(run, log=log)
        elif kind == "trtexec-times":
            run = replace(run, times=read_times(path))
        elif kind == "trtexec-profile":
            count, layers = read_profile(path)
            run = replace(run, profile=layers, iterations=count)
        else:
            run = replace(run, layers=read_layers(path))
    if not seen:
        what = "has no performance summary: the engine was built, not run, or the log is cut short"
        raise _error("trtexec-no-summary", f"{skipped[0].name} {what}")
    files = tuple(word for kind, word in _KINDS.items() if kind in seen)
    return replace(run, files=files, skipped=tuple(path.name for path in skipped))


# The three JSON files of trtexec: --exportTimes, --exportProfile, --exportLayerInfo.

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


_DURATIONS = {
    "gpu_compute": ("computeMs",), "latency": ("latencyMs",), "h2d": ("h2dMs", "inMs"), "d2h": ("d2hMs", "outMs"),
}  # fmt: skip


def read_times(path: Path) -> Times:
    """Read `--exportTimes`. Raises `TracediffError`: trtexec-large, -damaged, -empty, -bad-number."""
    rows = _decoded(path, list[_Iteration])
    if not rows:
        raise _error("trtexec-empty", f"{path.name} holds no iteration")
    stamps = _column(path, rows, "startH2dMs", "startInMs"), _column(path, rows, "endD2hMs", "endOutMs")
    values = {metric: _column(path, rows, *names) for metric, names in _DURATIONS.items()}
    for metric, one in values.items():
        _at_least_zero(path, one, _DURATIONS[metric][0])
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


def _at_least_zero(path: Path, values: Floats, name: str) -> None:
    (bad,) = np.nonzero(values < 0)
    if len(bad):
        raise _bad(path, f"iteration {bad[0]}: {name} is {values[bad[0]]:g}")


def read_profile(path: Path) -> tuple[int | None, tuple[Profiled, ...]]:
    """Read `--exportProfile`: how often the engine ran, and its layers, ns per query.

    Times per query are the layer's sum over the count: a layer of a loop runs more often than the engine, and its own
    average is that of one pass. Raises `TracediffError`: trtexec-large, -damaged, -empty, -bad-number.
    """
    entries = _decoded(path, list[_Entry])
    count = next((entry.count for entry in entries if entry.count is not None), None)
    layers = [entry for entry in entries if entry.name is not None]
    if count is not None and count <= 0:
        raise _bad(path, f"its count of iterations is {count}")
    _check_layers(path, layers)
    found = []
    for entry in layers:
        mean = entry.timeMs / count if entry.timeMs is not None and count else entry.averageMs
        median = entry.medianMs
        for what, value in (("time", math.nan if mean is None else mean), ("median", median)):
            if value is not None and not 0 <= value < MOST:
                raise _bad(path, f"layer {(entry.name or '')[:60]!r}: its {what} is {value:g}")
        found.append(Profiled(entry.name or "", MS * (mean or 0.0), None if median is None else MS * median))
    return count, tuple(found)


def read_layers(path: Path) -> tuple[LayerInfo, ...]:
    """Read `--exportLayerInfo`, names alone or in detail. Raises `TracediffError`: trtexec-large, -damaged, -empty."""
    layers = _decoded(path, _Layers).layers
    _check_layers(path, layers)
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


def _check_layers(path: Path, layers: Sequence[object]) -> None:
    if not layers:
        raise _error("trtexec-empty", f"{path.name} holds no layer")
    if len(layers) > LAYERS:
        raise _error("trtexec-large", f"{path.name} holds more than {LAYERS:,} layers")


def _decoded(path: Path, kind: type[_Read]) -> _Read:
    try:
        size = path.stat().st_size
        data = b"" if size > LARGEST else path.read_bytes()
    except OSError as error:
        raise _error("trtexec-no-file", f"{path.name}: {error.strerror or error}") from error
    if size > LARGEST:
        what = f"{path.name} has {size >> 20} MiB: more than {LARGEST >> 20} are not read"
        raise _error("trtexec-large", what)
    if data.count(b"{") > OBJECTS or data.count(b",") > 16 * OBJECTS:
        what = f"{path.name} holds more than {OBJECTS:,} iterations, layers or tensors"
        raise _error("trtexec-large", what)
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        first = error
    try:
        # names of layers may be in any encoding, and 0 / 0 is written as it is
        text = text_of(data).removeprefix("\ufeff").encode()
        return msgspec.json.decode(_NO_NUMBER.sub(rb"\1null", text), type=kind)
    except (msgspec.MsgspecError, RecursionError):
        what = f"{path.name} begins like a file of trtexec, but cannot be read: {first}"
        raise _error("trtexec-damaged", what) from first


def _bad(path: Path, why: str) -> TracediffError:
    return _error("trtexec-bad-number", f"{path.name}: {why}")


# What trtexec prints: the performance summary, and what it says of the version, the GPU and the options.

_LINE = 1 << 16  # characters of a line that are read: verbose logs have long ones
_STAMP = re.compile(r"\s*(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] )?(?:\[[A-Z]\] )?")
_STATUS = re.compile(r"&&&& (\w+) TensorRT\.trtexec(?: \[TensorRT v(\d{4,6})\])?")
_FIGURE = re.compile(r"(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): (?=min = )(.*)")
_VALUE = re.compile(r"(min|max|mean|median|percentile\((\d+(?:\.\d+)?)%\)) = (\S+) ms")
_THROUGHPUT = re.compile(r"Throughput: (\S+) qps")
_COUNTS = {
    "warmups": re.compile(r"Warmup completed (\d{1,18})\d* queries over "),
    "queries": re.compile(r"Timing trace has (\d{1,18})\d* queries over "),
}
_UNSTABLE = re.compile(r"\* GPU compute time is unstable, with coefficient of variance = (\d+(?:\.\d+)?)%")
_SECTION = re.compile(r"=== (.{1,60}) ===\Z")
_OPTION = re.compile(r"([A-Za-z][A-Za-z() -]{0,40}?) ?: (.{1,400})\Z")
_METRICS = {
    "GPU Compute Time": "gpu_compute", "Latency": "latency", "Enqueue Time": "enqueue", "H2D Latency": "h2d",
    "D2H Latency": "d2h",
}  # fmt: skip
# Section -> options that change what is measured. Files and paths are none.
_WANTED = {
    "Build Options": {"Precision", "Sparsity", "BuilderOptimizationLevel"},
    "Inference Options": {
        "Batch", "Input inference shape", "Input inference shapes", "Streams", "Inference Streams", "Data transfers",
        "Spin-wait", "Multithreading", "CUDA Graph", "ExposeDMA", "Idle time", "Sleep time",
    },
}  # fmt: skip
_RENAMED = {"Inference Streams": "Streams", "Input inference shapes": "Input inference shape"}


def read_log(path: Path) -> Log | None:
    """Read a log; None where it has no performance summary.

    Raises `TracediffError`: trtexec-no-file, trtexec-failed, trtexec-log-twice, trtexec-bad-number.
    """
    found = _Reader(path.name)
    try:
        for line in _lines(path):
            found.line(line)
    except OSError as error:
        raise _error("trtexec-no-file", f"{path.name}: {error.strerror or error}") from error
    if found.status == "FAILED":
        raise _error("trtexec-failed", f"{path.name}: trtexec failed, by its own last line")
    if found.throughput is None and not found.figures:
        return None
    return Log(
        version_text(found.version), found.device, found.options, found.profiler and found.together, found.figures,
        found.throughput, found.counts.get("queries"), found.counts.get("warmups"), found.unstable,
    )  # fmt: skip


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        wide = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    with path.open(encoding="utf-16" if wide else "utf-8", errors="replace") as text:
        begun = True
        while line := text.readline(_LINE):
            if begun:
                yield line
            begun = line.endswith("\n")  # the rest of a long line is no line


def version_text(number: str) -> str:
    """Write the version of the status line: 8503 -> 8.5.3, 100300 -> 10.3.0."""
    if not number:
        return ""
    value, major = int(number), 10_000 if len(number) >= 6 else 1_000
    return f"{value // major}.{value % major // 100}.{value % 100}"


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.section = self.version = self.device = self.status = ""
        self.options: dict[str, str] = {}
        self.profiler = self.together = False  # layers are profiled, and with the latencies
        self.figures: dict[str, dict[str, float]] = {}
        self.throughput: float | None = None
        self.counts: dict[str, int] = {}
        self.unstable: float | None = None

    def line(self, raw: str) -> None:
        text = raw.strip().removeprefix("\ufeff")
        text = text[m.end() :] if (m := _STAMP.match(text)) else text
        if found := _STATUS.match(text):
            self.status, self.version = found[1], self.version or found[2] or ""
        elif found := _SECTION.match(text):
            self.section = found[1]
        elif found := _THROUGHPUT.match(text):
            self._once(self.throughput is None)
            self.throughput = self._number(found[1], "the throughput")
        elif found := _FIGURE.match(text):
            metric = _METRICS[found[1]]
            self._once(metric not in self.figures)
            self.figures[metric] = {
                f"p{percent}" if percent else word: 1e6 * self._number(value, f"{found[1]}, {word}")
                for word, percent, value in _VALUE.findall(found[2])
            }
        elif counts := {name: int(found[1]) for name, one in _COUNTS.items() if (found := one.match(text))}:
            self.counts |= counts
        elif found := _UNSTABLE.match(text):
            self.unstable = float(found[1])
        elif found := _OPTION.match(text):
            self._option(found[1].strip(), found[2].strip())

    def _option(self, name: str, value: str) -> None:
        if name == "Selected Device" and not self.device:
            self.device = value
        elif name in _WANTED.get(self.section, ()):
            name = _RENAMED.get(name, name)
            before = self.options.get(name)
            self.options[name] = value if before is None or before == value else f"{before}, {value}"
        elif self.section == "Inference Options" and name == "Separate profiling":
            self.together = value == "Disabled"
        elif self.section == "Reporting Options":
            self.profiler |= (name == "Profile" and value == "Enabled") or name == "Export profile to JSON file"  # fmt: skip

    def _number(self, text: str, what: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < MOST:
            raise _error("trtexec-bad-number", f"{self.name}: {what} is {text[:40]!r}")
        return value

    def _once(self, first: bool) -> None:
        if not first:
            raise _error("trtexec-log-twice", f"{self.name} holds more than one performance summary")
