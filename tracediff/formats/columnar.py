"""A folder of Parquet files, one a table: what `nsys export --type parquetdir` writes.

Seen with nsys 2023.4.4: the tables and columns of the SQLite export of the same report, a file a table, rows in the same
order, in row groups of 2048. What differs:

- ids, sizes and handles are unsigned (UINT64), where SQLite knows signed numbers only; the same bits are read
- numbers of 32 bits are INT32 or, if unsigned, INT64; floatValue is FLOAT; isDiscrete and isGreenContext are BOOLEAN
- enumerations are numbers, explained by ENUM_ tables, as in SQLite; what has no value is null
- a kind that was not recorded has no file, with --lazy=false one without rows
- META_DATA_CAPTURE (how was recorded) is not written
- a folder not named with -o is called REPORT_pqtdir

The same tables as Arrow files (`--type arrowdir`) are refused: every nsys that writes these writes Parquet as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb

from tracediff.errors import TracediffError
from tracediff.formats.database import connect, identifier, quoted
from tracediff.formats.schema import MARKS, READ, Schema, version_of

SUFFIX = ".parquet"
_AGAIN = "export it again: nsys export --type parquetdir --force-overwrite true REPORT.nsys-rep"
# A row of nsys takes 10 bytes or more: where many are alike, a few bytes can stand for as many as one likes.
_ROWS, _ROWS_PER_BYTE = 1_000_000, 4
_GLOB = frozenset("*?[]{}")
# Tables whose rows are named by StringIds.
_NAMED = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME")


def is_folder(folder: Path) -> bool:
    """Whether a folder holds tables of an nsys export as Parquet files.

    Raises `TracediffError`: arrow-folder, where it holds them as Arrow files.
    """
    if not folder.is_dir():
        return False
    found = {path.suffix for path in folder.iterdir() if path.stem in MARKS}
    if ".arrow" in found:
        raise TracediffError(
            "arrow-folder", f"{folder.resolve().name or '/'} holds tables as Arrow files", fix=_AGAIN
        )
    return SUFFIX in found


def tables(folder: Path) -> dict[str, Path]:
    """The files of a folder by table, in the order of their names.

    Raises `TracediffError`: table-missing, where one is a link to nothing, a device or a pipe.
    """
    found = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix == SUFFIX}
    for table, path in found.items():
        if not path.is_file():
            raise TracediffError(
                "table-missing",
                f"{folder.resolve().name or '/'}/{path.name} is no file: without it {table} would be taken for not recorded",
                fix="copy the folder whole, with what its links point to",
            )
    return found


def content(folder: Path) -> list[tuple[str, Path]]:
    """The files that say what an export is, by name: those of the tables that are read, and which others there are."""
    return [(path.name, path) for table, path in tables(folder).items() if table in READ]


def size(export: Path) -> int:
    """Bytes of an export: of a file, or of all tables of a folder."""
    if export.is_dir():
        return sum(path.stat().st_size for path in tables(export).values())
    return export.stat().st_size


def row_count(path: Path) -> int:
    """Rows of a table's file, which it says at its end. Raises OSError and polars' errors where it is damaged."""
    import polars as pl

    return int(pl.scan_parquet(path, glob=False, hive_partitioning=False).select(pl.len()).collect().item())


def fingerprint(folder: Path, of_file: dict[str, str]) -> str:
    """Identity of the content of a folder, from that of its files."""
    names = sorted(tables(folder))
    return hashlib.sha256(repr((names, sorted(of_file.items()))).encode()).hexdigest()


def prepare(folder: Path, scratch: Path) -> Path:
    """The folder itself, or one of links in `scratch` where DuckDB would take its path, as of `run [1]`, for a pattern."""
    if not _GLOB & set(str(folder.resolve())):
        return folder
    scratch.mkdir(parents=True, exist_ok=True)
    for table, path in tables(folder).items():
        (scratch / f"{table}{SUFFIX}").symlink_to(path.resolve())
    return scratch


def check(folder: Path, name: str) -> None:
    """Look at both ends of the Parquet files that are read, before a database is opened, which takes far longer.

    Raises `TracediffError`: empty-file, not-parquet, truncated, too-many.
    """
    import polars as pl  # not for a file that is none

    for _, path in content(folder):
        _check_ends(path, name)
        try:
            rows, size = row_count(path), path.stat().st_size
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise _cut_short(path, name, str(error)) from error
        if rows > _ROWS + size * _ROWS_PER_BYTE:
            raise TracediffError(
                "too-many",
                f"{name}/{path.name} says that it holds {rows:,} rows in {size:,} bytes",
                fix=_AGAIN,
            )


def inspect(db: duckdb.DuckDBPyConnection, folder: Path, name: str) -> Schema:
    """Which tables and columns a folder of Parquet files has. `name` is what messages call it.

    Raises `TracediffError`: not-nsys, not-parquet, empty-file, truncated, table-missing.
    """
    # every file is read once: what DuckDB would keep of it is memory for nothing
    db.execute("SET enable_external_file_cache = false")
    found: dict[str, frozenset[str]] = {}
    relations = {}
    for table, path in tables(folder).items():
        found[table] = frozenset()
        if table in READ:
            found[table], relations[table] = _columns(db, path, name)
    if not any(mark in found for mark in MARKS):
        raise TracediffError(
            "not-nsys",
            f"{name} is a folder without any table of an nsys export",
            fix="nsys export --type parquetdir REPORT.nsys-rep",
        )
    nameless = [table for table in _NAMED if table in found]
    if nameless and "StringIds" not in found:
        raise TracediffError(
            "table-missing",
            f"{name} holds {nameless[0]} and no StringIds: nothing in it has a name",
            fix="copy the folder whole, or export it again without --tables",
        )
    return Schema(found, _version(db, relations), relations=relations)


def to_sqlite(folder: Path, path: Path, name: str, wanted: Callable[[str], bool]) -> Path:
    """Write the `wanted` tables of a folder of Parquet files into a new SQLite file, their rows in order, with signed numbers.

    Raises `TracediffError`: empty-file, not-parquet, truncated.
    """
    with closing(connect(threads=1)) as db:
        db.execute("SET preserve_insertion_order = true")
        db.execute(f"ATTACH {quoted(str(path))} AS made (TYPE sqlite)")
        try:
            for table, file in tables(folder).items():
                if wanted(table):
                    db.execute(f"CREATE TABLE made.{identifier(table)} AS FROM {_columns(db, file, name)[1]}")
        except duckdb.Error as error:
            raise damaged(name, (str(error).splitlines() or [""])[0]) from error
    return path


def rewrite(folder: Path, queries: dict[str, str]) -> None:
    """Replace tables of a folder of Parquet files that are there by what a query makes of their `rows`, in the same order."""
    with closing(duckdb.connect()) as db:
        for table, path in tables(folder).items():
            if table in queries:
                part = path.with_name(f".{path.name}.part")
                db.execute(f"CREATE OR REPLACE VIEW rows AS FROM {_rows_of(path)}")
                db.execute(f"COPY ({queries[table]}) TO {quoted(str(part))} (FORMAT parquet)")
                part.replace(path)


def check_texts(db: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Raise duckdb.Error where names cannot be read, as those that are not UTF-8."""
    there = tables(folder)
    for table, column in (("StringIds", "value"), ("NVTX_EVENTS", "text")):
        if path := there.get(table):
            db.execute(f"SELECT sum(strlen({column})) FROM {_rows_of(path)}")


def _columns(db: duckdb.DuckDBPyConnection, path: Path, name: str) -> tuple[frozenset[str], str]:
    """The columns of a table, and what it is in SQL, with values as an export to SQLite holds them."""
    _check_ends(path, name)
    file = _rows_of(path)
    try:
        described = db.execute(f"DESCRIBE FROM {file}").fetchall()
    except duckdb.Error as error:
        raise _cut_short(path, name, str(error)) from error
    columns = {str(column): str(kind) for column, kind, *_ in described}
    parts = [
        f"{_as_in_sqlite(identifier(column), kind)} AS {identifier(column)}"
        for column, kind in columns.items()
    ]
    return frozenset(columns), f"(SELECT {', '.join(parts)} FROM {file})"


def _rows_of(path: Path) -> str:
    return f"read_parquet({quoted(str(path))}, hive_partitioning = false)"


def _as_in_sqlite(column: str, kind: str) -> str:
    """A column as an export to SQLite holds it: the 64 bits of an unsigned number as a signed one, truth as 0 and 1."""
    if kind == "BOOLEAN":
        return f"{column}::BIGINT"
    if kind != "UBIGINT":
        return column
    return (
        f"CASE WHEN {column} <= 9223372036854775807 THEN {column}::BIGINT"
        f" ELSE ({column}::HUGEINT - 18446744073709551616)::BIGINT END"
    )


def _version(db: duckdb.DuckDBPyConnection, relations: dict[str, str]) -> str:
    if "META_DATA_EXPORT" not in relations:
        return ""
    try:
        found = db.execute(
            f"SELECT value FROM {relations['META_DATA_EXPORT']} WHERE name = 'EXPORT_SCHEMA_VERSION'"
        ).fetchone()
    except duckdb.Error:
        return ""
    return version_of(found[0]) if found else ""


def _check_ends(path: Path, name: str) -> None:
    """Both ends of a Parquet file say PAR1; a file cut short lacks the last, which is written at the very end."""
    if path.stat().st_size == 0:
        raise TracediffError("empty-file", f"{name}/{path.name} is empty (0 bytes)", fix=_AGAIN)
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(max(path.stat().st_size - 4, 0))
        tail = file.read(4)
    if head != b"PAR1":
        raise TracediffError("not-parquet", f"{name}/{path.name} is not a Parquet file", fix=_AGAIN)
    if tail != b"PAR1":
        raise _cut_short(path, name, "its end is missing")


def _cut_short(path: Path, name: str, why: str) -> TracediffError:
    why = why.splitlines()[0].replace(str(path), path.name)
    return TracediffError("truncated", f"{name}/{path.name} is cut short or damaged: {why}", fix=_AGAIN)


def damaged(name: str, why: str) -> TracediffError:
    """The error of a folder in which a file has whole ends and a broken middle."""
    return TracediffError("truncated", f"{name} is damaged: {why}", fix=_AGAIN)
