"""A torch.profiler (Kineto) trace -> a scratch SQLite file with the tables of an nsys export.

Everything after this file sees an export. What maps to what, and what a trace lacks: docs/inputs.md.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tracediff.errors import TracediffError
from tracediff.load.kineto_graphs import driver_kernels_to_copies, mark_nodes
from tracediff.load.kineto_json import Event, not_kineto, open_trace
from tracediff.load.kineto_names import PRODUCT, copy_kinds, frame_name, short_kernel_name
from tracediff.model import Note

_NOTES = "TRACEDIFF_NOTES"

_KERNEL, _COPY, _SET, _CALL, _RANGE, _GC, _OTHER = range(7)
# Categories of events, those of Kineto before PyTorch 1.12 with capital letters. gpu_user_annotation repeats on the
# GPU's rows what user_annotation says on the host's, and is no work of its own.
_CATEGORIES = {
    "kernel": _KERNEL, "gpu_memcpy": _COPY, "gpu_memset": _SET, "cuda_runtime": _CALL, "cuda_driver": _CALL,
    "user_annotation": _RANGE, "cpu_op": _RANGE, "python_function": _RANGE,
    "gpu_user_annotation": _OTHER, "cuda_sync": _OTHER, "overhead": _OTHER, "ac2g": _OTHER, "fwdbwd": _OTHER,
    "Kernel": _KERNEL, "Memcpy": _COPY, "Memset": _SET, "Runtime": _CALL, "Operator": _RANGE,
}  # fmt: skip
# the span of the profiler itself is read for when it begins
READ = {category for category, kind in _CATEGORIES.items() if kind != _OTHER} | {"Trace"}
_TABLES = {
    _KERNEL: "CUPTI_ACTIVITY_KIND_KERNEL",
    _COPY: "CUPTI_ACTIVITY_KIND_MEMCPY",
    _SET: "CUPTI_ACTIVITY_KIND_MEMSET",
    _CALL: "CUPTI_ACTIVITY_KIND_RUNTIME",
    _RANGE: "NVTX_EVENTS",
}
_COLUMNS = {
    _KERNEL: "start end deviceId streamId correlationId graphNodeId demangledName registersPerThread gridX gridY gridZ"
    " blockX blockY blockZ staticSharedMemory",
    _COPY: "start end deviceId streamId correlationId graphNodeId bytes copyKind srcKind dstKind",
    _SET: "start end deviceId streamId correlationId graphNodeId bytes",
    _CALL: "start end globalTid correlationId nameId",
    _RANGE: "start end eventType globalTid textId domainId",
}
_GPU = (_KERNEL, _COPY, _SET)
_PUSH_POP, _START_END = 59, 60
_ID_BITS = (1 << 24) - 1  # what nsys's globalTid has for a process, and for a thread
_LACKS = (
    "traces of torch.profiler (Kineto) hold no waits for the GIL, Python GC only with record_python_gc_info, ranges only of"
    " the threads that were profiled, and of CUDA's calls not cudaGetDevice, cudaSetDevice, cudaGetLastError, the creation"
    " of events and most driver calls: what these took counts as host work"
)
_FEW = 20  # events that tell nothing yet of the clock's resolution


_Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # what SQLite holds
_Three = tuple[_Int | None, _Int | None, _Int | None]


class _Args(msgspec.Struct, gc=False):
    """What events say of themselves."""

    device: _Int | None = None
    inDevice: _Int | None = None  # noqa: N815
    stream: _Int | None = None
    correlation: _Int | None = None
    bytes: _Int | None = None
    grid: _Three = (None, None, None)
    block: _Three = (None, None, None)
    registers: _Int | None = msgspec.field(default=None, name="registers per thread")
    shared: _Int | None = msgspec.field(default=None, name="shared memory")
    node: _Int | None = msgspec.field(default=None, name="graph node id")


_args = msgspec.json.Decoder(_Args)
_NO_ARGS = _Args()


def convert(path: Path, out: Path, *, annotations_only: bool = False) -> Path:
    """Write the trace at `path` as tables of an nsys export to `out`, and return that.

    `annotations_only`: no ranges of torch's operators and of Python functions, which an export of nsys would not have.
    Raises `TracediffError`: those of `kineto_json`, not-kineto, kineto-rocm, kineto-merged, disk-full.
    """
    try:
        with closing(sqlite3.connect(out, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN")
            with open_trace(path) as trace:
                head = trace.head()
                writer = _Writer(db, path.name, annotations_only)
                for block in trace.blocks():
                    writer.add(block)
            writer.finish(head)
            db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise TracediffError(
            "disk-full",
            f"{path.name} could not be unpacked: {error}",
            fix="set TMPDIR to a folder with space",
        ) from error
    return out


def notes(export: Path) -> list[Note]:
    """What `convert` has to say about the trace that became `export`; nothing of any other export."""
    with closing(sqlite3.connect(export)) as db:
        there = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_NOTES,)).fetchone()
        return [Note(*row) for row in db.execute(f"SELECT slug, message FROM {_NOTES}")] if there else []


class _Writer:
    """Fills the tables, block by block."""

    def __init__(self, db: sqlite3.Connection, name: str, annotations_only: bool) -> None:
        self._db, self._name, self._annotations_only = db, name, annotations_only
        self._strings: dict[str, int] = {}
        self._threads: dict[Any, int] = {}
        self._numbers: dict[int, dict[Any, int]] = {}  # process -> its threads
        self._processes: dict[Any, int] = {}  # of host events, in order of appearance
        self._callers: set[int] = set()  # processes that called CUDA
        self._known = self._timed = 0
        self._fine = False  # some time is finer than a microsecond
        self._origin: int | None = None
        self._first = 0  # of the earliest event, from the origin
        for kind, table in _TABLES.items():
            columns = ", ".join(f'"{column}" INTEGER' for column in _COLUMNS[kind].split())
            extra = ', "globalPid" INTEGER, "shortName" INTEGER' if kind in _GPU else ', "text" TEXT'
            db.execute(f"CREATE TABLE {table} ({columns}{extra})")

    def add(self, events: list[Event]) -> None:
        """Take the events of one block."""
        rows: dict[int, list[tuple[int | None, ...]]] = {kind: [] for kind in _TABLES}
        for event in events:
            kind = _CATEGORIES.get(event.cat or "")
            if kind is None and event.cat != "Trace":
                continue
            self._known += kind is not None
            start = _ns(event.ts) if event.ph == "X" else None
            if start is None:
                continue
            if self._origin is None:
                self._origin = start
            start -= self._origin
            self._first = min(self._first, start)
            if kind is None or kind == _OTHER:
                continue
            length = _ns(event.dur) or 0
            self._timed += 1
            if not self._fine:
                self._fine = (start + self._origin) % 1000 != 0 or length % 1000 != 0
            end = start + length if length > 0 else start
            name = event.name if type(event.name) is str else str(event.name or "")
            if kind == _RANGE:
                row = self._range(event, name)
                if row is not None:
                    rows[kind].append((start, end, *row))
            elif kind == _CALL:
                rows[kind].append((start, end, *self._call(event, name)))
            else:
                rows[kind].append((start, end, *self._op(kind, event, name)))
        for kind, some in rows.items():
            columns = _COLUMNS[kind].split()
            names, marks = ", ".join(f'"{c}"' for c in columns), ", ".join("?" * len(columns))
            self._db.executemany(f"INSERT INTO {_TABLES[kind]} ({names}) VALUES ({marks})", some)

    def _op(self, kind: int, event: Event, name: str) -> tuple[int | None, ...]:
        args = _decoded(event.args)
        device = args.device if args.device is not None else _first(args.inDevice, event.pid)
        stream = args.stream if args.stream is not None else _int(str(event.tid).removeprefix("stream "))
        common = (device, stream, args.correlation, args.node)
        if kind == _KERNEL:
            return (*common, self._string(name), args.registers, *args.grid, *args.block, args.shared)
        if kind == _COPY:
            return (*common, args.bytes, *copy_kinds(name))
        return (*common, args.bytes)

    def _call(self, event: Event, name: str) -> tuple[int | None, ...]:
        if name.startswith("hip"):
            raise TracediffError(
                "kineto-rocm",
                f"{self._name} was recorded on an AMD GPU (it calls {name[:40]}): only CUDA is known",
                fix="compare traces of NVIDIA GPUs",
            )
        tid = self._thread(event)
        self._callers.add(tid >> 24)
        if len(self._callers) > 1:
            raise TracediffError(
                "kineto-merged",
                f"{self._name} holds CUDA calls of several processes: correlation ids of merged traces are not unique",
                fix="give the traces of the ranks as they were written, one file a rank, in a folder",
            )
        return tid, _decoded(event.args).correlation, self._string(name)

    def _range(self, event: Event, name: str) -> tuple[int | None, ...] | None:
        if name.startswith("Python GC"):
            return _START_END, self._thread(event), self._string(name), 0
        if event.cat != "user_annotation" and self._annotations_only:
            return None
        text = frame_name(name) if event.cat == "python_function" else name
        return _PUSH_POP, self._thread(event), self._string(text), 0

    def _thread(self, event: Event) -> int:
        """The globalTid of nsys; ids that do not fit its 24 bits get others."""
        key = (event.pid, event.tid)
        found = self._threads.get(key)
        if found is None:
            number = _int(event.pid)  # older traces have 24572 and "24572"
            process = event.pid if number is None else number
            pid = self._processes.setdefault(process, _fitting(process, set(self._processes.values())))
            number = _int(event.tid)
            numbers = self._numbers.setdefault(pid, {})
            thread = event.tid if number is None else number
            number = numbers.setdefault(thread, _fitting(thread, set(numbers.values())))
            found = self._threads[key] = pid << 24 | number
        return found

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def finish(self, head: dict[str, Any]) -> None:
        """Write what is known at the end: names, devices, how it was recorded, notes.

        Raises `TracediffError`: not-kineto.
        """
        if not self._known:
            raise not_kineto(self._name, "no event of a category that torch.profiler writes")
        process = min(self._callers) if self._callers else next(iter(self._processes.values()), 1)
        db = self._db
        for table in _TABLES.values() if self._first else ():
            # from the earliest event on, as viewers of traces count
            db.execute(
                f'UPDATE {table} SET "start" = "start" - ?, "end" = "end" - ?', (self._first, self._first)
            )
        for kind in _GPU:
            db.execute(f"UPDATE {_TABLES[kind]} SET globalPid = ?", (process << 24,))
        mark_nodes(db, self._strings)
        driver_kernels_to_copies(db, self._strings)
        self._short_names()
        db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        db.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", ((one, text) for text, one in self._strings.items())
        )
        self._meta(head)
        db.execute(f"CREATE TABLE {_NOTES} (slug TEXT, message TEXT)")
        db.executemany(
            f"INSERT INTO {_NOTES} VALUES (?, ?)", [(note.slug, note.message) for note in self._remarks()]
        )

    def _short_names(self) -> None:
        db, table = self._db, _TABLES[_KERNEL]
        names = {one: text for text, one in self._strings.items()}
        used = [one for (one,) in db.execute(f"SELECT DISTINCT demangledName FROM {table}").fetchall()]
        pairs = [(self._string(short_kernel_name(names[one])), one) for one in used]
        db.execute(f"CREATE INDEX kernel_name ON {table} (demangledName)")
        db.executemany(f"UPDATE {table} SET shortName = ? WHERE demangledName = ?", pairs)

    def _meta(self, head: dict[str, Any]) -> None:
        db = self._db
        db.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)")
        db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
        db.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)")
        db.execute(
            "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER)"
        )
        cupti = _int(head.get("cupti_version"))
        version = PRODUCT if cupti is None else f"{PRODUCT}, CUPTI {cupti}"
        db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', ?)", (version,))
        driver = _int(head.get("cuda_driver_version"))
        if driver is not None:
            db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('CudaDriverVersion', ?)", (str(driver),))
        if self._callers or any(self._rows(kind) for kind in _GPU):
            db.execute("INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', 'Cuda')")
            # CUPTI's kernel records come by node: Kineto never asks for whole graphs
            db.execute("INSERT INTO META_DATA_CAPTURE VALUES ('CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Node')")
        devices = head.get("deviceProperties") or head.get("computeProperties") or []
        for device in devices if isinstance(devices, list) else []:
            if isinstance(device, dict) and _int(device.get("id")) is not None:
                db.execute(
                    "INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?)",
                    (
                        _int(device["id"]), str(device.get("name") or ""),
                        _first(device.get("numSms"), device.get("multiProcessorCount")),
                        _int(device.get("totalGlobalMem")),
                    ),
                )  # fmt: skip

    def _rows(self, kind: int) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {_TABLES[kind]}").fetchone()[0])

    def _remarks(self) -> list[Note]:
        # without the file's name: what every trace lacks is said once
        found = [Note("torch-profiler", _LACKS)]
        if self._timed >= _FEW and not self._fine:
            found.append(
                Note(
                    "whole-microseconds",
                    f"{self._name} holds times in whole microseconds: every start and every length of a kernel or a gap is"
                    " off by up to 1 us",
                )
            )
        return found


def arguments(event: Event) -> tuple[tuple[str, int | tuple[int | None, ...]], ...]:
    """The arguments of an event that are read, by the names they have in the trace."""
    said = msgspec.to_builtins(_decoded(event.args))
    return tuple((key, value) for key, value in said.items() if value not in (None, (None,) * 3))


def _decoded(raw: msgspec.Raw) -> _Args:
    try:
        return _args.decode(raw) if bytes(raw) else _NO_ARGS
    except msgspec.DecodeError:
        pass
    try:
        said = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return _NO_ARGS
    if not isinstance(said, dict):
        return _NO_ARGS
    # one odd value must not cost the others
    numbers = {name: _int(said.get(key)) for name, key in _SAID.items()}
    return _Args(**numbers, grid=_three(said.get("grid")), block=_three(said.get("block")))


_SAID = {
    field.name: field.encode_name
    for field in msgspec.structs.fields(_Args)
    if field.name not in ("grid", "block")
}


def _ns(raw: msgspec.Raw) -> int | None:
    """Microseconds in decimal digits -> ns, without a float on the way; None where there is no number."""
    text = bytes(raw)
    if text[-4:-3] == b"." and len(text) <= 19 and (digits := text[:-4] + text[-3:]).isdigit():
        return int(digits)
    try:
        number = Decimal(text.strip(b'"').decode())
    except (ArithmeticError, UnicodeDecodeError):
        return None
    if not number.is_finite() or number.adjusted() > 15:
        return None  # no time: 10^16 us are three hundred years
    return int((number * 1000).to_integral_value(ROUND_HALF_EVEN))


def _int(value: object) -> int | None:
    """An integer that SQLite can hold, of a number or of digits; None of anything else."""
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(1 << 63) <= value < 1 << 63 else None


def _first(*values: object) -> int | None:
    return next((number for value in values if (number := _int(value)) is not None), None)


def _three(values: object) -> tuple[int | None, int | None, int | None]:
    if not isinstance(values, list) or len(values) != 3:
        return None, None, None
    return _int(values[0]), _int(values[1]), _int(values[2])


def _fitting(value: object, taken: set[int]) -> int:
    """The id itself where it fits into nsys's 24 bits, else the highest that is free."""
    number = _int(value)
    if number is not None and 0 < number <= _ID_BITS and number not in taken:
        return number
    return next(free for free in range(_ID_BITS, 0, -1) if free not in taken)
