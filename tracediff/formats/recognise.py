"""What a file is, by what it holds. Companions register the kinds that they read (`register`).

The command line imports this module at its start, so readers are imported where a file may be theirs.
"""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tracediff.errors import TracediffError, UsageError
from tracediff.formats.files import SQLITE, broken, packing

HEAD = 1 << 16  # bytes
_TRACE = "tracediff compare BASELINE CANDIDATE, tracediff show FILE"
# What Nsight Systems writes at the beginning of a report; the version of nsys follows, its numbers joined by @.
NSYS_REPORT = b"NVIDIA Tegra Profiler Report"
_NSYS_VERSION = re.compile(rb"Report (\d+(?:@\d+){1,3})")

# Facts about a file for `tracediff inputs`, and the options that its command needs. Raises `TracediffError` where it is broken.
Facts = Callable[[Path], tuple[list[str], str]]


# A tuple: the help of a command comes through here, and imports no library.
class Kind(NamedTuple):
    """A kind of input.

    `use`: the command that takes it; `fits`: whether a file is one, by its path and first bytes (unpacked).
    `side`: it can be a side of a comparison of steps; `beside`: the section of a result that it makes where it stands beside one; `refusal`, `instead`: slug and advice where it is given as one and cannot.
    """

    slug: str
    title: str
    use: str
    fits: Callable[[Path, bytes], bool]
    side: bool = False
    facts: Facts | None = None
    refusal: str = "other-input"
    instead: str = ""
    beside: str = ""


def saved_result(name: str, command: str) -> Kind:
    """A result of that `kind`, which `tracediff COMMAND --json` wrote."""
    kind = re.compile(rb'"kind"\s*:\s*"' + name.encode() + rb'"')
    return Kind(
        f"{name}-result", f"a saved result of tracediff {command}", "tracediff report FILE",
        lambda path, head: head.lstrip()[:1] == b"{" and b'"format_version"' in head[:200] and bool(kind.search(head[:200])),
    )  # fmt: skip


def _is_folder(path: Path) -> bool:
    from tracediff.formats.columnar import is_folder

    return is_folder(path)


def _is_bundle(path: Path, head: bytes) -> bool:
    from tracediff.formats.bundle import is_bundle

    return is_bundle(path)


def _is_torch(path: Path, head: bytes) -> bool:
    from tracediff.formats.kineto import peek

    return head.lstrip()[:1] == b"{" and peek(path) is not None


def _is_comparison(path: Path, head: bytes) -> bool:
    return re.match(rb'\s*\{\s*"format_version"\s*:\s*\d+\s*,\s*"tool"', head) is not None


# The first that fits.
_KINDS: dict[str, Kind] = {}


def register(kinds: Iterable[Kind]) -> None:
    """Add kinds, at a place before every kind that would also take the file."""
    _KINDS.update((kind.slug, kind) for kind in kinds)


register((
    Kind("bundle", "a bundle of tracediff capture", "tracediff compare FOLDER", _is_bundle),
    Kind("parquetdir", "an export of Nsight Systems (Parquet files)", _TRACE,
         lambda path, head: _is_folder(path), side=True),
    Kind("sqlite", "a SQLite file", _TRACE, lambda path, head: head.startswith(SQLITE), side=True),
    Kind("nsys-report", "a report of Nsight Systems", _TRACE, lambda path, head: head.startswith(NSYS_REPORT), side=True),
    Kind("torch-trace", "a trace of torch.profiler", _TRACE, _is_torch, side=True),
    saved_result("show", "show"), saved_result("what-if", "what-if"), saved_result("bisect", "bisect"),
    saved_result("history", "history show"),
    Kind("result", "a saved result of tracediff compare", "tracediff report FILE", _is_comparison),
))  # fmt: skip


def recognise(path: Path) -> Kind | None:
    """What a file or folder is, None where nothing fits.

    Raises `TracediffError`: bad-xz, bad-gzip, truncated, arrow-folder; OSError.
    """
    head = head_of(path)
    return next((kind for kind in _KINDS.values() if kind.fits(path, head)), None)


def head_of(path: Path) -> bytes:
    """The first bytes of a file, unpacked; b"" of a folder. Raises `TracediffError`: bad-xz, bad-gzip, truncated; OSError."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        head = file.read(HEAD)
        packed = packing(head)
        if not packed:
            return head
        file.seek(0)
        try:
            with lzma.open(file) if packed == "xz" else gzip.open(file) as stream:
                return stream.read(HEAD)
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise broken(path.name, packed, error) from error


def report_version(head: bytes) -> str:
    """The version of nsys that wrote a report, from its first bytes; "" where they do not say."""
    found = _NSYS_VERSION.search(head[:200])
    return found[1].decode().replace("@", ".") if found else ""


def counted(number: int, what: str) -> str:
    """A number of things in words: `1 run`, `2 runs`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def refuse_other(
    path: Path, takes: Callable[[Kind], bool] | None = None, wanted: str = "no trace of a program's steps"
) -> None:
    """Raise `TracediffError` where a file is known and the command takes another kind: other-input, or a side's `refusal`.

    `takes`: the kinds that the command takes, None: sides of a comparison of steps; `wanted`: in words what the file is not.
    """
    try:
        kind = recognise(path)
    except (TracediffError, OSError):
        return  # the loader says what is wrong with it
    if kind is None:
        return
    if not (takes(kind) if takes else kind.side):
        slug, fix = ("other-input", kind.use) if takes else (kind.refusal, kind.instead or kind.use)
        raise UsageError(slug, f"{path.name} is {kind.title}, and {wanted}", fix=fix)
    if kind.slug == "torch-trace":
        with path.open("rb") as file:
            suffix = ".json.gz" if packing(file.read(8)) == "gzip" else ".json"
        raise UsageError(
            "other-input",
            f"{path.name} is {kind.title}, and its name does not say so",
            fix=f"rename it to {path.stem}{suffix}",
        )
