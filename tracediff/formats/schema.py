"""Which tables and columns an nsys SQLite export has, across the schemas of 2019 to 2026.

`STAGED` lists every column the loader reads, with the type it is given where a schema lacks it. A missing
column is NULL, a missing table is empty and its kind of trace "not captured": never zero.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import msgspec

from tracediff.errors import TracediffError
from tracediff.formats.database import quoted
from tracediff.formats.files import SQLITE, missing
from tracediff.formats.untrusted import LOCKED, NOT_PLAIN, TOO_COSTLY, Examined, examine, open_export

# table -> column -> DuckDB type of the NULL that stands for it where the schema lacks it
STAGED: dict[str, dict[str, str]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        "start": "BIGINT", "end": "BIGINT", "deviceId": "BIGINT", "streamId": "BIGINT",
        "correlationId": "BIGINT", "globalPid": "BIGINT", "demangledName": "BIGINT", "shortName": "BIGINT",
        "registersPerThread": "BIGINT", "gridX": "BIGINT", "gridY": "BIGINT", "gridZ": "BIGINT",
        "blockX": "BIGINT", "blockY": "BIGINT", "blockZ": "BIGINT", "staticSharedMemory": "BIGINT",
        "dynamicSharedMemory": "BIGINT", "graphNodeId": "BIGINT",
    },
    "CUPTI_ACTIVITY_KIND_MEMCPY": {
        "start": "BIGINT", "end": "BIGINT", "deviceId": "BIGINT", "streamId": "BIGINT",
        "correlationId": "BIGINT", "globalPid": "BIGINT", "bytes": "BIGINT", "copyKind": "BIGINT",
        "srcKind": "BIGINT", "dstKind": "BIGINT", "graphNodeId": "BIGINT",
    },
    "CUPTI_ACTIVITY_KIND_MEMSET": {
        "start": "BIGINT", "end": "BIGINT", "deviceId": "BIGINT", "streamId": "BIGINT",
        "correlationId": "BIGINT", "globalPid": "BIGINT", "bytes": "BIGINT", "graphNodeId": "BIGINT",
    },
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": {
        "start": "BIGINT", "end": "BIGINT", "deviceId": "BIGINT", "streamId": "BIGINT",
        "correlationId": "BIGINT", "globalPid": "BIGINT",
    },
    "CUPTI_ACTIVITY_KIND_RUNTIME": {
        "start": "BIGINT", "end": "BIGINT", "globalTid": "BIGINT", "correlationId": "BIGINT", "nameId": "BIGINT",
    },
    "NVTX_EVENTS": {
        "start": "BIGINT", "end": "BIGINT", "eventType": "BIGINT", "text": "VARCHAR", "globalTid": "BIGINT",
        "textId": "BIGINT", "domainId": "BIGINT", "uint64Value": "BIGINT", "int64Value": "BIGINT",
        "uint32Value": "BIGINT", "int32Value": "BIGINT", "doubleValue": "DOUBLE", "floatValue": "DOUBLE",
        "jsonText": "VARCHAR", "jsonTextId": "BIGINT",
    },
    "StringIds": {"id": "BIGINT", "value": "VARCHAR"},
    "ThreadNames": {"nameId": "BIGINT", "globalTid": "BIGINT"},
    "META_DATA_CAPTURE": {"name": "VARCHAR", "value": "VARCHAR"},
    "META_DATA_EXPORT": {"name": "VARCHAR", "value": "VARCHAR"},
    "EXPORT_META_DATA": {"name": "VARCHAR", "value": "VARCHAR"},
    "TARGET_INFO_SYSTEM_ENV": {"name": "VARCHAR", "value": "VARCHAR"},
    "TARGET_INFO_SESSION_START_TIME": {"utcEpochNs": "BIGINT"},
    "ANALYSIS_DETAILS": {"duration": "BIGINT"},
    "TARGET_INFO_GPU": {
        "id": "BIGINT", "deviceId": "BIGINT", "cuDevice": "BIGINT", "name": "VARCHAR", "smCount": "BIGINT",
        "clockRate": "BIGINT", "totalMemory": "BIGINT",
    },
}  # fmt: skip

# Kinds of trace that few exports hold: looked at only where the table is there. Their columns are those that the
# export itself documents beside each table (nsys 2023.4).
SYSTEM: dict[str, dict[str, str]] = {
    "DIAGNOSTIC_EVENT": {"text": "VARCHAR"},
    "OSRT_API": {"start": "BIGINT", "end": "BIGINT", "globalTid": "BIGINT", "nameId": "BIGINT"},
    "SCHED_EVENTS": {"start": "BIGINT", "isSchedIn": "BIGINT", "globalTid": "BIGINT"},
    "CUDA_GPU_MEMORY_USAGE_EVENTS": {
        "start": "BIGINT", "globalPid": "BIGINT", "deviceId": "BIGINT", "bytes": "BIGINT", "memKind": "BIGINT",
        "memoryOperationType": "BIGINT",
    },
    "GPU_METRICS": {"timestamp": "BIGINT", "typeId": "BIGINT", "metricId": "BIGINT", "value": "DOUBLE"},
    "TARGET_INFO_GPU_METRICS": {"typeId": "BIGINT", "metricId": "BIGINT", "metricName": "VARCHAR"},
    "TARGET_INFO_CUDA_DEVICE": {"gpuId": "BIGINT", "cudaId": "BIGINT", "pid": "BIGINT"},
    **{  # the making of nodes has the first name since nsys 2025, where the second is of whole graphs
        table: {
            "start": "BIGINT", "globalTid": "BIGINT", "graphNodeId": "BIGINT", "originalGraphNodeId": "BIGINT",
        }
        for table in ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
    },
    **{
        table: {"start": "BIGINT", "end": "BIGINT", "globalTid": "BIGINT", "textId": "BIGINT", "size": "BIGINT"}
        for table in ("MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS")
    },
}  # fmt: skip
READ = {**STAGED, **SYSTEM}

# Small tables, which hold what users and machines wrote: see `nsys.load_metadata`.
METADATA = frozenset({
    "META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU",
    "TARGET_INFO_GPU_METRICS", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_SESSION_START_TIME", "ThreadNames", "ANALYSIS_DETAILS",
})  # fmt: skip

# One of these makes a SQLite file, or a folder of tables, an nsys export; other tables in it are left alone.
MARKS = (
    "StringIds", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME",
    "META_DATA_EXPORT", "EXPORT_META_DATA", "TARGET_INFO_GPU", "ANALYSIS_DETAILS",
)  # fmt: skip


class Schema(msgspec.Struct, frozen=True):
    """What an export holds: table -> its columns, and its schema version ("" before nsys wrote one)."""

    tables: dict[str, frozenset[str]]
    version: str = ""
    file: str = ""  # that is SQLite
    # of a folder of tables: what each is in SQL
    relations: dict[str, str] = msgspec.field(default_factory=dict)
    events: tuple[str, ...] = ()  # tables of events with rows, of an export without CUDA calls and ranges
    # tables whose texts could not be read: what stands for them
    mended: dict[str, str] = msgspec.field(default_factory=dict)

    def has(self, table: str) -> bool:
        """Whether the table is there (it may be empty)."""
        return table in self.tables

    def relation(self, table: str) -> str:
        """What the table is in SQL."""
        # not of an attached file: all threads share its one connection, and take its lock for every value
        read = f"sqlite_scan({quoted(self.file)}, {quoted(table)})"
        return self.mended.get(table) or self.relations.get(table) or read


def inspect(path: Path, name: str | None = None) -> Schema:
    """What a SQLite file of others holds. Only one that is returned from here may be given to DuckDB: see `untrusted`.

    `name` is what messages call the file: a scratch copy goes by the name of what the user gave.
    Raises `TracediffError`: not-a-file, empty-file, not-sqlite, truncated, locked, not-nsys, not-plain-table, read-too-costly.
    """
    name = name or path.name
    if not path.is_file():
        raise missing(path)
    check_header(path, name)
    found = examine(path, (*READ, *MARKS))
    if found.problem:
        raise _refused(name, found)
    if not any(mark in found.tables for mark in MARKS):
        raise TracediffError(
            "not-nsys",
            f"{name} is a SQLite file without any table of an nsys export",
            fix="nsys export --type sqlite REPORT.nsys-rep",
        )
    tables = {table: frozenset(columns) for table, columns in found.tables.items()}
    return Schema(tables, version_of(found.version), str(path))


def written(path: Path) -> Schema:
    """What a SQLite file holds that this program wrote itself."""
    with closing(open_export(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {
            name: db.execute("SELECT name FROM pragma_table_info(?)", [name]).fetchall() for name in names
        }
    return Schema(
        {name: frozenset(one for (one,) in found) for name, found in columns.items()}, file=str(path)
    )


def check_header(path: Path, name: str) -> None:
    """Raise `TracediffError` (empty-file, not-sqlite, truncated) where the first bytes of a file and its length say so."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        raise TracediffError("empty-file", f"{name} is empty (0 bytes)", fix=_EXPORT_AGAIN)
    if head[:16] != SQLITE:
        raise not_sqlite(name)
    _check_length(path, head, name)


def not_sqlite(name: str) -> TracediffError:
    """The error of a file that is something else."""
    return TracediffError(
        "not-sqlite", f"{name} is not a SQLite file", fix="nsys export --type sqlite REPORT.nsys-rep"
    )


def _refused(name: str, found: Examined) -> TracediffError:
    if found.problem == LOCKED:
        return locked(name)
    if found.problem == NOT_PLAIN:
        return TracediffError(
            "not-plain-table", f"{name}: {found.said}; nsys writes plain tables only", fix=_EXPORT_AGAIN
        )
    if found.problem == TOO_COSTLY:
        return TracediffError(
            "read-too-costly",
            f"{name}: looking at its tables took {found.said}, which no export of its size does",
            fix=_EXPORT_AGAIN,
        )
    return damaged(name, found.said)


_EXPORT_AGAIN = "export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep"


def locked(name: str) -> TracediffError:
    """The error of an export that is not finished."""
    return TracediffError(
        "locked", f"{name} is being written by another program", fix="wait until nsys export has finished"
    )


def damaged(name: str, error: object) -> TracediffError:
    """The error of a file that SQLite does not read."""
    return TracediffError("truncated", f"{name} cannot be read as SQLite: {error}", fix=_EXPORT_AGAIN)


def _check_length(path: Path, head: bytes, name: str) -> None:
    # The header holds the page size and the number of pages: a file cut short is seen before SQLite meets a
    # missing page in the middle of a scan. The count is valid only where two header fields agree (SQLite docs).
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(head[28:32], "big")
    valid = head[24:28] == head[92:96]
    if page < 512 or page & (page - 1):
        raise damaged(name, f"its pages would have {page} bytes")
    size = path.stat().st_size
    if valid and pages and size < page * pages:
        raise TracediffError(
            "truncated", f"{name} is cut short: {size} bytes of {page * pages}", fix=_EXPORT_AGAIN
        )


def version_of(value: object) -> str:
    """A schema version as an export spells it, "" where it is none."""
    return value if isinstance(value, str) and re.fullmatch(r"[0-9.]{1,20}", value) else ""
