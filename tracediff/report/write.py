"""Output files: checked before the work starts, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tracediff.errors import TracediffError
from tracediff.model import Result
from tracediff.model.show import Show


def _special(path: Path) -> bool:
    """Tell whether the path is a device or a pipe (/dev/stdout), which is written to in place."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _check(path: Path, force: bool) -> None:
    if path.is_dir():
        raise TracediffError("output-is-folder", f"{path} is a folder", fix="name a file inside it")
    if not path.parent.is_dir():
        raise TracediffError(
            "output-folder-missing", f"the folder of {path} does not exist", fix=f"mkdir -p {path.parent}"
        )
    if os.path.lexists(path) and not force and not _special(path):
        raise TracediffError(
            "output-exists", f"{path} exists already", fix="-f to overwrite it, or another name"
        )


def check_outputs(paths: Iterable[Path | str], force: bool = False) -> None:
    """Raise now for what would stop a file from being written after the work is done."""
    seen: dict[str, Path] = {}
    for path in map(Path, paths):
        _check(path, force)
        if _special(path):
            continue
        real = os.path.realpath(path)
        if real in seen:
            raise TracediffError(
                "output-twice", f"two outputs would be written to {path}", fix="give each output its own file"
            )
        seen[real] = path
        if not os.access(path.parent, os.W_OK):
            raise TracediffError(
                "output-not-writable", f"the folder of {path} is not writable", fix="choose another folder"
            )


def check_folder(path: Path | str) -> None:
    """Raise now where a folder for many files could not be made."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise TracediffError("output-not-folder", f"{path} is a file", fix="name a folder")
    if not path.absolute().parent.is_dir():
        raise TracediffError(
            "output-folder-missing", f"the folder of {path} does not exist", fix=f"mkdir -p {path.parent}"
        )
    if not os.access(path if path.is_dir() else path.absolute().parent, os.W_OK):
        raise TracediffError(
            "output-not-writable", f"the folder of {path} is not writable", fix="choose another folder"
        )


def make_folder(path: Path | str) -> None:
    """Make the folder unless it is there."""
    check_folder(path)
    try:
        Path(path).mkdir(exist_ok=True)
    except OSError as error:
        raise TracediffError(
            "output-not-writable",
            f"{path} could not be made: {error.strerror or error}",
            fix="choose another folder",
        ) from error


def write_atomically(path: Path | str, data: bytes, force: bool = False) -> None:
    """Write a file through a temporary one beside it; after any failure nothing half-written is left."""
    path = Path(path)
    _check(path, force)
    try:
        if _special(path):
            path.write_bytes(data)
            return
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise TracediffError(
            "output-not-writable",
            f"{path} could not be written: {error.strerror or error}",
            fix="check the free space and the permissions of the folder, or choose another one",
        ) from error


def _replace(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


# A document as blocks, written once as Markdown and once as HTML by a template each.


class Code(str):
    """A name out of a trace, a file or a command."""

    __slots__ = ()


class Strong(str):
    """Prose that stands out."""

    __slots__ = ()


class Fill(str):
    """What the author of the document has to add."""

    __slots__ = ()


class Number(str):
    """A figure: right-aligned in a table."""

    __slots__ = ()


Span = str  # or one of its kinds above
Text = Sequence[Span]


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    kind: ClassVar[str] = "heading"
    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    kind: ClassVar[str] = "paragraph"
    spans: Text


@dataclass(frozen=True)
class Items:
    """A list; with `boxes` each item can be ticked off."""

    kind: ClassVar[str] = "items"
    items: Sequence[Text]
    boxes: bool = False


@dataclass(frozen=True)
class Table:
    """A table; a column is right-aligned where its first cell is a `Number`."""

    kind: ClassVar[str] = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[Span]]
    right: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        columns = range(len(self.header))
        right = [any(isinstance(row[column], Number) for row in self.rows) for column in columns]
        object.__setattr__(self, "right", right)


@dataclass(frozen=True)
class Listing:
    """Text in fixed pitch: a query, a figure of characters."""

    kind: ClassVar[str] = "listing"
    text: str
    language: str = "text"


@dataclass(frozen=True)
class Waterfall:
    """The step-time waterfall; `text` is the same for who sees no pictures."""

    kind: ClassVar[str] = "waterfall"
    text: str


Block = Heading | Paragraph | Items | Table | Listing | Waterfall


def style(span: Span) -> str:
    """Name the kind of a span for a template: code, strong, fill, number or text."""
    kinds = {Code: "code", Strong: "strong", Fill: "fill", Number: "number"}
    return kinds.get(type(span), "text")


# Which profiler recorded what a report is of, and what follows from it: what to capture with, where to look.

# Kind of trace -> what to add to the capture, as a command-line flag of nsys or a variable of the program.
CAPTURE_WITH: dict[str, str] = {
    "kernels": "-t cuda", "cuda_api": "-t cuda", "memcpy": "-t cuda", "sync": "-t cuda", "nvtx": "-t nvtx",
    "gil": "-t python-gil", "gc": "TLLM_PROFILE_RECORD_GC=1", "graphs": "--cuda-graph-trace=node",
    "os_calls": "-t osrt", "context_switches": "--cpuctxsw=process-tree", "gpu_memory": "--cuda-memory-usage=true",
    "gpu_metrics": "--gpu-metrics-devices=all (before nsys 2024.6: --gpu-metrics-device=all)",
    "mpi": "-t mpi", "nccl": "-t nvtx",
}  # fmt: skip
# The same where torch.profiler recorded all.
_WITH_TORCH: dict[str, str] = {
    **dict.fromkeys(("kernels", "cuda_api", "memcpy", "sync", "graphs"), "ProfilerActivity.CUDA"),
    "nvtx": "record_function", "gil": "nsys -t python-gil", "gc": "record_python_gc_info=True",
    "os_calls": "nsys -t osrt", "context_switches": "nsys --cpuctxsw=process-tree",
    "gpu_memory": "nsys --cuda-memory-usage=true", "gpu_metrics": "nsys --gpu-metrics-devices=all",
    "mpi": "nsys -t mpi", "nccl": "nsys -t nvtx",
}  # fmt: skip
_TORCH = "torch.profiler"


def capture_with(report: Result | Show, kind: str) -> str:
    """What to record with so that a kind of trace is there."""
    found = CAPTURE_WITH
    if by_torch(report):
        found = _WITH_TORCH
    elif kind == "gil" and any(note.slug == "torch-profiler" for note in report.warnings):
        found = _WITH_TORCH  # one side has it from nsys
    return found.get(kind, "a wider -t")


def absent(report: Result | Show, kind: str, where: str = "") -> str:
    """Say that a kind of trace is not there (`where`: on which side), and how it would be.

    Collections and NCCL's ranges leave no trace where none ran, so that one cannot be told from the other.
    """
    at = f" {where}" if where else ""
    how = capture_with(report, kind)
    if kind not in ("gc", "nccl"):
        return f"not captured{at}. Capture with {how} to see it."
    program = " (in TensorRT-LLM)" if kind == "gc" and not by_torch(report) else ""
    return f"none seen{at}: none ran, or none was recorded. Capture with {how}{program} to see it."


def by_torch(report: Result | Show) -> bool:
    """Whether torch.profiler recorded everything: then there is no export of nsys, nor SQL on one."""
    values = _versions(report)
    return bool(values) and all(value.startswith(_TORCH) for value in values)


def viewer(report: Result | Show) -> str:
    """The program that shows the moments of a trace, by their ns from its start."""
    if by_torch(report):
        return "Perfetto"
    return "nsys and Perfetto" if any(value.startswith(_TORCH) for value in _versions(report)) else "nsys"


def _versions(report: Result | Show) -> list[str]:
    """What both sides, or the one, say of their profiler; several of one side are one text."""
    if isinstance(report, Show):
        said = [fact.value for fact in report.machine if fact.name == "nsys"]
    else:
        said = [
            text
            for one in report.comparability.checks
            if one.name == "nsys"
            for text in (one.baseline, one.candidate)
        ]
    return [value for text in said for value in text.split(" | ")]
