"""Files before anything is read of them: named by the user and read as a whole, packed, and scratch folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import lzma
import os
import re
import shutil
import stat
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache as once
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from tracediff.errors import TracediffError

MOST_TEXT = 1 << 20  # bytes of a file that a person writes
MOST_RESULT = 1 << 30  # bytes of a saved result
# A dotted key of so many parts: to follow it takes time that grows with its square.
_LONG_KEY = re.compile(rb"""(?:\.[ \t]*(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w-]+)[ \t]*){64}""")


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it. Raises OSError, also where it is a pipe, a device or a folder: `strerror` says which."""
    # to open a pipe would wait for its other end
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise OSError(errno.EINVAL, f"is {kind}, and must be a file", os.fspath(path))


def read_regular(path: Path, most: int) -> bytes:
    """All of a file. Raises OSError, also where it is no regular file or has more than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {most >> 20} MiB", os.fspath(path))
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file. Raises OSError as `read_regular` does, ValueError where it is no TOML or nested too deeply."""
    data = read_regular(path, MOST_TEXT).removeprefix(b"\xef\xbb\xbf")  # editors on Windows begin a file so
    if _LONG_KEY.search(data):
        raise ValueError("a key has too many parts")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# Packed files, unpacked within bounds: 500 KB of .xz or .gz can hold gigabytes of nothing.


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


def broken(name: str, packed: str, error: Exception) -> TracediffError:
    """Of a packed file that cannot be unpacked to its end: bad-xz, bad-gzip, truncated."""
    slug, what = f"bad-{packed}", f"is not a whole .{packed[:2]} file: {error}"
    if packed == "gzip" and isinstance(error, EOFError):
        slug, what = "truncated", "is cut short: its gzip stream has no end"
    return TracediffError(slug, f"{name} {what}", fix="copy or pack it again")


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
        self._stream, self._path, self._read = stream, path, 0
        self._size = path.stat().st_size

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._read += len(data)
        check_unpacked(self._path, self._read, self._size)
        return data


def check_unpacked(path: Path, size: int, packed: int) -> None:
    """Raise `TracediffError` (unpacks-too-large, bad-limit) where `size` bytes are too many for a file of `packed` bytes."""
    if size > (most := _most(packed)):
        raise TracediffError(
            "unpacks-too-large",
            f"{path.name} unpacks to more than {most / 2**20:,.0f} MiB, {most // packed} times its size",
            fix=f"where you know what it holds: {VARIABLE}=8GiB, or another size, allows it",
        )


def _most(size: int) -> int:
    """Bytes that a file of some size may unpack to. Raises `TracediffError`: bad-limit."""
    said = os.environ.get(VARIABLE)
    if not said:
        return max(ALWAYS, min(RATIO * size, LARGEST))
    found = re.fullmatch(r"(\d{1,15}) ?(|[KMGT]iB)", said)
    if not found:
        raise TracediffError("bad-limit", f"{VARIABLE}={said} is no size", fix=f"{VARIABLE}=8GiB")
    return int(found[1]) * _UNITS[found[2]]


# Scratch folders: gone when their work ends or is broken off.


_PREFIX = "tracediff-scratch-"
_MADE_JUST_NOW_S = 60  # between being made and being locked
_open: set[Path] = set()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of one's own until the end of the block.

    The first one of a process also removes what killed processes left behind: a folder is locked as long as its process lives.
    """
    _remove_abandoned(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _open.add(folder)
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():  # else a thread made a file meanwhile: `discard_all` takes it away
            _open.discard(folder)


def discard_all() -> None:
    """Remove the folders of work that is broken off; only before the process ends."""
    for folder in list(_open):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether the folder could be locked: no other process holds it, and its file system has locks."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@once
def _remove_abandoned(where: str) -> None:
    with contextlib.suppress(OSError), os.scandir(where) as found:
        for one in found:
            if one.name.startswith(_PREFIX) and _ours_and_old(one):
                with _locked(Path(one.path)) as free:
                    if free:
                        shutil.rmtree(one.path, ignore_errors=True)


def _ours_and_old(one: os.DirEntry[str]) -> bool:
    try:
        status = one.stat(follow_symlinks=False)
    except OSError:
        return False
    return status.st_uid == os.getuid() and time.time() - status.st_mtime > _MADE_JUST_NOW_S


_ALIKE = 0.75  # of two names, and of their endings, from which one may be meant by the other
_NAMES = 10_000  # of a folder that are looked at


def missing(path: Path, given: Path | None = None) -> TracediffError:
    """The error of a path where nothing is: not-a-file, with the names beside it that may be meant; not that of the other side, `given`."""
    from difflib import SequenceMatcher

    if set("*?[") & set(str(path)):
        return TracediffError("not-a-file", f"{path}: no file matches", fix="check the pattern")
    stem, _, ending = path.name.partition(".")

    def likeness(name: str) -> float:
        other, _, its_ending = name.partition(".")
        endings = SequenceMatcher(None, ending, its_ending).ratio() if ending else 1.0
        return min(SequenceMatcher(None, stem, other).ratio(), endings)

    names: list[str] = []
    with contextlib.suppress(OSError):
        names = [
            one.name for one in islice(os.scandir(path.parent), _NAMES) if Path(one.path) not in (given, path)
        ]
    near = sorted((-likeness(name), name) for name in names)[:2]
    meant = " or ".join(str(path.with_name(name)) for apart, name in near if -apart >= _ALIKE)
    return TracediffError(
        "not-a-file",
        f"{path}: there is no such file or folder",
        fix=f"did you mean {meant}?" if meant else "check the path",
    )
