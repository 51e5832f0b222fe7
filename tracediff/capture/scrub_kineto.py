"""Make a trace of torch.profiler fit to be published: what is read of it stays, what tells of machine and owner goes.

Events are written anew from a list of what is kept: category, name, thread, times and the arguments that are read, all
of them numbers. Only names are free text, and they are cleaned.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from tracediff.capture.clean import Cleaner
from tracediff.capture.scrub import Digest, Row, replaced
from tracediff.errors import TracediffError
from tracediff.formats.kineto import (
    READ,
    Event,
    arguments,
    frame_name,
    inputs,
    marked,
    nanoseconds,
    not_kineto,
    open_trace,
)

_NUMBERS = ("schemaVersion", "cupti_version", "cuda_runtime_version", "cuda_driver_version")
_DEVICE = (
    "id",
    "totalGlobalMem",
    "computeMajor",
    "computeMinor",
    "numSms",
    "multiProcessorCount",
    "warpSize",
)
_RANKS = ("rank", "world_size")
_OWNERS = {"host_name": "Hostname", "hostname": "Hostname", "user": "USER_NAME", "username": "USER_NAME"}


@dataclass(frozen=True)
class ScrubbedTrace:
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
        raise TracediffError("not-a-file", f"{source}: there is no such file")
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
                {"name": cleaner.clean(str(device.get("name") or ""), path=True)}
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
    start = nanoseconds(event.ts) if event.ph == "X" and event.cat in READ else None
    if start is None:
        return None
    name = event.name if isinstance(event.name, str) else str(event.name or "")
    if event.cat == "python_function":
        name = frame_name(cleaner.clean(name, path=True))
    else:
        name = cleaner.clean(name)
    where = [cleaner.clean(one, path=True) if isinstance(one, str) else one for one in (event.pid, event.tid)]
    told = (*arguments(event), *(inputs(event) or {}).items())
    return event.cat, name, *where, start, nanoseconds(event.dur) or 0, told


def _line(row: Row) -> bytes:
    category, name, pid, tid, start, length, numbers = row
    event: dict[str, Any] = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    event |= {"ts": _microseconds(start), "dur": _microseconds(length)}
    if numbers:
        event["args"] = dict(numbers)
    return msgspec.json.encode(event)


def _microseconds(ns: int) -> msgspec.Raw:
    whole, rest = divmod(abs(ns), 1000)
    return msgspec.Raw(f"{'-' if ns < 0 else ''}{whole}.{rest:03}".encode())
