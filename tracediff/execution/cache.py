"""A `Reduction` as an Arrow IPC stream: nothing in it is executed on reading.

One row. Each table of the reduction is a column, a list of structs; `rest` is all else as MessagePack. Behind the stream
comes a digest of it, keyed by the name under which it is kept: an entry that was moved to another name is not believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
import time
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import asdict, replace

import tracediff
from tracediff.accounting.reduction import Reduction
from tracediff.formats import columnar
from tracediff.formats.files import read_regular
from tracediff.formats.unpack import fingerprint
from tracediff.model import Note

if TYPE_CHECKING:
    from tracediff.execution.sides import Reading


_DIGEST = 32
_TABLES = [name for name, kind in Reduction.__annotations__.items() if kind == "pl.DataFrame"]
_NO_TABLE = pl.DataFrame()


class DamagedError(ValueError):
    """Not a whole reduction that was stored under this key."""


def pack(reduction: Reduction, key: str = "") -> bytes:
    """The bytes of a reduction, equal for equal ones."""
    without: dict[str, Any] = dict.fromkeys(_TABLES, _NO_TABLE)
    rest = replace(reduction, **without)
    columns: dict[str, Any] = {name: [_defined(getattr(reduction, name)).to_struct()] for name in _TABLES}
    columns["rest"] = [msgspec.msgpack.encode(rest, enc_hook=_encode, order="deterministic")]
    out = io.BytesIO()
    # strings in one buffer, as every reader of Arrow knows them: as views their bytes would depend on where they come from
    pl.DataFrame(columns).write_ipc_stream(out, compression="zstd", compat_level=pl.CompatLevel.oldest())
    return out.getvalue() + _digest(out.getvalue(), key)


def _defined(table: pl.DataFrame) -> pl.DataFrame:
    """The same rows with 0 under each null of a number, where any bits may lie."""
    gaps = [pl.col(one.name) for one in table if one.null_count() and one.dtype.is_numeric()]
    return table.with_columns(pl.when(one.is_not_null()).then(one.fill_null(0)) for one in gaps)


def unpack(raw: bytes, key: str = "") -> Reduction:
    """The reduction in these bytes. Raises `DamagedError` where they are not whole, or were stored under another key."""
    stream = raw[:-_DIGEST]
    if _digest(stream, key) != raw[-_DIGEST:]:
        raise DamagedError("not whole, or stored under another key")
    try:
        row = pl.read_ipc_stream(io.BytesIO(stream))
        rest = _DECODER.decode(row["rest"][0])
        return replace(rest, **{name: row[name][0].struct.unnest() for name in _TABLES})
    except (msgspec.MsgspecError, pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise DamagedError(str(error)) from error


def _digest(stream: bytes, key: str) -> bytes:
    return hashlib.blake2b(stream, digest_size=_DIGEST, key=key.encode()).digest()


def _encode(value: object) -> object:
    if isinstance(value, pl.DataFrame):
        return None
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.tobytes()]
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(type(value))


def _decode(kind: Any, value: Any) -> object:
    if kind is pl.DataFrame:
        return _NO_TABLE
    if get_origin(kind) is np.ndarray or kind is np.ndarray:
        dtype, raw = value
        found = np.dtype(dtype)
        if found.kind not in "iufb":  # numbers only: an array of objects would be unpickled
            raise ValueError(f"array of {found}")
        return np.frombuffer(raw, found)
    raise NotImplementedError(kind)


# Made with the module, which one thread imports at a time: two threads that make msgspec's first decoder of a type at
# once end the process.
_DECODER = msgspec.msgpack.Decoder(Reduction, dec_hook=_decode)


# Reductions kept on disk: an export that was read before is not read again.
#
# An entry is one file, named by all that its content depends on: the export, how it was read, and the very code that
# reads and measures. Nothing is ever brought up to date in place, so an entry is right or absent.


FORMAT = 17  # of entries; counted up whenever what is kept of a reduction changes
MOST_BYTES = 2 * 2**30  # of all entries together
_HASHED_WHOLE = 64 * 2**20  # larger exports are told by the file system's word, and by a sample
_RACY_NS = 2_000_000_000  # the clock of some file systems ticks so coarsely
_WRITTEN_WITHIN_S = 3600  # an entry is written in less
_SUFFIX = ".arrow"
_SAME_NUMBERS = ("memory_limit", "threads", "cached", "skip_unreadable", "scheduler")  # of a `Reading`


def folder() -> Path | None:
    """Where entries are kept: $TRACEDIFF_CACHE, else tracediff/ in the user's cache folder; None where switched off."""
    said = os.environ.get("TRACEDIFF_CACHE")
    if said is not None:
        return Path(said) if said not in ("", "0", "off") else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tracediff"
    except RuntimeError:  # no home
        return None


class Entry(msgspec.Struct, frozen=True):
    """One kept reduction. `used`: seconds since the epoch."""

    path: Path
    bytes: int
    used: float


def entries(where: Path) -> list[Entry]:
    """All entries, the one not used for longest first."""
    found = []
    with contextlib.suppress(OSError):
        for path in where.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):  # another process may remove it at the same time
                status = path.stat()
                found.append(Entry(path, status.st_size, status.st_mtime))
    return sorted(found, key=lambda one: (one.used, one.path.name))


def remove_all(where: Path) -> tuple[int, int]:
    """Remove every entry, and what an interrupted write left: how many, and their bytes. Raises OSError."""
    count = size = 0
    for one in entries(where):
        one.path.unlink(missing_ok=True)
        count, size = count + 1, size + one.bytes
    for path in where.glob(f".*{_SUFFIX}.part"):
        path.unlink(missing_ok=True)
    return count, size


class Cache:
    """The entries of one folder."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def get(self, key: str) -> Reduction | None:
        """The reduction kept under a key; None where there is none, or only a damaged one, which is removed."""
        path = self._path(key)
        if not path.exists():
            return None  # before what reads one is imported

        with contextlib.suppress(OSError):
            try:
                found = unpack(read_regular(path, MOST_BYTES), key)
            except DamagedError:
                path.unlink(missing_ok=True)
                return None
            os.utime(path)
            return found
        return None

    def put(self, key: str, reduction: Reduction) -> None:
        """Keep a reduction; a folder that cannot be written to keeps nothing, and that is no error."""
        with contextlib.suppress(OSError):
            self._where.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _part(self._where) as part:
                part.write_bytes(pack(reduction, key))
                part.replace(self._path(key))  # whole or not at all, whoever else writes it
            self._make_room()

    def _path(self, key: str) -> Path:
        return self._where / f"{key}{_SUFFIX}"

    def _make_room(self) -> None:
        for part in self._where.glob(f".*{_SUFFIX}.part"):  # of a process that was killed
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _WRITTEN_WITHIN_S:
                    part.unlink()
        found = entries(self._where)
        total = sum(one.bytes for one in found)
        for one in found:
            if total <= MOST_BYTES:
                return
            one.path.unlink(missing_ok=True)
            total -= one.bytes


def opened() -> tuple[Cache | None, list[Note]]:
    """The cache of this user, None where it is switched off or others could have put something into its folder: then with a warning."""
    where = folder()
    if where is None:
        return None, []
    try:
        status = where.stat()
    except OSError:  # not made yet, or never: then nothing is kept
        return Cache(where), []
    if status.st_uid != os.geteuid():
        why, fix = "it belongs to another user", "set TRACEDIFF_CACHE to a folder of your own"
    elif status.st_mode & 0o022:
        why, fix = "others may write to it", f"chmod go-w {where}"
    else:
        return Cache(where), []
    return None, [Note("cache-not-private", f"nothing is kept in {where}, nor taken from it: {why} ({fix})")]


@contextlib.contextmanager
def _part(where: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=".", suffix=f"{_SUFFIX}.part", dir=where)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def key_of(path: Path, reading: Reading) -> str | None:
    """What names the reduction of an export; None where it is being written, or cannot be read."""
    try:
        if any(_size(path.with_name(path.name + tail)) for tail in ("-wal", "-journal")):
            return None  # rows that are not in the file yet
        identity = _content(path)
        path.name.encode()
    except (OSError, UnicodeEncodeError):
        return None
    if identity is None:
        return None
    how = {name: value for name, value in asdict(reading).items() if name not in _SAME_NUMBERS}
    return hashlib.sha256(
        msgspec.json.encode([FORMAT, identity, path.name, how, code_version()], order="sorted")
    ).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _content(path: Path) -> list[object] | None:
    """What tells the content of a file.

    A large one by a sample of it and by what the file system knows of its last change: no program can set the time of
    a status change (ctime), so a file written to in between is never taken for the one before. None where it was
    changed just now: another change within a tick of the clock would not show.
    """
    if path.is_dir():
        parts = [_content(file) for _, file in columnar.content(path)]
        return None if None in parts else [sorted(columnar.tables(path)), parts]
    status = path.stat()
    if status.st_size <= _HASHED_WHOLE:
        with path.open("rb") as file:
            return [status.st_size, hashlib.file_digest(file, "sha256").hexdigest()]
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _RACY_NS:
        return None
    changed = [status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]
    return [status.st_size, fingerprint(path), *changed]


@once
def code_version() -> str:
    """Digest of this package: another version of it never takes what this one kept."""
    root = Path(tracediff.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".sql"):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    return digest.hexdigest()
