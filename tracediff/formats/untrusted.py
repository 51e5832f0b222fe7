"""SQLite files that others wrote: the one place where they are opened, and all that bounds it.

A file can hold views, computed columns and page trees without an end, all run by whoever reads a table. So it is examined
first, in a process of its own with bounds on memory, processor and time: the tables that are read must be plain tables,
and every page of them whole. Then reading takes time and memory in proportion to the size of the file, and DuckDB gets it.

Run as a program (`python untrusted.py FILE TABLE...`) this module is that process: Python's own modules alone, 40 ms of a small file.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
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
    if said := _unsafe(rows, made, wanted):
        return Examined(problem=NOT_PLAIN, said=said)
    tables: dict[str, list[str]] = {}
    sure: dict[str, str] = {}  # of each wanted table a column that has a value in every row
    for kind, name, *_, sql in rows:
        if kind == "table" and not _not_plain(kind, sql, made.get(name.lower(), "table")):
            columns = db.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
            tables[name] = [column for _, column, *_ in columns]
            if name.lower() in wanted:
                if any(hidden for *_, hidden in columns):
                    return Examined(problem=NOT_PLAIN, said=f"{name} has computed columns")
                sure[name] = next((column for _, column, _, least, *_ in columns if least), "")
    for name, column in sure.items():
        if said := _damage(path, name) or _wiped(db, name, column):
            return Examined(problem=DAMAGED, said=f"{name}: {said}")
    trees = {name: (name, root, len(tables[name])) for _, name, _, root, _ in rows if name in tables}
    read, others = ([tree for name, tree in trees.items() if (name in sure) is own] for own in (True, False))
    taken = {root for _, name, _, root, _ in rows if root and name not in sure}
    if said := _misplaced(path, read, taken) or _lost(path, others):
        return Examined(problem=DAMAGED, said=said)
    return Examined(tables, _version(db, tables))


def _unsafe(rows: Sequence[tuple[str, str, str, int, str]], made: dict[str, str], wanted: set[str]) -> str:
    """Which of the wanted tables is none, "" for none: by the rows of the schema, and by what SQLite made of them."""
    for kind, name, table, _, sql in rows:
        what = _not_plain(kind, sql, made.get(name.lower(), "table"))
        if what and wanted & {name.lower(), table.lower()}:
            return f"{table if kind == 'trigger' else name} {what}"
    return next(
        (f"{name} is a {kind}" for name, kind in made.items() if kind != "table" and name in wanted), ""
    )


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


def _wiped(db: sqlite3.Connection, table: str, column: str) -> str:
    """What is wrong with a row that has no value where each must have one; "" for none. `column`: that must have one, or ""."""
    if not column:
        return ""
    # a sum, for of the column alone SQLite believes what the table says
    query = f"SELECT 1 FROM {_quoted(table)} WHERE ({_quoted(column)} + 0) IS NULL LIMIT 1"
    return f"a row has no {column}" if db.execute(query).fetchone() else ""


def _misplaced(path: Path, trees: Sequence[tuple[str, int, int]], taken: Iterable[int]) -> str:
    """Which whole page is where it does not belong, "" for none; the check of a table finds none of these.

    It is in two tables; its rows have more values than the table has columns; or they have fewer, as rows have that are older
    than a column, and the same page is elsewhere as well. `trees`: table, root page, columns; `taken`: roots of what is not read.
    """
    short: dict[bytes, str] = {}
    with path.open("rb") as file:
        size = page_size(file.read(18))
        seen = bytearray(path.stat().st_size // size + 1)
        for root in (1, *taken):  # the first one is the schema's
            seen[root] = 1
        for table, root, columns in trees:
            pages = [root]
            while pages:
                number = pages.pop()
                if seen[number]:
                    return f"page {number} of {table} is another table's too"
                seen[number] = 1
                page = os.pread(file.fileno(), size, (number - 1) * size)
                kind, cells, first = page[0], page[3] << 8 | page[4], page[8] << 8 | page[9]
                if kind == _INTERIOR:
                    places = (int.from_bytes(page[at : at + 2]) for at in range(12, 12 + 2 * cells, 2))
                    pages += [int.from_bytes(page[at : at + 4]) for at in (8, *places)]
                elif kind == _LEAF and cells:
                    values = _values(page, first)
                    # none is short, mostly: to look one up takes a hash of all its bytes
                    if values > columns or (short and page in short):
                        return f"page {number} of {table} holds rows of another table"
                    if values < columns and len(short) < _MOST_SHORT:
                        short[page] = table
        file.seek(0)
        found = [short[page] for page in iter(lambda: file.read(size), b"") if page in short] if short else []
        if len(found) > len(short):
            return f"{next(one for one in found if found.count(one) > 1)} holds rows of another table"
    return ""


def _lost(path: Path, trees: Sequence[tuple[str, int, int]]) -> str:
    """Which table that is not read holds rows of another, "" for none: an empty page may be in that one's place."""
    with path.open("rb") as file:
        size = page_size(file.read(18))
        for table, root, columns in trees:
            number = root
            for _ in range(_DEEPEST):
                page = os.pread(file.fileno(), size, (number - 1) * size) if number else b""
                if len(page) < size or page[0] != _INTERIOR:
                    break
                number = int.from_bytes(page[8:12])
            if len(page) < size or page[0] != _LEAF or not page[3:5].strip(b"\0"):
                continue
            with suppress(IndexError):  # whatever it holds, it is not read
                if _values(page, int.from_bytes(page[8:10])) > columns:
                    return f"page {number} of {table} holds rows of another table"
    return ""


def page_size(head: bytes) -> int:
    """Bytes of a page, from the first 18 of the file."""
    return int.from_bytes(head[16:]) if head[16:] != b"\0\1" else 1 << 16


_INTERIOR, _LEAF = 5, 13  # kinds of pages of a table
_DEEPEST = 20  # pages from the first one of a table to its rows, as SQLite has it
_GO_ON = bytes(range(128, 256))  # bytes of a number that another one follows
_MOST_SHORT = 10_000  # pages that are looked for elsewhere


def _values(page: bytes, at: int) -> int:
    """How many values the row has that begins at a place: numbers there are of 7 bits a byte, the last one below 128."""
    for _ in range(2):  # its length, its number
        while page[at] > 127:
            at += 1
        at += 1
    end, begin = 0, at
    while page[at] > 127:
        end, at = (end | page[at] & 127) << 7, at + 1
    head = page[at + 1 : begin + (end | page[at])]
    return len(head.translate(None, _GO_ON))


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
