"""A torch.profiler (Kineto) trace -> a scratch SQLite file with the tables of an nsys export.

Everything after this file sees an export. What a trace lacks: docs/compare.md#traces-of-torchprofiler.
Gigabytes pass through in blocks without being held.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tracediff.errors import TracediffError, disk_full
from tracediff.formats.files import Stream, broken, open_regular, packing, unpacked
from tracediff.model import Note

PRODUCT = "torch.profiler"
# Keys of NCCL's payloads, see formats/sql/payload_tables.sql.
MESSAGE_SIZE, COMMUNICATOR = "Message size [bytes]", "NCCL communicator ID"
SUFFIXES = (".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json")
_AGAIN = "write it with torch.profiler: profile.export_chrome_trace(FILE), and copy it whole"


def is_trace_name(path: Path) -> bool:
    """Whether the name is one that torch.profiler's traces have."""
    return path.name.endswith((".json", ".json.gz"))


def rank_of(path: Path) -> int | None:
    """The rank that a trace says it is of (`distributedInfo`); None where it does not, or is alone."""
    head = peek(path)
    if head is None:
        return None
    rank, size = _rank(head if "distributedInfo" in head else _tail(path))
    return rank if size is not None and size > 1 else None


def marked(head: dict[str, Any]) -> bool:
    """Whether what a trace says before its events is what Kineto writes there."""
    return bool(head.keys() & _MARKS)


def _rank(said: dict[str, Any]) -> tuple[int | None, int | None]:
    """The rank and the number of ranks; None where they are not said."""
    info = said.get("distributedInfo")
    return (_int(info.get("rank")), _int(info.get("world_size"))) if isinstance(info, dict) else (None, None)


def not_kineto(name: str, what: str) -> TracediffError:
    """The error of a Chrome trace that torch.profiler did not write."""
    return TracediffError(
        "not-kineto",
        f"{name}: {what}: a Chrome trace of another tool than torch.profiler",
        fix="give a trace of torch.profiler (Kineto) or an export of nsys",
    )


# The JSON, in pieces

BLOCK = 4 << 20  # bytes, as are those below
_LARGEST_HEAD = 64 << 20
_LARGEST_EVENT = 256 << 20
_PEEK = 1 << 20
_TRIES = 64  # borders tried in a block before more is read

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}\s*,\s*(?=\{)")
_NO_NUMBER = re.compile(rb'(":\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}])', re.IGNORECASE)
_SPACE = b"\xef\xbb\xbf \t\r\n"
# Control characters are no JSON inside strings; outside they are spaces.
_PLAIN = bytes(32 if byte < 32 else byte for byte in range(256))
# What Kineto writes before its events, of which one at least is in every version. Programs that add their own to a trace
# (a key `metadata`) write these behind the events.
_MARKS = {"schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds"}
_DISTRIBUTED = re.compile(rb'"distributedInfo"\s*:\s*(\{)')


class Event(msgspec.Struct, gc=False):
    """One entry of traceEvents; numbers of time and the arguments stay text until they are needed."""

    ph: str | None = None
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | str | float | None = None
    tid: int | str | float | None = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")


class _Rest(msgspec.Struct):
    """The last events, and what is said behind them."""

    traceEvents: list[Event]  # noqa: N815
    deviceProperties: Any = None  # noqa: N815
    computeProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    cupti_version: Any = None
    cuda_driver_version: Any = None
    roctracer_version: Any = None
    host_name: Any = None
    hostname: Any = None
    user: Any = None
    username: Any = None


_block = msgspec.json.Decoder(list[Event])
_rest = msgspec.json.Decoder(_Rest)
_FAILED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TraceFile:
    """A trace that is read once: `head` first, then `blocks`; `tail`: what is said behind the events, once they are read."""

    def __init__(self, stream: Stream, name: str, block: int = BLOCK) -> None:
        self._stream, self._name, self._size = stream, name, block
        self._buffer = b""
        self._offset = 0  # of the buffer in the (unpacked) file
        self.tail: dict[str, Any] = {}

    def head(self) -> dict[str, Any]:
        """What the object says before its events.

        Raises `TracediffError`: empty-file, not-json, no-trace-events, not-kineto, truncated, bad-gzip.
        """
        while not (found := _EVENTS.search(self._buffer)):
            data = self.read()
            self._buffer += data
            start = self._buffer[: 1 << 16].lstrip(_SPACE)[:1]
            if not start and not data:
                raise TracediffError("empty-file", f"{self._name} is empty", fix=_AGAIN)
            if start == b"[":
                if not self.read() and not _is_json(self._buffer):  # no longer than its first block
                    raise self._no_events()
                raise not_kineto(self._name, "a bare list of events")
            if start not in (b"", b"{"):
                raise TracediffError("not-json", f"{self._name} is not JSON", fix=_AGAIN)
            if not data or len(self._buffer) > _LARGEST_HEAD:
                raise self._no_events()
        text, self._buffer = self._buffer[: found.end()], self._buffer[found.end() :]
        self._offset = found.end()
        try:
            return _decoded_head(text)
        except _FAILED as error:
            raise TracediffError(
                "not-json", f"{self._name}: what comes before its events is no JSON: {error}", fix=_AGAIN
            ) from error

    def blocks(self) -> Iterator[list[Event]]:
        """All events, some thousands at a time. Raises `TracediffError`: truncated, bad-gzip."""
        while data := self.read():
            self._buffer += data
            for end, following in _borders(self._buffer):
                events = _decoded_events(self._buffer[:end])
                if events is not None:
                    yield events
                    self._buffer = self._buffer[following:]
                    self._offset += following
                    break
            else:
                if len(self._buffer) > _LARGEST_EVENT:
                    raise self._damaged("no event ends here")
        yield self._last()

    def read(self) -> bytes:
        """The next block of the text; b"" at its end. Raises `TracediffError`: truncated, bad-gzip."""
        try:
            return self._stream.read(self._size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise broken(self._name, "gzip", error) from error

    def _last(self) -> list[Event]:
        text = b'{"traceEvents":[' + self._buffer
        try:
            rest = _rest.decode(text)
        except _FAILED as error:
            try:
                rest = _rest.decode(_tidy(text))
            except _FAILED:
                raise self._damaged(str(error)) from None
        said = msgspec.structs.asdict(rest)
        events: list[Event] = said.pop("traceEvents")
        self.tail = {key: value for key, value in said.items() if value is not None}
        return events

    def _damaged(self, problem: str) -> TracediffError:
        position = re.search(r"\(byte (\d+)\)", problem)
        at = self._offset + (max(int(position[1]) - 16, 0) if position else len(self._buffer))
        what = "ends before its events do" if "truncated" in problem.lower() else "is damaged"
        return TracediffError(
            "truncated", f"{self._name} {what}: byte {at} of the JSON text, in traceEvents", fix=_AGAIN
        )

    def _no_events(self) -> TracediffError:
        slug, what = "no-trace-events", "is JSON without a list of traceEvents"
        try:
            msgspec.json.decode(self._buffer)
        except _FAILED as error:
            slug, what = "not-json", f"is not JSON: {error}"
            if "truncated" in str(error).lower():
                slug, what = "truncated", "ends before its events begin"
        return TracediffError(slug, f"{self._name} {what}", fix=_AGAIN)


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except _FAILED:
        return False
    return True


@contextmanager
def open_trace(path: Path, block: int = BLOCK) -> Iterator[TraceFile]:
    """Open a trace, packed with gzip or not, whatever its name says."""
    with open_regular(path) as plain:
        if packing(plain.read(8)) != "gzip":
            plain.seek(0)
            yield TraceFile(plain, path.name, block)
            return
    with unpacked(path, "gzip") as stream:
        yield TraceFile(stream, path.name, block)


def peek(path: Path) -> dict[str, Any] | None:
    """What a trace says before its events; None where the file is no torch.profiler trace, or its head is long.

    Where the head has no mark of Kineto, one of the first events must be of a category of Kineto's.
    """
    try:
        with open_trace(path, block=_PEEK) as trace:
            data = trace.read()
        found = _EVENTS.search(data)
        head = _decoded_head(data[: found.end()]) if found else {}
    except (OSError, TracediffError, *_FAILED):
        return None
    return head if marked(head) or (found and _of_kineto(data[found.end() :])) else None


def _of_kineto(text: bytes) -> bool:
    """Whether one of some events, the last of them cut off, is of a category that Kineto writes and has a time."""
    pieces = (text[:end] for end, _ in _borders(text))
    events = next((found for piece in pieces if (found := _decoded_events(piece)) is not None), None)
    if events is None:  # few events, and all of the file
        try:
            events = _rest.decode(_tidy(b'{"traceEvents":[' + text)).traceEvents
        except _FAILED:
            return False
    return any(event.ph == "X" and (event.cat or "") in _CATEGORIES for event in events)


def _tail(path: Path) -> dict[str, Any]:
    """`distributedInfo` where a trace says it behind its events, as on-demand traces do; of packed files that is not looked for."""
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            return {}
        file.seek(max(path.stat().st_size - _PEEK, 0))
        text = file.read()
    for found in _DISTRIBUTED.finditer(text):
        try:
            said, _ = json.JSONDecoder().raw_decode(text[found.start(1) :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        return {"distributedInfo": said}
    return {}


def _decoded_head(text: bytes) -> dict[str, Any]:
    """The object up to the opening bracket of its events. Raises msgspec.DecodeError."""
    head: dict[str, Any] = msgspec.json.decode(_tidy(text) + b"]}", type=dict[str, Any])
    head.pop("traceEvents", None)
    return head


def _borders(text: bytes) -> Iterator[tuple[int, int]]:
    """Where one event may end and where the next then begins, from the end of the text on."""
    position, tries = len(text), 0
    while tries < _TRIES and (position := text.rfind(b"}", 0, position)) > 0:
        found = _BORDER.match(text, position)
        if found:
            tries += 1
            yield position + 1, found.end()


def _decoded_events(text: bytes) -> list[Event] | None:
    listed = b"[" + text + b"]"
    try:
        return _block.decode(listed)
    except _FAILED:
        pass
    try:
        return _block.decode(_tidy(listed))
    except _FAILED:
        return None


def _tidy(text: bytes) -> bytes:
    """Make JSON of what profilers are known to write: bytes that are not UTF-8, control characters, nan and inf."""
    text = text.removeprefix(b"\xef\xbb\xbf").translate(_PLAIN)
    return _NO_NUMBER.sub(rb"\1null", text.decode("utf-8", "replace").encode())


# Values of an event

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
    # of PyTorch's allocator (profile_memory=True), after what the event says it did; type 1 is a GPU
    allocated: _Int | None = msgspec.field(default=None, name="Total Allocated")
    reserved: _Int | None = msgspec.field(default=None, name="Total Reserved")
    change: _Int | None = msgspec.field(default=None, name="Bytes")
    allocator: _Int | None = msgspec.field(default=None, name="Device Id")
    kind: _Int | None = msgspec.field(default=None, name="Device Type")


_args = msgspec.json.Decoder(_Args)
_NO_ARGS = _Args()
_KEYS = {field.name: field.encode_name for field in msgspec.structs.fields(_Args)}


# Operators whose inputs are read (record_shapes=True), and what is said of these: numbers, types, and constants as text.
_SHAPED = re.compile(r"aten::(?:\w*mm|\w*attention)")
_CONSTANT = re.compile(r"[-+.\de]*|True|False")
_INPUT_TYPES = {
    "c10::BFloat16", "c10::Half", "float", "c10::Float8_e4m3fn", "c10::Float8_e5m2", "signed char", "Scalar"
}  # fmt: skip


class _Inputs(msgspec.Struct, omit_defaults=True):
    dims: list[list[_Int]] = msgspec.field(name="Input Dims")
    types: list[str] = msgspec.field(name="Input type", default_factory=list)
    strides: list[list[_Int]] = msgspec.field(name="Input Strides", default_factory=list)
    concrete: list[str] = msgspec.field(name="Concrete Inputs", default_factory=list)


_inputs = msgspec.json.Decoder(_Inputs)


def inputs(event: Event) -> dict[str, Any] | None:
    """What an operator's shapes are, by their names in the trace; None where it does not say, or is none that they are read of."""
    if event.cat not in ("cpu_op", "Operator") or b'"Input Dims"' not in bytes(event.args):
        return None
    if not isinstance(event.name, str) or not _SHAPED.fullmatch(event.name):
        return None
    try:
        found = _inputs.decode(event.args)
    except _FAILED:
        return None
    # nothing that could be of the program's owner: what is read here stays in a scrubbed trace
    found.types = [one if one in _INPUT_TYPES else "" for one in found.types]
    found.concrete = [one if _CONSTANT.fullmatch(one) else "" for one in found.concrete]
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]


# What torch.distributed says of a collective (record_param_comms) -> the function of NCCL that it calls, as nsys names its ranges.
_CALLS = {
    "allreduce": "ncclAllReduce", "barrier": "ncclAllReduce", "allgather": "ncclAllGather", "reducescatter": "ncclReduceScatter",
    "alltoall": "ncclAlltoAll", "broadcast": "ncclBroadcast", "send": "ncclSend", "recv": "ncclRecv", "reduce": "ncclReduce",
    "gather": "ncclGather", "scatter": "ncclScatter",
}  # fmt: skip
# Several sends and receives are one launch (torch.distributed.batch_isend_irecv).
_TOGETHER, _GROUP_END = "nccl:coalesced", "ncclGroupEnd"
_ELEMENTS = {
    "Byte": 1, "Char": 1, "Bool": 1, "Float8_e5m2": 1, "Float8_e4m3fn": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4,
    "Long": 8, "Double": 8,
}  # fmt: skip
_NO_GROUP_NAME = ("", "undefined", "default_pg")  # torch.distributed's own words


class _Message(msgspec.Struct, omit_defaults=True):
    name: str = msgspec.field(name="Collective name")
    group: str = msgspec.field(name="Process Group Name", default="")
    ranks: Any = msgspec.field(name="Process Group Ranks", default="")  # a text, of some versions a list
    description: str = msgspec.field(name="Process Group Description", default="")
    sent: _Int = msgspec.field(name="In msg nelems", default=0)
    received: _Int = msgspec.field(name="Out msg nelems", default=0)
    dtype: str = ""

    @property
    def call(self) -> str:
        """The function of NCCL."""
        name = self.name.replace("_", "")
        return next((call for word, call in _CALLS.items() if word in name), "")


_message = msgspec.json.Decoder(_Message)


def message(event: Event, clean: Callable[[str], str] = str) -> _Message | None:
    """What a collective of torch.distributed is, its free texts through `clean`; None of other events."""
    if event.name != "record_param_comms" or event.cat not in ("cpu_op", "Operator"):
        return None
    try:
        said = _message.decode(event.args)
    except _FAILED:
        return None
    if not re.fullmatch(r"[a-z_]{1,64}", said.name) or not said.call:
        return None
    said.group, said.description = clean(said.group)[:64], clean(said.description)[:64]
    said.ranks = text if re.fullmatch(r"\[[\d, .]*\]", text := str(said.ranks)) else ""
    said.dtype = said.dtype if said.dtype in _ELEMENTS else ""
    return said


def _payload(said: _Message) -> str:
    """As NCCL's payloads have it: of a reduce-scatter or scatter what a rank gets, else what it sends."""
    elements = said.received if "Scatter" in said.call else said.sent
    told: dict[str, Any] = {}
    if elements and said.dtype:
        told[MESSAGE_SIZE] = elements * _ELEMENTS[said.dtype]
    if said.group:
        digest = hashlib.blake2b(f"{said.group} {said.ranks}".encode(), digest_size=8).digest()
        told[COMMUNICATOR] = int.from_bytes(digest, "little")
    if said.description not in _NO_GROUP_NAME:
        told["Process Group Description"] = said.description
    return msgspec.json.encode(told).decode()


def of_memory(event: Event) -> bool:
    """Whether it is one of PyTorch's allocator."""
    return event.cat == MEMORY_EVENT and event.name == "[memory]" and event.ph == "i"


def arguments(event: Event) -> tuple[tuple[str, int | tuple[int | None, ...]], ...]:
    """The arguments of an event that are read, by the names they have in the trace."""
    said = msgspec.to_builtins(_decoded_args(event.args))
    return tuple((key, value) for key, value in said.items() if value not in (None, (None,) * 3))


def _decoded_args(raw: msgspec.Raw) -> _Args:
    try:
        return _args.decode(raw) if bytes(raw) else _NO_ARGS
    except _FAILED:
        pass
    try:
        said = msgspec.json.decode(raw, type=dict[str, Any])
    except _FAILED:
        return _NO_ARGS
    # one odd value must not cost the others
    numbers: dict[str, Any] = {name: _int(said.get(key)) for name, key in _KEYS.items()}
    return _Args(**{**numbers, "grid": _three(said.get("grid")), "block": _three(said.get("block"))})


def nanoseconds(raw: msgspec.Raw) -> int | None:
    """Microseconds in decimal digits -> ns, without a float on the way; None where there is no number."""
    try:
        number = Decimal(bytes(raw).strip(b'"').decode())
    except (ArithmeticError, UnicodeDecodeError):
        return None
    if not number.is_finite() or number.adjusted() > 15:
        return None  # no time: 10^16 us are three hundred years
    return int((number * 1000).to_integral_value(ROUND_HALF_EVEN))


_THREE_DECIMALS = re.compile(rb"(?:(?:\d{1,15}\.\d{3})?(?:,|\Z))*")


def _nanoseconds(times: list[msgspec.Raw]) -> list[int | None]:
    """`nanoseconds` of each: at once where all have three decimals, as Kineto writes them."""
    text = b",".join(times)
    if times and _THREE_DECIMALS.fullmatch(text):
        return [int(digits) if digits else None for digits in text.replace(b".", b"").split(b",")]
    return [nanoseconds(one) for one in times]


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


# Names as Kineto writes them -> what the tables of nsys say

# CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, by the words of 'Memcpy HtoD (Pinned -> Device)'. Of memory
# kinds the canonical tables only ask which is pageable; there nsys numbers it 0.
_COPY_NAME = re.compile(r"Memcpy (\w+)(?: \(([^()]*?) -> ([^()]*?)\))?")
_COPY_KINDS = {
    "HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8, "HtoH": 9, "PtoP": 10,
}  # fmt: skip
# roctracer's words
_HIP_COPIES = {"CopyHostToDevice": "HtoD", "CopyDeviceToHost": "DtoH", "CopyDeviceToDevice": "DtoD"}
_MEMORY_KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4}
# The driver's own kernels for the copies and memsets of a graph: memcpy32_post, memcpy128, memset32.
_DRIVER = re.compile(r"(memcpy|memset)\d+(?:_post)?")
_ADDRESS = re.compile(r"(?: object)? at 0x[0-9a-fA-F]+")
_FRAME = re.compile(r"(/.*|[A-Za-z]:[/\\].*)(\(\d+\): .*)", re.DOTALL)


def copy_kinds(name: str) -> tuple[int, int | None, int | None]:
    """Kind of a copy, memory kind of its source and of its target; 0 and None where the name does not say."""
    found = _COPY_NAME.match(name)
    if not found:
        return 0, None, None
    source, target = (_MEMORY_KINDS.get(word) if word else None for word in found.group(2, 3))
    kind = _COPY_KINDS.get(found[1]) or _COPY_KINDS.get(_HIP_COPIES.get(found[1], ""), 0)
    return kind, source, target


def driver_copy(name: str) -> str | None:
    """'memcpy' or 'memset' where a kernel of this name is the driver's way to do one; None for every other kernel."""
    found = _DRIVER.fullmatch(name)
    return found[1] if found else None


def short_kernel_name(name: str) -> str:
    """The function of a demangled kernel name, without scope, template and parameters, as nsys shortens it."""
    text = name.replace("(anonymous namespace)", "").replace("<unnamed>", "")
    depth, letters = 0, []
    for index, letter in enumerate(text):
        if letter in "<[{":
            depth += 1
        elif letter in ">]}":
            depth = max(depth - 1, 0)
        elif depth == 0:
            if letter == "(" and index:
                break
            letters.append(letter)
    words = "".join(letters).split()
    return (words[-1].rpartition("::")[2] if words else "") or name


def frame_name(name: str) -> str:
    """A Python frame as a range: no addresses, and of an absolute path the last two parts, for it says who ran it."""
    name = _ADDRESS.sub("", name)
    found = _FRAME.match(name)
    return "/".join(re.split(r"[/\\]", found[1])[-2:]) + found[2] if found else name


# Events -> tables

_KERNEL, _COPY, _SET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
_CALL, _RANGE = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_OPS = (_KERNEL, _COPY, _SET)
_MEMORY, MEMORY_EVENT = "CUDA_GPU_MEMORY_USAGE_EVENTS", "cpu_instant_event"
_ALLOCATED, _RESERVED = 100, 101  # memKind, beyond nsys's own
_MEMORY_COLUMNS = "start INTEGER, globalPid INTEGER, deviceId INTEGER, memKind INTEGER, bytes INTEGER, memoryOperationType INTEGER"
# Category of events -> table; those of Kineto before PyTorch 1.12 with capital letters. What is in no table is known and
# not read: gpu_user_annotation repeats on the GPU's rows what user_annotation says on the host's, and is no work of its own.
_CATEGORIES = {
    "kernel": _KERNEL, "gpu_memcpy": _COPY, "gpu_memset": _SET, "cuda_runtime": _CALL, "cuda_driver": _CALL,
    "user_annotation": _RANGE, "cpu_op": _RANGE, "python_function": _RANGE,
    "hip_runtime": _CALL, "gpu_user_annotation": "", "cuda_sync": "", "cpu_instant_event": "", "overhead": "", "ac2g": "", "fwdbwd": "",
    "Kernel": _KERNEL, "Memcpy": _COPY, "Memset": _SET, "Runtime": _CALL, "Operator": _RANGE,
}  # fmt: skip
# the span of the profiler itself is read for when it begins
READ = {category for category, table in _CATEGORIES.items() if table} | {"Trace"}
_TIMED = _CATEGORIES.keys() | READ
_OP_COLUMNS = ("start", "end", "deviceId", "streamId", "correlationId", "graphNodeId")
_COLUMNS: dict[str, tuple[str, ...]] = {
    _KERNEL: (*_OP_COLUMNS, "demangledName", "shortName", "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
              "staticSharedMemory"),
    _COPY: (*_OP_COLUMNS, "bytes", "copyKind", "srcKind", "dstKind"),
    _SET: (*_OP_COLUMNS, "bytes"),
    _CALL: ("start", "end", "globalTid", "correlationId", "nameId"),
    _RANGE: ("start", "end", "eventType", "globalTid", "textId", "domainId", "jsonText"),
}  # fmt: skip
_INSERTS = {
    table: "INSERT INTO {} ({}) VALUES ({})".format(
        table, ", ".join(f'"{column}"' for column in columns), ", ".join("?" * len(columns))
    )
    for table, columns in _COLUMNS.items()
}
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75
_NCCL = 1  # the domain of NCCL's calls; 0 that of all other ranges
_ID_BITS = (1 << 24) - 1  # what nsys's globalTid has for a process, and for a thread
_NOTES = "TRACEDIFF_NOTES"
_LACKS = (
    "traces of torch.profiler (Kineto) hold no waits for the GIL, Python GC only with record_python_gc_info, ranges only of"
    " the threads that were profiled, and of CUDA's calls not cudaGetDevice, cudaSetDevice, cudaGetLastError, the creation"
    " of events and most driver calls: what these took counts as host work"
)
_FEW = 20  # events that tell nothing yet of the clock's resolution
_Row = tuple[int | str | None, ...]


def convert(path: Path, out: Path, *, annotations_only: bool = False) -> Path:
    """Write the trace at `path` as tables of an nsys export to `out`, and return that.

    `annotations_only`: no ranges of torch's operators and of Python functions, which an export of nsys would not have.
    Raises `TracediffError`: those of `TraceFile`, not-kineto, kineto-rocm, kineto-merged, disk-full.
    """
    try:
        with closing(sqlite3.connect(out, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN")
            with open_trace(path) as trace:
                head = trace.head()
                tables = _Tables(db, path.name, annotations_only)
                for block in trace.blocks():
                    tables.add(block)
                head |= trace.tail
            tables.finish(head)
            db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise disk_full(f"{path.name} could not be unpacked: {error}") from error
    return out


def notes(export: Path) -> list[Note]:
    """What `convert` has to say about the trace that became `export`; nothing of any other export."""
    with closing(sqlite3.connect(export)) as db:
        there = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_NOTES,)).fetchone()
        return [Note(*row) for row in db.execute(f"SELECT slug, message FROM {_NOTES}")] if there else []


class _Tables:
    """The tables of an export, filled block by block."""

    def __init__(self, db: sqlite3.Connection, name: str, annotations_only: bool) -> None:
        self._db, self._name, self._annotations_only = db, name, annotations_only
        self._strings: dict[str, int] = {}
        self._threads: dict[Any, int] = {}  # pid and tid of an event -> globalTid
        self._processes: dict[Any, int] = {}  # of host events, in order of appearance
        self._numbers: dict[int, dict[Any, int]] = {}  # process -> its threads
        self._callers: set[int] = set()  # processes that called CUDA
        self._hip = False  # it is HIP that they called
        self._nccl: set[int] = set()  # threads that called NCCL
        self._made: dict[tuple[Callable[[str], str], str], int] = {}  # what is made of a name -> its text
        self._known = False  # some event is of a category of Kineto's
        self._timed = 0  # events of work that have a time
        self._fine = False  # some time is finer than a microsecond
        self._origin: int | None = None  # ns, of the first event
        self._first = 0  # ns, of the earliest event from the origin
        self._held: dict[tuple[int, int | None, int], int] = {}  # bytes so far, by process, device and kind
        for table, columns in _COLUMNS.items():
            more = '"globalPid" INTEGER' if table in _OPS else '"text" TEXT'
            kinds = {"jsonText": "TEXT"}
            listed = ", ".join(f'"{column}" {kinds.get(column, "INTEGER")}' for column in columns)
            db.execute(f"CREATE TABLE {table} ({listed}, {more})")

    def add(self, events: list[Event]) -> None:
        """Take the events of one block."""
        rows: dict[str, list[_Row]] = {table: [] for table in _COLUMNS}
        memory: list[_Row] = []
        self._known = self._known or any(event.cat in _CATEGORIES for event in events)
        timed = [event for event in events if event.cat in _TIMED and (event.ph == "X" or of_memory(event))]
        starts = _nanoseconds([event.ts for event in timed])
        lengths = _nanoseconds([event.dur for event in timed])
        for event, start, length in zip(timed, starts, lengths, strict=True):
            if start is None:
                continue
            if self._origin is None:
                self._origin = start
            start -= self._origin
            if event.ph == "i":
                memory += self._levels(event, start)
                continue
            self._first = min(self._first, start)
            table = _CATEGORIES.get(event.cat or "")
            if not table:
                continue
            length = length or 0
            self._timed += 1
            if not self._fine:
                self._fine = (start + self._origin) % 1000 != 0 or length % 1000 != 0
            name = event.name if type(event.name) is str else str(event.name or "")
            if table is _RANGE:
                row = self._range(event, name)
                if row is None:
                    continue
            elif table is _CALL:
                row = self._call(event, name)
            else:
                row = self._op(table, event, name)
            rows[table].append((start, start + max(length, 0), *row))
        for table, some in rows.items():
            self._db.executemany(_INSERTS[table], some)
        if memory:
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {_MEMORY} ({_MEMORY_COLUMNS})")
            self._db.executemany(f"INSERT INTO {_MEMORY} VALUES (?, ?, ?, ?, ?, ?)", memory)

    def _levels(self, event: Event, start: int) -> Iterator[_Row]:
        """What came or went since the event before, by the totals that an event of PyTorch's allocator says; first what was there (no start)."""
        args = _decoded_args(event.args)
        if args.kind != 1:
            return
        pid = self._thread(event) >> 24 << 24
        for kind, total, change in (
            (_ALLOCATED, args.allocated, args.change or 0), (_RESERVED, args.reserved, 0)
        ):  # fmt: skip
            if total is None:
                continue
            if (key := (pid, args.allocator, kind)) not in self._held:
                self._held[key] = total - change
                yield None, *key, max(self._held[key], 0), 0
            if by := total - self._held[key]:
                yield start, *key, abs(by), int(by < 0)
            self._held[key] = total

    def _op(self, table: str, event: Event, name: str) -> _Row:
        args = _decoded_args(event.args)
        device = args.device if args.device is not None else _first(args.inDevice, event.pid)
        stream = args.stream if args.stream is not None else _int(str(event.tid).removeprefix("stream "))
        common = (device, stream, args.correlation, args.node)
        if table is _KERNEL:
            name = name.removesuffix(" [clone .kd]").removesuffix(".kd")  # AMD's kernel descriptors
            names = self._string(name), self._of(name, short_kernel_name)
            return (*common, *names, args.registers, *args.grid, *args.block, args.shared)
        if table is _COPY:
            return (*common, args.bytes, *copy_kinds(name))
        return (*common, args.bytes)

    def _call(self, event: Event, name: str) -> _Row:
        self._hip = self._hip or name.startswith("hip")
        tid = self._thread(event)
        self._callers.add(tid >> 24)
        if len(self._callers) > 1:
            raise TracediffError(
                "kineto-merged",
                f"{self._name} holds CUDA calls of several processes: correlation ids of merged traces are not unique",
                fix="give the traces of the ranks as they were written, one file a rank, in a folder",
            )
        return tid, _decoded_args(event.args).correlation, self._string(name)

    def _range(self, event: Event, name: str) -> _Row | None:
        if name.startswith("Python GC"):
            return _START_END, self._thread(event), self._string(name), 0, None
        if event.cat == "python_function" and not self._annotations_only:
            return _PUSH_POP, self._thread(event), self._of(name, frame_name), 0, None
        said = message(event)
        if said is not None or name == _TOGETHER:
            call, payload = (said.call, _payload(said)) if said is not None else (_GROUP_END, None)
            self._nccl.add(self._thread(event))
            return _PUSH_POP, self._thread(event), self._string(call), _NCCL, payload
        if event.cat != "user_annotation" and self._annotations_only:
            return None
        given = inputs(event)
        text = None if given is None else msgspec.json.encode(given).decode()
        return _PUSH_POP, self._thread(event), self._string(name), 0, text

    def _thread(self, event: Event) -> int:
        """The globalTid of nsys; ids that do not fit its 24 bits get others."""
        key = (event.pid, event.tid)
        found = self._threads.get(key)
        if found is None:
            pid = _fitting(event.pid, self._processes)
            found = self._threads[key] = pid << 24 | _fitting(event.tid, self._numbers.setdefault(pid, {}))
        return found

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _of(self, name: str, make: Callable[[str], str]) -> int:
        """The text that is made of a name, once."""
        found = self._made.get((make, name))
        if found is None:
            found = self._made[make, name] = self._string(make(name))
        return found

    def finish(self, head: dict[str, Any]) -> None:
        """Write what is known at the end: names, devices, how it was recorded, notes. Raises `TracediffError`: not-kineto."""
        if not self._known:
            raise not_kineto(self._name, "no event of a category that torch.profiler writes")
        db = self._db
        if self._first:  # times from the earliest event on, as viewers of traces count
            for table in _COLUMNS:
                db.execute(f'UPDATE {table} SET "start" = "start" - ?1, "end" = "end" - ?1', (self._first,))
        self._refuse_unjoined()
        if self._held:
            db.execute(f"UPDATE {_MEMORY} SET start = coalesce(start - ?, -1)", (self._first,))
        process = min(self._callers) if self._callers else next(iter(self._processes.values()), 1)
        for table in _OPS:
            db.execute(f"UPDATE {table} SET globalPid = ?", (process << 24,))
        names = [(0, None, _DOMAIN, tid, self._string("NCCL"), _NCCL, None) for tid in sorted(self._nccl)]
        db.executemany(_INSERTS[_RANGE], names)
        self._mark_nodes()
        self._copies_of_the_driver()
        self._insert(
            "StringIds",
            "id INTEGER PRIMARY KEY, value TEXT",
            [(one, text) for text, one in self._strings.items()],
        )
        self._meta(head)
        # without the file's name: what every trace lacks is said once
        remarks = [("torch-profiler", _LACKS)]
        if self._timed >= _FEW and not self._fine:
            whole = "holds times in whole microseconds: every start and every length of a kernel or a gap is off by up to 1 us"
            remarks.append(("whole-microseconds", f"{self._name} {whole}"))
        self._insert(_NOTES, "slug TEXT, message TEXT", remarks)

    def _refuse_unjoined(self) -> None:
        """Refuse a trace of an AMD GPU whose kernels do not say what launched them. Raises `TracediffError`: kineto-rocm."""
        joined = self._db.execute(f"SELECT max(correlationId IS NOT NULL) FROM {_KERNEL}").fetchone()
        if self._hip and joined == (0,):
            raise TracediffError(
                "kineto-rocm",
                f"{self._name} was recorded on an AMD GPU, and its kernels have no correlation: what launched them is not known",
                fix="record it with a newer PyTorch, whose kernels on AMD GPUs have a correlation",
            )

    def _insert(self, table: str, columns: str, rows: list[tuple[Any, ...]]) -> None:
        self._db.execute(f"CREATE TABLE {table} ({columns})")
        marks = ", ".join("?" * len(columns.split(",")))
        self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def _mark_nodes(self) -> None:
        """Give every op that a graph launch started a graphNodeId, where the trace gives it none.

        Kineto names nodes since 2026; before, the nodes of a graph are the ops that share its launch.
        """
        launches = [
            one
            for text, one in self._strings.items()
            if text.startswith(("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"))
        ]
        if not launches:
            return
        self._db.execute(
            f"CREATE TEMP TABLE launched AS SELECT DISTINCT correlationId AS corr FROM {_CALL}"
            f" WHERE nameId IN ({', '.join(map(str, launches))}) AND correlationId IS NOT NULL"
        )
        self._db.execute("CREATE UNIQUE INDEX temp.launched_corr ON launched (corr)")
        for table in _OPS:
            self._db.execute(
                f"UPDATE {table} SET graphNodeId = rowid WHERE coalesce(graphNodeId, 0) = 0"
                " AND correlationId IN (SELECT corr FROM launched)"
            )

    def _copies_of_the_driver(self) -> None:
        """Make copies and memsets of the kernels by which the driver does those of a graph.

        CUPTI reports such a node as a copy or as a kernel, by its version and by whether it was there when the graph was
        made: of one program, nsys reports copies and torch.profiler kernels. Their bytes are not recorded.
        """
        columns = ", ".join(f'"{column}"' for column in (*_OP_COLUMNS, "globalPid"))
        # 8 is DtoD, 2 the device's memory
        into = {"memcpy": (_COPY, ", copyKind, srcKind, dstKind", ", 8, 2, 2"), "memset": (_SET, "", "")}
        for text, one in self._strings.items():
            what = driver_copy(text)
            if what is not None:
                table, names, values = into[what]
                nodes = f"FROM {_KERNEL} WHERE demangledName = {one} AND graphNodeId <> 0"
                self._db.execute(f"INSERT INTO {table} ({columns}{names}) SELECT {columns}{values} {nodes}")
                self._db.execute(f"DELETE {nodes}")

    def _meta(self, head: dict[str, Any]) -> None:
        cupti, driver = _int(head.get("cupti_version")), _int(head.get("cuda_driver_version"))
        capture = []
        if self._callers or any(self._db.execute(f"SELECT 1 FROM {table}").fetchone() for table in _OPS):
            # CUPTI's kernel records come by node: Kineto never asks for whole graphs
            capture = [("CAPTURE_EVENT_TYPE", "Cuda"), ("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node")]
        rank, size = _rank(head)
        if rank is not None and size is not None:
            capture.append(("RANK", f"{rank} of {size}"))
        self._insert("META_DATA_CAPTURE", "name TEXT, value TEXT", capture)
        version = PRODUCT if cupti is None else f"{PRODUCT}, CUPTI {cupti}"
        if cupti is None and "roctracer_version" in head:
            version = f"{PRODUCT}, roctracer {head['roctracer_version']}"[:64]
        self._insert("META_DATA_EXPORT", "name TEXT, value TEXT", [("EXPORT_PRODUCT_VERSION", version)])
        system = [] if driver is None else [("CudaDriverVersion", str(driver))]
        self._insert("TARGET_INFO_SYSTEM_ENV", "name TEXT, value TEXT", system)
        start = [] if self._origin is None else [(self._origin + self._first,)]
        self._insert("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", start)
        said = head.get("deviceProperties") or head.get("computeProperties") or []
        devices = [
            (
                number, str(device.get("name") or ""),
                _first(device.get("numSms"), device.get("multiProcessorCount")), _int(device.get("totalGlobalMem")),
            )
            for device in (said if isinstance(said, list) else [])
            if isinstance(device, dict) and (number := _int(device.get("id"))) is not None
        ]  # fmt: skip
        self._insert(
            "TARGET_INFO_GPU", "id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER", devices
        )


def _fitting(value: object, taken: dict[Any, int]) -> int:
    """The number that stands for an id: the id itself where it fits into nsys's 24 bits, else the highest that is free."""
    number = _int(value)
    key = value if number is None else number  # older traces have 24572 and "24572"
    if key not in taken:
        free = set(taken.values())
        fits = number is not None and 0 < number <= _ID_BITS and number not in free
        taken[key] = (
            number if fits and number else next(one for one in range(_ID_BITS, 0, -1) if one not in free)
        )
    return taken[key]
