"""A `Reduction` as bytes and back: between processes, and in the cache. Nothing in it is executed on reading.

MessagePack; frames are Arrow IPC files and arrays raw integers inside it. A digest in front tells a damaged or cut copy.
"""

from __future__ import annotations

import hashlib
import io
from typing import Any, get_origin

import msgspec
import numpy as np
import polars as pl

from tracediff.measure.reduction import Reduction

# Counted up whenever what is kept, or how it is measured, changes: older copies are then not read.
STORE_VERSION = 5
_MAGIC = b"tracediff-reduction\n"
_DIGEST = 32


class DamagedStoreError(ValueError):
    """Not a whole stored reduction of this version."""


def pack(reduction: Reduction, *, compress: bool = False) -> bytes:
    """The bytes of a reduction, equal for equal ones; `compress` for what is kept on disk."""

    def encode(value: object) -> object:
        if isinstance(value, pl.DataFrame):
            out = io.BytesIO()
            value.write_ipc(out, compression="zstd" if compress else "uncompressed")
            return out.getbuffer()
        if isinstance(value, np.ndarray):
            return [value.dtype.str, value.tobytes()]
        if isinstance(value, np.generic):
            return value.item()
        raise NotImplementedError(type(value))

    body = msgspec.msgpack.encode((STORE_VERSION, reduction), enc_hook=encode, order="deterministic")
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def unpack(raw: bytes | memoryview) -> Reduction:
    """The reduction in these bytes. Raises `DamagedStoreError` where they are not whole, or of another version."""
    view = memoryview(raw)
    head = len(_MAGIC)
    body = view[head + _DIGEST :]
    if (
        view[:head] != _MAGIC
        or view[head : head + _DIGEST] != hashlib.blake2b(body, digest_size=_DIGEST).digest()
    ):
        raise DamagedStoreError("not a whole stored reduction")
    try:
        version, reduction = _DECODER.decode(body)
    except (msgspec.MsgspecError, pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise DamagedStoreError(str(error)) from error
    if version != STORE_VERSION:
        raise DamagedStoreError(f"version {version}")
    assert isinstance(reduction, Reduction)
    return reduction


def _decode(kind: Any, value: Any) -> object:
    if kind is pl.DataFrame:
        return pl.read_ipc(io.BytesIO(value))
    if get_origin(kind) is np.ndarray or kind is np.ndarray:
        dtype, raw = value
        found = np.dtype(dtype)
        if found.kind not in "iufb":  # numbers only: an array of objects would be unpickled
            raise ValueError(f"array of {found}")
        return np.frombuffer(raw, found)
    raise NotImplementedError(kind)


# Made while the module is imported, which one thread does at a time: where two made the first one at once, msgspec let the one decode
# with what the other had only half made of `Reduction`, and the process ended with a segmentation fault.
_DECODER = msgspec.msgpack.Decoder(tuple[int, Reduction], dec_hook=_decode)
