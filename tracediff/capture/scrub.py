"""Make an nsys export fit to be published: what was measured stays, what tells of machine and owner goes.

The result is a new database into which the allowed tables are copied row by row, so nothing of the old file
(free pages, views, triggers, foreign tables) can come along. Afterwards it is read again, and the number of
rows and a hash of the content of every table must be what was taken from the source; only then is it moved
into place.
"""

from __future__ import annotations

import hashlib
import lzma
import marshal
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracediff.errors import TracediffError

# What a scrubbed export may still say: allow-lists of tables, records and arguments; the cleaning of text.

REMOVED = "<removed>"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tables of nsys exports, by family. Anything else in the file was put there by somebody else.
_KNOWN = re.compile(
    r"(CUPTI_ACTIVITY_KIND_|CUDA_|NVTX_|ENUM_|TARGET_INFO_|OSRT_|GPU_|MPI_|NCCL_|NVSHMEM_|OPENSHMEM_|UCP_|NET_|NIC_"
    r"|IB_|OPENMP_|OPENACC_|OPENGL_|KHR_|VULKAN_|D3D1[12]_|DX1[12]_|WDDM_|ETW_|SLI_|NVVIDEO_|PERF_EVENT_"
    r"|UNCORE_PMU_|NV_LOAD_BALANCE_|FECS_|XMC_|SOC_|VIDEO_)\w+"
    r"|StringIds|ThreadNames|PROCESSES|ProcessStreams|PROFILER_OVERHEAD|ANALYSIS_DETAILS|DIAGNOSTIC_EVENT"
    r"|META_DATA_CAPTURE|META_DATA_EXPORT|EXPORT_META_DATA|SCHED_EVENTS|COMPOSITE_EVENTS|SAMPLING_CALLCHAINS"
    r"|CUBLAS_EVENTS|CUDNN_EVENTS|GENERIC_EVENTS?|GENERIC_EVENT_\w+|MEMORY_TRANSFER_EVENTS|DEMOTED_BYTES_EVENTS"
    r"|TOTAL_BYTES_RESIDENT_IN_SEGMENT_EVENTS|SYSCALL_?\w*"
)
METADATA = frozenset({"META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA"})
SYSTEM_ENV = "TARGET_INFO_SYSTEM_ENV"
NAMES_OF_PROCESSES = frozenset({"PROCESSES", "ThreadNames"})
EMPTIED = frozenset({"ProcessStreams"})
"""Standard output and error of the traced processes."""

# Columns that hold an id of StringIds, where the CREATE TABLE does not say so in a comment.
_STRING_COLUMN = re.compile(
    r"(?i)(\w*(name|text|file|filename|module|symbol|message|string|label|function|content|description)id"
    r"|shortname|demangledname|mangledname|symbol|module)"
)
STRING_REFERENCE = re.compile(r"^\s*\"?(\w+)\"?\s.*--.*REFERENCES\s+StringIds\s*\(", re.IGNORECASE)
_FILE_COLUMN = re.compile(r"(?i)(module|moduleid|\w*file(name)?id)")

_PRIVATE_COLUMNS = frozenset({"uuid", "luid", "guid", "ctxswdevpath", "ctrldevpath", "localtime", "hostname"})

_CAPTURE_RECORDS = re.compile(
    r"CAPTURE_EVENT_TYPE|RATE_HZ|(START|STOP)_TRIGGER|(THREAD_STATE|POWER_RATE)_SCAN_FREQ|DEVICE_TYPE|RESUME"
    r"|SHOW_BACKTRACE|START_DELAY_MS|RUN_DURATION_(MS|FRAMES)|HAS_ANNOTATIONS|USE_\w+|BANDWIDTH_\w+|COLLECT_\w+"
    r"|TRACE_\w+|SAMPLE_\w+|SAMPLING_\w+|IN_APP_FREQ_MODE|ALLOW_SEND_ONLY_MODE|FORCE_ARCH_TIMER|INCLUDE_CHILDREN"
    r"|DISABLE_TIME_SYNC|LAUNCH_AS_ROOT|START_FRAME_VALUE|CUDA_\w+|CUDA_\w+:\w+|PYTHON_\w+|GPU_METRICS_\w+"
    r"|NVTX_OPTIONS:NVTX_DOMAIN_FILTER_MODE_INCLUDE|SYMBOL_RESOLUTION_OPTIONS:RESOLVE_SYMBOLS"
    r"|PROCESS_\d+:(HOW_TO_ATTACH|LAUNCH_AS_ROOT|COLLECT_\w+|CUDA_\w+|CUDA_\w+:\w+|PYTHON_\w+|NVTX_\w+)"
)
_EXPORT_RECORDS = re.compile(
    r"EXPORT_PRODUCT_\w+|EXPORT_SCHEMA_\w+|EXPORT_PLATFORM|EXPORT_ARCH|EXPORT_CONFIG_TIME_SHIFT"
    r"|EXPORT_PARAM_(OVERWRITE|APPEND|LAZY|TIME_NORMALIZE|TIME_SHIFT)"
)
_SYSTEM_RECORDS = _words(
    """
    CpuCores CpuSpeedMhz CpuArchitecture CpuDescription NvDriverVersion CudaDriverVersion HardwarePlatform
    OsDescription SupportsGpuMetrics
    """
)
_PLAIN_VALUE = re.compile(r"[\w .,:+()%@-]{0,80}", re.ASCII)
_COMMAND = re.compile(r"PROCESS_\d+:COMMAND")
_ARGUMENT = re.compile(r"PROCESS_\d+:ARGUMENT_(\d+)")

_PROGRAMS = re.compile(r"python(\d(\.\d+)?)?|trtllm-(bench|serve|llmapi-launch)|mpirun|srun|nsys|bash|sh|env")
_ARGUMENT_WORDS = _words(
    """
    -m throughput latency serve pytorch tensorrt tracediff.capture.workloads.mini_serve --streaming
    _fetch_new_requests _schedule _prepare_inputs _sample_async _update_requests _handle_responses none
    exposed hidden silu functor attention --graph --eager --piecewise --dry-run --cpu --fuse-gate-up
    --split-kernel --sync-per-layer --h2d-overlap
    """
)
_NUMBER_OPTIONS = _words(
    """
    --concurrency --num_requests --warmup --max_batch_size --max_num_tokens --max_seq_len --iterations
    --kv_cache_free_gpu_memory_fraction --tp --pp --ep --tp_size --pp_size --ep_size --steps --layers --hidden
    --slots --context --arrival-every --seed --label-generation --dry-gpu-us --work-us --sleep-us --gc-every
    --gc-objects --gil-hog-us --other-thread-work-us --straggler-us --straggler-rank --slow-kernel
    --more-kernels --h2d-bytes --alloc-bytes
    """
)
_WORD_OPTIONS = frozenset(
    {"--backend", "--work-in", "--sleep-in", "--gc-in", "--gil-hog-when", "--replace-kernel"}
)
_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,6})?")

# A path under a directory that only file systems have. `/model/layers.0/mlp/MatMul` is a layer, and stays.
_ROOTS = (
    "home|root|usr|opt|tmp|var|mnt|media|srv|etc|proc|sys|run|dev|lib|lib64|bin|sbin|boot|Users|Volumes|work"
    "|workspace|workspaces|scratch|lustre|gpfs|nfs|efs|fsx|shared|data|app|snap|nix|private|code|projects|builds"
)
_PATH_CHARS = r"[^\s\"'`<>|:;,()\[\]{}*?\\/]"
_PATH = re.compile(rf"(?<![\w./])/(?:{_ROOTS})/(?:{_PATH_CHARS}+/)*({_PATH_CHARS}*)")
_ANY_PATH = re.compile(rf"(?<![\w./])/(?:{_PATH_CHARS}+/)+({_PATH_CHARS}*)")
_WINDOWS_PATH = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\(?:[^\\\s\"'<>|:*?]+\\)*([^\\\s\"'<>|:*?]*)")
_HOME = re.compile(rf"(?<![\w./])~[\w.-]*/(?:{_PATH_CHARS}+/)*({_PATH_CHARS}*)")
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'<>]+")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
# Control characters, zero-width and direction-changing ones, line separators, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|SESSION", re.IGNORECASE)
_OWNER_NAME = frozenset({"HOSTNAME", "HOST", "USER", "LOGNAME", "USERNAME", "SUDO_USER", "CONTAINER_NAME"})
_FOLDER_NAME = frozenset({"HOME", "PWD", "OLDPWD"})
_TOO_COMMON = _words(
    """
    root user users localhost ubuntu admin nvidia python python3 node host main test local default worker
    server docker true false none cuda torch tensorrt linux debian centos kernel
    """
)


def known_table(name: str) -> bool:
    """Whether nsys writes a table of this name."""
    return _KNOWN.fullmatch(name) is not None


def string_column(column: str) -> bool:
    """Whether a column of this name holds ids of StringIds."""
    return _STRING_COLUMN.fullmatch(column) is not None


def file_column(column: str) -> bool:
    """Whether the strings that such a column refers to are paths."""
    return _FILE_COLUMN.fullmatch(column) is not None


def private_column(table: str, column: str) -> bool:
    """Whether a column of a description of the target is blanked."""
    return table.startswith("TARGET_INFO_") and column.lower() in _PRIVATE_COLUMNS


def system_record(name: str, value: str) -> bool:
    """Whether a record of TARGET_INFO_SYSTEM_ENV is kept."""
    return name in _SYSTEM_RECORDS and _PLAIN_VALUE.fullmatch(value) is not None


class MetadataFilter:
    """Goes through the records of one metadata table in order; an option's value follows its option."""

    def __init__(self) -> None:
        self._wants: str | None = None

    def value(self, name: str, value: str | None) -> str | None:
        """Give the value to keep; raises `KeyError` for a record that is dropped."""
        text = value or ""
        argument = _ARGUMENT.fullmatch(name)
        if argument:
            return self._argument(text, first=argument[1] == "0")
        self._wants = None
        if _COMMAND.fullmatch(name):
            base = re.split(r"[\\/]", text)[-1]
            return base if _PROGRAMS.fullmatch(base) else REMOVED
        allowed = _CAPTURE_RECORDS.fullmatch(name) or _EXPORT_RECORDS.fullmatch(name)
        if not allowed or not _PLAIN_VALUE.fullmatch(text):
            raise KeyError(name)
        return value

    def _argument(self, text: str, *, first: bool) -> str:
        wants, self._wants = (None if first else self._wants), None
        option, sign, given = text.partition("=")
        if sign and option in _NUMBER_OPTIONS:
            return text if _NUMBER.fullmatch(given) else f"{option}={REMOVED}"
        if sign and option in _WORD_OPTIONS:
            return text if given in _ARGUMENT_WORDS else f"{option}={REMOVED}"
        if text in _NUMBER_OPTIONS:
            self._wants = "number"
            return text
        if text in _WORD_OPTIONS:
            self._wants = "word"
            return text
        if wants == "number":
            return text if _NUMBER.fullmatch(text) else REMOVED
        if text in _ARGUMENT_WORDS or _PROGRAMS.fullmatch(text):
            return text
        return REMOVED


class Cleaner:
    """Cleans text of paths, control characters, and what the capture says about its machine and owner.

    `records` are the (name, value) pairs of the file's metadata and system tables, before they are dropped.
    """

    def __init__(self, records: Iterable[tuple[str, str]] = ()) -> None:
        owners: set[str] = set()
        folders: set[str] = set()
        for name, value in records:
            self._learn(name, value, owners, folders)
        words = sorted(owners, key=lambda word: (-len(word), word))
        self._owners = (
            re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, words)) + r")(?![A-Za-z0-9])")
            if words
            else None
        )
        self._folders = sorted(folders, key=lambda folder: (-len(folder), folder))
        self._kept: dict[tuple[str, bool], str] = {}

    def _learn(self, name: str, value: str, owners: set[str], folders: set[str]) -> None:
        name = name.rpartition(":")[2]
        if name in ("ENVIRONMENT_VARIABLE", "DeviceEnvironment"):
            for pair in value.split(";") if name == "DeviceEnvironment" else [value]:
                variable, _, content = pair.partition("=")
                self._learn_variable(variable.strip(), content.strip().strip('"'), owners, folders)
        elif name in ("Hostname", "EXPORT_HOST", "EXPORT_USER", "USER_NAME", "DEVICE_DISPLAY_NAME"):
            self._owner(value, owners)
        elif name == "WORKING_DIR":
            self._folder(value, folders)

    def _learn_variable(self, variable: str, content: str, owners: set[str], folders: set[str]) -> None:
        if variable in _OWNER_NAME:
            self._owner(content, owners)
        elif variable in _FOLDER_NAME:
            self._folder(content, folders)
        elif _SECRET_NAME.search(variable) and len(content) >= 8 and "/" not in content:
            owners.add(content)

    @staticmethod
    def _owner(word: str, owners: set[str]) -> None:
        if len(word) >= 4 and word.lower() not in _TOO_COMMON and not word.startswith("<"):
            owners.add(word)

    @staticmethod
    def _folder(folder: str, folders: set[str]) -> None:
        folder = folder.rstrip("/")
        if folder.count("/") >= 1 and len(folder) >= 5:
            folders.add(folder + "/")

    def clean(self, text: str, *, path: bool = False) -> str:
        """Give the text as it may be published; `path`: it is about files: every absolute path goes."""
        key = (text, path)
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) > 200_000:
                self._kept.clear()
            known = self._kept[key] = self._clean(text, path)
        return known

    def _clean(self, text: str, path: bool) -> str:
        if "/" in text or "\\" in text:
            for folder in self._folders:
                text = text.replace(folder, "")
            text = _URL.sub(REMOVED, text)
            text = _WINDOWS_PATH.sub(r"\1", text)
            text = _HOME.sub(r"\1", text)
            text = (_ANY_PATH if path else _PATH).sub(r"\1", text)
        if "." in text:
            text = _ADDRESS.sub(REMOVED, text)
        if self._owners is not None:
            text = self._owners.sub(REMOVED, text)
        return _UNSEEN.sub(lambda match: f"<U+{ord(match.group()):04X}>", text)


# The proof of a scrub: rows and a content hash of every table, taken before and after.

Row = tuple[Any, ...]


@dataclass(slots=True)
class TableProof:
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


@dataclass(slots=True)
class ScrubReport:
    """What `scrub` kept, changed and left out."""

    tables: list[TableProof] = field(default_factory=list)
    dropped_tables: list[str] = field(default_factory=list)
    strings_dropped: int = 0
    processes_dropped: int = 0
    records_dropped: int = 0
    arguments_removed: int = 0


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
        if not plain or not (known_table(name) or name in keep):
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
    return {m[1] for line in sql.splitlines() if (m := STRING_REFERENCE.match(line))}


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
        self._cleaner = Cleaner(self._records())
        self._processes = self._measured_processes()
        self._strings, self._files = self._used_strings()

    # -- what the file says ------------------------------------------------------------------------

    def _records(self) -> list[tuple[str, str]]:
        records: list[tuple[str, str]] = []
        for table in self._tables:
            if table.name in METADATA or table.name == SYSTEM_ENV:
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
            if table.name == "StringIds" or table.name in EMPTIED:
                continue
            named = _commented(table.sql)
            unknown = not known_table(table.name)
            for column in table.columns:
                if column in named or string_column(column) or unknown:
                    found = self._references(table, column)
                    (files if file_column(column) else used).update(found)
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
        if table.name in EMPTIED:
            return []
        if table.name in METADATA:
            return self._metadata(table, rows)
        if table.name == SYSTEM_ENV:
            return self._system(table, rows)
        if table.name == "StringIds":
            return self._string_rows(table, rows)
        if table.name in NAMES_OF_PROCESSES:
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
            self._report.arguments_removed += text is not None and REMOVED in text
            kept.append((row[name], text) if name < value else (text, row[name]))
        return kept

    def start(self) -> None:
        """Begin a table."""
        self._filter = MetadataFilter()

    def _system(self, table: _Table, rows: list[Row]) -> list[Row]:
        name, value = table.position("name"), table.position("value")
        state = table.position("devStateName")
        kept = []
        for row in rows:
            if name is None or value is None or not system_record(str(row[name]), str(row[value])):
                self._report.records_dropped += 1
                continue
            cells = list(row)
            if state is not None and cells[state] != "Local (CLI)":
                cells[state] = REMOVED
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
        private = [i for i, name in enumerate(table.columns) if private_column(table.name, name)]
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
    if not any(known_table(table.name) for table in tables):
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
    reduced = METADATA | EMPTIED | NAMES_OF_PROCESSES | {"StringIds", SYSTEM_ENV}
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
