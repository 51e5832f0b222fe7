"""Make an nsys export fit to be published: what was measured stays, what tells of machine and owner goes.

The result is a new database into which the allowed tables are copied row by row, so nothing of the old file
(free pages, views, triggers, foreign tables) can come along. Afterwards it is read again, and the number of
rows and a hash of the content of every table must be what was taken from the source; only then is it moved
into place.
"""

from __future__ import annotations

import lzma
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tracediff.capture import scrub_rules as rules
from tracediff.capture.scrub_proof import Digest, Row, ScrubReport, TableProof
from tracediff.errors import TracediffError

_CHUNK = 5_000
_MAGIC = b"SQLite format 3\0"


@dataclass(slots=True)
class _Table:
    name: str
    sql: str
    columns: list[str]
    texts: list[int]
    """Positions of columns that hold text in some row."""
    blobs: dict[int, bytes | None]
    """Positions of columns that hold bytes in some row, and what takes their place."""

    def position(self, column: str) -> int | None:
        return self.columns.index(column) if column in self.columns else None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _opened(source: Path, folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the source read-only, unpacked first if it is .xz."""
    if not source.is_file():
        raise TracediffError("not-a-file", f"{source}: there is no such file")
    path = source
    if source.suffix == ".xz":
        path = folder / "source.sqlite"
        try:
            with lzma.open(source) as packed, path.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
        except (lzma.LZMAError, EOFError) as error:
            raise TracediffError("bad-xz", f"{source.name} is not a whole .xz file: {error}") from error
    with path.open("rb") as file:
        head = file.read(16)
    if not head:
        raise TracediffError("empty-file", f"{source.name} is empty (0 bytes)")
    if head != _MAGIC:
        raise TracediffError(
            "not-sqlite",
            f"{source.name} is not a SQLite file",
            fix="nsys export --type sqlite REPORT.nsys-rep",
        )
    uri = "file:" + str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    with closing(sqlite3.connect(f"{uri}?mode=ro", uri=True)) as db:
        db.execute("PRAGMA trusted_schema = OFF")
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        yield db


def _tables(db: sqlite3.Connection, keep: frozenset[str], report: ScrubReport) -> list[_Table]:
    found = []
    rows = db.execute("SELECT name, type, sql FROM sqlite_master ORDER BY rowid").fetchall()
    for name, kind, sql in rows:
        if kind == "index" or name.startswith("sqlite_"):
            continue
        plain = kind == "table" and str(sql).lstrip().upper().startswith("CREATE TABLE")
        if not plain or not (rules.known_table(name) or name in keep):
            report.dropped_tables.append(name)
            continue
        found.append(_table(db, name, str(sql)))
    return found


def _table(db: sqlite3.Connection, name: str, sql: str) -> _Table:
    info = db.execute(f"PRAGMA table_info({_quote(name)})").fetchall()
    columns = [row[1] for row in info]
    held = [
        db.execute(f"SELECT {', '.join(map(_holds(kind), columns))} FROM {_quote(name)}").fetchone()
        for kind in ("text", "blob")
    ]
    texts, blobs = ([i for i, found in enumerate(row) if found] for row in held)
    return _Table(name, sql, columns, texts, {i: b"" if info[i][3] else None for i in blobs})


def _holds(kind: str) -> Callable[[str], str]:
    return lambda column: f"max(typeof({_quote(column)}) = '{kind}')"


def _create(table: _Table, db: sqlite3.Connection) -> str:
    """Give the statement of the new table: nsys's own unless it holds what only a stranger would write."""
    words = table.sql
    harmless = words.isascii() and words.replace("\n", " ").isprintable()
    foreign = any(mark in words for mark in ("/", "\\", "CHECK", "GENERATED", "DEFAULT"))
    if harmless and not foreign:
        return words
    named = _commented(words)
    info = db.execute(f"PRAGMA table_info({_quote(table.name)})").fetchall()
    keys = sum(bool(row[5]) for row in info)
    lines = []
    for place, (_, name, kind, not_null, _, key) in enumerate(info):
        line = f"    {_quote(name)} {kind if kind.isalpha() else ''}{' NOT NULL' if not_null else ''}"
        line += " PRIMARY KEY" if key and keys == 1 else ""
        line += "," if place < len(info) - 1 else ""
        lines.append(line + (" -- REFERENCES StringIds(id)" if name in named else ""))
    return "\n".join([f"CREATE TABLE {_quote(table.name)} (", *lines, ")"])


def _commented(sql: str) -> set[str]:
    """Give the columns that the comments of a CREATE TABLE call ids of StringIds."""
    return {m[1] for line in sql.splitlines() if (m := rules.STRING_REFERENCE.match(line))}


def _rows(db: sqlite3.Connection, table: _Table) -> Iterator[list[Row]]:
    columns = ", ".join(map(_quote, table.columns))
    try:
        cursor = db.execute(f"SELECT {columns} FROM {_quote(table.name)} ORDER BY rowid")
    except sqlite3.OperationalError:  # WITHOUT ROWID
        cursor = db.execute(f"SELECT {columns} FROM {_quote(table.name)}")
    while chunk := cursor.fetchmany(_CHUNK):
        yield chunk


class _Scrubber:
    def __init__(self, db: sqlite3.Connection, tables: list[_Table], report: ScrubReport) -> None:
        self._db = db
        self._tables = tables
        self._report = report
        self._cleaner = rules.Cleaner(self._records())
        self._processes = self._measured_processes()
        self._strings, self._files = self._used_strings()

    # -- what the file says ------------------------------------------------------------------------

    def _records(self) -> list[tuple[str, str]]:
        records: list[tuple[str, str]] = []
        for table in self._tables:
            if table.name in rules.METADATA or table.name == rules.SYSTEM_ENV:
                name, value = table.position("name"), table.position("value")
                if name is None or value is None:
                    continue
                for chunk in _rows(self._db, table):
                    records += [(str(row[name]), str(row[value] or "")) for row in chunk]
        return records

    def _used_strings(self) -> tuple[set[int], set[int]]:
        """Give the ids of StringIds that a kept row refers to, and those among them that are files only."""
        used: set[int] = set()
        files: set[int] = set()
        for table in self._tables:
            if table.name == "StringIds" or table.name in rules.EMPTIED:
                continue
            named = _commented(table.sql)
            unknown = not rules.known_table(table.name)
            for column in table.columns:
                if column in named or rules.string_column(column) or unknown:
                    found = self._references(table, column)
                    (files if rules.file_column(column) else used).update(found)
        return used | files, files - used

    def _references(self, table: _Table, column: str) -> set[int]:
        quoted = _quote(column)
        if table.name == "ThreadNames" and "globalTid" in table.columns:
            rows = self._db.execute(f"SELECT DISTINCT {quoted}, globalTid >> 24 FROM ThreadNames")
            return {string for string, process in rows if process in self._processes}
        rows = self._db.execute(
            f"SELECT DISTINCT {quoted} FROM {_quote(table.name)} WHERE typeof({quoted}) = 'integer'"
        )
        return {row[0] for row in rows}

    def _measured_processes(self) -> set[int]:
        """Give globalTid >> 24 of every process that has a row in a table of measurements."""
        found: set[int] = set()
        for table in self._tables:
            if not _measured(table.name) or table.name == "DIAGNOSTIC_EVENT":
                continue
            for column in ("globalTid", "globalPid", "endGlobalTid"):
                if column in table.columns:
                    rows = self._db.execute(
                        f"SELECT DISTINCT {column} >> 24 FROM {_quote(table.name)}"
                        f" WHERE typeof({column}) = 'integer'"
                    )
                    found.update(row[0] for row in rows)
        return found

    # -- what is kept of each table ----------------------------------------------------------------

    def kept(self, table: _Table, rows: list[Row]) -> list[Row]:
        """Give the rows to write for these rows of the source.

        Bytes go: nothing is measured from them, and what they hold cannot be told (a program's structs with
        whatever was in memory between the members: `nsys export --include-blobs`).
        """
        kept = self._kept(table, rows)
        if not table.blobs:
            return kept
        return [
            tuple(table.blobs.get(i) if isinstance(cell, bytes) else cell for i, cell in enumerate(row))
            for row in kept
        ]

    def _kept(self, table: _Table, rows: list[Row]) -> list[Row]:
        if table.name in rules.EMPTIED:
            return []
        if table.name in rules.METADATA:
            return self._metadata(table, rows)
        if table.name == rules.SYSTEM_ENV:
            return self._system(table, rows)
        if table.name == "StringIds":
            return self._string_rows(table, rows)
        if table.name in rules.NAMES_OF_PROCESSES:
            rows = self._process_rows(table, rows)
        return self._cleaned(table, rows)

    def _metadata(self, table: _Table, rows: list[Row]) -> list[Row]:
        name, value = table.position("name"), table.position("value")
        if name is None or value is None or len(table.columns) != 2:
            self._report.records_dropped += len(rows)
            return []
        kept = []
        for row in rows:
            try:
                text = self._filter.value(str(row[name]), None if row[value] is None else str(row[value]))
            except KeyError:
                self._report.records_dropped += 1
                continue
            self._report.arguments_removed += text is not None and rules.REMOVED in text
            kept.append((row[name], text) if name < value else (text, row[name]))
        return kept

    def start(self) -> None:
        """Begin a table."""
        self._filter = rules.MetadataFilter()

    def _system(self, table: _Table, rows: list[Row]) -> list[Row]:
        name, value = table.position("name"), table.position("value")
        state = table.position("devStateName")
        kept = []
        for row in rows:
            if name is None or value is None or not rules.system_record(str(row[name]), str(row[value])):
                self._report.records_dropped += 1
                continue
            cells = list(row)
            if state is not None and cells[state] != "Local (CLI)":
                cells[state] = rules.REMOVED
            kept.append(tuple(cells))
        return kept

    def _string_rows(self, table: _Table, rows: list[Row]) -> list[Row]:
        key, value = table.position("id"), table.position("value")
        if key is None or value is None:
            return self._cleaned(table, rows)
        kept = [row for row in rows if row[key] in self._strings]
        self._report.strings_dropped += len(rows) - len(kept)
        result = []
        for row in kept:
            if isinstance(row[value], str):
                text = self._cleaner.clean(row[value], path=row[key] in self._files)
                row = (*row[:value], text, *row[value + 1 :])
            result.append(row)
        return result

    def _process_rows(self, table: _Table, rows: list[Row]) -> list[Row]:
        key = table.position("globalPid" if table.name == "PROCESSES" else "globalTid")
        if key is None:
            return rows
        kept = [row for row in rows if isinstance(row[key], int) and row[key] >> 24 in self._processes]
        if table.name == "PROCESSES":
            self._report.processes_dropped += len(rows) - len(kept)
        return kept

    def _cleaned(self, table: _Table, rows: list[Row]) -> list[Row]:
        private = [i for i, name in enumerate(table.columns) if rules.private_column(table.name, name)]
        if not table.texts and not private:
            return rows
        path = table.name in ("PROCESSES", "DIAGNOSTIC_EVENT")
        result = []
        for row in rows:
            cells = list(row)
            for i in table.texts:
                if isinstance(cells[i], str):
                    cells[i] = self._cleaner.clean(cells[i], path=path)
            for i in private:
                if cells[i] is not None:
                    cells[i] = "" if isinstance(cells[i], str) else 0 if isinstance(cells[i], int) else b""
            result.append(tuple(cells))
        return result


def _changed(before: list[Row], after: list[Row]) -> int:
    if len(before) != len(after):
        return 0
    return sum(a != b for old, new in zip(before, after, strict=True) for a, b in zip(old, new, strict=True))


def _copy(source: sqlite3.Connection, path: Path, keep: frozenset[str], report: ScrubReport) -> None:
    tables = _tables(source, keep, report)
    if not any(rules.known_table(table.name) for table in tables):
        raise TracediffError("not-nsys", "the file is a SQLite file without any table of an nsys export")
    scrubber = _Scrubber(source, tables, report)
    with closing(sqlite3.connect(path)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        for table in tables:
            target.execute(_create(table, source))
            places = ", ".join("?" * len(table.columns))
            insert = f"INSERT INTO {_quote(table.name)} VALUES ({places})"
            digest, read, changed = Digest(), 0, 0
            scrubber.start()
            for chunk in _rows(source, table):
                kept = scrubber.kept(table, chunk)
                read += len(chunk)
                if kept is not chunk:
                    changed += _changed(chunk, kept)
                digest.add(kept)
                target.executemany(insert, kept)
            report.tables.append(TableProof(table.name, read, digest.rows, digest.hex(), changed))
        target.commit()
        target.execute("VACUUM")


def _prove(source: sqlite3.Connection, path: Path, report: ScrubReport) -> None:
    """Read the result again and compare it with what was taken from the source."""
    with closing(sqlite3.connect(path)) as target:
        for proof in report.tables:
            table = _table(target, proof.name, "")
            digest = Digest()
            for chunk in _rows(target, table):
                digest.add(chunk)
            asked = source.execute(f"SELECT count(*) FROM {_quote(proof.name)}").fetchone()[0]
            if (digest.rows, digest.hex(), asked) != (proof.rows_kept, proof.digest, proof.rows_read):
                raise TracediffError(
                    "scrub-changed-rows",
                    f"{proof.name}: the rows written are not the rows read; nothing was put in place",
                    fix="please report it, with the CREATE TABLE statement of that table",
                )
            if _measured(proof.name) and proof.rows_kept != proof.rows_read:
                raise TracediffError(
                    "scrub-changed-rows", f"{proof.name}: {proof.rows_read - proof.rows_kept} rows were lost"
                )


def _measured(name: str) -> bool:
    reduced = rules.METADATA | rules.EMPTIED | rules.NAMES_OF_PROCESSES | {"StringIds", rules.SYSTEM_ENV}
    return name not in reduced


def scrub(source: Path, target: Path, *, force: bool = False, keep_tables: Iterable[str] = ()) -> ScrubReport:
    """Write a publishable copy of an export (.sqlite or .sqlite.xz) to `target`, packed if that ends in .xz.

    Raises `TracediffError`: output-exists, output-folder-missing, not-a-file, bad-xz, empty-file, not-sqlite,
    truncated, not-nsys, scrub-changed-rows. After an error nothing is left behind and `target` is as it was.
    """
    if os.path.lexists(target) and not force:
        raise TracediffError(
            "output-exists", f"{target} exists already", fix="-f to overwrite it, or another name"
        )
    if not target.parent.is_dir():
        raise TracediffError(
            "output-folder-missing", f"the folder of {target} does not exist", fix=f"mkdir -p {target.parent}"
        )
    report = ScrubReport()
    with tempfile.TemporaryDirectory(prefix=".scrub-", dir=target.parent) as name:
        folder = Path(name)
        plain = folder / "plain.sqlite"
        with _opened(source, folder) as db:
            try:
                _copy(db, plain, frozenset(keep_tables), report)
                _prove(db, plain, report)
            except sqlite3.Error as error:
                raise TracediffError(
                    "truncated",
                    f"{source.name} cannot be read as SQLite: {error}",
                    fix="export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep",
                ) from error
        done = plain
        if target.suffix == ".xz":
            done = folder / "packed.xz"
            with plain.open("rb") as file, lzma.open(done, "wb", preset=9 | lzma.PRESET_EXTREME) as packed:
                shutil.copyfileobj(file, packed, 1 << 20)
        done.replace(target)
    return report
