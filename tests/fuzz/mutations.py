"""Ways in which an export differs from what a reader expects, each a small change of a SQLite file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from fixtures.builders import HOSTILE_NAMES

INT64 = (-(2**63), 2**63 - 1)
Change = Callable[[sqlite3.Connection], None]
Mutation = tuple[str, ...] | tuple[object, ...]

# What the loader reads; a mutation anywhere else would test nothing.
COLUMNS: dict[str, tuple[str, ...]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
        "registersPerThread", "gridX", "blockX", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind",
        "dstKind", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start", "end", "correlationId", "syncType"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid", "textId", "domainId"),
    "StringIds": ("id", "value"),
    "ThreadNames": ("nameId", "globalTid"),
    "META_DATA_CAPTURE": ("name", "value"),
    "META_DATA_EXPORT": ("name", "value"),
    "TARGET_INFO_SYSTEM_ENV": ("name", "value"),
    "TARGET_INFO_GPU": ("id", "name", "smCount", "clockRate", "totalMemory", "cuDevice"),
}  # fmt: skip
TIMED = tuple(table for table, columns in COLUMNS.items() if "end" in columns)
OPS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")

tables = st.sampled_from(list(COLUMNS))
cells = st.sampled_from([(table, column) for table, columns in COLUMNS.items() for column in columns])
rows = st.integers(0, 40)
integers = st.one_of(
    st.sampled_from(
        [0, -1, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53, *INT64, INT64[0] + 1, INT64[1] - 1]
    ),
    st.integers(*INT64),
    st.integers(-100_000, 100_000),
)
values = st.one_of(
    st.none(),
    integers,
    st.floats(),
    st.sampled_from([*HOSTILE_NAMES, "12", " 12", "1e3", "0x10", "nan", "-", "x" * 1_000_000]),
    st.sampled_from([b"", b"\x00", b"\xff\xfe", b"12", b"k\xff"]),
    st.text(max_size=8),
)
declarations = st.sampled_from(
    ["TEXT", "REAL", "BLOB", "INTEGER", "NUMERIC", "", "BOOLEAN", "DATE", "VARCHAR(3)", "HUGEINT"]
)

mutations = st.one_of(
    st.tuples(st.just("set_cell"), cells, rows, values),
    st.tuples(st.just("set_cell"), cells, rows, values),
    st.tuples(st.just("set_cell"), cells, rows, values),
    st.tuples(st.just("not_utf8"), cells, rows),
    st.tuples(st.just("set_column"), cells, values),
    st.tuples(st.just("copy_cell"), cells, rows, rows),
    st.tuples(st.just("drop_table"), tables),
    st.tuples(st.just("empty_table"), tables),
    st.tuples(st.just("rename_table"), tables, st.sampled_from(["mine", "KERNEL", 'odd "; --'])),
    st.tuples(st.just("view"), tables, st.booleans()),
    st.tuples(st.just("without_rowid"), tables),
    st.tuples(st.just("drop_column"), cells),
    st.tuples(st.just("rename_column"), cells, st.sampled_from(["mine", "rowid", "UPPER"])),
    st.tuples(st.just("retype"), cells, declarations),
    st.tuples(st.just("add_column"), tables, st.sampled_from(["rowid", "oid", "newer", 'q"uote', "source"])),
    st.tuples(st.just("reverse"), tables),
    st.tuples(st.just("repeat_row"), tables, rows),
    st.tuples(st.just("delete_row"), tables, rows),
    st.tuples(st.just("move"), st.sampled_from(TIMED), rows, st.one_of(st.integers(-60_000, 60_000), integers)),
    st.tuples(st.just("stretch"), st.sampled_from(TIMED), rows, st.one_of(st.integers(-9_000, 30_000), integers)),
    st.tuples(st.just("turn_round"), st.sampled_from(TIMED), rows),
    st.tuples(st.just("move_all"), integers),
)  # fmt: skip

# Of these a plain reading of the rows says what the numbers are: all stay whole numbers of a moderate size.
moderate = st.one_of(
    st.tuples(st.just("move"), st.sampled_from(TIMED), rows, st.integers(-60_000, 60_000)),
    st.tuples(st.just("stretch"), st.sampled_from(TIMED), rows, st.integers(0, 30_000)),
    st.tuples(st.just("delete_row"), tables, rows),
    st.tuples(st.just("repeat_row"), st.sampled_from([*OPS, "CUPTI_ACTIVITY_KIND_RUNTIME"]), rows),
    st.tuples(st.just("reverse"), tables),
    st.tuples(
        st.just("copy_cell"),
        st.sampled_from([(table, "correlationId") for table in (*OPS, "CUPTI_ACTIVITY_KIND_RUNTIME")]),
        rows,
        rows,
    ),
    st.tuples(
        st.just("set_cell"),
        st.sampled_from([(table, "correlationId") for table in (*OPS, "CUPTI_ACTIVITY_KIND_RUNTIME")]),
        rows,
        st.integers(0, 2**32 - 1),
    ),
    st.tuples(
        st.just("set_cell"),
        st.sampled_from([("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"), ("NVTX_EVENTS", "textId")]),
        rows,
        st.integers(10_000, 20_000),
    ),
    st.tuples(st.just("move_all"), st.integers(-(2**40), 2**40)),
)


def loose(source: Path, target: Path) -> Path:
    """The same export with the same declared types and without constraints: any cell may be anything."""
    shutil.copyfile(source, target)
    with contextlib.closing(sqlite3.connect(target)) as db:
        for table in COLUMNS:
            _remade(db, table, {})
        db.commit()
    return target


def mutate(source: Path, target: Path, changes: list[Mutation]) -> Path:
    """Write the mutated export; a change that SQLite refuses is left out."""
    shutil.copyfile(source, target)
    with contextlib.closing(sqlite3.connect(target)) as db:
        for name, *arguments in changes:
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError, TypeError):
                globals()[f"_{name}"](db, *arguments)
        db.commit()
    return target


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(db: sqlite3.Connection, table: str) -> dict[str, str]:
    return {row[1]: row[2] for row in db.execute(f"PRAGMA table_info({_q(table)})")}


def _rowid(db: sqlite3.Connection, table: str, row: int) -> int | None:
    ids = [one for (one,) in db.execute(f"SELECT _rowid_ FROM {_q(table)} ORDER BY 1")]
    return ids[row % len(ids)] if ids else None


def _remade(
    db: sqlite3.Connection, table: str, types: dict[str, str], tail: str = "", keys: str = ""
) -> None:
    columns = _columns(db, table) | types
    if not columns:
        return
    declared = ", ".join(f"{_q(name)} {kind}" for name, kind in columns.items())
    db.execute(f"CREATE TABLE remade ({declared}{keys}) {tail}")
    db.execute(f"INSERT INTO remade SELECT * FROM {_q(table)}")
    db.execute(f"DROP TABLE {_q(table)}")
    db.execute(f"ALTER TABLE remade RENAME TO {_q(table)}")


def _set_cell(db: sqlite3.Connection, cell: tuple[str, str], row: int, value: object) -> None:
    table, column = cell
    db.execute(f"UPDATE {_q(table)} SET {_q(column)} = ? WHERE _rowid_ = ?", (value, _rowid(db, table, row)))


def _not_utf8(db: sqlite3.Connection, cell: tuple[str, str], row: int) -> None:
    table, column = cell
    db.execute(
        f"UPDATE {_q(table)} SET {_q(column)} = CAST(x'6bff66fe' AS TEXT) WHERE _rowid_ = ?",
        (_rowid(db, table, row),),
    )


def _set_column(db: sqlite3.Connection, cell: tuple[str, str], value: object) -> None:
    db.execute(f"UPDATE {_q(cell[0])} SET {_q(cell[1])} = ?", (value,))


def _copy_cell(db: sqlite3.Connection, cell: tuple[str, str], row: int, other: int) -> None:
    table, column = cell
    (value,) = db.execute(
        f"SELECT {_q(column)} FROM {_q(table)} WHERE _rowid_ = ?", (_rowid(db, table, other),)
    ).fetchone()
    _set_cell(db, cell, row, value)


def _drop_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"DROP TABLE {_q(table)}")


def _empty_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"DELETE FROM {_q(table)}")


def _rename_table(db: sqlite3.Connection, table: str, name: str) -> None:
    db.execute(f"ALTER TABLE {_q(table)} RENAME TO {_q(name)}")


def _view(db: sqlite3.Connection, table: str, backwards: bool) -> None:
    db.execute(f"ALTER TABLE {_q(table)} RENAME TO {_q('under_' + table)}")
    order = " ORDER BY 1 DESC" if backwards else ""
    db.execute(f"CREATE VIEW {_q(table)} AS SELECT * FROM {_q('under_' + table)}{order}")


def _without_rowid(db: sqlite3.Connection, table: str) -> None:
    columns = _columns(db, table)
    db.execute("ALTER TABLE " + _q(table) + " ADD COLUMN own INTEGER")
    db.execute(f"UPDATE {_q(table)} SET own = _rowid_")
    assert columns
    _remade(db, table, {}, "WITHOUT ROWID", ", PRIMARY KEY (own)")


def _drop_column(db: sqlite3.Connection, cell: tuple[str, str]) -> None:
    db.execute(f"ALTER TABLE {_q(cell[0])} DROP COLUMN {_q(cell[1])}")


def _rename_column(db: sqlite3.Connection, cell: tuple[str, str], name: str) -> None:
    name = cell[1].upper() if name == "UPPER" else name
    db.execute(f"ALTER TABLE {_q(cell[0])} RENAME COLUMN {_q(cell[1])} TO {_q(name)}")


def _retype(db: sqlite3.Connection, cell: tuple[str, str], declared: str) -> None:
    if cell[1] in _columns(db, cell[0]):
        _remade(db, cell[0], {cell[1]: declared})


def _add_column(db: sqlite3.Connection, table: str, name: str) -> None:
    db.execute(f"ALTER TABLE {_q(table)} ADD COLUMN {_q(name)} INTEGER DEFAULT 7")


def _reverse(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TABLE turned AS SELECT * FROM {_q(table)} ORDER BY _rowid_ DESC")
    db.execute(f"DELETE FROM {_q(table)}")
    db.execute(f"INSERT INTO {_q(table)} SELECT * FROM turned")
    db.execute("DROP TABLE turned")


def _repeat_row(db: sqlite3.Connection, table: str, row: int) -> None:
    db.execute(
        f"INSERT INTO {_q(table)} SELECT * FROM {_q(table)} WHERE _rowid_ = ?", (_rowid(db, table, row),)
    )


def _delete_row(db: sqlite3.Connection, table: str, row: int) -> None:
    db.execute(f"DELETE FROM {_q(table)} WHERE _rowid_ = ?", (_rowid(db, table, row),))


def _move(db: sqlite3.Connection, table: str, row: int, ns: int) -> None:
    times = db.execute(
        f'SELECT "start", "end" FROM {_q(table)} WHERE _rowid_ = ?', (_rowid(db, table, row),)
    ).fetchone()
    for column, value in zip(("start", "end"), times, strict=True):
        if value is not None:
            _set_cell(db, (table, column), row, _held(value + ns))


def _stretch(db: sqlite3.Connection, table: str, row: int, ns: int) -> None:
    (end,) = db.execute(
        f'SELECT "end" FROM {_q(table)} WHERE _rowid_ = ?', (_rowid(db, table, row),)
    ).fetchone()
    if end is not None:
        _set_cell(db, (table, "end"), row, _held(end + ns))


def _turn_round(db: sqlite3.Connection, table: str, row: int) -> None:
    db.execute(
        f'UPDATE {_q(table)} SET "start" = "end", "end" = "start" WHERE _rowid_ = ?',
        (_rowid(db, table, row),),
    )


def _move_all(db: sqlite3.Connection, ns: int) -> None:
    ns = min(max(ns, INT64[0] + 10_000_000), INT64[1] - 10_000_000)
    for table in TIMED:
        db.execute(f'UPDATE {_q(table)} SET "start" = "start" + ?, "end" = "end" + ?', (ns, ns))


def _held(value: object) -> object:
    return min(max(value, INT64[0]), INT64[1]) if isinstance(value, int) else value
