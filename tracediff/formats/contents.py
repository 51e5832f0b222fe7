"""What an export holds, without loading it: counts, kinds of trace, devices, domains. Seconds where loading takes a minute.

The tables of names and of the machine are the loader's own, and so is the allow-list of what is known of the machine.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats import nsys as nsys_sqlite
from tracediff.formats.database import connect, identifier
from tracediff.formats.kineto import is_trace_name
from tracediff.formats.schema import STAGED, Schema, open_export
from tracediff.formats.unpack import remove, unpack

# What nsys writes of each kind of trace, besides those that are told from kernels, calls and ranges.
TABLES = {
    "copies": ("CUPTI_ACTIVITY_KIND_MEMCPY",),
    "memsets": ("CUPTI_ACTIVITY_KIND_MEMSET",),
    "synchronisation": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",),
    "whole graphs": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",),
    "operating system calls": ("OSRT_API",),
    "CPU context switches": ("SCHED_EVENTS",),
    "CPU samples": ("COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"),
    "GPU context switches": ("GPU_CONTEXT_SWITCH_EVENTS",),
    "GPU metrics": ("GPU_METRICS",),
    "GPU memory usage": ("CUDA_GPU_MEMORY_USAGE_EVENTS",),
    "MPI calls": ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"),
}


_COUNTED = 1_000_000
_STEPS = ("formats/string", "formats/machine", "formats/contents")


@dataclass
class Seen:
    """An opened export: the tables of sql/load/contents.sql, `device` and `meta` in `db`; rows of all of its tables."""

    db: duckdb.DuckDBPyConnection
    schema: Schema
    rows: dict[str, int]
    meta: dict[str, tuple[str, ...]]
    torch: bool

    def number(self, query: str) -> int:
        """The one number that a query gives; NULL is 0."""
        row = self.db.execute(query).fetchone()
        return int(row[0] or 0) if row else 0

    def any_rows(self, kind: str) -> int:
        """Rows of a kind of `TABLES`: of the first table that has some."""
        return next((self.rows[table] for table in TABLES[kind] if self.rows.get(table)), 0)


@contextmanager
def looked_into(path: Path, scratch: Path) -> Iterator[Seen]:
    """Open an export or a trace of torch.profiler. Raises `TracediffError`: those of `load_capture`."""
    plain = unpack(path, scratch)
    db = connect(spill=scratch / "spill")
    try:
        schema, _ = nsys_sqlite.load(db, plain, path.name, _STEPS)
        meta: dict[str, tuple[str, ...]] = {}
        for name, value in db.execute("SELECT name, value FROM meta ORDER BY name, value").fetchall():
            meta[name] = (*meta.get(name, ()), value)
        rows = _rows_of_folder(path) if path.is_dir() else _rows(plain, schema)
        yield Seen(db, schema, rows, meta, is_trace_name(path))
    finally:
        db.close()
        if plain != path:
            remove(plain)


def _rows(path: Path, schema: Schema) -> dict[str, int]:
    """Rows of each table.

    Of a large one the highest row number, which SQLite finds without reading it: nsys removes no rows. Where a column
    is the row number (ids of strings and of ENUM tables) it tells nothing.
    """
    found = {}
    with closing(open_export(path)) as db:
        for table in sorted(schema.tables):
            try:
                row = db.execute(f"SELECT max(rowid) FROM {identifier(table)}").fetchone()
                keyed = any(key for *_, key in db.execute(f"PRAGMA table_info({identifier(table)})"))
                if keyed or int(row[0] or 0) < _COUNTED:
                    row = db.execute(f"SELECT count(*) FROM {identifier(table)}").fetchone()
                found[table] = int(row[0] or 0)
            except (sqlite3.Error, TypeError, ValueError):
                found[table] = -1  # a view, or a table of another tool
    return found


def _rows_of_folder(folder: Path) -> dict[str, int]:
    found = {}
    for table, path in columnar.tables(folder).items():
        try:
            found[table] = columnar.row_count(path)
        except (OSError, pl.exceptions.PolarsError):
            if table in STAGED:
                raise TracediffError("truncated", f"{folder.name}/{path.name} is damaged", fix=None) from None
            found[table] = -1
    return found
