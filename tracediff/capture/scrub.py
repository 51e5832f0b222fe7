"""Make an nsys export fit to be published: what was measured stays, what tells of machine and owner goes.

The result is a new database into which the allowed tables are copied row by row, so nothing of the old file
(free pages, views, triggers, foreign tables) can come along. Afterwards it is read again, and the number of
rows and a hash of the content of every table must be what was taken from the source; only then is it moved
into place.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import marshal
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from tracediff.capture.clean import (
    KEPT,
    RECORDS,
    STRING_COLUMNS,
    Cleaner,
    gpu_name,
    metric_name,
    number,
    payload,
    record_kept,
)
from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.bundle import Run, folder_of, read_manifest, write_manifest
from tracediff.formats.database import identifier
from tracediff.formats.files import missing
from tracediff.formats.kineto import (
    MEMORY_EVENT,
    READ,
    Event,
    arguments,
    frame_name,
    inputs,
    marked,
    message,
    nanoseconds,
    not_kineto,
    of_memory,
    open_trace,
)
from tracediff.formats.schema import damaged, inspect
from tracediff.formats.unpack import stem, unpack
from tracediff.formats.untrusted import open_export
from tracediff.write import check_output, special

_CHUNK = 5_000  # rows
# Tables of which rows may be dropped; every other one keeps all.
_REDUCED = RECORDS | {"StringIds", "ThreadNames"}
_AFFINITY = {"BIGINT": "INTEGER", "DOUBLE": "REAL", "VARCHAR": "TEXT"}

# The source is never written to: an error of these is of the result.
_CANNOT_WRITE = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_CLOSE,
})  # fmt: skip

Row = tuple[Any, ...]
_Rule = Callable[[Row], Row | None]  # a row of the source -> the row to write, None: dropped
_Text = Callable[[str], str | None]


class TableProof(msgspec.Struct):
    """What was compared between the source and the result for one table."""

    name: str
    rows_read: int
    rows_kept: int
    digest: str
    texts_changed: int = 0

    @property
    def untouched(self) -> bool:
        """Whether every row is there, byte for byte."""
        return self.rows_read == self.rows_kept and not self.texts_changed


class ScrubReport(msgspec.Struct):
    """What `scrub` kept, changed and left out."""

    tables: list[TableProof] = msgspec.field(default_factory=list)
    dropped_tables: list[str] = msgspec.field(default_factory=list)
    dropped_columns: list[str] = msgspec.field(default_factory=list)
    strings_dropped: int = 0
    records_dropped: int = 0


class Digest:
    """A hash of rows, the same for the same values of the same types in the same order."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.rows = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Take some rows in."""
        for row in rows:
            self._hash.update(marshal.dumps(row, 2))  # version 2 has no back references
            self.rows += 1

    def hex(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()


def scrub(source: Path, target: Path, *, force: bool = False, keep_tables: Iterable[str] = ()) -> ScrubReport:
    """Write a publishable copy of an export to `target`: packed if that ends in .xz.

    A folder of Parquet files becomes SQLite.
    Raises `TracediffError`: scrub-folder, not-parquet, output-exists, output-is-folder, output-folder-missing, not-a-file, bad-xz, empty-file, not-sqlite,
    truncated, not-nsys, scrub-changed-rows. After an error nothing is left behind and `target` is as it was.
    """
    report = ScrubReport()
    folder_of_tables = columnar.is_folder(source)
    if folder_of_tables and target.suffix not in (".sqlite", ".xz"):
        raise TracediffError(
            "scrub-folder",
            f"{target.name}: of a folder of Parquet files a SQLite file is made",
            fix=f"name OUT {target.name}.sqlite.xz",
        )
    with replaced(target, force=force) as (folder, done):
        export = tables = unpack(source, folder, export="sqlite")
        if tables.is_dir():
            export = columnar.to_sqlite(
                tables, folder / "tables.sqlite", source.name, _wanted(keep_tables, report)
            )
        inspect(export, source.name)
        plain = folder / "plain.sqlite"
        try:
            with closing(open_export(export)) as db:
                db.text_factory = lambda raw: raw.decode("utf-8", "replace")
                _copy(db, plain, frozenset(keep_tables), report)
                _prove(db, plain, report)
            if tables.is_dir():
                files = columnar.tables(tables)
                for proof in report.tables:
                    if columnar.row_count(files[proof.name]) != proof.rows_read:
                        raise _changed(proof.name)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) in _CANNOT_WRITE:
                raise TracediffError(
                    "disk-full",
                    f"{target.name} could not be written: {error}",
                    fix="name an OUT on a disk with space",
                ) from error
            raise damaged(source.name, error) from error
        if target.suffix == ".xz":
            with plain.open("rb") as file, lzma.open(done, "wb", preset=9 | lzma.PRESET_EXTREME) as packed:
                shutil.copyfileobj(file, packed, 1 << 20)
        else:
            plain.rename(done)
    return report


def _wanted(keep: Iterable[str], report: ScrubReport) -> Callable[[str], bool]:
    kept = frozenset(keep)

    def wanted(table: str) -> bool:
        if not (known := table in KEPT or table in kept):
            report.dropped_tables.append(table)
        return known

    return wanted


@contextmanager
def replaced(target: Path, *, force: bool) -> Iterator[tuple[Path, Path]]:
    """A scratch folder beside `target`, and the file in it that takes the target's place at the end of the block.

    Raises `TracediffError`: output-exists, output-is-folder, output-not-writable, output-folder-missing. After an error `target` is as it was.
    """
    check_output(target, force)
    if special(target):
        raise TracediffError(
            "output-not-writable",
            f"{target} is a device or a pipe",
            fix="name a file: what is written is read back",
        )
    with tempfile.TemporaryDirectory(prefix=".scrub-", dir=target.parent) as name:
        done = Path(name) / "done"
        yield Path(name), done
        done.replace(target)


# Tables


class _Table(msgspec.Struct):
    name: str
    columns: dict[str, str]
    """Column -> BIGINT, DOUBLE or VARCHAR; of a table that a user keeps as it is declared."""
    known: bool

    def position(self, column: str) -> int | None:
        return next((i for i, name in enumerate(self.columns) if name.lower() == column.lower()), None)


def _tables(db: sqlite3.Connection, keep: frozenset[str], report: ScrubReport) -> list[_Table]:
    found = []
    rows = db.execute("SELECT name, type, sql FROM sqlite_master ORDER BY rowid").fetchall()
    for name, kind, sql in rows:
        if kind == "index" or name.startswith("sqlite_"):
            continue
        plain = kind == "table" and str(sql).lstrip().upper().startswith("CREATE TABLE")
        if plain and (name in KEPT or name in keep):
            table = _table(db, name, report)
            if table.columns:
                found.append(table)
                continue
        report.dropped_tables.append(name)
    return found


def _table(db: sqlite3.Connection, name: str, report: ScrubReport) -> _Table:
    """A table with the columns that stay of it; the others are noted in the report."""
    declared = {row[1]: row[2] for row in db.execute(f"PRAGMA table_info({identifier(name)})")}
    if name not in KEPT:
        return _Table(
            name, {column: kind if kind.isalpha() else "" for column, kind in declared.items()}, known=False
        )
    kinds = {column.lower(): kind for column, kind in KEPT[name].items()}
    report.dropped_columns += [f"{name}.{column}" for column in declared if column.lower() not in kinds]
    columns = {column: kinds[column.lower()] for column in declared if column.lower() in kinds}
    return _Table(name, columns, known=True)


def _rows(db: sqlite3.Connection, table: str, columns: Iterable[str]) -> Iterator[list[Row]]:
    select = f"SELECT {', '.join(map(identifier, columns))} FROM {identifier(table)}"
    try:
        cursor = db.execute(f"{select} ORDER BY rowid")
    except sqlite3.OperationalError:  # WITHOUT ROWID
        cursor = db.execute(select)
    while chunk := cursor.fetchmany(_CHUNK):
        yield chunk


def _create(table: _Table) -> str:
    columns = (f"{identifier(name)} {_AFFINITY.get(kind, kind)}" for name, kind in table.columns.items())
    return f"CREATE TABLE {identifier(table.name)} ({', '.join(columns)})"


# Copy and proof


def _copy(source: sqlite3.Connection, path: Path, keep: frozenset[str], report: ScrubReport) -> None:
    tables = _tables(source, keep, report)
    if not any(table.known for table in tables):
        raise TracediffError("not-nsys", "the file is a SQLite file without any table of an nsys export")
    rules = _Rules(source, tables, report)
    with closing(sqlite3.connect(path)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        for table in tables:
            target.execute(_create(table))
            places = ", ".join("?" * len(table.columns))
            rule = rules.of(table)
            digest, read, changed = Digest(), 0, 0
            for chunk in _rows(source, table.name, table.columns):
                read += len(chunk)
                pairs = [(row, new) for row in chunk if (new := rule(row)) is not None]
                kept = [new for _, new in pairs]
                changed += sum(
                    a != b for old, new in pairs if old != new for a, b in zip(old, new, strict=True)
                )
                digest.add(kept)
                target.executemany(f"INSERT INTO {identifier(table.name)} VALUES ({places})", kept)
            report.tables.append(TableProof(table.name, read, digest.rows, digest.hex(), changed))
        target.commit()
        target.execute("VACUUM")


def _changed(table: str) -> TracediffError:
    return TracediffError(
        "scrub-changed-rows",
        f"{table}: the rows written are not the rows read; nothing was put in place",
        fix="please report it, with the columns of that table and their types",
    )


def _prove(source: sqlite3.Connection, path: Path, report: ScrubReport) -> None:
    """Read the result again and compare it with what was taken from the source."""
    with closing(sqlite3.connect(path)) as target:
        for proof in report.tables:
            digest = Digest()
            written = [row[1] for row in target.execute(f"PRAGMA table_info({identifier(proof.name)})")]
            for chunk in _rows(target, proof.name, written):
                digest.add(chunk)
            (asked,) = source.execute(f"SELECT count(*) FROM {identifier(proof.name)}").fetchone()
            if (digest.rows, digest.hex(), asked) != (proof.rows_kept, proof.digest, proof.rows_read):
                raise _changed(proof.name)
            if proof.name not in _REDUCED and proof.rows_kept != proof.rows_read:
                raise TracediffError(
                    "scrub-changed-rows", f"{proof.name}: {proof.rows_read - proof.rows_kept} rows were lost"
                )


# What is kept of each table


class _Rules:
    def __init__(self, db: sqlite3.Connection, tables: list[_Table], report: ScrubReport) -> None:
        self._db, self._tables, self._report = db, tables, report
        self._cleaner = Cleaner(self._records())
        self._processes = self._measured_processes()
        self._payloads = self._references("NVTX_EVENTS", {"jsonTextId"})
        self._strings = set().union(*(self._references(table.name, STRING_COLUMNS) for table in tables))

    def of(self, table: _Table) -> _Rule:
        """How a row of a table is written.

        Bytes go: nothing is measured from them, and what they hold cannot be told (a program's structs with
        whatever was in memory between the members: `nsys export --include-blobs`).
        """
        kinds = list(table.columns.values())
        texts = [self._text(table, column) for column in table.columns]

        def cell(value: object, kind: str, text: _Text) -> object:
            if value is None or isinstance(value, bytes):
                return None
            if kind in ("BIGINT", "DOUBLE"):
                return number(value, kind)
            if isinstance(value, str) or kind == "VARCHAR":
                return text(str(value))
            return value

        stays = self._stays(table)

        def rule(row: Row) -> Row | None:
            return tuple(map(cell, row, kinds, texts)) if stays(row) else None

        return self._string(table, rule) if table.name == "StringIds" else rule

    def _text(self, table: _Table, column: str) -> _Text:
        texts: dict[tuple[str, str], _Text] = {
            ("TARGET_INFO_GPU", "name"): gpu_name, ("TARGET_INFO_GPU_METRICS", "metricname"): metric_name,
            ("NVTX_EVENTS", "jsontext"): payload,
        }  # fmt: skip
        if table.name in RECORDS:
            return str  # only rows that may stay get here
        return texts.get((table.name, column.lower()), self._cleaner.clean)

    def _stays(self, table: _Table) -> Callable[[Row], bool]:
        name, value, thread = (table.position(column) for column in ("name", "value", "globalTid"))
        if table.name == "ThreadNames":
            return lambda row: (
                thread is not None and isinstance(row[thread], int) and row[thread] >> 24 in self._processes
            )
        if table.name not in RECORDS:
            return lambda row: True

        def stays(row: Row) -> bool:
            kept = name is not None and value is not None and record_kept(str(row[name]), str(row[value]))
            self._report.records_dropped += not kept
            return kept

        return stays

    def _string(self, table: _Table, rule: _Rule) -> _Rule:
        key, value = table.position("id"), table.position("value")

        def of_string(row: Row) -> Row | None:
            if key is None or value is None or not self._used(row[key]):
                self._report.strings_dropped += 1
                return None
            if row[key] not in self._strings:
                row = (*row[:value], payload(str(row[value])), *row[value + 1 :])
            return rule(row)

        return of_string

    # What the file says

    def _used(self, string: object) -> bool:
        return string in self._strings or string in self._payloads

    def _records(self) -> Iterator[tuple[str, str]]:
        for table in self._tables:
            if (
                table.name in RECORDS
                and table.position("name") is not None
                and table.position("value") is not None
            ):
                for chunk in _rows(self._db, table.name, ("name", "value")):
                    yield from ((str(name), str(value or "")) for name, value in chunk)

    def _measured_processes(self) -> set[int]:
        """GlobalTid >> 24 of every process that has a row in a table of measurements."""
        found: set[int] = set()
        for table in self._tables:
            for column in (
                {"globalTid", "globalPid"} & set(table.columns) if table.name not in _REDUCED else ()
            ):
                rows = self._db.execute(
                    f"SELECT DISTINCT {column} >> 24 FROM {identifier(table.name)} WHERE typeof({column}) = 'integer'"
                )
                found.update(process for (process,) in rows)
        return found

    def _references(self, name: str, among: Collection[str]) -> set[int]:
        """The ids of strings in some columns of a table; in a table of somebody else any number may be one."""
        table = next((one for one in self._tables if one.name == name), None)
        if table is None or name == "StringIds":
            return set()
        found: set[int] = set()
        for column in (identifier(one) for one in table.columns if one in among or not table.known):
            thread = "globalTid >> 24" if name == "ThreadNames" and "globalTid" in table.columns else "NULL"
            rows = self._db.execute(
                f"SELECT DISTINCT {column}, {thread} FROM {identifier(name)} WHERE typeof({column}) = 'integer'"
            )
            found.update(string for string, process in rows if process is None or process in self._processes)
        return found


# A whole capture bundle for sharing: every export scrubbed and packed, and of the manifest what tells nothing private.
#
# What a program wrote itself (logs, benchmark reports) cannot be cleaned by rule, and stays behind unless asked for.


_PRIVATE_OF_SIDE = ("command", "client", "launcher")


class BundleReport(msgspec.Struct):
    """What became of a bundle."""

    exports: int = 0
    rows: int = 0
    bytes: int = 0
    left_out: list[str] = msgspec.field(default_factory=list)  # benchmark reports


def scrub_bundle(source: Path, target: Path, *, keep_kpi: bool = False) -> BundleReport:
    """Write a scrubbed copy of a bundle, which `tracediff compare` takes like the bundle itself.

    Kept of the manifest: machine, versions, commits, order, times, clocks, how each run ended. Command lines go.
    Raises `TracediffError`: output-exists, bundle-manifest, bundle-version, and those of `scrub`.
    """
    data = read_manifest(source)
    if target.exists():
        raise TracediffError(
            "output-exists", f"{target.name} exists", fix="name another folder, or remove it"
        )
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    report = BundleReport()
    try:
        part.mkdir(parents=True)
        for run in data.runs:
            _scrub_run(source, part, run, report, keep_kpi)
        for side in data.sides.values():
            side.update({name: [] for name in _PRIVATE_OF_SIDE})
        # 6.18 of 6.18.44-acme-lab7: the rest of a kernel's name tells who built it
        number = re.match(r"\d+\.\d+", str(data.host.get("kernel")))
        data.host["kernel"] = number[0] if number else None
        write_manifest(part, data)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return report


def _scrub_run(source: Path, part: Path, run: Run, report: BundleReport, keep_kpi: bool) -> None:
    """Copy a run; its entry of the manifest is changed to what is in the copy."""
    folder = folder_of(source, run)
    into = part / folder.relative_to(source)
    into.mkdir(parents=True)
    names = []
    for name in run.exports:
        packed = into / f"{stem(Path(name))}.sqlite.xz"
        proof = scrub(folder / Path(name).name, packed)
        report.exports += 1
        report.rows += sum(table.rows_kept for table in proof.tables)
        report.bytes += packed.stat().st_size
        names.append(packed.name)
    kpi = [Path(name).name for name in run.kpi]
    if keep_kpi:
        for name in kpi:
            shutil.copyfile(folder / name, into / name)
    else:
        report.left_out += [f"{folder.name}/{name}" for name in kpi]
    run.command, run.reports, run.exports = [], [], names
    run.kpi = kpi if keep_kpi else []
    run.error = {"slug": run.error.get("slug"), "message": ""} if run.error else None


# Traces of torch.profiler.
#
# Events are written anew from a list of what is kept: category, name, thread, times and the arguments that are read, all
# of them numbers. Only names are free text, and they are cleaned.


_NUMBERS = ("schemaVersion", "cupti_version", "cuda_runtime_version", "cuda_driver_version")
_DEVICE = (
    "id", "totalGlobalMem", "computeMajor", "computeMinor", "numSms", "multiProcessorCount", "warpSize"
)  # fmt: skip
_RANKS = ("rank", "world_size")
_OWNERS = {"host_name": "Hostname", "hostname": "Hostname", "user": "USER_NAME", "username": "USER_NAME"}


class ScrubbedTrace(msgspec.Struct, frozen=True):
    """What was kept: events, and how many were left out; texts that were cleaned."""

    events: int
    left_out: int
    texts_changed: int


def scrub_trace(source: Path, target: Path, *, overwrite: bool = False) -> ScrubbedTrace:
    """Write a publishable copy of a trace to `target`, packed if that ends in .gz, and read it back.

    Raises `TracediffError`: output-exists, output-folder-missing, scrub-changed-rows, not-kineto and those of
    `TraceFile`. After an error nothing is left behind and `target` is as it was.
    """
    if not source.is_file():
        raise missing(source)
    with replaced(target, force=overwrite) as (_, done):
        digest, changed, left_out = Digest(), 0, 0
        behind = _said_behind(source)
        with open_trace(source) as trace, _written(done, packed=target.suffix == ".gz") as out:
            head = trace.head()
            owners = ((_OWNERS[key], value) for key, value in (head | behind).items() if key in _OWNERS)
            cleaner = Cleaner((name, value) for name, value in owners if isinstance(value, str))
            out.write(msgspec.json.encode(_head(head, cleaner))[:-1] + b',"traceEvents":[')
            between = b"\n"
            for event in (event for events in trace.blocks() for event in events):
                row = _row(event, cleaner)
                if row is None:
                    left_out += 1
                    continue
                changed += row[1] != event.name
                digest.add([row])
                out.write(between + _line(row))
                between = b",\n"
            kept = {key: value for key, value in _head(trace.tail, cleaner).items() if key in trace.tail}
            out.write(b"\n]" + (b"," + msgspec.json.encode(kept)[1:] if kept else b"}") + b"\n")
        if not digest.rows:
            raise not_kineto(source.name, "no event of a category that torch.profiler writes")
        again = Digest()
        with open_trace(done) as trace:
            trace.head()
            for events in trace.blocks():
                again.add(row for event in events if (row := _row(event, Cleaner())) is not None)
        if (again.rows, again.hex()) != (digest.rows, digest.hex()):
            raise TracediffError(
                "scrub-changed-rows",
                f"{source.name}: the events written are not the events read; nothing was put in place",
                fix="please report it, with the version of PyTorch",
            )
    return ScrubbedTrace(digest.rows, left_out, changed)


def _said_behind(source: Path) -> dict[str, Any]:
    """What a trace says behind its events, of its owner too; it costs a reading where the head has no mark of Kineto."""
    with open_trace(source) as trace:
        if not marked(trace.head()):
            for _ in trace.blocks():
                pass
        return trace.tail


@contextmanager
def _written(path: Path, *, packed: bool) -> Iterator[IO[bytes] | gzip.GzipFile]:
    with path.open("wb") as file:
        if not packed:
            yield file
            return
        # neither the name nor the time in the file
        with gzip.GzipFile("", "wb", 9, file, 0) as stream:
            yield stream


def _head(head: dict[str, Any], cleaner: Cleaner) -> dict[str, Any]:
    kept: dict[str, Any] = {key: head[key] for key in _NUMBERS if _number(head.get(key))}
    kept.setdefault("schemaVersion", 1)
    for key in ("deviceProperties", "computeProperties"):
        devices = head.get(key)
        if isinstance(devices, list):
            kept[key] = [
                {"name": gpu_name(str(device.get("name") or ""))}
                | {name: device[name] for name in _DEVICE if _number(device.get(name))}
                for device in devices
                if isinstance(device, dict)
            ]
    ranks = head.get("distributedInfo")
    if isinstance(ranks, dict):
        kept["distributedInfo"] = {name: ranks[name] for name in _RANKS if _number(ranks.get(name))}
    return kept | {"displayTimeUnit": "ms"}


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _row(event: Event, cleaner: Cleaner) -> Row | None:
    """What is kept of an event: category, name, process, thread, begin and length in ns, numbers."""
    kept = (event.ph == "X" and event.cat in READ) or of_memory(event)
    start = nanoseconds(event.ts) if kept else None
    if start is None:
        return None
    name = event.name if isinstance(event.name, str) else str(event.name or "")
    if event.cat == "python_function":
        name = frame_name(cleaner.clean(name, path=True))
    else:
        name = cleaner.clean(name)
    where = [cleaner.clean(one, path=True) if isinstance(one, str) else one for one in (event.pid, event.tid)]
    sent = msgspec.to_builtins(message(event, cleaner.clean)) or {}
    told = (*arguments(event), *(inputs(event) or {}).items(), *sent.items())
    return event.cat, name, *where, start, nanoseconds(event.dur) or 0, told


def _line(row: Row) -> bytes:
    category, name, pid, tid, start, length, numbers = row
    event: dict[str, Any] = {
        "ph": "i" if category == MEMORY_EVENT else "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
    }
    event |= {"ts": _microseconds(start), "dur": _microseconds(length)}
    if numbers:
        event["args"] = dict(numbers)
    return msgspec.json.encode(event)


def _microseconds(ns: int) -> msgspec.Raw:
    whole, rest = divmod(abs(ns), 1000)
    sign = "-" if ns < 0 else ""
    return msgspec.Raw(f"{sign}{whole}.{rest:03}".encode())
