"""Perfetto's trace format, as much of it as slices, counters and flows need: protobuf written by hand.

A handful of messages (TracePacket, TrackDescriptor, TrackEvent, InternedData) do not ask for a protobuf library whose
version the stacks that are profiled pin themselves, and the bytes written here are the same wherever they are written.
The tests read them back with Perfetto's own definitions. Field numbers: perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import count

from tracediff.report.escape import shorten, visible

MOST_TEXT = 4_096  # characters of a name or an argument; longer ones are cut in the middle
_UNNAMED = "(no name)"
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_EXPLICIT, _UNIT_TIME_NS = 3, 1  # TrackDescriptor.ChildTracksOrdering, CounterDescriptor.Unit
_CATEGORIES, _NAMES, _ARG_NAMES, _ARG_TEXTS = 1, 2, 3, 29  # fields of InternedData

Args = Iterable[tuple[str, str | int]]


@lru_cache(1 << 16)
def _varint(value: int) -> bytes:
    """A number; negative ones as 64 bits in two's complement, as int32 and int64 have them."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(1 << 16)
def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + value.to_bytes(8, "little")


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, clean(value).encode())


def clean(text: str) -> str:
    """A name as it is written: nothing that cannot be seen, no lone surrogates, not endless, never empty."""
    return shorten(visible(text[: 4 * MOST_TEXT]), MOST_TEXT) or _UNNAMED


class TraceWriter:
    """A trace in the making: one sequence of packets, every text once. Times are ns."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._interned: dict[tuple[int, str], int] = {}
        self._fresh = bytearray()  # texts that the next packet brings along
        self._uuids = count(1)
        self._begun = False

    def data(self) -> bytes:
        """Everything written so far."""
        return bytes(self._out)

    def track(
        self,
        name: str,
        parent: int = 0,
        *,
        place: int = 0,
        process: int = 0,
        counts_ns: bool = False,
        about: str = "",
    ) -> int:
        """Add a track and return its id; with a number, of a process. `place`: among its siblings."""
        uuid = next(self._uuids)
        fields = _number(1, uuid) + _text(2, name)
        if process:
            fields += _bytes(3, _number(1, process) + _text(6, name))
        if parent:
            fields += _number(5, parent)
        if counts_ns:
            fields += _bytes(8, _number(3, _UNIT_TIME_NS))
        fields += _number(11, _EXPLICIT) + _number(12, place)
        if about:
            fields += _text(14, about)
        self._packet(_bytes(60, fields))
        return uuid

    def begin(
        self, track: int, at: int, name: str, category: str, args: Args, starts: int = 0, ends: int = 0
    ) -> None:
        """Open a slice, from which a flow may start, and at which one may end. Slices of a track must nest."""
        self._event(_BEGIN, track, at, self._described(name, category, args, starts, ends))

    def end(self, track: int, at: int) -> None:
        """Close the slice opened last."""
        self._event(_END, track, at, b"")

    def instant(self, track: int, at: int, name: str, category: str, args: Args) -> None:
        """Mark an instant."""
        self._event(_INSTANT, track, at, self._described(name, category, args, 0, 0))

    def counter(self, track: int, at: int, value: int) -> None:
        """Set a counter."""
        self._event(_COUNTER, track, at, _number(30, value))

    def _described(self, name: str, category: str, args: Args, starts: int, ends: int) -> bytes:
        fields = _number(10, self._intern(_NAMES, name)) + _number(3, self._intern(_CATEGORIES, category))
        for key, value in args:
            said = _number(1, self._intern(_ARG_NAMES, key))
            if isinstance(value, str):
                said += _number(17, self._intern(_ARG_TEXTS, value))
            else:
                said += _number(4, value)
            fields += _bytes(4, said)
        if starts:
            fields += _fixed64(47, starts)
        if ends:
            fields += _fixed64(48, ends)
        return fields

    def _intern(self, kind: int, text: str) -> int:
        known = self._interned.get((kind, text))
        if known is None:
            known = self._interned[kind, text] = len(self._interned) + 1
            self._fresh += _bytes(kind, _number(1, known) + _text(2, text))
        return known

    def _event(self, kind: int, track: int, at: int, described: bytes) -> None:
        fields = _number(9, kind) + _number(11, track) + described
        self._packet(_number(8, at) + _bytes(11, fields))

    def _packet(self, fields: bytes) -> None:
        # the first packet says that nothing came before it, every one that it needs the texts of those before
        fields += _number(10, 1) + _number(13, 2 if self._begun else 3)
        self._begun = True
        if self._fresh:
            fields += _bytes(12, bytes(self._fresh))
            self._fresh.clear()
        self._out += _bytes(1, fields)
