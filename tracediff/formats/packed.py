"""Packed files, unpacked within bounds: 500 KB of .xz or .gz can hold gigabytes of nothing."""

from __future__ import annotations

import gzip
import lzma
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from tracediff.errors import TracediffError

VARIABLE = "TRACEDIFF_MAX_UNPACKED"
# Exports take a tenth of their bytes in .xz, traces of torch.profiler a twentieth in .gz.
RATIO = 100
ALWAYS = 256 * 2**20  # bytes that any file may unpack to
LARGEST = 64 * 2**30  # at most
SQLITE = b"SQLite format 3\0"  # how a SQLite file begins
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def packing(head: bytes) -> str:
    """How a file is packed that begins so: 'xz', 'gzip' or ''."""
    return "xz" if head[:6] == b"\xfd7zXZ\0" else "gzip" if head[:2] == b"\x1f\x8b" else ""


class Stream(Protocol):
    """What is read from."""

    def read(self, size: int = ..., /) -> bytes:
        """The next bytes, b"" at the end."""


@contextmanager
def unpacked(path: Path, kind: Literal["xz", "gzip"]) -> Iterator[Stream]:
    """The bytes in a packed file. Reading raises `TracediffError` unpacks-too-large, and what lzma or gzip raise."""
    with lzma.open(path) if kind == "xz" else gzip.open(path) as stream:
        yield _Bounded(stream, path)


class _Bounded:
    def __init__(self, stream: Stream, path: Path) -> None:
        self._stream, self._path = stream, path
        self._most, self._read = _most(path.stat().st_size), 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._read += len(data)
        if self._read > self._most:
            raise TracediffError(
                "unpacks-too-large",
                f"{self._path.name} unpacks to more than {self._most / 2**20:,.0f} MiB,"
                f" {self._most // self._path.stat().st_size} times its size",
                fix=f"where you know what it holds: {VARIABLE}=8GiB, or another size, allows it",
            )
        return data


def _most(size: int) -> int:
    """Bytes that a file of some size may unpack to. Raises `TracediffError`: bad-limit."""
    said = os.environ.get(VARIABLE)
    if not said:
        return max(ALWAYS, min(RATIO * size, LARGEST))
    found = re.fullmatch(r"(\d{1,15}) ?(|[KMGT]iB)", said)
    if not found:
        raise TracediffError("bad-limit", f"{VARIABLE}={said} is no size", fix=f"{VARIABLE}=8GiB")
    return int(found[1]) * _UNITS[found[2]]
