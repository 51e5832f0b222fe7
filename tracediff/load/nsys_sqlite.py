"""An nsys export, SQLite or a folder of Parquet files -> the canonical tables of sql/load/."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb

from tracediff.errors import TracediffError
from tracediff.load import columnar
from tracediff.load.database import identifier, quoted, run_sql, sql
from tracediff.load.nsys_schema import STAGED, SYSTEM, Schema, inspect, locked, open_export
from tracediff.load.op_found import TABLES, find_ops, without_rowid
from tracediff.load.payload_found import has_payloads
from tracediff.model import Note

# The largest first: what it needs on the way is free again for the others.
_STEPS = (
    "load/string",
    "load/nvtx",
    "load/op",
    "load/op_sort",
    "load/api_call",
    "load/thread",
    "load/machine",
)
_LONGEST = 300  # characters of what the database says: it may quote a value of any length
_FURTHEST = 1 << 62  # ns: no time and no sum of lengths is beyond
_LONGEST_NS = 1 << 53  # of a capture: differences of its times are whole numbers as floats too
# what is made of tables of the export -> those tables: it is made where one of the first kind has rows, with all of them
_SYSTEM_STEPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "load/os_call": (("OSRT_API",), ()),
    "load/off_cpu": (("SCHED_EVENTS",), ()),
    "load/memory_event": (("CUDA_GPU_MEMORY_USAGE_EVENTS",), ()),
    "load/gpu_sample": (("GPU_METRICS",), ("TARGET_INFO_GPU_METRICS", "TARGET_INFO_CUDA_DEVICE")),
    "load/mpi_call": (
        ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"), (),
    ),
}  # fmt: skip


def load(
    db: duckdb.DuckDBPyConnection, path: Path, name: str | None = None, steps: tuple[str, ...] = _STEPS
) -> tuple[Schema, list[Note]]:
    """Create the canonical tables (see sql/load/) from the export at `path` in `db`; what is odd comes back as notes.

    `name` is what messages call it, `steps` the files of sql/ that make the tables. Raises `TracediffError`: those of
    `nsys_schema.inspect` and `columnar.inspect`, out-of-memory, bad-column, bad-time.
    """
    file_name = name or path.name
    in_folder = path.is_dir()
    schema = columnar.inspect(db, path, file_name) if in_folder else inspect(path, file_name)
    notes: list[Note] = []
    if not in_folder:
        db.execute(f"ATTACH {quoted(str(path))} AS source (TYPE sqlite, READ_ONLY)")
    try:
        copied = set() if in_folder else without_rowid(path, schema)
        for table, columns in STAGED.items():
            _stage(db, table, columns, schema, copied)
        for step in steps:
            if step == "load/string":
                notes += _load_strings(db, path, file_name)
                continue
            if step == "load/op_sort":
                find_ops(db, path, schema, copied)
            run_sql(db, step)
        if steps is _STEPS:
            for step, (events, others) in _SYSTEM_STEPS.items():
                if any(_has_rows(db, table, schema) for table in events):
                    for table in events + others:
                        _stage(db, table, SYSTEM[table], schema, copied)
                    if step == "load/gpu_sample":
                        if said := _load_or_leave(db, step):
                            left = f"{file_name}: GPU_METRICS is left out, {said}"
                            notes.append(Note("gpu-metrics-unreadable", left))
                    else:
                        run_sql(db, step)
            run_sql(db, "load/payload_tables")
            if has_payloads(db, path, schema) and (said := _load_or_leave(db, "load/payload")):
                run_sql(db, "load/payload_tables")
                left = f"{file_name}: payloads of NVTX ranges are left out, {said}"
                notes.append(Note("payloads-unreadable", left))
            if db.execute("SELECT 1 FROM nvtx_domain WHERE name = 'NCCL' LIMIT 1").fetchone():
                run_sql(db, "load/nccl_call")
            _check_times(db, file_name)
    except (duckdb.Error, sqlite3.Error, UnicodeDecodeError) as error:
        raise _explain(file_name, path, error) from error
    finally:
        for name, kind in db.execute(
            "SELECT table_name, table_type FROM information_schema.tables WHERE starts_with(table_name, 'staged_')"
        ).fetchall():
            db.execute(f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} {identifier(name)}")
        if not in_folder:
            db.execute("DETACH source")
    return schema, notes


# what a step has made that goes where values are of another type than their table says
_MADE = {"load/gpu_sample": ("gpu_sample", "gpu_metric", "gpu_of"), "load/payload": ("payload_row",)}


def _load_or_leave(db: duckdb.DuckDBPyConnection, step: str) -> str:
    """The tables of a step that all else can do without; where values are of another type, none of them, and why."""
    try:
        run_sql(db, step)
    except (duckdb.OutOfMemoryException, duckdb.IOException):
        raise
    except duckdb.Error as error:
        for made in _MADE[step]:
            db.execute(f"DROP TABLE IF EXISTS {made}")
        said = (str(error).splitlines() or [""])[0][:_LONGEST]
        return f"all else is measured: {said}"
    return ""


def _has_rows(db: duckdb.DuckDBPyConnection, table: str, schema: Schema) -> bool:
    """An export of all tables (nsys export --lazy=false) holds empty ones of what was not recorded."""
    return (
        schema.has(table)
        and db.execute(f"SELECT 1 FROM {schema.relation(table)} LIMIT 1").fetchone() is not None
    )


def _check_times(db: duckdb.DuckDBPyConnection, name: str) -> None:
    """Refuse times so far apart that differences and sums of them would not fit into 64 bits."""
    if _surely_near(db):
        return
    found = [row for row in db.execute(sql("load/time_extent")).fetchall() if row[1] is not None]
    for source, low, high, total in found:
        if not -_FURTHEST < low <= high < _FURTHEST or total >= _FURTHEST:
            raise _no_time(f"{name}: rows of {source} reach from {low} to {high} ns, {total} ns together")
    first, last = min((row[1] for row in found), default=0), max((row[2] for row in found), default=0)
    if last - first > _LONGEST_NS:
        raise _no_time(f"{name}: its rows reach from {first} to {last} ns, more than a hundred days")


def _surely_near(db: duckdb.DuckDBPyConnection) -> bool:
    """Whether bounds alone show that all times are near enough: then the lengths of the rows need not be summed."""
    found = [row for row in db.execute(sql("load/time_bounds")).fetchall() if None not in row[:2]]
    if not found:
        return False
    first, last = min(int(row[0]) for row in found), max(int(row[1]) for row in found)
    return (
        first > -_FURTHEST
        and last < _FURTHEST
        and last - first <= _LONGEST_NS
        and max(int(row[2]) for row in found) * (last - first) < _FURTHEST
    )


def _no_time(message: str) -> TracediffError:
    return TracediffError("bad-time", message, fix="export it again with the nsys that recorded it")


def _load_strings(db: duckdb.DuckDBPyConnection, path: Path, name: str) -> list[Note]:
    """Table string; names of kernels and ranges that are not UTF-8 are spelled as far as they are."""
    try:
        run_sql(db, "load/string")
        return []
    except (duckdb.InvalidInputException, UnicodeDecodeError) as error:
        if path.is_dir():
            raise
        if isinstance(error, duckdb.InvalidInputException) and "unicode" not in str(error).lower():
            raise
    with closing(open_export(path)) as source:
        source.text_factory = lambda raw: raw.decode("utf-8", "replace")
        rows = source.execute("SELECT id, value FROM StringIds WHERE id IS NOT NULL").fetchall()
    values = dict(rows)  # an id twice: any of them, as in load/string.sql
    db.execute("CREATE TABLE string (id INTEGER, value VARCHAR)")
    db.executemany("INSERT INTO string VALUES (?, ?)", [[key, value] for key, value in values.items()])
    odd = sum(1 for value in values.values() if isinstance(value, str) and "\ufffd" in value)
    return [
        Note(
            "text-not-utf8",
            f"{name}: {odd} names in StringIds are not UTF-8; what cannot be read of them is shown as \ufffd",
        )
    ]


def _stage(
    db: duckdb.DuckDBPyConnection, table: str, columns: dict[str, str], schema: Schema, copied: set[str]
) -> None:
    """A view with every expected column: what the schema lacks is a typed NULL, a missing table is empty.

    Tables of ops also have the number of the row, `source`; those `copied` are tables here, to have such numbers.
    """
    present = {column.lower(): column for column in schema.tables.get(table, frozenset())}
    parts = [
        f"CAST({identifier(present[column.lower()])} AS {kind}) AS {identifier(column)}"
        if column.lower() in present
        else f"CAST(NULL AS {kind}) AS {identifier(column)}"
        for column, kind in columns.items()
    ]
    origin = f"FROM {schema.relation(table)}" if schema.has(table) else "WHERE false"
    if table in TABLES:
        number = (
            "row_number() OVER ()" if table in copied else "rowid" if schema.has(table) else "NULL::BIGINT"
        )
        parts.append(f"{number} AS source")
    kind = "TABLE" if table in copied else "VIEW"
    db.execute(f"CREATE {kind} {identifier('staged_' + table)} AS SELECT {', '.join(parts)} {origin}")


def _explain(name: str, path: Path, error: Exception) -> TracediffError:
    # DuckDB puts the value into its message: bytes that are no text keep Python from making an error of it
    said = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    text = (said.splitlines() or [""])[0].replace(f"{path}/", "")
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if "locked" in text.lower():
        return locked(name)
    if isinstance(error, duckdb.OutOfMemoryException):
        return TracediffError(
            "out-of-memory",
            f"{name} does not fit into the memory allowed: {text}",
            fix="raise --memory-limit",
        )
    if isinstance(error, duckdb.IOException) and "space left" in str(error).lower():
        return TracediffError(
            "disk-full",
            f"the tables of {name} do not fit on the disk of temporary files",
            fix="set TMPDIR to a folder with space",
        )
    if "invalid string encoding" in text.lower() or "invalid unicode" in text.lower():
        return TracediffError(
            "bad-column",
            f"{name} holds names that are not UTF-8: {text}",
            fix="export it as SQLite, where such names are read as far as they can be",
        )
    if path.is_dir() and not isinstance(error, duckdb.ConversionException | duckdb.BinderException):
        return columnar.damaged(name, text)
    if "malformed" in text.lower() or "not a database" in text.lower():
        return TracediffError(
            "truncated",
            f"{name} is damaged: {text}",
            fix="export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep",
        )
    return TracediffError(
        "bad-column",
        f"{name} holds a value of another type than its schema says: {text}",
        fix="export it again with the nsys that recorded it",
    )
