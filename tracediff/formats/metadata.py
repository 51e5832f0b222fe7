"""Tables of an export that are small and hold what users and machines wrote: no value in them can make an export unreadable.

A value is read as the type that the loader expects, as far as it can be: bytes that are no UTF-8 become replacement characters,
what is no number becomes NULL, and so does a text longer than any that is needed.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import duckdb

from tracediff.formats.database import identifier, quoted
from tracediff.formats.parquet_text import without_texts
from tracediff.formats.schema import Schema
from tracediff.formats.scratch import scratch
from tracediff.formats.untrusted import open_export

_LONGEST = 1024  # bytes of a text that is used, at most


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
    name = identifier(f"staged_{table}")
    declared = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
    db.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({declared})")
    kinds = [columns[column] for column in found]
    values = [[_read_as(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in rows]
    if values:
        # in one statement, as text: a statement for each row, or a list as a parameter, takes a thousand times as long
        lists = ", ".join(f"unnest(from_json(?, '[\"{kind}\"]'))" for kind in kinds)
        db.execute(
            f"INSERT INTO {name} ({', '.join(map(identifier, found))}) SELECT {lists}",
            [json.dumps(column) for column in zip(*values, strict=True)],
        )


def _from_file(
    db: duckdb.DuckDBPyConnection, path: Path, table: str, columns: list[str], schema: Schema
) -> list[tuple[object, ...]]:
    short = ", ".join(
        f"CASE WHEN typeof({one}) IN ('integer', 'real') OR length(CAST({one} AS BLOB)) <= {_LONGEST} THEN {one} END"
        for one in columns
    )
    with closing(open_export(path)) as source:
        source.text_factory = bytes
        return source.execute(f"SELECT {short} FROM {identifier(table)}").fetchall()


def _from_folder(
    db: duckdb.DuckDBPyConnection, path: Path, table: str, columns: list[str], schema: Schema
) -> list[tuple[object, ...]]:
    query = f"SELECT {', '.join(columns)} FROM"
    try:
        return db.execute(f"{query} {schema.relation(table)}").fetchall()
    except (duckdb.InvalidInputException, UnicodeDecodeError):
        with scratch() as folder:
            copy = folder / f"{table}.parquet"
            without_texts(path / copy.name, copy)
            return db.execute(
                f"{query} read_parquet({quoted(str(copy))}, hive_partitioning = false)"
            ).fetchall()


def _read_as(kind: str, value: object) -> int | float | str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if kind == "VARCHAR":
        text = str(value) if isinstance(value, str | int | float) else None
        return None if text is None or len(text) > _LONGEST else text
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value) if kind == "DOUBLE" else int(value)
    except (ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None
