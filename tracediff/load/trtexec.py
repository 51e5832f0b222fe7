"""What TensorRT's trtexec measured of an engine, from the files it writes: its log, and what its --export options name.

A run is one call of trtexec. Its files lie in a folder, or are named together with commas between them; they are known
by what they hold: the log's performance summary, `--exportTimes`, `--exportProfile`, `--exportLayerInfo`. A folder of
such folders holds several runs. Formats: samples/common/sampleReporting.cpp and sampleEngines.cpp of NVIDIA/TensorRT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracediff.errors import TracediffError
from tracediff.load.labels import own_label

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
    """A layer of the profile; ns a query."""

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


def refuse(path: Path) -> None:
    """Raise `TracediffError` (trtexec-as-side) where a side of a comparison of steps is a file of trtexec."""
    kind = kind_of(path)
    if kind:
        raise TracediffError(
            "trtexec-as-side",
            f"{path.name} is the {_KINDS[kind]} of trtexec, not a capture",
            fix="tracediff trtexec BASELINE CANDIDATE, or tracediff compare A B --trtexec-baseline X --trtexec-candidate Y",
            exit_code=2,
        )


def read(word: str) -> Side:
    """Read the runs of a side: a folder, a folder of folders, a file, or files with commas between them; label=PATH names it.

    Raises `TracediffError`: trtexec-no-file, trtexec-unknown-file, trtexec-two-of-a-kind, trtexec-nothing, and those
    of trtexec_json and trtexec_log.
    """
    label, rest = own_label(word)
    side = _read(rest)
    return side if label is None else replace(side, label=label)


def _read(word: str) -> Side:
    path = Path(word)
    if path.is_dir():
        name = path.resolve().name
        runs = _of_folder(path)
        if not runs:
            raise TracediffError("trtexec-nothing", f"{name}: no file of trtexec in this folder", fix=CAPTURE)
        return Side(name, tuple(runs))
    paths = [path] if path.exists() else [Path(one) for one in word.split(",") if one]
    found = {}
    for one in paths:
        if one.is_dir():
            raise TracediffError(
                "trtexec-no-file",
                f"{one}: a folder, and folders cannot be listed with commas",
                fix="name a folder alone (a folder of folders is a side of several runs), or files with commas",
            )
        found[one] = kind_of(one)
        if not one.is_file():
            raise TracediffError(
                "trtexec-no-file", f"{one}: there is no such file or folder", fix="check the path"
            )
        if found[one] is None:
            raise TracediffError(
                "trtexec-unknown-file",
                f"{one.name} is neither a log of trtexec nor a file of its --export options",
                fix=CAPTURE,
            )
    if not found:
        raise TracediffError("trtexec-no-file", "no file was named", fix="check the path")
    label = paths[0].name + (f" + {len(paths) - 1}" if len(paths) > 1 else "")
    return Side(label, (_run(label, {one: kind for one, kind in found.items() if kind}),))


def _of_folder(folder: Path) -> list[Run]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise TracediffError(
            "trtexec-no-file", f"{folder.name}: {error.strerror or error}", fix="check the path"
        ) from error
    kinds = {path: kind for path in entries if (kind := kind_of(path))}
    if kinds:
        return [_run(folder.resolve().name, kinds)]
    return [
        run
        for path in entries
        if path.is_dir() and (inside := {one: kind for one in sorted(path.iterdir()) if (kind := kind_of(one))})
        for run in [_run(path.name, inside)]
    ]  # fmt: skip


def _run(name: str, kinds: Mapping[Path, str]) -> Run:
    from tracediff.load.trtexec_json import read_layers, read_profile, read_times
    from tracediff.load.trtexec_log import read_log

    run, seen = Run(name), dict[str, Path]()
    skipped: list[Path] = []
    for path, kind in kinds.items():
        if kind == "trtexec-log" and (log := read_log(path)) is None:
            skipped.append(path)
            continue
        if kind in seen:
            raise TracediffError(
                "trtexec-two-of-a-kind",
                f"{name}: {seen[kind].name} and {path.name} are both a {_KINDS[kind]} of trtexec: which one belongs to the run?",
                fix="a folder for each run; a folder of such folders is a side of several runs",
            )
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
        raise TracediffError(
            "trtexec-no-summary",
            f"{skipped[0].name} has no performance summary: the engine was built, not run, or the log is cut short",
            fix="run it without --buildOnly and --skipInference, and copy the whole log",
        )
    files = tuple(word for kind, word in _KINDS.items() if kind in seen)
    return replace(run, files=files, skipped=tuple(path.name for path in skipped))
