"""What an export holds, without loading it: counts, kinds of trace, devices, domains. Seconds where loading takes a minute.

The tables of names and of the machine are the loader's own, and so is the allow-list of what is known of the machine.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl

from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats import nsys as nsys_sqlite
from tracediff.formats.bounds import bounded
from tracediff.formats.database import connect, identifier, quoted
from tracediff.formats.kineto import is_trace_name
from tracediff.formats.schema import STAGED, Schema, inspect
from tracediff.formats.unpack import remove, unpack
from tracediff.formats.untrusted import open_export
from tracediff.model.contents import Device, Domain, Steps, Table

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
}
_ROW_NUMBERS = 1_000_000  # rows from which the highest row number stands for a count
_STAGES = ("formats/string", "formats/machine", "formats/api_call", "formats/contents")


class Seen(msgspec.Struct):
    """An opened export: the tables of sql/contents.sql, `device` and `meta` in `db`; rows of all of its tables."""

    db: duckdb.DuckDBPyConnection
    schema: Schema
    rows: dict[str, int]
    torch: bool

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.db.execute(query, values).fetchall()

    def _number(self, query: str) -> int:
        """The one number that a query gives; NULL is 0."""
        return int(self._rows(query)[0][0] or 0)

    def one(self, name: str) -> str:
        """A record of the machine or the capture; several values in the order of the alphabet."""
        return ", ".join(
            value for (value,) in self._rows("SELECT value FROM meta WHERE name = ? ORDER BY 1", name)
        )

    def any_rows(self, kind: str) -> int:
        """Rows of a kind of `TABLES`: of the first table that has some."""
        return next((self.rows[table] for table in TABLES[kind] if self.rows.get(table)), 0)

    def tables(self) -> list[Table]:
        """Every table that is not empty."""
        return [Table(name, number) for name, number in sorted(self.rows.items()) if number]

    def counts(self) -> dict[str, int]:
        """Number of each kind of trace that shares a table with another."""
        kernels, calls, ranges = (
            f"SELECT sum({one}s) FROM {one}_seen" for one in ("kernel", "call", "range")
        )
        return {
            "kernels": self._number(kernels),
            "kernels inside CUDA graphs": self._number(f"{kernels} WHERE node"),
            "CUDA calls": self._number(calls),
            "NVTX ranges": self._number(f"{ranges} WHERE NOT gil AND NOT gc"),
            "Python's GIL": self._number(f"{ranges} WHERE gil"),
            "Python garbage collection": self._number(f"{ranges} WHERE gc"),
        }

    def graph_launches(self) -> int:
        """Launches of CUDA graphs."""
        return self._number(
            "SELECT sum(calls) FROM call_seen WHERE regexp_matches(name, '^cu(da)?GraphLaunch')"
        )

    def processes(self) -> int:
        """Processes with kernels, calls or ranges."""
        return self._number(
            "SELECT count(DISTINCT pid) FROM (SELECT pid FROM kernel_seen UNION SELECT pid FROM call_seen"
            " UNION SELECT (tid >> 24 & 16777215)::INTEGER FROM range_seen)"
        )

    def span(self) -> tuple[int | None, int | None]:
        """First start and last end, ns."""
        times = " UNION ALL ".join(
            f"SELECT start_ns, end_ns FROM {one}_seen" for one in ("kernel", "call", "range")
        )
        ((start, end),) = self._rows(f"SELECT min(start_ns), max(end_ns) FROM ({times})")
        return start, end

    def devices(self) -> list[Device]:
        """GPUs with kernels; where there are none, those of the machine."""
        used = self._rows(
            "SELECT DISTINCT k.device, encode(coalesce(d.name, '')) FROM kernel_seen AS k LEFT JOIN device AS d USING (device)"
            " ORDER BY 1"
        ) or self._rows("SELECT device, encode(coalesce(name, '')) FROM device ORDER BY 1")
        return [Device(number, _text(model)) for number, model in used if number is not None]

    def domains(self) -> list[Domain]:
        """NVTX domains, those with most ranges first."""
        rows = self._rows(
            "SELECT encode(domain), sum(ranges)::BIGINT FROM range_seen GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100"
        )
        return [Domain(_text(name), ranges) for name, ranges in rows]

    def kernel_names(self) -> list[str]:
        """Different names of kernels."""
        return [_text(name) for (name,) in self._rows("SELECT DISTINCT encode(name) FROM kernel_seen")]

    def steps(self, rule: str, pattern: str, phases: bool, least: int) -> Steps | None:
        """Step labels that match a pattern (RE2); None where no thread has `least` of them."""
        try:
            ((labels, processes),) = self._rows(
                "WITH threads AS (SELECT tid, sum(ranges)::BIGINT AS labels FROM range_seen"
                f" WHERE NOT gil AND NOT gc AND regexp_matches(text, {quoted(pattern)}) GROUP BY tid)"
                " SELECT max(labels), count(DISTINCT tid >> 24 & 16777215) FROM threads"
            )
        except duckdb.Error:
            return None
        return Steps(rule, labels, processes, phases) if labels and labels >= least else None


def _text(raw: bytes) -> str:
    """A text of an export, which need not be UTF-8: DuckDB gives those as bytes alone."""
    return raw.decode("utf-8", "replace")


@contextmanager
def looked_into(path: Path, scratch: Path) -> Iterator[Seen]:
    """Open an export or a trace of torch.profiler. Raises `TracediffError`: those of `load_capture`."""
    plain = unpack(path, scratch)
    schema = None
    if plain.is_dir():
        columnar.check(plain, path.name)
    else:
        schema = inspect(plain, path.name)
    db = connect(spill=scratch / "spill")
    try:
        yield bounded(lambda: _seen(path, plain, schema, db), path.name, columnar.size(plain), db)
    finally:
        db.close()
        if plain != path:
            remove(plain)


def _seen(path: Path, plain: Path, schema: Schema | None, db: duckdb.DuckDBPyConnection) -> Seen:
    schema, _ = nsys_sqlite.load(db, plain, path.name, _STAGES, schema)
    rows = _rows_of_folder(plain) if plain.is_dir() else _rows_of_file(plain, schema)
    return Seen(db, schema, rows, is_trace_name(path))


def _rows_of_file(path: Path, schema: Schema) -> dict[str, int]:
    """Rows of each table; -1: it is damaged.

    Of a large one the highest row number, which SQLite finds without reading it: nsys removes no rows. Where a column
    is the row number (ids of strings and of ENUM tables) it says nothing.
    """
    found = {}
    with closing(open_export(path)) as db:
        for table in sorted(schema.tables):
            name = identifier(table)
            try:
                (number,) = db.execute(f"SELECT max(rowid) FROM {name}").fetchone()
                keyed = any(key for *_, key in db.execute(f"PRAGMA table_info({name})"))
                if keyed or int(number or 0) < _ROW_NUMBERS:
                    # by steps, which are counted: a bare count(*) is one, however long it takes
                    rows = f"SELECT 1 FROM {name} LIMIT {_ROW_NUMBERS}"
                    (number,) = db.execute(f"SELECT count(*) FROM ({rows})").fetchone()
                found[table] = int(number or 0)
            except (sqlite3.Error, TypeError, ValueError):
                found[table] = -1
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
