"""SQLite files that others wrote: the one place where they are opened, and all that bounds it.

A file can hold views, computed columns and page trees without an end, all run by whoever reads a table. So it is examined
first, in a process of its own with bounds on memory, processor and time: the tables that are read must be plain tables,
whole by SQLite's own check. Then reading takes time and memory in proportion to the size of the file, and DuckDB gets it.

Run as a program (`python untrusted.py FILE TABLE...`) this module is that process: Python's own modules alone, 40 ms of a small file.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import NamedTuple

# Of the process that examines a file. Ten times what a file of nsys takes: see docs/performance.md.
ADDRESS_SPACE = 1 << 30  # bytes
CPU_S, CPU_BYTES_PER_S = 20, 10 << 20
WALL_S, WALL_BYTES_PER_S = 60, 2 << 20  # a disk of another machine is slow
# Of every connection.
LONGEST_VALUE = 1 << 26  # bytes of a text or row
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,  # of the statement that made a table, too
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 10,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}
_PRAGMAS = (
    "trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "ignore_check_constraints = ON", "mmap_size = 0",
)  # fmt: skip
# Steps of SQLite's machine: reading a row takes some ten for some tens of bytes.
_STEPS, _STEPS_PER_BYTE, _BETWEEN = 10**9, 1000, 10**6
_SMALLEST_PAGE = 512  # bytes
_LOCK_WAIT_S = 1  # what is written for longer is being exported

# What `Examined.problem` is of
LOCKED, DAMAGED, NOT_PLAIN, TOO_COSTLY = "locked", "damaged", "not-plain", "too-costly"
# A check of pages also says where a value is of another type than declared; loading says what it makes of those.
_OF_VALUES = ("non-", "TEXT value", "NUMERIC value", "CHECK constraint")


class Examined(NamedTuple):
    """What is known of a file: its plain tables with their columns, the schema version, or what is wrong with it.

    `problem`: one of the constants above, "" where all is well; `said`: in words.
    """

    tables: dict[str, list[str]] = {}  # noqa: RUF012
    version: str = ""
    problem: str = ""
    said: str = ""


def open_export(path: Path) -> sqlite3.Connection:
    """Open a file to read it, within all limits. What takes too many steps is sqlite3.OperationalError, "interrupted"."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_LOCK_WAIT_S)
    try:
        for limit, most in _LIMITS.items():
            db.setlimit(limit, most)
        most_looks, looks = (_STEPS + _STEPS_PER_BYTE * path.stat().st_size) // _BETWEEN, count()
        db.set_progress_handler(lambda: next(looks) > most_looks, _BETWEEN)
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
    except BaseException:
        db.close()
        raise
    return db


def examine(path: Path, wanted: Sequence[str]) -> Examined:
    """Look at a file, in a process of its own: which tables it has, and whether the `wanted` ones can be read safely."""
    import subprocess  # which the process itself does without

    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", __file__, str(path.absolute()), *wanted],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_wall_s(path), check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Examined(problem=TOO_COSTLY, said=f"more than {_wall_s(path):.0f} s")
    if done.returncode < 0 or b"MemoryError" in done.stderr:
        # a signal of the kernel, or too little memory even to say so
        return Examined(
            problem=TOO_COSTLY, said=f"more than {_cpu_s(path)} s of processor time, or 1 GiB of memory"
        )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return Examined(**json.loads(done.stdout))


def _wall_s(path: Path) -> float:
    return WALL_S + path.stat().st_size / WALL_BYTES_PER_S


def _cpu_s(path: Path) -> int:
    return CPU_S + path.stat().st_size // CPU_BYTES_PER_S


# The process that examines


def _main(path: Path, wanted: Sequence[str]) -> None:
    cpu = _cpu_s(path)
    for what, most in (
        (resource.RLIMIT_AS, ADDRESS_SPACE), (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        resource.setrlimit(what, (most, most))
    try:
        with closing(open_export(path)) as db:
            found = _look(path, db, {name.lower() for name in wanted})
    except MemoryError:
        found = Examined(problem=TOO_COSTLY, said="more than 1 GiB of memory")
    except (sqlite3.Error, IndexError, ValueError, OverflowError) as error:
        # a page that is not in the file; names that are no text
        said = str(error)
        known = {"locked": LOCKED, "interrupted": TOO_COSTLY, "too big": TOO_COSTLY, "too long": TOO_COSTLY}
        found = Examined(
            problem=next((one for word, one in known.items() if word in said), DAMAGED), said=said
        )
    json.dump(found._asdict(), sys.stdout)


def _look(path: Path, db: sqlite3.Connection, wanted: set[str]) -> Examined:
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    rows = db.execute(
        "SELECT type, name, tbl_name, rootpage, coalesce(sql, '') FROM sqlite_master"
    ).fetchall()
    # what SQLite made of these rows, which need not tell the truth
    made = {name.lower(): kind for _, name, kind, *_ in db.execute("PRAGMA main.table_list")}
    if not made:  # SQLite before 3.37
        made = {name.lower(): kind for kind, name, *_, sql in rows if not sql.startswith("CREATE TABLE")}
        if made:
            wanted = {*wanted, *made}
    for kind, name, table, _, sql in rows:
        what = _not_plain(kind, sql, made.get(name.lower(), "table"))
        if what and wanted & {name.lower(), table.lower()}:
            of = table if kind == "trigger" else name
            return Examined(problem=NOT_PLAIN, said=f"{of} {what}")
    for name, kind in made.items():
        if kind != "table" and name in wanted:
            return Examined(problem=NOT_PLAIN, said=f"{name} is a {kind}")
    tables: dict[str, list[str]] = {}
    for kind, name, *_, sql in rows:
        if kind == "table" and not _not_plain(kind, sql, made.get(name.lower(), "table")):
            columns = db.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
            if name.lower() in wanted and any(hidden for *_, hidden in columns):
                return Examined(problem=NOT_PLAIN, said=f"{name} has computed columns")
            tables[name] = [column for _, column, *_ in columns]
    for name in tables:
        if name.lower() in wanted and (said := _damage(path, name)):
            return Examined(problem=DAMAGED, said=f"{name}: {said}")
    return Examined(tables, _version(db, tables))


def _damage(path: Path, table: str) -> str:
    """What is wrong with the pages of a table; "" where they are whole.

    SQLite looks at all pages in one step, and says what it found; then it would look at every value of every row, which takes ten
    times as long and is broken off.
    """
    # the first look comes after that step: it counts pages as well, each once
    most, broken_off = 2 * path.stat().st_size // _SMALLEST_PAGE, False

    def break_off() -> bool:
        nonlocal broken_off
        broken_off = True
        return True

    with closing(open_export(path)) as db:
        db.set_progress_handler(break_off, max(most, 1000))
        try:
            # of one row, for Python takes the next one before it gives the first, and loses both where it is broken off
            found = db.execute("SELECT * FROM pragma_quick_check(?) LIMIT 1", [table]).fetchone()
        except sqlite3.DatabaseError as error:
            if broken_off:
                return ""
            if "malformed" not in str(error):
                raise
            return str(error)
    said = found[0] if found else "ok"
    return "" if said == "ok" or said.startswith(_OF_VALUES) else said.splitlines()[-1]


def _not_plain(kind: str, sql: str, made: str) -> str:
    """What an object is that is neither a plain table nor an index; "" for those."""
    if kind == "trigger":
        return "has a trigger"
    if kind == "index":
        return ""
    if kind == "view" or made == "view":
        return "is a view"
    return "" if made == "table" and sql.startswith("CREATE TABLE") else "is a virtual table"


def _version(db: sqlite3.Connection, tables: dict[str, list[str]]) -> str:
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if {"name", "value"} <= set(tables.get(table, ())):
            row = db.execute(f"SELECT value FROM {table} WHERE name = 'EXPORT_SCHEMA_VERSION'").fetchone()
            if row and isinstance(row[0], str) and row[0]:
                return row[0]
    return ""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2:])
