"""A `Reduction` as an Arrow IPC stream: nothing in it is executed on reading.

One row. Each table of the reduction is a column, a list of structs; `rest` is all else as MessagePack. Behind the stream
comes a digest of it, keyed by the name under which it is kept: an entry that was moved to another name is not believed.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import fields, replace
from typing import Any, get_origin

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.reduction import Reduction

_DIGEST = 32
_TABLES = [field.name for field in fields(Reduction) if field.type == "pl.DataFrame"]
_NO_TABLE = pl.DataFrame()


class DamagedError(ValueError):
    """Not a whole reduction that was stored under this key."""


def pack(reduction: Reduction, key: str = "") -> bytes:
    """The bytes of a reduction, equal for equal ones."""
    without: dict[str, Any] = dict.fromkeys(_TABLES, _NO_TABLE)
    rest = replace(reduction, **without)
    columns: dict[str, Any] = {name: [getattr(reduction, name).to_struct()] for name in _TABLES}
    columns["rest"] = [msgspec.msgpack.encode(rest, enc_hook=_encode, order="deterministic")]
    out = io.BytesIO()
    # strings in one buffer, as every reader of Arrow knows them: as views their bytes would depend on where they come from
    pl.DataFrame(columns).write_ipc_stream(out, compression="zstd", compat_level=pl.CompatLevel.oldest())
    return out.getvalue() + _digest(out.getvalue(), key)


def unpack(raw: bytes, key: str = "") -> Reduction:
    """The reduction in these bytes. Raises `DamagedError` where they are not whole, or were stored under another key."""
    stream = raw[:-_DIGEST]
    if _digest(stream, key) != raw[-_DIGEST:]:
        raise DamagedError("not whole, or stored under another key")
    try:
        row = pl.read_ipc_stream(io.BytesIO(stream))
        rest = _DECODER.decode(row["rest"][0])
        return replace(rest, **{name: row[name][0].struct.unnest() for name in _TABLES})
    except (msgspec.MsgspecError, pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise DamagedError(str(error)) from error


def _digest(stream: bytes, key: str) -> bytes:
    return hashlib.blake2b(stream, digest_size=_DIGEST, key=key.encode()).digest()


def _encode(value: object) -> object:
    if isinstance(value, pl.DataFrame):
        return None
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.tobytes()]
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(type(value))


def _decode(kind: Any, value: Any) -> object:
    if kind is pl.DataFrame:
        return _NO_TABLE
    if get_origin(kind) is np.ndarray or kind is np.ndarray:
        dtype, raw = value
        found = np.dtype(dtype)
        if found.kind not in "iufb":  # numbers only: an array of objects would be unpickled
            raise ValueError(f"array of {found}")
        return np.frombuffer(raw, found)
    raise NotImplementedError(kind)


# Made with the module, which one thread imports at a time: two threads that make msgspec's first decoder of a type at
# once end the process.
_DECODER = msgspec.msgpack.Decoder(Reduction, dec_hook=_decode)
