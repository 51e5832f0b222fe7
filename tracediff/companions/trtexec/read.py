"""What TensorRT's trtexec measured of an engine, from the files it writes: its log, and what its --export options name.

A run is one call of trtexec. Its files lie in a folder, or are named together with commas between them; they are known
by what they hold: the log's performance summary, `--exportTimes`, `--exportProfile`, `--exportLayerInfo`. The log of a build (how long
it took; with `--verbose` the layers and the tactics chosen for them) may lie beside that of a run. A folder of such folders holds several runs. Formats: samples/common/sampleReporting.cpp and sampleEngines.cpp of NVIDIA/TensorRT.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tracediff.arrays import Floats
from tracediff.errors import TracediffError
from tracediff.formats.recognise import HEAD
from tracediff.formats.selection import own_label
from tracediff.kernels.myelin import layer_set

MS = 1e6  # ns
MOST = 1e12  # ms (and queries a second): no figure is so large
LAYERS = 100_000  # of an engine
LARGEST = 256 << 20  # bytes of a JSON file
OBJECTS = 1_000_000  # in a JSON file: iterations, or layers and their tensors
CAPTURE = (
    "trtexec --loadEngine=ENGINE --exportTimes=times.json --exportProfile=profile.json --exportLayerInfo=layers.json"
    " --separateProfileRun --profilingVerbosity=detailed > log.txt"
)
_FIXES = {
    "trtexec-no-file": "check the path",
    "trtexec-nothing": CAPTURE,
    "trtexec-unknown-file": CAPTURE,
    "trtexec-two-of-a-kind": "a folder for each run; a folder of such folders is a side of several runs",
    "trtexec-no-summary": "copy the whole log: a run ends in a performance summary, a build in `Engine built in`",
    "trtexec-large": "measure fewer iterations (--duration, --iterations)",
    "trtexec-damaged": "copy it whole, or export it again",
    "trtexec-bad-number": "run trtexec, or export its file, again",
    "trtexec-empty": "see what trtexec printed",
    "trtexec-failed": "see the lines with [E] in the log, and run it again",
    "trtexec-log-twice": "a log for each run, in a folder for each",
}
_SHAPES = (
    ("times", re.compile(r'\s*\[\s*\{\s*"start(?:Enq|H2d|In|Compute)Ms"\s*:')),
    ("profile", re.compile(r'\s*\[\s*\{\s*"count"\s*:')),
    ("profile", re.compile(r'\s*\[\s*\{\s*"name"\s*:\s*"[^"\\]{0,8000}"\s*,\s*"timeMs"\s*:')),
    ("layer info", re.compile(r'\s*\{\s*"(?:Layers|Bindings)"\s*:\s*\[')),
    ("log", re.compile(r"[\s\S]*?(?:&&&& RUNNING TensorRT\.trtexec|=== Performance summary ===)")),
)


class Log(msgspec.Struct):
    """What trtexec printed. Times in ns; a figure is min, max, mean, median, p90, ... by metric."""

    version: str = ""  # 10.3.0, '' where it is not in the file
    device: str = ""  # GPU model
    # as printed, of those that change what is measured
    options: dict[str, str] = msgspec.field(default_factory=dict)
    build: float | None = None  # ns that the builder took
    profiled: bool = False  # the layer profiler ran while the latencies were measured
    figures: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    throughput: float | None = None  # queries a second
    queries: int | None = None  # measured
    # of --dumpProfile: layer, ns per query
    layers: list[tuple[str, float]] = msgspec.field(default_factory=list)
    passes: int | None = None  # that they are of
    built: list[LayerInfo] = msgspec.field(default_factory=list)  # of the engine, where a build was verbose
    unstable: float | None = (
        None  # % coefficient of variation of the GPU compute time, where trtexec warns of it
    )


class Times(msgspec.Struct, frozen=True, eq=False):
    """One value an iteration, ns."""

    values: dict[str, Floats]  # gpu_compute, latency, h2d, d2h
    start: Floats  # of the copy of the inputs
    end: Floats  # of the copy of the outputs
    with_warmups: bool  # written by a version that exports the warm-ups as well (with `endToEndMs`)


class LayerInfo(msgspec.Struct, frozen=True):
    """A layer of the engine. Only the name where it was built without `--profilingVerbosity=detailed`."""

    name: str
    type: str = ""
    subtype: str = ""
    precision: str = ""  # of the first input, as trt-engine-explorer has it
    output_precision: str = ""
    format: str = ""  # of the first input and output
    tactic: str = ""
    onnx: tuple[str, ...] = ()  # ONNX layers, from Metadata (10.x)

    @property
    def reformat(self) -> bool:
        """Whether the layer only changes the layout of a tensor."""
        return self.type == "Reformat" or any(part.startswith("reformat ") for part in layer_set(self.name))


class Run(msgspec.Struct, frozen=True, eq=False):
    """One call of trtexec, as far as its files are there."""

    name: str
    log: Log | None = None
    times: Times | None = None
    profile: tuple[tuple[str, float], ...] | None = None  # layer, ns per query
    layers: tuple[LayerInfo, ...] | None = None
    files: tuple[str, ...] = ()  # 'log', 'build log', 'times', ... that are there
    skipped: tuple[str, ...] = ()  # logs without a summary


class Side(msgspec.Struct, frozen=True, eq=False):
    """One side of a comparison."""

    label: str
    runs: tuple[Run, ...]


def recognise(head: bytes) -> str | None:
    """Name what a file is by its first bytes: log, times, profile, layer info; None where it is none."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    return next((kind for kind, shape in _SHAPES if shape.match(text)), None)


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
    path = Path(rest)
    if path.is_dir():
        name = path.resolve().name
        runs = _of_folder(path)
        if not runs:
            raise _error("trtexec-nothing", f"{name}: no file of trtexec in this folder")
        return Side(label or name, tuple(runs))
    paths = [path] if path.exists() else [Path(one) for one in rest.split(",") if one]
    if not paths:
        raise _error("trtexec-no-file", "no file was named")
    name = paths[0].name + (f" + {len(paths) - 1}" if len(paths) > 1 else "")
    if all(one.is_dir() for one in paths):
        return Side(label or name, tuple(run for one in paths for run in _of_folder(one)))
    return Side(label or name, (_run(name, {one: _known(one) for one in paths}),))


def _error(slug: str, what: str, fix: str = "") -> TracediffError:
    return TracediffError(slug, what, fix=fix or _FIXES[slug])


def _known(path: Path) -> str:
    if path.is_dir():
        what = f"{path}: a folder, and what is listed with it is none"
        fix = "a folder for each run, or the files of one run, with commas"
        raise _error("trtexec-no-file", what, fix)
    if not path.is_file():
        raise _error("trtexec-no-file", f"{path}: there is no such file or folder")
    kind = kind_of(path)
    if kind is None:
        what = f"{path.name} is neither a log of trtexec nor a file of its --export options"
        raise _error("trtexec-unknown-file", what)
    return kind


def _of_folder(folder: Path) -> list[Run]:
    try:
        if mine := _kinds_in(folder):
            return [_run(folder.resolve().name, mine)]
        inside = [(one.name, _kinds_in(one)) for one in sorted(folder.iterdir()) if one.is_dir()]
    except OSError as error:
        raise _error("trtexec-no-file", f"{folder.name}: {error.strerror or error}") from error
    return [_run(name, kinds) for name, kinds in inside if kinds]


def _kinds_in(folder: Path) -> dict[Path, str]:
    return {path: kind for path in sorted(folder.iterdir()) if (kind := kind_of(path))}


def _run(name: str, kinds: Mapping[Path, str]) -> Run:
    run, seen = Run(name), dict[str, Path]()
    skipped: list[str] = []
    builds = list[Log]()
    for path, kind in kinds.items():
        log = read_log(path) if kind == "log" else None
        if kind == "log" and log is None:
            skipped.append(path.name)
            continue
        if log and not (log.figures or log.layers or log.throughput is not None):
            kind = "build log"
            builds = [log]
        if kind in seen:
            both = f"{seen[kind].name} and {path.name} are both a {kind} of trtexec"
            raise _error("trtexec-two-of-a-kind", f"{name}: {both}: which one belongs to the run?")
        seen[kind] = path
        if log is not None:
            run = replace(run, log=log if kind == "log" else run.log)
        elif kind == "times":
            run = replace(run, times=read_times(path))
        elif kind == "profile":
            run = replace(run, profile=read_profile(path))
        else:
            run = replace(run, layers=read_layers(path))
    if not seen:
        what = "has neither a performance summary nor the time of a build: the log is cut short"
        raise _error("trtexec-no-summary", f"{skipped[0]} {what}")
    for log in builds:
        whole = run.log or log
        run = replace(run, log=replace(whole, build=log.build, built=log.built))
    if run.profile is None and run.log and run.log.layers:
        run = replace(run, profile=tuple(run.log.layers))
    if run.layers is None and run.log and run.log.built:
        run = replace(run, layers=tuple(run.log.built))
    files = tuple(kind for kind in ("log", "build log", "times", "profile", "layer info") if kind in seen)
    return replace(run, files=files, skipped=tuple(skipped))


# The three JSON files of trtexec: --exportTimes, --exportProfile, --exportLayerInfo.

_NO_NUMBER = re.compile(rb'("\s*:\s*)[-+]?(?:nan|inf)(?:\(ind\))?(?=\s*[,}])', re.IGNORECASE)
_ONNX = re.compile(r"\[ONNX Layer: ([^\]\x1e\x1f]+)\]")
_PRECISION = re.compile(
    r"\b(?:(?P<FP4>FP4|E2M1)|(?P<FP8>FP8|E4M3)|(?P<BF16>BF16|BFloat16)|(?P<FP16>FP16|Half)|(?P<FP32>FP32|Float)|"
    r"(?P<FP64>FP64|Double)|(?P<INT4>INT4)|(?P<INT8>INT8)|(?P<UINT8>UINT8)|(?P<INT32>INT32)|(?P<INT64>INT64)|(?P<BOOL>BOOL))\b",
    re.IGNORECASE,
)
_Read = TypeVar("_Read")


class _Iteration(msgspec.Struct, gc=False):
    startH2dMs: float | None = None  # noqa: N815
    endD2hMs: float | None = None  # noqa: N815
    h2dMs: float | None = None  # noqa: N815
    computeMs: float | None = None  # noqa: N815
    d2hMs: float | None = None  # noqa: N815
    latencyMs: float | None = None  # noqa: N815
    endToEndMs: float | None = None  # noqa: N815


class _Entry(msgspec.Struct, gc=False):
    count: Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)] | None = None
    name: str | None = None
    timeMs: float | None = None  # noqa: N815
    averageMs: float | None = None  # noqa: N815


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


_DURATIONS = {"gpu_compute": "computeMs", "latency": "latencyMs", "h2d": "h2dMs", "d2h": "d2hMs"}


def read_times(path: Path) -> Times:
    """Read `--exportTimes`, which is known by its first iteration. Raises `TracediffError`: trtexec-large, -damaged, -bad-number."""
    rows = _decoded(path, list[_Iteration])
    start, end = (_column(path, rows, name) for name in ("startH2dMs", "endD2hMs"))
    values = {metric: _column(path, rows, name) for metric, name in _DURATIONS.items()}
    for metric, one in values.items():
        if one.min() < 0:
            at = int(one.argmin())
            raise _bad(path, f"iteration {at}: {_DURATIONS[metric]} is {one[at] / MS:g}")
    # The order of the file is that of the starts, up to rounding: with ties broken by the other columns, none of it matters.
    order = np.lexsort([*values.values(), end, start])
    return Times(
        {name: one[order] for name, one in values.items()},
        start[order],
        end[order],
        any(row.endToEndMs is not None for row in rows),
    )


def _column(path: Path, rows: list[_Iteration], name: str) -> Floats:
    """A column in ns; every row needs a finite number."""
    found = np.array([getattr(row, name) for row in rows], np.float64)
    (bad,) = np.nonzero(~(np.abs(found) < MOST))
    if len(bad):
        raise _bad(path, f"iteration {bad[0]} has no finite {name}")
    return MS * found


def read_profile(path: Path) -> tuple[tuple[str, float], ...]:
    """Read `--exportProfile`: the layers by name, ns per query.

    Times per query are the layer's sum over the count: a layer of a loop runs more often than the engine, and its own
    average is that of one pass. Raises `TracediffError`: trtexec-large, -damaged, -empty, -bad-number.
    """
    entries = _decoded(path, list[_Entry])
    count = next((entry.count for entry in entries if entry.count is not None), None)
    if count is not None and count <= 0:
        raise _bad(path, f"its count of iterations is {count}")
    found = []
    for entry in entries:
        if entry.name is not None:
            mean = entry.timeMs / count if entry.timeMs is not None and count else entry.averageMs
            if mean is None or not 0 <= mean < MOST:
                said = math.nan if mean is None else mean
                raise _bad(path, f"layer {entry.name[:60]!r}: its time is {said:g}")
            found.append((entry.name, MS * mean))
    _check_layers(path, found)
    return tuple(found)


def read_layers(path: Path) -> tuple[LayerInfo, ...]:
    """Read `--exportLayerInfo`, names alone or in detail. Raises `TracediffError`: trtexec-large, -damaged, -empty."""
    layers = _decoded(path, _Layers).layers
    _check_layers(path, layers)
    return tuple(LayerInfo(one) if isinstance(one, str) else _info(one) for one in layers)


def _info(layer: _Layer) -> LayerInfo:
    before, after = (
        (tensors[0].format or tensors[0].datatype).strip() if tensors else ""
        for tensors in (layer.inputs, layer.outputs)
    )
    tactic = f"{layer.tactic_value:#x}" if isinstance(layer.tactic_value, int) else layer.tactic_value
    if not tactic.removeprefix("0x").strip("0"):
        tactic = ""  # 0 is that of layers without a choice
    return LayerInfo(
        name=layer.name,
        type=layer.parameter_type or layer.layer_type,
        subtype=layer.layer_type,
        precision=precision(before) or precision(after),
        output_precision=precision(after),
        format=" -> ".join(filter(None, dict.fromkeys((before, after)))),
        tactic=" ".join(filter(None, (layer.tactic_name, tactic))),
        onnx=tuple(dict.fromkeys(_ONNX.findall(layer.metadata))),
    )


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
        data = b"" if size > LARGEST else path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise _error("trtexec-no-file", f"{path.name}: {error.strerror or error}") from error
    if size > LARGEST:
        what = f"{path.name} has {size >> 20} MiB: more than {LARGEST >> 20} are not read"
        raise _error("trtexec-large", what)
    if data.count(b"{") > OBJECTS or data.count(b",") > 16 * OBJECTS:
        what = f"{path.name} holds more than {OBJECTS:,} iterations, layers or tensors"
        raise _error("trtexec-large", what)
    try:
        # names of layers may be in any encoding, and 0 / 0 is written as it is
        text = data.decode("utf-8", "replace").encode()
        return msgspec.json.decode(_NO_NUMBER.sub(rb"\1null", text), type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        what = f"{path.name} begins like a file of trtexec, but cannot be read: {error}"
        raise _error("trtexec-damaged", what) from error


def _bad(path: Path, why: str) -> TracediffError:
    return _error("trtexec-bad-number", f"{path.name}: {why}")


# What trtexec prints: the performance summary, and what it says of the version, the GPU and the options.

_LINE = 1 << 16  # characters of a line that are read: verbose logs have long ones
_STAMP = re.compile(r"\s*(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] )?(?:\[[A-Z]\] )?(?:\[TRT\] )?")
_STATUS = re.compile(r"&&&& (\w+) TensorRT\.trtexec(?: \[TensorRT v(\d{4,6})\])?")
_FIGURE = re.compile(
    r"(Latency|End-to-End Host Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): (?=min = )(.*)"
)
_VALUE = re.compile(r"(min|max|mean|median|percentile\((\d+(?:\.\d+)?)%\)) = (\S+) ms")
_THROUGHPUT = re.compile(r"Throughput: (\S+) qps")
_QUERIES = re.compile(r"Timing trace has (\d{1,18})\d* queries over ")
_UNSTABLE = re.compile(r"\* GPU compute time is unstable, with coefficient of variance = (\d+(?:\.\d+)?)%")
_BUILT = re.compile(r"(?:(Engine built)|Engine generation completed) in (\S+) sec")
_CACHE = re.compile(r"(Local|Global) timing cache in use")
_TACTIC = re.compile(r"Tactic Name: (\S{1,400}) Tactic: (0x[0-9a-f]{1,16})\b")
_BUILT_LAYER = re.compile(
    r"Layer\((\w{1,60})\): (.{1,8000}?), Tactic: (0x[0-9a-f]{1,16}|-?\d{1,20}),(.*?)->(.*)"
)
_TENSOR_TYPE = re.compile(r"[(\[](\w{1,20})[(\[]")
_PASSES = re.compile(r"Profile \((\d{1,9}) iterations ?\)\Z")
_SECTION = re.compile(r"=== (.{1,60}) ===\Z")
_OPTION = re.compile(r"([A-Za-z][A-Za-z() -]{0,40}?) ?: (.{1,400})\Z")
_METRICS = {
    "GPU Compute Time": "gpu_compute", "Latency": "latency", "Enqueue Time": "enqueue", "H2D Latency": "h2d",
    "D2H Latency": "d2h", "End-to-End Host Latency": "end_to_end",
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
    """Read a log; None where it has neither a performance summary nor the time of a build.

    Raises `TracediffError`: trtexec-no-file, trtexec-failed, trtexec-log-twice, trtexec-bad-number.
    """
    said = _Said(path)
    try:
        for line in _lines(path):
            if found := _STATUS.match(line):
                said.status, said.version = found[1], said.version or found[2] or ""
            elif found := _SECTION.match(line):
                said.begin(found[1])
            elif not (said.layer(line) or said.of_summary(line) or said.of_build(line)):
                said.option(line)
    except OSError as error:
        raise _error("trtexec-no-file", f"{path.name}: {error.strerror or error}") from error
    if said.status == "FAILED":
        raise _error("trtexec-failed", f"{path.name}: trtexec failed, by its own last line")
    log = said.log
    log.version, log.profiled = version_text(said.version), said.profiler and said.together
    _check_layers(path, log.built or ["none"])
    known = (log.throughput, log.build, log.figures or None, log.layers or None)
    return log if any(one is not None for one in known) else None


class _Said:
    """What a log has said so far."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, Log()
        self.status = self.version = self.section = ""
        self.columns = ""  # of the table of layers
        self.tactics = dict[str, str]()  # their names
        self.profiler = self.together = False  # layers are profiled, and with the latencies

    def begin(self, section: str) -> None:
        """A section begins."""
        self.section = section
        if passes := _PASSES.match(section):
            _once(self.path, not self.log.layers)
            self.log.passes = int(passes[1])

    def layer(self, line: str) -> bool:
        """Whether a line is of the table of --dumpProfile, whose rows are kept: the sum in ms, further numbers, and the layer's name, which older versions have first."""
        if not _PASSES.match(self.section):
            return False
        row, layers = line.strip(), self.log.layers
        if not self.columns:
            self.columns = row if "Layer" in row and "%" in row else ""
            return bool(self.columns)
        count = self.columns.count("(ms)") + self.columns.count("%")
        named = self.columns.startswith("Layer")
        words = row.rsplit(None, count) if named else row.split(None, count)
        if len(words) == count + 1 and self.log.passes and len(layers) < LAYERS:
            name, total = (words[0], words[1]) if named else (words[-1], words[0])
            if name == "Total":
                self.section = ""  # that was the last row
            else:
                ns = MS * _number(self.path, total, f"layer {name[:60]!r}")
                layers.append((name, ns / self.log.passes))
        return True

    def of_summary(self, line: str) -> bool:
        """Whether a line is of the performance summary, which is kept."""
        log = self.log
        if found := _THROUGHPUT.match(line):
            _once(self.path, log.throughput is None)
            log.throughput = _number(self.path, found[1], "the throughput")
        elif found := _FIGURE.match(line):
            _once(self.path, _METRICS[found[1]] not in log.figures)
            log.figures[_METRICS[found[1]]] = {
                f"p{percent}" if percent else word: MS * _number(self.path, value, f"{found[1]}, {word}")
                for word, percent, value in _VALUE.findall(found[2])
            }
        elif found := _QUERIES.match(line):
            log.queries = int(found[1])
        elif found := _UNSTABLE.match(line):
            log.unstable = float(found[1])
        return found is not None

    def of_build(self, line: str) -> bool:
        """Whether a line is of the builder, which is kept."""
        log = self.log
        if found := _BUILT.match(line):
            if found[1] or log.build is None:  # the builder's own time lies within that of trtexec
                log.build = 1e9 * _number(self.path, found[2], "the time of the build")
        elif (found := _TACTIC.search(line)) and len(self.tactics) < LAYERS:
            self.tactics[found[2]] = found[1]
        elif len(log.built) <= LAYERS and (found := _BUILT_LAYER.match(line)):
            log.built.append(_built(found, self.tactics))
        elif found := _CACHE.match(line):
            log.options["Timing cache"] = found[1].lower()
        return found is not None

    def option(self, line: str) -> None:
        """Keep what a line says of the GPU, or of an option that changes what is measured."""
        if not (found := _OPTION.match(line)):
            return
        log, name, value = self.log, found[1].strip(), found[2].strip()
        said = (self.section, name, value)
        self.together |= said == ("Inference Options", "Separate profiling", "Disabled")
        self.profiler |= said == ("Reporting Options", "Profile", "Enabled")
        self.profiler |= said[:2] == ("Reporting Options", "Export profile to JSON file")
        if name == "Selected Device":
            log.device = log.device or value
        elif name in _WANTED.get(self.section, ()):
            name = _RENAMED.get(name, name)
            before = log.options.get(name, value)
            log.options[name] = value if before == value else f"{before}, {value}"


def _built(found: re.Match[str], names: Mapping[str, str]) -> LayerInfo:
    """A layer of `Engine Layer Information`; the lines on tuning tell the name of its tactic."""
    before, after = (
        precision(types[0]) if (types := _TENSOR_TYPE.findall(side)) else "" for side in (found[4], found[5])
    )
    tactic = found[3] if found[3].removeprefix("0x").strip("0") else ""
    return LayerInfo(
        name=found[2], type=found[1], precision=before or after, output_precision=after,
        tactic=" ".join(filter(None, (names.get(tactic, ""), tactic))),
    )  # fmt: skip


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines without time stamps."""
    with path.open(encoding="utf-8-sig", errors="replace") as text:
        begun = True
        while line := text.readline(_LINE):
            if begun:
                yield _STAMP.sub("", line.strip(), count=1)
            begun = line.endswith("\n")  # the rest of a long line is no line


def _number(path: Path, text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < MOST:
        raise _bad(path, f"{what} is {text[:40]!r}")
    return value


def _once(path: Path, first: bool) -> None:
    if not first:
        raise _error("trtexec-log-twice", f"{path.name} holds more than one performance summary")


def version_text(number: str) -> str:
    """Write the version of the status line: 8503 -> 8.5.3, 100300 -> 10.3.0."""
    if not number:
        return ""
    value, major = int(number), 10_000 if len(number) >= 6 else 1_000
    return f"{value // major}.{value % major // 100}.{value % 100}"
