"""What trtexec prints: the performance summary, and what it says of the version, the GPU and the options.

Lines as written by printPerformanceReport in samples/common/sampleReporting.cpp and by the operators << of
samples/common/sampleOptions.cpp (8.x, 10.x), with or without the date and severity before them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load.trtexec import MOST, Log

_LINE = 1 << 16  # characters of a line that are read: verbose logs have long ones
_STAMP = re.compile(r"\s*(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] )?(?:\[[A-Z]\] )?")
_STATUS = re.compile(r"&&&& (\w+) TensorRT\.trtexec(?: \[TensorRT v(\d{4,6})\])?")
_FIGURE = re.compile(r"(Latency|Enqueue Time|H2D Latency|GPU Compute Time|D2H Latency): (?=min = )(.*)")
_VALUE = re.compile(r"(min|max|mean|median|percentile\((\d+(?:\.\d+)?)%\)) = (\S+) ms")
_THROUGHPUT = re.compile(r"Throughput: (\S+) qps")
_WARMUP = re.compile(r"Warmup completed (\d+) queries over ")
_QUERIES = re.compile(r"Timing trace has (\d+) queries over ")
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


def read_log(path: Path) -> Log | None:
    """Read a log; None where it has no performance summary.

    Raises `TracediffError`: trtexec-no-file, trtexec-failed, trtexec-log-twice, trtexec-bad-number.
    """
    found = _Reader(path.name)
    try:
        for line in _lines(path):
            found.line(line)
    except OSError as error:
        raise TracediffError(
            "trtexec-no-file", f"{path.name}: {error.strerror or error}", fix="check the path"
        ) from error
    if found.status == "FAILED":
        raise TracediffError(
            "trtexec-failed",
            f"{path.name}: trtexec failed, by its own last line",
            fix="see the lines with [E] in the log, and run it again",
        )
    if found.throughput is None and not found.figures:
        return None
    return Log(
        version_text(found.version), found.device, found.options,
        found.profiler and found.options_of_profiling.get("Separate profiling") == "Disabled",
        found.figures, found.throughput, found.queries, found.warmups, found.unstable,
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
        self.options_of_profiling: dict[str, str] = {}
        self.profiler = False
        self.figures: dict[str, dict[str, float]] = {}
        self.throughput: float | None = None
        self.queries: int | None = None
        self.warmups: int | None = None
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
        elif found := _WARMUP.match(text):
            self.warmups = int(found[1][:18])
        elif found := _QUERIES.match(text):
            self.queries = int(found[1][:18])
        elif found := _UNSTABLE.match(text):
            self.unstable = float(found[1])
        elif found := _OPTION.match(text):
            self._option(found[1].strip(), found[2].strip())

    def _option(self, name: str, value: str) -> None:
        if name == "Selected Device" and not self.device:
            self.device = value
        elif name in _WANTED.get(self.section, ()):
            name = {"Inference Streams": "Streams", "Input inference shapes": "Input inference shape"}.get(
                name, name
            )
            before = self.options.get(name)
            self.options[name] = value if before is None or before == value else f"{before}, {value}"
        elif self.section == "Inference Options" and name == "Separate profiling":
            self.options_of_profiling[name] = value
        elif self.section == "Reporting Options":
            self.profiler |= (name == "Profile" and value == "Enabled") or name == "Export profile to JSON file"  # fmt: skip

    def _number(self, text: str, what: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < MOST:
            raise TracediffError(
                "trtexec-bad-number", f"{self.name}: {what} is {text[:40]!r}", fix="run trtexec again"
            )
        return value

    def _once(self, first: bool) -> None:
        if not first:
            raise TracediffError(
                "trtexec-log-twice",
                f"{self.name} holds more than one performance summary",
                fix="a log for each run, in a folder for each",
            )
