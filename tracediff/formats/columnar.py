"""A folder of Parquet or Arrow files, one a table: what `nsys export --type parquetdir` and `--type arrowdir` write.

Seen with nsys 2023.4.4: the tables and columns of the SQLite export of the same report, a file a table, rows in the same
order, in row groups (record batches) of 2048, Arrow as IPC streams. What differs:

- ids, sizes and handles are unsigned (UINT64), where SQLite knows signed numbers only; the same bits are read
- numbers of 32 bits are INT32 or, if unsigned, INT64; floatValue is FLOAT; isDiscrete and isGreenContext are BOOLEAN
- enumerations are numbers, explained by ENUM_ tables, as in SQLite; what has no value is null
- a kind that was not recorded has no file, with --lazy=false one without rows
- META_DATA_CAPTURE (how was recorded) is not written
- a folder not named with -o is called REPORT_pqtdir or REPORT_arwdir

Parquet is read where it lies; Arrow becomes Parquet in a scratch folder, table by table.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb

from tracediff.errors import TracediffError
from tracediff.formats.database import connect, identifier, quoted
from tracediff.formats.schema import MARKS, METADATA, READ, Schema, version_of

PARQUET, ARROW = "parquetdir", "arrowdir"
FORMS = {".parquet": PARQUET, ".arrow": ARROW}
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
# A row of nsys takes 10 bytes or more: where many are alike, a few bytes can stand for as many as one likes.
_ROWS, _ROWS_PER_BYTE = 1_000_000, 4
_GLOB = frozenset("*?[]{}")
# Tables whose rows are named by StringIds.
_NAMED = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME")


def form_of(folder: Path) -> str | None:
    """'parquetdir' or 'arrowdir' where a folder holds tables of an nsys export as files, None elsewhere.

    Raises `TracediffError`: mixed-folder, where it holds both.
    """
    if not folder.is_dir():
        return None
    found = {FORMS[path.suffix] for path in folder.iterdir() if path.suffix in FORMS and path.stem in MARKS}
    if len(found) > 1:
        raise TracediffError(
            "mixed-folder",
            f"{folder.resolve().name or '/'} holds tables as Parquet and as Arrow files: two exports in one folder",
            fix="give each export a folder of its own",
        )
    return found.pop() if found else None


def tables(folder: Path) -> dict[str, Path]:
    """The files of a folder by table, in the order of their names.

    Raises `TracediffError`: table-missing, where one is a link to nothing, a device or a pipe.
    """
    found = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in FORMS}
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
    """Rows of a table's file, without reading them: what a Parquet file says at its end; of an Arrow stream, counted.

    Raises OSError and polars' errors where the file is damaged.
    """
    import polars as pl

    if path.suffix == ".parquet":
        return int(
            pl.scan_parquet(path, glob=False, hive_partitioning=False).select(pl.len()).collect().item()
        )
    with path.open("rb") as file:
        first = pl.read_ipc_stream(file, n_rows=0).columns[:1]
        file.seek(0)
        return pl.read_ipc_stream(file, columns=first).height


def fingerprint(folder: Path, of_file: dict[str, str]) -> str:
    """Identity of the content of a folder, from that of its files."""
    names = sorted(tables(folder))
    return hashlib.sha256(repr((names, sorted(of_file.items()))).encode()).hexdigest()


def prepare(folder: Path, scratch: Path) -> Path:
    """A folder of Parquet files: `folder` itself, or one made in `scratch`.

    Raises `TracediffError`: mixed-folder, empty-file, truncated, disk-full.
    """
    form, found = form_of(folder), tables(folder)
    if form == PARQUET and not _GLOB & set(str(folder.resolve())):
        return folder
    scratch.mkdir(parents=True, exist_ok=True)
    for table, path in found.items():
        to = scratch / f"{table}.parquet"
        if form == PARQUET:  # DuckDB takes [1] in a path for a pattern
            to.symlink_to(path.resolve())
        elif table in READ:
            _arrow_to_parquet(path, to, folder)
        elif not _GLOB & set(table):
            to.touch()
    return scratch


def _arrow_to_parquet(path: Path, to: Path, folder: Path) -> None:
    """The columns that are read of one table. One table at a time is in memory."""
    name = folder.resolve().name or "/"
    _not_empty(path, name)
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - len(_STREAM_END), 0))
        if file.read() != _STREAM_END:
            raise _cut_short(path, name, "its stream has no end")
    import polars as pl  # not for a file that is none

    spelled = {column.lower() for column in READ[path.stem]}
    try:
        with path.open("rb") as file:
            there = pl.read_ipc_stream(file, n_rows=0).columns
            file.seek(0)
            wanted = [column for column in there if column.lower() in spelled]
            rows = pl.read_ipc_stream(file, columns=wanted)
        rows.write_parquet(to, compression="uncompressed", row_group_size=1 << 17, statistics=False)
    except OSError as error:
        raise TracediffError(
            "disk-full",
            f"{name}/{path.name} could not be unpacked: {error}",
            fix="set TMPDIR to a folder with space",
        ) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if path.stem in METADATA and "utf8" in str(error):
            return  # the environment of the traced program, or the like: the export is read without
        raise _cut_short(path, name, str(error)) from error


def check(folder: Path, name: str) -> None:
    """Look at both ends of the Parquet files that are read, before a database is opened, which takes far longer.

    Raises `TracediffError`: empty-file, not-parquet, truncated, too-many.
    """
    for _, path in content(folder):
        _check_ends(path, name)
        try:
            rows, size = declared_rows(path), path.stat().st_size
        except ValueError as error:
            raise _cut_short(path, name, str(error)) from error
        if rows > _ROWS + size * _ROWS_PER_BYTE:
            raise TracediffError(
                "too-many",
                f"{name}/{path.name} says that it holds {rows:,} rows in {size:,} bytes",
                fix=_again(PARQUET),
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
    _not_empty(path, name)
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(max(path.stat().st_size - 4, 0))
        tail = file.read(4)
    if head != b"PAR1":
        raise TracediffError("not-parquet", f"{name}/{path.name} is not a Parquet file", fix=_again(PARQUET))
    if tail != b"PAR1":
        raise _cut_short(path, name, "its end is missing")


def _not_empty(path: Path, name: str) -> None:
    if path.stat().st_size == 0:
        again = _again(FORMS[path.suffix])
        raise TracediffError("empty-file", f"{name}/{path.name} is empty (0 bytes)", fix=again)


def _cut_short(path: Path, name: str, why: str) -> TracediffError:
    why = why.splitlines()[0].replace(str(path), path.name)
    again = _again(FORMS[path.suffix])
    return TracediffError("truncated", f"{name}/{path.name} is cut short or damaged: {why}", fix=again)


def damaged(name: str, why: str) -> TracediffError:
    """The error of a folder in which a file has whole ends and a broken middle."""
    return TracediffError("truncated", f"{name} is damaged: {why}", fix=_again(PARQUET))


def _again(form: str) -> str:
    return f"export it again: nsys export --type {form} --force-overwrite true REPORT.nsys-rep"


# The metadata at the end of a Parquet file (thrift's compact protocol), as far as it is read without a library: the number of rows.

_NUMBER_OF_ROWS = 3  # field of FileMetaData, see parquet.thrift
# kinds of values in thrift's compact protocol
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def declared_rows(path: Path) -> int:
    """How many rows a Parquet file says that it holds. Raises ValueError where its metadata cannot be read; OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
        if length > size - 12:
            raise ValueError("its metadata would be longer than the file")
        file.seek(size - 8 - length)
        data = file.read(length)
    try:
        return _Footer(data).rows()
    except (IndexError, RecursionError) as error:
        raise ValueError("its metadata cannot be read") from error


class _Footer:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def rows(self) -> int:
        """It comes before the row groups, which are most of the metadata."""
        for field, kind in self._fields():
            if field == _NUMBER_OF_ROWS:
                return _unzigzag(self._number())
            self._skip(kind)
        raise IndexError

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of each field of a struct that has a value of its own."""
        field = 0
        while head := self._take(1)[0]:
            field = field + (head >> 4) if head >> 4 else _unzigzag(self._number())
            if head & 15 not in (_TRUE, _FALSE):
                yield field, head & 15

    def _skip(self, kind: int) -> None:
        if kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner)
        elif kind in (_TRUE, _FALSE, _BYTE):  # of a list: a byte each
            self._take(1)
        elif kind == _DOUBLE:
            self._take(8)
        elif kind == _BINARY:
            self._take(self._number())
        elif kind in (_LIST, _SET):
            head = self._take(1)[0]
            for _ in range(self._number() if head >> 4 == 15 else head >> 4):
                self._skip(head & 15)
        elif kind == _MAP:
            size = self._number()
            kinds = self._take(1)[0] if size else 0
            for _ in range(size):
                self._skip(kinds >> 4)
                self._skip(kinds & 15)
        else:
            self._number()

    def _take(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise IndexError
        self._at += length
        return found

    def _number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise IndexError


def _unzigzag(value: int) -> int:
    return value >> 1 if value & 1 == 0 else -(value >> 1) - 1
