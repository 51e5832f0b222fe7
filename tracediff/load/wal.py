"""Exports that another tool left in write-ahead-log mode: read from a copy.

Python and DuckDB bring a SQLite each, and two of them in one process must not meet on such a file: closing it in one drops
the locks of the other, which the next to open it takes for leave to cut the shared index short while it is mapped (SIGBUS;
https://www.sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application").
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load.nsys_schema import damaged, locked

_MAGIC = b"SQLite format 3\0"


def is_wal(path: Path) -> bool:
    """Whether the header says so: byte 18, "file format write version", is 2 (https://www.sqlite.org/fileformat2.html)."""
    with path.open("rb") as file:
        head = file.read(20)
    return head[:16] == _MAGIC and head[18:19] == b"\2"


def copy_of(path: Path, out: Path) -> Path:
    """A consistent copy at `out`, with the rows that are in the log only, no log of its own; nothing beside `path` is written.

    Raises `TracediffError`: locked, truncated, disk-full.
    """
    log = path.with_name(f"{path.name}-wal")
    rows = log.exists() and log.stat().st_size > 0
    mode = (
        "mode=ro" if rows else "mode=ro&immutable=1"
    )  # without rows there, SQLite need not make files beside it
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as source,
            closing(sqlite3.connect(out)) as copy,
        ):
            source.backup(copy)
        end(out)
    except sqlite3.Error as error:
        out.unlink(missing_ok=True)
        if "locked" in str(error):
            raise locked(path.name) from error
        if "full" in str(error):
            raise TracediffError(
                "disk-full",
                f"{path.name} could not be copied: {error}",
                fix="set TMPDIR to a folder with space",
            ) from error
        raise damaged(path.name, error) from error
    return out


def end(copy: Path) -> None:
    """Take a copy of ours out of that mode. Raises sqlite3.Error where it is damaged."""
    if is_wal(copy):
        with closing(sqlite3.connect(copy)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
