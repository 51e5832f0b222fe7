"""Whatever the user gave -> a plain .sqlite, or a folder of Parquet files.

.xz is unpacked, .nsys-rep exported by the user's own nsys, a trace of torch.profiler converted. A folder of Parquet
files stays one.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
from pathlib import Path

from tracediff.errors import TracediffError, disk_full
from tracediff.formats import columnar, kineto
from tracediff.formats.bounds import bounded
from tracediff.formats.files import SQLITE, broken, missing, unpacked
from tracediff.formats.reports import PARQUET_FIRST, Form, export_report, refuse_no_report
from tracediff.formats.schema import not_sqlite

SUFFIXES = (".sqlite", ".sqlite.xz", ".nsys-rep", *kineto.SUFFIXES)
_GZIPPED = 20  # times its size a trace in JSON is, unpacked
FOLDER_SUFFIXES = ("_pqtdir", ".parquetdir")


def is_export(path: Path) -> bool:
    """Whether this is something `unpack` can open: by its name, a .json by its first lines, a folder by its files."""
    if path.is_dir():
        return columnar.is_folder(path)
    if kineto.is_trace_name(path):
        return path.is_file() and kineto.peek(path) is not None
    return path.name.endswith((*SUFFIXES, ".db", ".sqlite3"))


def stem(path: Path) -> str:
    """What the report or trace was called of which this is the export."""
    name = path.name
    for suffix in (*SUFFIXES, *FOLDER_SUFFIXES):
        name = name.removesuffix(suffix)
    return name


def unpack(
    path: Path, scratch: Path, *, annotations_only: bool = False, export: Form = PARQUET_FIRST
) -> Path:
    """The path of a plain SQLite file or of a folder of Parquet files: `path` itself, or a copy under `scratch`.

    `annotations_only`: see `kineto.convert`; `export`: what a report becomes.
    Raises `TracediffError`: name-not-utf8, not-a-file, git-lfs-pointer, empty-file, not-a-report, bad-xz, not-sqlite, unpacks-too-large, disk-full, locked, truncated, and those of
    `export_report`, `kineto.convert`, `columnar.prepare` and `bounded`.
    """
    check_name(path)
    copy = scratch / hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    plain = copy.with_suffix(".sqlite")
    if columnar.is_folder(path):
        folder = copy.with_name(f"{copy.name}_pqtdir")
        return bounded(lambda: columnar.prepare(path, folder), path.name, columnar.size(path))
    if not path.is_file():
        raise missing(path)
    refuse_pointer(path)
    if path.suffix == ".nsys-rep":
        refuse_no_report(path)
        return export_report(path, scratch, copy.name, export)
    if kineto.is_trace_name(path):
        size = path.stat().st_size * (_GZIPPED if path.suffix == ".gz" else 1)
        return bounded(
            lambda: kineto.convert(path, plain, annotations_only=annotations_only), path.name, size
        )
    if path.suffix == ".xz":
        return _unpacked_xz(path, plain)
    if _is_wal(path):
        raise TracediffError(
            "wal-mode",
            f"{path.name}: another tool left it in write-ahead-log mode, with rows that may be in a file beside it",
            fix=f"sqlite3 {path.name} 'PRAGMA journal_mode = DELETE', or export it again",
        )
    return path


def check_name(path: Path) -> None:
    """Raise `TracediffError` name-not-utf8 where no database could be told the path of a file."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise TracediffError(
            "name-not-utf8",
            f"{path.name}: its name, or that of a folder that it is in, is not UTF-8",
            fix="rename the file or folder; where a terminal is not set to UTF-8, set it so",
        ) from None


_POINTER = b"version https://git-lfs.github.com/spec/"


def refuse_pointer(path: Path) -> None:
    """Raise `TracediffError` git-lfs-pointer where a file only says where git LFS keeps the real one."""
    with path.open("rb") as file:
        if file.read(len(_POINTER)) != _POINTER:
            return
    raise TracediffError(
        "git-lfs-pointer",
        f"{path.name} is a pointer of git LFS, not the file itself",
        fix=f"git lfs pull --include '*{path.name}'; before it, git lfs install",
    )


def remove(copy: Path) -> None:
    """Take away what `unpack` made under a scratch folder."""
    shutil.rmtree(copy, ignore_errors=True) if copy.is_dir() else copy.unlink(missing_ok=True)


def fingerprint(path: Path) -> str:
    """Identity of a file's content: SHA-256 of its size and of up to 64 blocks of 64 KiB spread over it.

    Small files are hashed whole; an export of gigabytes is not read a second time only for its name.
    """
    if path.is_dir():
        return columnar.fingerprint(path, {name: fingerprint(file) for name, file in columnar.content(path)})
    digest = hashlib.sha256()
    size, block, blocks = path.stat().st_size, 1 << 16, 64
    digest.update(str(size).encode())
    with path.open("rb") as file:
        if size <= block * blocks:
            digest.update(file.read())
        else:
            for index in range(blocks):
                file.seek((size - block) * index // (blocks - 1))
                digest.update(file.read(block))
    return digest.hexdigest()


def _unpacked_xz(path: Path, out: Path) -> Path:
    if path.stat().st_size == 0:
        raise TracediffError("empty-file", f"{path.name} is empty (0 bytes)", fix="copy or pack it again")
    try:
        with unpacked(path, "xz") as packed:
            head = packed.read(len(SQLITE))
            if head and head != SQLITE:  # before anything is written
                raise not_sqlite(path.name)
            with out.open("wb") as plain:
                plain.write(head)
                shutil.copyfileobj(packed, plain, 1 << 20)
        _end_wal(out)
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        out.unlink(missing_ok=True)
        raise broken(path.name, "xz", error) from error
    except (TracediffError, PermissionError):
        out.unlink(missing_ok=True)
        raise
    except OSError as error:
        out.unlink(missing_ok=True)
        raise disk_full(f"{path.name} could not be unpacked: {error}") from error
    return out


# Exports that another tool left in write-ahead-log mode.


def _is_wal(path: Path) -> bool:
    """Whether the header says so: byte 18, "file format write version", is 2 (https://www.sqlite.org/fileformat2.html)."""
    with path.open("rb") as file:
        head = file.read(20)
    return head.startswith(SQLITE) and head[18:19] == b"\2"


def _end_wal(copy: Path) -> None:
    """Take a copy of ours, without a log, out of that mode; no SQL is run on it."""
    if _is_wal(copy):
        with copy.open("r+b") as file:
            file.seek(18)
            file.write(b"\1\1")  # file format write and read version: rollback journal
