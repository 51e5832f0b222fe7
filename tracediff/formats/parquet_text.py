"""The metadata at the end of a Parquet file (thrift's compact protocol), as far as it is read without a library.

It says how many rows there are. And it says what a column means: no reader takes texts that are not all UTF-8 as texts, as bytes
every reader does; a copy of the file that does not call its columns texts holds the same bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

_END = b"PAR1"
# fields of FileMetaData and SchemaElement, see parquet.thrift
_SCHEMA, _ROWS = 2, 3
_TYPE, _CONVERTED_TYPE, _LOGICAL_TYPE = 1, 6, 10
_BYTE_ARRAY = 6
# kinds of values in thrift's compact protocol
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def without_texts(source: Path, to: Path) -> None:
    """Copy a Parquet file with its texts as bytes. Raises ValueError where its metadata cannot be read; OSError."""
    data = source.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    begin = len(data) - 8 - length
    if data[-4:] != _END or begin < len(_END):
        raise ValueError("no Parquet metadata")
    try:
        footer = _Footer(data[begin:-8]).rewritten()
    except (IndexError, RecursionError) as error:
        raise ValueError("no Parquet metadata") from error
    with to.open("wb") as file:
        file.write(memoryview(data)[:begin])
        file.write(footer + len(footer).to_bytes(4, "little") + _END)


def declared_rows(path: Path) -> int:
    """How many rows a Parquet file says that it holds. Raises ValueError where its metadata cannot be read; OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
        if length > size - 12:
            raise ValueError("its metadata would be longer than the file")
        file.seek(size - 8 - length)
        data = file.read(length)
    try:
        return _Footer(data).rows()
    except (IndexError, RecursionError) as error:
        raise ValueError("its metadata cannot be read") from error


class _Footer:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def rewritten(self) -> bytes:
        return self._struct(())

    def rows(self) -> int:
        """Field 3 of the outermost struct: it comes before the row groups, which are most of the metadata."""
        field = 0
        while head := self._take(1)[0]:
            field = field + (head >> 4) if head >> 4 else _unzigzag(self._number()[1])
            if field == _ROWS:
                return _unzigzag(self._number()[1])
            if head & 15 not in (_TRUE, _FALSE):
                self._value(head & 15, (-1,))  # nothing below is looked at
        raise IndexError

    def _struct(self, path: tuple[int, ...]) -> bytes:
        """The struct at this place, below these fields."""
        out, last, written, bytes_column = bytearray(), 0, 0, False
        while head := self._take(1)[0]:
            field = last + (head >> 4) if head >> 4 else _unzigzag(self._number()[1])
            last = field
            kind = head & 15
            begin = self._at
            value = b"" if kind in (_TRUE, _FALSE) else self._value(kind, (*path, field))
            if path == (_SCHEMA,):
                if field == _TYPE:
                    self._at = begin
                    bytes_column = _unzigzag(self._number()[1]) == _BYTE_ARRAY
                elif bytes_column and field in (_CONVERTED_TYPE, _LOGICAL_TYPE):
                    continue
            step = field - written
            out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint(_zigzag(field))
            out += value
            written = field
        return bytes(out) + b"\0"

    def _value(self, kind: int, path: tuple[int, ...]) -> bytes:
        if kind == _STRUCT:
            return self._struct(path)
        if kind in (_TRUE, _FALSE, _BYTE):  # of a list: a byte each
            return self._take(1)
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BINARY:
            raw, length = self._number()
            return raw + self._take(length)
        if kind in (_LIST, _SET):
            head = self._take(1)
            size, of = head[0] >> 4, head[0] & 15
            if size == 15:
                raw, size = self._number()
                head += raw
            return head + b"".join(self._value(of, path) for _ in range(size))
        if kind == _MAP:
            raw, size = self._number()
            if not size:
                return raw
            kinds = self._take(1)
            pairs = (self._value(of, path) for _ in range(size) for of in (kinds[0] >> 4, kinds[0] & 15))
            return raw + kinds + b"".join(pairs)
        return self._number()[0]

    def _take(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise IndexError
        self._at += length
        return found

    def _number(self) -> tuple[bytes, int]:
        """A varint: its bytes, and what they say."""
        begin, value, shift = self._at, 0, 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return self._data[begin : self._at], value
            shift += 7
            if shift >= 70:
                raise IndexError


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else -value * 2 - 1


def _unzigzag(value: int) -> int:
    return value >> 1 if value & 1 == 0 else -(value >> 1) - 1
