"""Whatever the user gave -> a plain .sqlite, or a folder of Parquet files.

.xz is unpacked, .nsys-rep exported by the user's own nsys, a trace of torch.profiler converted. A folder of Parquet
files stays one; one of Arrow files becomes one.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
import sqlite3
from pathlib import Path

from tracediff.capture.nsys import export_sqlite
from tracediff.errors import TracediffError
from tracediff.load import columnar, kineto_names, wal
from tracediff.load.nsys_schema import damaged

SUFFIXES = (".sqlite", ".sqlite.xz", ".nsys-rep", *kineto_names.SUFFIXES)
FOLDER_SUFFIXES = ("_pqtdir", "_arwdir", ".parquetdir", ".arrowdir")


def is_export(path: Path) -> bool:
    """Whether this is something `unpack` can open: by its name, a .json by its first lines, a folder by its files."""
    if path.is_dir():
        return columnar.form_of(path) is not None
    if kineto_names.is_trace_name(path):
        from tracediff.load.kineto_json import peek

        return path.is_file() and peek(path) is not None
    return path.name.endswith(SUFFIXES) or path.name.endswith((".db", ".sqlite3"))


def unpack(path: Path, scratch: Path, *, annotations_only: bool = False) -> Path:
    """The path of a plain SQLite file or of a folder of Parquet files: `path` itself, or a copy under `scratch`.

    `annotations_only`: see `kineto.convert`.
    Raises `TracediffError`: not-a-file, empty-file, bad-xz, disk-full, and those of `refuse_no_report`, `export_sqlite`, `kineto.convert`,
    `columnar.prepare` and `wal.copy_of`.
    """
    if path.is_dir() and columnar.form_of(path):
        return columnar.prepare(path, scratch / f"{_tag(path)}_pqtdir")
    if not path.is_file():
        raise TracediffError("not-a-file", f"{path}: there is no such file")
    if path.suffix == ".nsys-rep":
        from tracediff.load.report_file import refuse_no_report

        refuse_no_report(path)
        return export_sqlite(path, scratch / f"{_tag(path)}.sqlite")
    if kineto_names.is_trace_name(path):
        from tracediff.load import kineto

        return kineto.convert(path, scratch / f"{_tag(path)}.sqlite", annotations_only=annotations_only)
    if path.suffix != ".xz":
        return wal.copy_of(path, scratch / f"{_tag(path)}.sqlite") if wal.is_wal(path) else path
    if path.stat().st_size == 0:
        raise TracediffError("empty-file", f"{path.name} is empty (0 bytes)", fix="copy or pack it again")
    out = scratch / f"{_tag(path)}.sqlite"
    try:
        with lzma.open(path) as packed, out.open("wb") as plain:
            shutil.copyfileobj(packed, plain, 1 << 20)
        wal.end(out)
    except (lzma.LZMAError, EOFError) as error:
        out.unlink(missing_ok=True)
        raise TracediffError(
            "bad-xz", f"{path.name} is not a whole .xz file: {error}", fix="copy or pack it again"
        ) from error
    except sqlite3.Error as error:
        out.unlink(missing_ok=True)
        raise damaged(path.name, error) from error
    except PermissionError:
        out.unlink(missing_ok=True)
        raise
    except OSError as error:
        out.unlink(missing_ok=True)
        raise TracediffError(
            "disk-full",
            f"{path.name} could not be unpacked: {error}",
            fix="set TMPDIR to a folder with space",
        ) from error
    return out


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


def remove(copy: Path) -> None:
    """Take away what `unpack` made under a scratch folder."""
    shutil.rmtree(copy, ignore_errors=True) if copy.is_dir() else copy.unlink(missing_ok=True)


def _tag(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
