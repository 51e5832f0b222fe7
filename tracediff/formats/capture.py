"""`Capture`: the canonical tables of one export, and what kinds of trace it holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import duckdb
import msgspec

from tracediff.formats import columnar, nsys
from tracediff.formats.bounds import bounded
from tracediff.formats.database import connect, in_memory, reuse, sql
from tracediff.formats.kineto import PRODUCT, is_trace_name
from tracediff.formats.reports import PARQUET_FIRST, Form
from tracediff.formats.schema import Schema, inspect, written
from tracediff.formats.unpack import fingerprint, remove, unpack
from tracediff.model import Captured, Note

Made = TypeVar("Made")

_SMALL = 64 * 2**20  # bytes of an unpacked export below which one thread makes its tables
LARGE = 256 * 2**20  # from here on they lie in a file: there they take less memory and more time


# Sentences of the diagnostics that tell why there are no kernels or calls.
_ABOUT_CUDA = r"\b(cuda|cupti|gpu|driver)\b"
_WENT_WRONG = r"\b(not|no|fail\w*|error\w*|unable|cannot|unsupported|incompatible|missing|insufficient|denied|disabled|lost|dropped)\b"


class Capture(msgspec.Struct):
    """One export, loaded. Close it when done: it owns a database."""

    name: str  # base name of the file; its folder never enters a report
    fingerprint: str
    bytes: int
    unpacked_bytes: int
    db: duckdb.DuckDBPyConnection
    schema: Schema
    meta: dict[str, tuple[str, ...]]
    coverage: dict[str, Captured]
    warnings: list[Note] = msgspec.field(default_factory=list)

    @property
    def recording(self) -> Recording:
        """How its recorder records what is missing."""
        return recording(self.meta.get("EXPORT_PRODUCT_VERSION", ()))

    def reasons(self) -> list[str]:
        """What the recorder says it could not record of CUDA, at most three sentences."""
        found = self.db.execute(
            "SELECT text FROM diagnostic WHERE regexp_matches(text, $1, 'i') AND regexp_matches(text, $2, 'i') ORDER BY text LIMIT 3",
            [_ABOUT_CUDA, _WENT_WRONG],
        ).fetchall()
        return [str(text) for (text,) in found]

    def bounded(self, work: Callable[[], Made]) -> Made:
        """What `work` makes of the tables. Raises `TracediffError`: read-too-costly, where it takes far more than their size explains."""
        return bounded(work, self.name, self.unpacked_bytes, self.db)

    def close(self) -> None:
        """Free the tables."""
        self.db.close()

    def release(self) -> None:
        """Free the tables, and leave the database to the next export."""
        reuse(self.db)

    def count(self, table: str, where: str = "true") -> int:
        """Rows of a canonical table."""
        row = self.db.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()
        assert row is not None
        return int(row[0])


def load_capture(
    path: Path,
    scratch: Path,
    *,
    memory_limit: str | None = None,
    threads: int | None = None,
    annotations_only: bool = False,
    export: Form = PARQUET_FIRST,
    exported: Path | None = None,
) -> Capture:
    """Load one export (.sqlite, .sqlite.xz, .nsys-rep, a folder of tables, a trace of torch.profiler) into canonical tables.

    `scratch` takes unpacked copies and what DuckDB spills; `annotations_only`: see `kineto.convert`; `export`: what a report
    becomes, `exported`: what it was made already.
    Raises `TracediffError` (see `schema`, `unpack`, `bounds`).
    """
    plain = exported or unpack(path, scratch, annotations_only=annotations_only, export=export)
    # before a database is opened, which takes longer than to refuse a file
    schema = None
    if plain.is_dir():
        columnar.check(plain, path.name)
    else:
        schema = written(plain) if is_trace_name(path) else inspect(plain, path.name)
    db = _database(plain, scratch, memory_limit, threads)
    try:
        return bounded(lambda: _loaded(path, plain, schema, db), path.name, columnar.size(plain), db)
    except BaseException:
        db.close()
        raise
    finally:
        if plain not in (path, exported):
            remove(plain)


def _loaded(path: Path, plain: Path, schema: Schema | None, db: duckdb.DuckDBPyConnection) -> Capture:
    """The capture at `path` of the tables at `plain`, which is `path` itself or made of it."""
    schema, notes = nsys.load(db, plain, path.name, schema=schema)
    if is_trace_name(path):
        from tracediff.formats import kineto

        notes += kineto.notes(plain)
    meta: dict[str, tuple[str, ...]] = {}
    for name, value in db.execute("SELECT name, value FROM meta ORDER BY name, value").fetchall():
        meta[name] = (*meta.get(name, ()), value)
    capture = Capture(
        name=path.name,
        fingerprint=fingerprint(path),
        bytes=columnar.size(path),
        unpacked_bytes=columnar.size(plain),
        db=db,
        schema=schema,
        meta=meta,
        coverage={},
    )
    # with nsys --cuda-graph-trace=graph launches may own no rows
    ((launches, bare),) = db.execute(sql("formats/graph_launches")).fetchall()
    capture.coverage = _coverage(capture, graphs=not (launches and bare == launches))
    capture.warnings = notes
    if (
        said := []
        if {"captured"} == {capture.coverage[kind] for kind in ("kernels", "cuda_api")}
        else capture.reasons()
    ):
        capture.warnings.append(
            Note(
                "recorder-said",
                f"{capture.name}: nsys says what it could not record: {'; '.join(map(ascii, said))}",
            )
        )
    if bare and capture.coverage["kernels"] == "captured":
        missing = Note(
            "graph-kernels-missing",
            f"{capture.name}: {bare} of {launches} CUDA graph launches own no GPU rows; their kernels were not"
            " recorded, and they are missing where launches are counted. Capture with --cuda-graph-trace=node",
        )
        capture.warnings.append(missing)
    return capture


def _database(
    export: Path, scratch: Path, memory_limit: str | None, threads: int | None
) -> duckdb.DuckDBPyConnection:
    """A database for the tables of an unpacked export: of a large one in a file under `scratch`, where there is room."""
    size = columnar.size(export)
    if memory_limit is None and size < (LARGE if threads == 1 else min(_SMALL, LARGE)):
        return in_memory()
    # the tables take a seventh of the export, or less
    file = scratch / "tables.duckdb" if LARGE <= size <= shutil.disk_usage(scratch).free else None
    return connect(memory_limit=memory_limit, threads=threads, spill=scratch / "spill", file=file)


def _coverage(capture: Capture, *, graphs: bool) -> dict[str, Captured]:
    def said(yes: bool) -> Captured:
        return "captured" if yes else "not_captured"

    made = {name for (name,) in capture.db.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    # nsys creates CUPTI tables lazily: with the CUDA trace on, a missing table means that nothing happened.
    # A folder of tables that nsys wrote alone does not say what was asked for: calls and kernels come of the CUDA trace only.
    cuda_seen = any(capture.schema.has(f"CUPTI_ACTIVITY_KIND_{kind}") for kind in ("KERNEL", "RUNTIME"))
    cuda_asked = (
        (cuda_seen and not capture.schema.has("META_DATA_CAPTURE") and bool(capture.schema.relations))
        or "Cuda" in capture.meta.get("CAPTURE_EVENT_TYPE", ())
        or "true" in capture.meta.get("COLLECT_CUDA_TRACE", ())
    )
    return {
        "kernels": said(capture.count("op_descriptor", "kind IN (0, 3)") > 0),
        "cuda_api": said(capture.count("api_call") > 0),
        "nvtx": said(capture.count("range") > 0),
        "gil": said(capture.count("nvtx_domain", "name = 'GIL Trace'") > 0 or capture.count("gil") > 0),
        "gc": said(capture.count("gc") > 0),
        "graphs": said(graphs),
        "memcpy": said(cuda_asked or capture.schema.has("CUPTI_ACTIVITY_KIND_MEMCPY")),
        "sync": said(cuda_asked or capture.schema.has("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")),
        **{kind: said(table in made) for kind, table in _SYSTEM.items()},
    }


# kind of trace -> the table that is made of it where any was recorded
_SYSTEM = {
    "os_calls": "os_call", "context_switches": "off_cpu", "gpu_memory": "memory_event", "mpi": "mpi_call",
    "nccl": "nccl_call", "gpu_metrics": "gpu_sample",
}  # fmt: skip


# How the program that recorded a trace records what the trace lacks: the words of advice.


class Recording(msgspec.Struct, frozen=True):
    """Words of one recorder. kernels: where they would be; range: what its ranges are called; the others say how to record something."""

    kernels: str
    range: str
    ranges: str
    labels: str
    more: str
    gpu_work: str
    not_collected: str  # why work that was launched may be missing
    not_inside: str  # why nothing was launched


_NSYS = Recording(
    kernels="table CUPTI_ACTIVITY_KIND_KERNEL is missing or empty",
    range="NVTX range",
    ranges="record it with -t nvtx",
    labels="label the steps and record them with -t nvtx (TensorRT-LLM labels them by itself)",
    more="capture more iterations (TensorRT-LLM: TLLM_PROFILE_START_STOP=100-150)",
    gpu_work="capture with nsys profile -t cuda,nvtx,python-gil",
    not_collected="the driver is newer than this nsys, the machine forbids it (WSL 2, a virtual GPU, a container), another profiler held"
    " the GPU, or the program was killed before CUPTI wrote its buffers (nsys --cuda-flush-interval=1000). nsys says which under Diagnostics",
    not_inside="the recorded time holds no GPU work (--capture-range, --delay, --duration), or another process does it (nsys"
    " --trace-fork-before-exec=true; start nsys before the server)",
)
_TORCH = Recording(
    kernels="no event is of category kernel",
    range="range of record_function",
    ranges="put record_function around parts of the program",
    labels="call profile.step() after each iteration, or put record_function around it",
    more="profile more iterations: schedule(wait=1, warmup=3, active=20), and profile.step() after each",
    gpu_work="record with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])",
    not_collected="the driver is newer than the CUPTI of this PyTorch, the machine forbids it (WSL 2, a virtual GPU, a container), or"
    " another profiler held the GPU",
    not_inside="the profiled iterations hold no GPU work, or another process does it",
)


def recording(versions: Iterable[str]) -> Recording:
    """The words of the recorder that calls itself so (EXPORT_PRODUCT_VERSION)."""
    return _TORCH if any(version.startswith(PRODUCT) for version in versions) else _NSYS
