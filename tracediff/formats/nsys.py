"""An nsys export, SQLite or a folder of Parquet files -> the canonical tables of sql/load/."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import duckdb

from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.database import identifier, quoted, run_sql, sql
from tracediff.formats.schema import STAGED, SYSTEM, Schema, inspect, locked, open_export
from tracediff.model import Note

# What the ops of a sort share, looked up in the export: by row, for reading all rows again would take as long as before.

# By the `kind` of an op.
TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)  # fmt: skip
_COLUMNS = (
    "globalPid", "deviceId", "streamId", "graphNodeId", "demangledName", "shortName", "gridX", "gridY", "gridZ",
    "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "copyKind",
    "dstKind",
)  # fmt: skip
_T = TypeVar("_T")
_AT_ONCE = 500  # rows a query: SQLite takes a bounded number of parameters


def without_rowid(path: Path, schema: Schema) -> set[str]:
    """The tables of ops without row numbers of SQLite's own: views and the like, which no nsys writes, but other tools may."""
    found = set()
    with closing(open_export(path)) as db:
        for table in TABLES:
            if schema.has(table):
                kind = db.execute("SELECT type FROM sqlite_master WHERE name = ?", (table,)).fetchone()
                named = "rowid" in {column.lower() for column in schema.tables[table]}
                if named or kind is None or kind[0] != "table":  # older SQLite gives the rows of views NULL
                    found.add(table)
                    continue
                try:
                    db.execute(f"SELECT rowid FROM {identifier(table)} LIMIT 0")
                except sqlite3.OperationalError:
                    found.add(table)
    return found


def find_ops(db: duckdb.DuckDBPyConnection, path: Path, schema: Schema, copied: set[str]) -> None:
    """Create the table op_found: sort, kind, and columns of the export as they are there, a row a sort of op.

    `copied`: tables that lie in `db`, see `without_rowid`.
    """
    if schema.relations:
        _find_in_place(db)
        return
    first = db.execute(sql("formats/op_first")).fetchall()
    found: list[tuple[object, ...]] = []
    with closing(open_export(path)) as export:
        for kind, table in enumerate(TABLES):
            sort_of = {row: sort for sort, one, row in first if one == kind}
            for some in _batches(sorted(sort_of)):
                if table in copied:
                    query = _query(identifier(f"staged_{table}"), "source", STAGED[table].keys(), len(some))
                    rows = db.execute(query, some).fetchall()
                else:
                    query = _query(identifier(table), "rowid", schema.tables[table], len(some))
                    rows = export.execute(query, some).fetchall()
                found += [(sort_of[row], kind, *values) for row, *values in rows]
    types = {"sort": "UBIGINT", "kind": "INTEGER", **dict.fromkeys(_COLUMNS, "BIGINT")}
    db.execute(
        f"CREATE TABLE op_found ({', '.join(f'{identifier(name)} {kind}' for name, kind in types.items())})"
    )
    # as text: DuckDB takes a tenth of a millisecond for every number that it is given as a Python object
    for some in _batches(found):
        db.execute(
            "INSERT INTO op_found VALUES " + ", ".join(f"({', '.join(map(_literal, row))})" for row in some)
        )


def _find_in_place(db: duckdb.DuckDBPyConnection) -> None:
    """The same where DuckDB itself reads the export: one join a table."""
    db.execute(f"CREATE TEMP TABLE op_first AS {sql('formats/op_first')}")
    columns = ", ".join(identifier(name) for name in _COLUMNS)
    parts = []
    for kind, table in enumerate(TABLES):
        has = {name.lower() for name in STAGED[table]}
        values = [
            f"t.{identifier(n)}" if n.lower() in has else f"NULL::BIGINT AS {identifier(n)}" for n in _COLUMNS
        ]
        parts.append(
            f"SELECT f.sort, f.kind, {', '.join(values)} FROM {identifier(f'staged_{table}')} AS t"
            f" JOIN op_first AS f ON f.source = t.source AND f.kind = {kind}"
        )
    db.execute(f"CREATE TABLE op_found AS SELECT sort, kind, {columns} FROM ({' UNION ALL '.join(parts)})")
    db.execute("DROP TABLE op_first")


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return (
        str(value) if type(value) is int else quoted(str(value))
    )  # no number: DuckDB says what is wrong with it


def _query(table: str, row: str, present: Collection[str], rows: int) -> str:
    spelled = {name.lower() for name in present}
    columns = ", ".join(identifier(name) if name.lower() in spelled else "NULL" for name in _COLUMNS)
    return f"SELECT {row}, {columns} FROM {table} WHERE {row} IN ({', '.join('?' * rows)})"


def _batches(rows: list[_T]) -> list[list[_T]]:
    return [rows[low : low + _AT_ONCE] for low in range(0, len(rows), _AT_ONCE)]


# Whether an export has numbers in its NVTX ranges: asked of SQLite itself, for most exports have none.

# a number may be the GIL's trace in one process and something else in another
_GIL_DOMAINS = "SELECT domain FROM nvtx_text GROUP BY domain HAVING bool_and(starts_with(meaning, 'gil_'))"
_PAYLOADS = {
    "uint64value", "int64value", "uint32value", "int32value", "doublevalue", "floatvalue", "jsontext", "jsontextid",
}  # fmt: skip
_WORTH_THREADS = 1_000_000  # rows: a tenth of a second


def has_payloads(db: duckdb.DuckDBPyConnection, path: Path, schema: Schema) -> bool:
    """Whether an NVTX range has one. Asked of SQLite itself: where none has, that takes a third of a scan by DuckDB.

    The GIL's trace, which is most rows of an export that has it, carries none: its domains are left out.
    """
    spelled = {name.lower(): name for name in schema.tables.get("NVTX_EVENTS", ())}
    columns = [name for lower, name in spelled.items() if lower in _PAYLOADS]
    if path.is_dir() or not columns:
        return bool(columns)
    known = " OR ".join(f"{identifier(name)} IS NOT NULL" for name in columns)
    of_gil = [int(domain) for (domain,) in db.execute(_GIL_DOMAINS).fetchall()]
    if of_gil and "domainid" in spelled:
        domain = f"coalesce({identifier(spelled['domainid'])}, 0)"
        known = f"{domain} NOT IN ({', '.join(map(str, of_gil))}) AND ({known})"

    def among(rows: str) -> bool:
        with closing(open_export(path)) as source:
            query = f"SELECT EXISTS (SELECT 1 FROM NVTX_EVENTS WHERE ({known}) AND {rows})"
            return bool(source.execute(query).fetchone()[0])

    setting = db.execute("SELECT current_setting('threads')").fetchone()
    assert setting is not None
    many = int(setting[0])
    parts = ["1"] if many == 1 or "rowid" in spelled else _parts(path, many)
    if len(parts) == 1:
        return among(parts[0])
    with ThreadPoolExecutor(len(parts)) as pool:
        return any(pool.map(among, parts))


def _parts(path: Path, many: int) -> list[str]:
    """Conditions for stretches of NVTX_EVENTS, to be read by as many threads; one for all of it where it is short."""
    with closing(open_export(path)) as source:
        try:
            # each by itself: both at once would be a scan of all rows
            low, high = source.execute(
                "SELECT (SELECT min(rowid) FROM NVTX_EVENTS), (SELECT max(rowid) FROM NVTX_EVENTS)"
            ).fetchone()
        except sqlite3.OperationalError:  # no table of rows with numbers, but one that another tool wrote
            return ["1"]
    if low is None or high - low < _WORTH_THREADS:  # a view's rows have none in older SQLite
        return ["1"]
    edges = [low + (high - low) * part // many for part in range(1, many)]
    ranges = pairwise([f"{low}", *map(str, edges), f"{high + 1}"])
    return [f"rowid >= {begin} AND rowid < {end}" for begin, end in ranges]


# The largest first: what it needs on the way is free again for the others.
_STEPS = (
    "formats/string",
    "formats/nvtx",
    "formats/op",
    "formats/op_sort",
    "formats/api_call",
    "formats/thread",
    "formats/machine",
)
_LONGEST = 300  # characters of what the database says: it may quote a value of any length
_FURTHEST = 1 << 62  # ns: no time and no sum of lengths is beyond
_LONGEST_NS = 1 << 53  # of a capture: differences of its times are whole numbers as floats too
# what is made of tables of the export -> those tables: it is made where one of the first kind has rows, with all of them
_SYSTEM_STEPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "formats/os_call": (("OSRT_API",), ()),
    "formats/off_cpu": (("SCHED_EVENTS",), ()),
    "formats/memory_event": (("CUDA_GPU_MEMORY_USAGE_EVENTS",), ()),
    "formats/gpu_sample": (("GPU_METRICS",), ("TARGET_INFO_GPU_METRICS", "TARGET_INFO_CUDA_DEVICE")),
    "formats/mpi_call": (
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
            if step == "formats/string":
                notes += _load_strings(db, path, file_name)
                continue
            if step == "formats/op_sort":
                find_ops(db, path, schema, copied)
            run_sql(db, step)
        if steps is _STEPS:
            for step, (events, others) in _SYSTEM_STEPS.items():
                if any(_has_rows(db, table, schema) for table in events):
                    for table in events + others:
                        _stage(db, table, SYSTEM[table], schema, copied)
                    if step == "formats/gpu_sample":
                        if said := _load_or_leave(db, step):
                            left = f"{file_name}: GPU_METRICS is left out, {said}"
                            notes.append(Note("gpu-metrics-unreadable", left))
                    else:
                        run_sql(db, step)
            run_sql(db, "formats/payload_tables")
            if has_payloads(db, path, schema) and (said := _load_or_leave(db, "formats/payload")):
                run_sql(db, "formats/payload_tables")
                left = f"{file_name}: payloads of NVTX ranges are left out, {said}"
                notes.append(Note("payloads-unreadable", left))
            if db.execute("SELECT 1 FROM nvtx_domain WHERE name = 'NCCL' LIMIT 1").fetchone():
                run_sql(db, "formats/nccl_call")
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
_MADE = {"formats/gpu_sample": ("gpu_sample", "gpu_metric", "gpu_of"), "formats/payload": ("payload_row",)}


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
    found = [row for row in db.execute(sql("formats/time_extent")).fetchall() if row[1] is not None]
    for source, low, high, total in found:
        if not -_FURTHEST < low <= high < _FURTHEST or total >= _FURTHEST:
            raise _no_time(f"{name}: rows of {source} reach from {low} to {high} ns, {total} ns together")
    first, last = min((row[1] for row in found), default=0), max((row[2] for row in found), default=0)
    if last - first > _LONGEST_NS:
        raise _no_time(f"{name}: its rows reach from {first} to {last} ns, more than a hundred days")


def _surely_near(db: duckdb.DuckDBPyConnection) -> bool:
    """Whether bounds alone show that all times are near enough: then the lengths of the rows need not be summed."""
    found = [row for row in db.execute(sql("formats/time_bounds")).fetchall() if None not in row[:2]]
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
        run_sql(db, "formats/string")
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
