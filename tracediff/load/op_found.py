"""What the ops of a sort share, looked up in the export: by row, for reading all rows again would take as long as before."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import duckdb

from tracediff.load.database import identifier, quoted, sql
from tracediff.load.nsys_schema import STAGED, Schema, open_export

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
    first = db.execute(sql("load/op_first")).fetchall()
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
    db.execute(f"CREATE TEMP TABLE op_first AS {sql('load/op_first')}")
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
