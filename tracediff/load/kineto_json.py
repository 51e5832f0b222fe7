"""The JSON of a torch.profiler trace, in pieces: gigabytes pass through without being held.

The file is one object; its `traceEvents` array is read in blocks of whole events. A block ends at a place that
looks like the border of two events, `}` `,` `{`; whether it is one is decided by decoding the block: what ends
inside a string or inside a nested object is no JSON, so a wrong border is never taken for a right one.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from tracediff.errors import TracediffError

BLOCK = 4 << 20
_LARGEST_HEAD = 64 << 20
_LARGEST_EVENT = 256 << 20
_TRIES = 64  # borders tried in a block before more is read
_PEEK = 1 << 20

_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}\s*,\s*(?=\{)")
_NO_NUMBER = re.compile(rb'(":\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,}])', re.IGNORECASE)
# Control characters are no JSON inside strings; outside they are spaces.
_PLAIN = bytes(32 if byte < 32 else byte for byte in range(256))


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
    traceEvents: list[Event]  # noqa: N815


_block = msgspec.json.Decoder(list[Event])
_rest = msgspec.json.Decoder(_Rest)


class TraceFile:
    """A trace that is read once: `head` first, then `blocks`."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, name: str, block: int = BLOCK) -> None:
        self._stream, self._name, self._size = stream, name, block
        self._buffer = b""
        self._offset = 0  # of the buffer in the (unpacked) file

    def head(self) -> dict[str, Any]:
        """What the object says before its events.

        Raises `TracediffError`: empty-file, not-json, no-trace-events, not-kineto, truncated, bad-gzip.
        """
        while True:
            data = self._read()
            self._buffer += data
            self._check_start(at_end=not data)
            found = _EVENTS.search(self._buffer)
            if found:
                break
            if not data or len(self._buffer) > _LARGEST_HEAD:
                raise self._no_events()
        text, self._buffer = self._buffer[: found.end()], self._buffer[found.end() :]
        self._offset = found.end()
        try:
            head: dict[str, Any] = msgspec.json.decode(_tidy(text) + b"]}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise TracediffError(
                "not-json", f"{self._name}: what comes before its events is no JSON: {error}", fix=_AGAIN
            ) from error
        head.pop("traceEvents", None)
        return head

    def blocks(self) -> Iterator[list[Event]]:
        """All events, some thousands at a time. Raises `TracediffError`: truncated, bad-gzip."""
        while True:
            data = self._read()
            self._buffer += data
            if not data:
                yield self._last()
                return
            for end, following in _borders(self._buffer):
                events = _decoded(self._buffer[:end])
                if events is not None:
                    yield events
                    self._buffer = self._buffer[following:]
                    self._offset += following
                    break
            else:
                if len(self._buffer) > _LARGEST_EVENT:
                    raise self._damaged("no event ends here")

    def _last(self) -> list[Event]:
        text = b'{"traceEvents":[' + self._buffer
        try:
            return _rest.decode(text).traceEvents
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = str(error)
        try:
            return _rest.decode(_tidy(text)).traceEvents
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._damaged(problem) from None

    def _damaged(self, problem: str) -> TracediffError:
        position = re.search(r"\(byte (\d+)\)", problem)
        at = self._offset + (max(int(position[1]) - 16, 0) if position else len(self._buffer))
        cut = "truncated" in problem.lower()
        what = "ends before its events do" if cut else "is damaged"
        return TracediffError(
            "truncated", f"{self._name} {what}: byte {at} of the JSON text, in traceEvents", fix=_AGAIN
        )

    def _check_start(self, *, at_end: bool) -> None:
        start = self._buffer[: 1 << 16].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if not start and at_end:
            raise TracediffError("empty-file", f"{self._name} is empty", fix=_AGAIN)
        if start == b"[":
            raise not_kineto(self._name, "a bare list of events")
        if start and start != b"{":
            raise TracediffError("not-json", f"{self._name} is not JSON", fix=_AGAIN)

    def _no_events(self) -> TracediffError:
        try:
            msgspec.json.decode(self._buffer)
        except msgspec.DecodeError as error:
            cut = "truncated" in str(error).lower()
            slug = "truncated" if cut else "not-json"
            what = "ends before its events begin" if cut else f"is not JSON: {error}"
            return TracediffError(slug, f"{self._name} {what}", fix=_AGAIN)
        return TracediffError(
            "no-trace-events", f"{self._name} is JSON without a list of traceEvents", fix=_AGAIN
        )

    def _read(self) -> bytes:
        try:
            return self._stream.read(self._size)
        except EOFError as error:
            raise TracediffError(
                "truncated", f"{self._name} is cut short: its gzip stream has no end", fix=_AGAIN
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise TracediffError(
                "bad-gzip", f"{self._name} is not a whole .gz file: {error}", fix="copy or pack it again"
            ) from error


_AGAIN = "write it with torch.profiler: profile.export_chrome_trace(FILE), and copy it whole"


def not_kineto(name: str, what: str) -> TracediffError:
    """The error of a Chrome trace that torch.profiler did not write."""
    return TracediffError(
        "not-kineto",
        f"{name}: {what}: a Chrome trace of another tool than torch.profiler",
        fix="give a trace of torch.profiler (Kineto) or an export of nsys",
    )


@contextmanager
def open_trace(path: Path, name: str | None = None, block: int = BLOCK) -> Iterator[TraceFile]:
    """Open a trace, packed with gzip or not, whatever its name says."""
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        if not packed:
            yield TraceFile(plain, name or path.name, block)
            return
        with gzip.GzipFile(fileobj=plain, mode="rb") as stream:
            yield TraceFile(stream, name or path.name, block)


def peek(path: Path) -> dict[str, Any] | None:
    """What a trace says before its events; None where the file is no torch.profiler trace, or its head is long."""
    try:
        with open_trace(path, block=_PEEK) as trace:
            data = trace._read()
            found = _EVENTS.search(data)
            if not found:
                return None
            head = msgspec.json.decode(_tidy(data[: found.end()]) + b"]}", type=dict[str, Any])
    except (OSError, TracediffError, msgspec.DecodeError):
        return None
    return head if head.keys() & _MARKS else None


# What Kineto writes before its events, of which one at least is in every version.
_MARKS = {"schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds"}


def _borders(text: bytes) -> Iterator[tuple[int, int]]:
    """Where one event may end and where the next then begins, from the end of the text on."""
    position, tries = len(text), 0
    while tries < _TRIES and (position := text.rfind(b"}", 0, position)) > 0:
        found = _BORDER.match(text, position)
        if found:
            tries += 1
            yield position + 1, found.end()


def _decoded(text: bytes) -> list[Event] | None:
    listed = b"[" + text + b"]"
    try:
        return _block.decode(listed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return _block.decode(_tidy(listed))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _tidy(text: bytes) -> bytes:
    """Make JSON of what profilers are known to write: bytes that are not UTF-8, control characters, nan and inf."""
    text = text.removeprefix(b"\xef\xbb\xbf").translate(_PLAIN)
    return _NO_NUMBER.sub(rb"\1null", text.decode("utf-8", "replace").encode())
