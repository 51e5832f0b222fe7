"""An nsys export, SQLite or a folder of Parquet files -> the canonical tables of formats/sql/."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl
from msgspec.structs import replace

from tracediff.errors import TracediffError, disk_full
from tracediff.formats import columnar
from tracediff.formats.database import create_table, identifier, quoted, run_sql, sql
from tracediff.formats.schema import METADATA, STAGED, SYSTEM, Schema, inspect, locked, version_of
from tracediff.formats.untrusted import open_export
from tracediff.model import Note

OPS = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)  # fmt: skip
# The largest first: what it needs on the way is free again for the others.
_STEPS = (
    "formats/string", "formats/nvtx", "formats/op", "formats/op_descriptor", "formats/api_call", "formats/thread",
    "formats/machine"
)  # fmt: skip
_AGAIN = "export it again with the nsys that recorded it"
_LONGEST_NAME = 1 << 16  # bytes of a name of a kernel or range
_LONGEST = 300  # characters of what the database says: it may quote a value of any length
_MOST_THREADS = (1 << 15) - 1
_MOST_UNITS = 1024  # pairs of process and GPU
_FURTHEST = 1 << 62  # ns: no time and no sum of lengths is beyond
_LONGEST_NS = 1 << 53  # of a capture: differences of its times are whole numbers as floats too
# what is made of tables of the export -> those tables: it is made where one of the first kind has rows, with all of them
_SYSTEM_STEPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "formats/os_call": (("OSRT_API",), ()),
    "formats/off_cpu": (("SCHED_EVENTS",), ()),
    "formats/memory_event": (("CUDA_GPU_MEMORY_USAGE_EVENTS",), ()),
    "formats/graph_node": (("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"), ()),
    "formats/gpu_sample": (("GPU_METRICS",), ("TARGET_INFO_GPU_METRICS", "TARGET_INFO_CUDA_DEVICE")),
    "formats/mpi_call": (
        ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"), (),
    ),
}  # fmt: skip


def load(
    db: duckdb.DuckDBPyConnection,
    path: Path,
    name: str | None = None,
    steps: tuple[str, ...] = _STEPS,
    schema: Schema | None = None,
) -> tuple[Schema, list[Note]]:
    """Create the canonical tables (see formats/sql/) from the export at `path` in `db`; what is odd comes back as notes.

    `name` is what messages call it, `steps` the files of sql/ that make the tables, `schema` what `inspect` said of a SQLite file.
    Where this fails, `db` is of no use any more. Raises `TracediffError`: those of `schema.inspect` and `columnar.inspect`,
    out-of-memory, bad-column, bad-time, too-many.
    """
    file_name = name or path.name
    in_folder = path.is_dir()
    if schema is None:
        schema = columnar.inspect(db, path, file_name) if in_folder else inspect(path, file_name)
    notes: list[Note] = []
    try:
        if not in_folder:
            db.execute(f"ATTACH {quoted(str(path))} AS source (TYPE sqlite, READ_ONLY)")
        for table, columns in STAGED.items():
            if table in METADATA:
                load_metadata(db, path, table, columns, schema)
            else:
                _stage(db, table, columns, schema)
        schema = schema if schema.version else replace(schema, version=_version(db))
        for step in steps:
            if step in _TEXTS:
                notes += _load_texts(db, schema, file_name, step)
            elif step == "formats/op_descriptor":
                _describe_ops(db, schema, file_name)
            else:
                run_sql(db, step)
            notes += _set_right(db, step, file_name)
        if steps is _STEPS:
            notes += _load_system(db, path, schema, file_name) + _load_payloads(db, path, schema, file_name)
            if db.execute("SELECT 1 FROM nvtx_domain WHERE name = 'NCCL' LIMIT 1").fetchone():
                run_sql(db, "formats/nccl_call")
            _check_times(db, file_name)
            notes += _outside(db, file_name)
            _check_counts(db, file_name)
            schema = replace(schema, events=_events(db, schema))
            _load_diagnostics(db, path, schema)
        if not in_folder:
            db.execute("DETACH source")  # first: what is dropped then is looked up in no file
        _drop_staged(db)
    except (duckdb.Error, sqlite3.Error, UnicodeDecodeError) as error:
        raise _explain(file_name, path, error) from error
    return schema, notes


def _drop_staged(db: duckdb.DuckDBPyConnection) -> None:
    """Drop what was read as it was, the environment of the recording among it."""
    for kind in ("view", "table"):
        for (name,) in db.execute(
            f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE starts_with({kind}_name, 'staged_')"
        ).fetchall():
            db.execute(f"DROP {kind} {identifier(name)}")


def _version(db: duckdb.DuckDBPyConnection) -> str:
    """The schema version, of an export where it could not be asked for without reading the other values."""
    found = db.execute(
        "SELECT value FROM (FROM staged_META_DATA_EXPORT UNION ALL FROM staged_EXPORT_META_DATA)"
        " WHERE name = 'EXPORT_SCHEMA_VERSION'"
    ).fetchall()
    return next(filter(None, (version_of(value) for (value,) in found)), "")


def _events(db: duckdb.DuckDBPyConnection, schema: Schema) -> tuple[str, ...]:
    """The tables of events that have rows, where no CUDA call and no range is among them."""
    for table in ("api_call", "range"):
        if db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            return ()
    known = schema.relations or schema.tables
    return tuple(table for table in sorted(known) if _EVENTS.search(table) and _has_rows(db, table, schema))


_EVENTS = re.compile(r"_EVENTS$|_API$|^CUPTI_ACTIVITY|^SAMPLING_|^GPU_METRICS$")


def _load_system(db: duckdb.DuckDBPyConnection, path: Path, schema: Schema, name: str) -> list[Note]:
    """Tables of the kinds of trace that were recorded."""
    notes: list[Note] = []
    for step, (events, others) in _SYSTEM_STEPS.items():
        if any(_has_rows(db, table, schema) for table in events):
            for table in events:
                _stage(db, table, SYSTEM[table], schema)
            for table in others:
                load_metadata(db, path, table, SYSTEM[table], schema)
            if step != "formats/gpu_sample":
                run_sql(db, step)
                notes += _set_right(db, step, name)
            elif problem := _load_or_leave(db, step):
                notes.append(Note("gpu-metrics-unreadable", f"{name}: GPU_METRICS is left out, {problem}"))
    return notes


def _load_diagnostics(db: duckdb.DuckDBPyConnection, path: Path, schema: Schema) -> None:
    """Table diagnostic: what the recorder said of itself, in the order of the export."""
    load_metadata(db, path, "DIAGNOSTIC_EVENT", SYSTEM["DIAGNOSTIC_EVENT"], schema)
    run_sql(db, "formats/diagnostic")


def _describe_ops(db: duckdb.DuckDBPyConnection, schema: Schema, name: str) -> None:
    """Tables op_descriptor and op_key, from one row of each op descriptor.

    SQLite itself looks the rows up by their start: another scan of all rows through DuckDB takes eight times as long.
    """
    starts = [
        start for (start,) in db.execute("SELECT min(start_ns) FROM op_row GROUP BY descriptor").fetchall()
    ]
    # most are of the first steps: a comparison spares the rows after those the search in a list
    start = 'CAST("start" AS INTEGER)'
    among = f"{start} <= {max(starts, default=0)} AND {start} IN (SELECT value FROM json_each({quoted(json.dumps(starts))}))"
    for table in OPS:
        if schema.has(table):
            if schema.relations:
                rows = f'(FROM {schema.relation(table)} WHERE "start" IN (SELECT min(start_ns) FROM op_row GROUP BY descriptor))'
            else:
                query = f"SELECT * FROM {identifier(table)} WHERE {among}"
                rows = f"sqlite_query('source', {quoted(query)})"
            _stage(db, table, STAGED[table], schema, rows)
    run_sql(db, "formats/op_descriptor")
    found = db.execute("SELECT count(*) FROM op_descriptor").fetchone()
    if found != (len(starts),):
        raise TracediffError(
            "bad-column", f"{name}: starts of kernels or copies are no whole numbers", fix=_AGAIN
        )


def _load_payloads(db: duckdb.DuckDBPyConnection, path: Path, schema: Schema, name: str) -> list[Note]:
    """Numbers of NVTX ranges. SQLite itself is asked whether there are any: mostly not, and a scan by DuckDB takes four times as long."""
    run_sql(db, "formats/payload_tables")
    present = {column.lower(): column for column in schema.tables.get("NVTX_EVENTS", ())}
    columns = [identifier(present[column]) for column in _PAYLOADS if column in present]
    if not columns:
        return []
    if not schema.relations:
        with closing(open_export(path)) as source:
            query = f"SELECT 1 FROM NVTX_EVENTS WHERE {' OR '.join(f'{one} IS NOT NULL' for one in columns)} LIMIT 1"
            if source.execute(query).fetchone() is None:
                return []
    if not (problem := _load_or_leave(db, "formats/payload")):
        return []
    run_sql(db, "formats/payload_tables")
    return [Note("payloads-unreadable", f"{name}: payloads of NVTX ranges are left out, {problem}")]


_PAYLOADS = (
    "uint64value", "int64value", "uint32value", "int32value", "doublevalue", "floatvalue", "jsontext", "jsontextid",
)  # fmt: skip

# what a step has made that goes where values are of another type than their table says
_MADE = {"formats/gpu_sample": ("gpu_sample", "gpu_metric", "gpu_of"), "formats/payload": ("payload_row",)}


def _load_or_leave(db: duckdb.DuckDBPyConnection, step: str) -> str:
    """The tables of a step that all else can do without; where values are of another type, none of them, and why."""
    try:
        run_sql(db, step)
    except (duckdb.OutOfMemoryException, duckdb.IOException):
        raise
    except (duckdb.Error, UnicodeDecodeError) as error:
        for made in _MADE[step]:
            db.execute(f"DROP TABLE IF EXISTS {made}")
        said = _said(error)[:_LONGEST]
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
    found = [row for row in db.execute(sql("formats/time_extent")).fetchall() if row[1] is not None]
    for source, low, high, total in found:
        if not -_FURTHEST < low <= high < _FURTHEST or total >= _FURTHEST:
            raise _no_time(f"{name}: rows of {source} reach from {low} to {high} ns, {total} ns together")
    first, last = min((row[1] for row in found), default=0), max((row[2] for row in found), default=0)
    if last - first > _LONGEST_NS:
        raise _no_time(f"{name}: its rows reach from {first} to {last} ns, more than a hundred days")


def _check_counts(db: duckdb.DuckDBPyConnection, name: str) -> None:
    """Refuse more threads and GPUs than any machine has: each is looked at on its own."""
    for what, most, query in (
        ("threads", _MOST_THREADS, "thread"),
        ("pairs of process and GPU", _MOST_UNITS, "(SELECT DISTINCT pid, device FROM op_descriptor)"),
    ):
        ((count,),) = db.execute(f"SELECT count(*) FROM {query}").fetchall()
        if count > most:
            raise TracediffError(
                "too-many", f"{name} holds {count:,} {what}; {most:,} are the most that are read", fix=_AGAIN
            )


def _no_time(message: str) -> TracediffError:
    return TracediffError("bad-time", message, fix=_AGAIN)


# the steps that read names -> the table that they read them from
_TEXTS = {"formats/string": "StringIds", "formats/nvtx": "NVTX_EVENTS", "formats/contents": "NVTX_EVENTS"}


def _load_texts(db: duckdb.DuckDBPyConnection, schema: Schema, name: str, step: str) -> list[Note]:
    """The tables of a step; names of kernels and ranges that are not UTF-8 are spelled as far as they are."""
    try:
        run_sql(db, step)  # its first statement is the one that reads
        return []
    except (duckdb.InvalidInputException, duckdb.TypeMismatchException, UnicodeDecodeError) as error:
        table = _TEXTS[step]
        if schema.relations:
            raise TracediffError(
                "truncated",
                f"{name}: {table} is damaged, or holds names that are not UTF-8",
                fix="nsys export --type sqlite REPORT.nsys-rep: such names are read of SQLite",
            ) from error
        odd = mend(db, table, schema)
        _stage(db, table, STAGED[table], schema)
        run_sql(db, step)
    if not odd:
        return []
    return [
        Note(
            "text-not-utf8",
            f"{name}: {odd} names in {table} are not UTF-8; what cannot be read of them is shown as \ufffd",
        )
    ]


def _stage(
    db: duckdb.DuckDBPyConnection,
    table: str,
    columns: dict[str, str],
    schema: Schema,
    rows: str | None = None,
) -> None:
    """A view with every expected column: what the schema lacks is a typed NULL, a missing table is empty.

    `rows`: SQL of the rows that it shows, not all of the table.
    """
    present = {column.lower(): column for column in schema.tables.get(table, frozenset())}
    parts = [
        f"{_cut(f'CAST({identifier(present[column.lower()])} AS {kind})', kind)} AS {identifier(column)}"
        if column.lower() in present
        else f"CAST(NULL AS {kind}) AS {identifier(column)}"
        for column, kind in columns.items()
    ]
    origin = f"FROM {rows or schema.relation(table)}" if schema.has(table) else "WHERE false"
    db.execute(
        f"CREATE OR REPLACE VIEW {identifier('staged_' + table)} AS SELECT {', '.join(parts)} {origin}"
    )


def _cut(value: str, kind: str) -> str:
    """SQL of a value; of a text longer than any name, its beginning and what tells it from others that begin so."""
    if kind != "VARCHAR":
        return value
    return f"CASE WHEN strlen({value}) > {_LONGEST_NAME} THEN left({value}, {_LONGEST_NAME // 2}) || ' ... ' || md5({value}) ELSE {value} END"


def _said(error: Exception) -> str:
    """The first line of an error."""
    # DuckDB puts the value into its message: bytes that are no text keep Python from making an error of it
    said = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    return (said.splitlines() or [""])[0]


def _explain(name: str, path: Path, error: Exception) -> TracediffError:
    text = _said(error).replace(f"{path}/", "")
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if "locked" in text.lower():
        return locked(name)
    # where there is too little to commit, DuckDB raises an error of the transaction
    if isinstance(error, duckdb.OutOfMemoryException) or "could not allocate" in text:
        return TracediffError(
            "out-of-memory",
            f"{name} does not fit into the memory allowed: {text}",
            fix="raise TRACEDIFF_MEMORY",
        )
    if isinstance(error, duckdb.IOException) and "space left" in str(error).lower():
        return disk_full(f"the tables of {name} do not fit on the disk of temporary files")
    if path.is_dir() and not isinstance(error, duckdb.ConversionException | duckdb.BinderException):
        return columnar.damaged(name, text)
    if "malformed" in text.lower() or "not a database" in text.lower():
        return TracediffError(
            "truncated",
            f"{name} is damaged: {text}",
            fix="export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep",
        )
    return TracediffError(
        "bad-column", f"{name} holds a value of another type than its schema says: {text}", fix=_AGAIN
    )


# Tables of an export that are small and hold what users and machines wrote: no value in them can make an export unreadable.
#
# A value is read as the type that the loader expects, as far as it can be: bytes that are no UTF-8 become replacement characters,
# what is no number becomes NULL, and so does a text longer than any that is needed.


_LONGEST_VALUE = 1024  # bytes of a text that is used, at most


def load_metadata(
    db: duckdb.DuckDBPyConnection, path: Path, table: str, columns: dict[str, str], schema: Schema
) -> None:
    """Make the table staged_TABLE with these columns (name -> BIGINT, DOUBLE or VARCHAR); empty where the export has none.

    Raises what the databases raise where a file is damaged.
    """
    present = {column.lower(): column for column in schema.tables.get(table, frozenset())}
    found = [column for column in columns if column.lower() in present]
    spelled = [identifier(present[column.lower()]) for column in found]
    rows: list[tuple[object, ...]] = []
    if found:
        read = _from_folder if schema.relations else _from_file
        rows = read(db, path, table, spelled, schema)
    values = {column: [_read_as(columns[column], row[at]) for row in rows] for at, column in enumerate(found)}
    kinds = {"BIGINT": pl.Int64, "DOUBLE": pl.Float64, "VARCHAR": pl.String}
    whole = {
        column: pl.Series(values.get(column, [None] * len(rows)), dtype=kinds[kind])
        for column, kind in columns.items()
    }
    create_table(db, f"staged_{table}", whole)


def _from_file(
    db: duckdb.DuckDBPyConnection, path: Path, table: str, columns: list[str], schema: Schema
) -> list[tuple[object, ...]]:
    short = ", ".join(
        f"CASE WHEN typeof({one}) IN ('integer', 'real') OR length(CAST({one} AS BLOB)) <= {_LONGEST_VALUE} THEN {one} END"
        for one in columns
    )
    with closing(open_export(path)) as source:
        source.text_factory = bytes
        return source.execute(f"SELECT {short} FROM {identifier(table)}").fetchall()


def _from_folder(
    db: duckdb.DuckDBPyConnection, path: Path, table: str, columns: list[str], schema: Schema
) -> list[tuple[object, ...]]:
    try:
        return db.execute(f"SELECT {', '.join(columns)} FROM {schema.relation(table)}").fetchall()
    except (duckdb.InvalidInputException, UnicodeDecodeError):
        return []  # a value that is not UTF-8, as of the environment: the export is read without


def _read_as(kind: str, value: object) -> int | float | str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if kind == "VARCHAR":
        text = str(value) if isinstance(value, str | int | float) else None
        return None if text is None or len(text) > _LONGEST_VALUE else text
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value) if kind == "DOUBLE" else int(value)
    except (ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


# Tables with names that are not UTF-8: DuckDB reads none of their rows. What can be read of such a name is kept.
#
# The texts are read as bytes; those that are UTF-8 are themselves, of the others Python makes texts with replacement characters.


def mend(db: duckdb.DuckDBPyConnection, table: str, schema: Schema) -> int:
    """Have `schema.relation(table)` give texts for all rows; how many different texts had bytes that are not UTF-8.

    Raises what DuckDB raises.
    """
    present = {column.lower(): column for column in schema.tables.get(table, frozenset())}
    known = {
        identifier(present[column.lower()]): kind == "VARCHAR"
        for column, kind in STAGED[table].items()
        if column.lower() in present
    }
    texts = [column for column, is_text in known.items() if is_text]
    others = [column for column, is_text in known.items() if not is_text]
    # the scanner knows no text as bytes, so SQLite spells them
    hexed = (f"CASE WHEN {one} IS NOT NULL THEN hex({one}) END AS {one}" for one in texts)
    query = f"SELECT {', '.join([*others, *hexed])} FROM {identifier(table)}"
    rows = f"sqlite_query('source', {quoted(query)})"
    mended, count = identifier(f"mended_{table}"), 0
    db.execute(f"CREATE OR REPLACE TEMP TABLE {mended} (raw BLOB, said VARCHAR)")
    for column in texts:
        as_bytes = f"unhex({column})"
        odd = db.execute(
            f"SELECT DISTINCT {as_bytes} FROM {rows} WHERE {column} IS NOT NULL AND try(decode({as_bytes})) IS NULL"
        ).fetchall()
        values = [(raw, raw.decode("utf-8", "replace")) for (raw,) in odd]
        if values:
            db.executemany(f"INSERT INTO {mended} VALUES (?, ?)", values)
        count += len(values)
    parts, joins = [f"t.{one}" for one in others], []
    for number, column in enumerate(texts):
        as_bytes = f"unhex(t.{column})"
        parts.append(f"coalesce(try(decode({as_bytes})), m{number}.said) AS {column}")
        joins.append(
            f"LEFT JOIN (SELECT raw, any_value(said) AS said FROM {mended} GROUP BY raw) AS m{number} ON m{number}.raw = {as_bytes}"
        )
    schema.mended[table] = f"(SELECT {', '.join(parts)} FROM {rows} AS t {' '.join(joins)})"
    return count


# Rows whose times cannot be: without a start or an end, or with an end before the start.
#
# nsys writes none of them, but for ranges that were open when the recording ended. A few are set right and said; an export with more
# of them is refused, for its sums would be too small. What is counted was read already: no row is read a second time for it.

_ODD = "odd-rows"
_ONE_IN = 1000  # rows of a table: where more are odd, nothing that is measured of it is sure
_EDGE_NS = 10**9  # before and after the recording: nsys keeps what is going on at its ends
# step that makes a table of columns start_ns and end_ns -> the table, and the tables of the export that it is made of
_TIMED = {
    "formats/op": ("op_row", ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")),
    "formats/api_call": ("api_call", ("RUNTIME",)),
}
# a call still open when the capture ended has no end: the last one of a thread
_OPEN = """
SELECT count(*) FROM (FROM api_call QUALIFY row_number() OVER (PARTITION BY tid ORDER BY start_ns DESC) = 1)
WHERE start_ns IS NOT NULL AND end_ns IS NULL
"""


def _set_right(db: duckdb.DuckDBPyConnection, step: str, name: str) -> list[Note]:
    """Say what is odd in the rows that a step has just read, and set them right: without times they go, backward they have no length.

    `name`: what messages call the export. Raises `TracediffError`: bad-time.
    """
    if step == "formats/nvtx":
        return _of_ranges(db, name)
    if step in ("formats/os_call", "formats/mpi_call"):  # of which only those that take time are kept
        (found,) = db.execute("FROM odd_call").fetchall()
        db.execute("DROP TABLE odd_call")
        return _said_odd(name, "OSRT_API" if step == "formats/os_call" else "MPI_*_EVENTS", *found)
    return _of_rows(db, name, *_TIMED[step]) if step in _TIMED else []


def _outside(db: duckdb.DuckDBPyConnection, name: str) -> list[Note]:
    """Say how much began outside of the recording, as far as the export says how long that took.

    Its beginning is time 0, but where all times are of another clock. Ranges are left out: they may have begun before.
    """
    ((duration,),) = db.execute("SELECT max(duration) FROM staged_ANALYSIS_DETAILS").fetchall()
    if duration is None or not 0 < duration < 1 << 53:
        return []
    ((rows, beyond),) = db.execute(
        f"SELECT count(*), count(*) FILTER (start_ns NOT BETWEEN -{_EDGE_NS} AND {duration + _EDGE_NS})"
        " FROM (SELECT start_ns FROM op_row UNION ALL SELECT start_ns FROM api_call)"
    ).fetchall()
    if beyond in (0, rows):
        return []
    said = f"of {rows:,} kernels, copies and calls {beyond:,} began outside of its {duration / 1e9:,.3g} s of recording"
    return [Note(_ODD, f"{name}: {said}")]


def _of_rows(db: duckdb.DuckDBPyConnection, name: str, table: str, sources: tuple[str, ...]) -> list[Note]:
    odd = "start_ns IS NULL OR end_ns IS NULL OR end_ns < start_ns"
    if db.execute(f"SELECT 1 FROM {table} WHERE {odd} LIMIT 1").fetchone() is None:
        return []
    notes, calls = [], table == "api_call"
    for source in sources:
        ((rows, timeless, backward),) = db.execute(
            'SELECT count(*), count(*) FILTER ("start" IS NULL OR "end" IS NULL), count(*) FILTER ("end" < "start")'
            f" FROM staged_CUPTI_ACTIVITY_KIND_{source}"
        ).fetchall()
        if calls:
            timeless -= db.execute(_OPEN).fetchall()[0][0]
        notes += _said_odd(name, f"CUPTI_ACTIVITY_KIND_{source}", rows, timeless, backward)
    timeless_row = "start_ns IS NULL" if calls else "start_ns IS NULL OR end_ns IS NULL"
    db.execute(f"DELETE FROM {table} WHERE {timeless_row}")
    db.execute(f"UPDATE {table} SET end_ns = start_ns WHERE end_ns IS NULL OR end_ns < start_ns")
    return notes


def _of_ranges(db: duckdb.DuckDBPyConnection, name: str) -> list[Note]:
    ((rows, still_open, torn, backward),) = db.execute("FROM odd_range").fetchall()
    db.execute("DROP TABLE odd_range")
    notes = _said_odd(name, "NVTX_EVENTS", rows, torn, backward)
    if not torn and still_open * _ONE_IN > rows:
        said = f"{still_open:,} of {rows:,} ranges in NVTX_EVENTS were never closed, and are left out"
        notes.append(Note(_ODD, f"{name}: {said}"))
    return notes


def _said_odd(name: str, table: str, rows: int, timeless: int, backward: int) -> list[Note]:
    if not timeless and not backward:
        return []
    found = ((timeless, "have no start or no end"), (backward, "end before they start"))
    said = " and ".join(f"{count:,} {words}" for count, words in found if count)
    message = f"{name}: of {rows:,} rows in {table} {said}"
    if (timeless + backward) * _ONE_IN > rows:
        raise TracediffError("bad-time", message, fix="export it again with the nsys that recorded it")
    return [Note(_ODD, message)]
