"""An nsys SQLite export -> the canonical tables of sql/load/."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb

from tracediff.errors import TracediffError
from tracediff.load.database import identifier, quoted, run_sql
from tracediff.load.nsys_schema import STAGED, Schema, inspect, locked
from tracediff.model import Note

# The largest first: what it needs on the way is free again for the others.
_STEPS = ("load/string", "load/nvtx", "load/op", "load/op_key", "load/api_call", "load/thread")


def load(db: duckdb.DuckDBPyConnection, path: Path, name: str | None = None) -> tuple[Schema, list[Note]]:
    """Create the canonical tables (see sql/load/) from the export at `path` in `db`; what is odd comes back as notes.

    `name` is what messages call it. Raises `TracediffError`: those of `nsys_schema.inspect`, out-of-memory,
    bad-column.
    """
    file_name = name or path.name
    schema = inspect(path, file_name)
    notes: list[Note] = []
    db.execute(f"ATTACH {quoted(str(path))} AS source (TYPE sqlite, READ_ONLY)")
    try:
        for table, columns in STAGED.items():
            db.execute(_staging_view(table, columns, schema))
        for step in _STEPS:
            if step == "load/string":
                notes += _load_strings(db, path, file_name)
            else:
                run_sql(db, step)
    except duckdb.Error as error:
        raise _explain(file_name, error) from error
    finally:
        for table in STAGED:
            db.execute(f"DROP VIEW IF EXISTS {identifier('staged_' + table)}")
        db.execute("DETACH source")
    return schema, notes


def _load_strings(db: duckdb.DuckDBPyConnection, path: Path, name: str) -> list[Note]:
    """Table string; names of kernels and ranges that are not UTF-8 are spelled as far as they are."""
    try:
        run_sql(db, "load/string")
        return []
    except (duckdb.InvalidInputException, UnicodeDecodeError) as error:
        if isinstance(error, duckdb.InvalidInputException) and "unicode" not in str(error).lower():
            raise
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
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


def _staging_view(table: str, columns: dict[str, str], schema: Schema) -> str:
    """A view with every expected column: what the schema lacks is a typed NULL, a missing table is empty."""
    present = {column.lower(): column for column in schema.tables.get(table, frozenset())}
    parts = [
        f"CAST({identifier(present[column.lower()])} AS {kind}) AS {identifier(column)}"
        if column.lower() in present
        else f"CAST(NULL AS {kind}) AS {identifier(column)}"
        for column, kind in columns.items()
    ]
    origin = f"FROM source.{identifier(table)}" if schema.has(table) else "WHERE false"
    return f"CREATE VIEW {identifier('staged_' + table)} AS SELECT {', '.join(parts)} {origin}"


def _explain(name: str, error: duckdb.Error) -> TracediffError:
    text = str(error).splitlines()[0]
    if "locked" in text.lower():
        return locked(name)
    if isinstance(error, duckdb.OutOfMemoryException):
        return TracediffError(
            "out-of-memory",
            f"{name} does not fit into the memory allowed: {text}",
            fix="raise --memory-limit",
        )
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
