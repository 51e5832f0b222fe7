"""How long reading one export may take, and how much memory: a file of a few MB can ask for hours and for terabytes.

A thread looks at both while an export is loaded and measured. It interrupts the database, and raises an exception in the
thread that reads. What hears of neither, in the middle of a call of a library, is ended by `last_resort`.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    import duckdb

Made = TypeVar("Made")

VARIABLE = "TRACEDIFF_READ_BOUNDS"
# Ten times what exports take on a slow machine: see docs/performance.md. Bytes are those of the unpacked export.
SECONDS, BYTES_PER_S = 40, 4 << 20
MEMORY, MEMORY_PER_BYTE = 1280 << 20, 6
_LOOK_S = 0.1
_GRACE_S = 8  # from the interruption to the end of what does not hear of it
_PAGE = os.sysconf("SC_PAGE_SIZE")

# Ends the process, or what of it reads, with the error; set by who owns the process.
last_resort: Callable[[TracediffError], None] | None = None


class _Stopped(BaseException):
    """Raised in the thread that reads; no `except Exception` on the way may take it for its own."""


def bounded(
    work: Callable[[], Made], name: str, size: int, db: duckdb.DuckDBPyConnection | None = None
) -> Made:
    """What `work` makes of an export of `size` bytes, in this thread and with this database, within bounds.

    Raises what it raises, and `TracediffError`: read-too-costly, bad-limit.
    """
    allowed = times()
    if not allowed:
        return work()
    watch = _Watch(name, size, db, allowed)
    # No context manager: the exception may come in the first moment of `end`, and must not keep it from ending the watch.
    try:
        try:
            watch.start()
            made = work()
        finally:
            watch.end()
    except BaseException as error:
        if not watch.end() or isinstance(error, KeyboardInterrupt):
            raise
        raise watch.error() from None
    if watch.end():
        raise watch.error()
    return made


class _Watch(threading.Thread):
    def __init__(self, name: str, size: int, db: duckdb.DuckDBPyConnection | None, times: float) -> None:
        super().__init__(name="tracediff-bounds", daemon=True)
        self._file, self._size, self._db = name, size, db
        self._reader = threading.get_ident()
        self._seconds = times * (SECONDS + size / BYTES_PER_S)
        self._bytes = times * (MEMORY + size * MEMORY_PER_BYTE)
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._exceeded = ""

    def run(self) -> None:
        began, busy, before = time.monotonic(), time.process_time(), _resident()
        while not self._ended.wait(_LOOK_S):
            # the lesser of both: another program, or another thread, may keep the machine busy
            took = min(time.monotonic() - began, time.process_time() - busy)
            more = _resident() - before
            if took > self._seconds:
                self._stop(f"{self._seconds:,.0f} s of processor time")
            elif more > self._bytes:
                self._stop(f"{self._bytes / 2**20:,.0f} MiB of memory")
            hopeless = took > self._seconds + _GRACE_S or more > 2 * self._bytes
            if hopeless and last_resort is not None and not self._ended.is_set():
                last_resort(self.error())

    def end(self) -> bool:
        """End the watch; whether anything was exceeded."""
        with self._lock:
            if self._exceeded and not self._ended.is_set():
                _raise_in(self._reader, None)  # where it was not raised yet
            self._ended.set()
        return bool(self._exceeded)

    def error(self) -> TracediffError:
        return TracediffError(
            "read-too-costly",
            f"{self._file}: reading it took more than {self._exceeded}, which no export of {self._size / 2**20:,.1f} MiB does",
            fix=f"where you know what it holds: {VARIABLE}=10 allows ten times as much, {VARIABLE}=0 any",
        )

    def _stop(self, exceeded: str) -> None:
        with self._lock:
            if self._ended.is_set():
                return
            first, self._exceeded = not self._exceeded, exceeded
            if self._db is not None:
                self._db.interrupt()
            if first:
                _raise_in(self._reader, _Stopped)


def _raise_in(thread: int, what: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what and ctypes.py_object(what))


def _resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0


def times() -> float:
    """How many times the bounds are allowed, 0 for none. Raises `TracediffError`: bad-limit."""
    said = os.environ.get(VARIABLE, "1")
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", said):
        raise TracediffError("bad-limit", f"{VARIABLE}={said} is no number", fix=f"{VARIABLE}=10")
    return float(said)
