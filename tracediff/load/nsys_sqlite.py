"""An nsys SQLite export -> the canonical tables of sql/load/."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tracediff.errors import TracediffError
from tracediff.load.database import identifier, quoted, run_sql
from tracediff.load.nsys_schema import STAGED, Schema, inspect, locked

# The largest first: what it needs on the way is free again for the others.
_STEPS = ("load/string", "load/nvtx", "load/op", "load/op_key", "load/api_call", "load/thread")


def load(db: duckdb.DuckDBPyConnection, path: Path, name: str | None = None) -> Schema:
    """Create the canonical tables (see sql/load/) from the export at `path` in `db`.

    `name` is what messages call it. Raises `TracediffError`: those of `nsys_schema.inspect`, out-of-memory,
    bad-column.
    """
    file_name = name or path.name
    schema = inspect(path, file_name)
    db.execute(f"ATTACH {quoted(str(path))} AS source (TYPE sqlite, READ_ONLY)")
    try:
        for table, columns in STAGED.items():
            db.execute(_staging_view(table, columns, schema))
        for step in _STEPS:
            run_sql(db, step)
    except duckdb.Error as error:
        raise _explain(file_name, error) from error
    finally:
        for table in STAGED:
            db.execute(f"DROP VIEW IF EXISTS {identifier('staged_' + table)}")
        db.execute("DETACH source")
    return schema


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
