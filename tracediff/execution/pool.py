"""Exports reduced side by side in processes of their own.

Two large exports in one process wait for each other: for Python's lock, and for the kernel, which hands out fresh pages
of memory to one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

import tracediff
from tracediff.errors import TracediffError
from tracediff.execution.run import Reading
from tracediff.execution.worker import (
    Answer,
    Denied,
    Emptied,
    Failed,
    GoOn,
    Loaded,
    Refused,
    Task,
    receive,
    send,
)
from tracediff.formats.scratch import scratch

if TYPE_CHECKING:
    from tracediff.accounting.reduction import Reduction


# The worker runs this very package, wherever it lies, and nothing from the folder that the user happens to be in.
_START = """\
import sys
if sys.argv[1] not in sys.path:
    sys.path.insert(0, sys.argv[1])
from tracediff.measure.worker import main
main()
"""

# Memory that was freed is kept for the next array: fresh pages must be cleared first, a fifth of all the time.
_MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_TOP_PAD_": str(1 << 26),
    "MALLOC_ARENA_MAX": "1",
}

_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
_running: set[subprocess.Popen[bytes]] = set()


class Pool:
    """Processes, started when they are first needed and used again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._own: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def reduce(
        self,
        path: Path,
        reading: Reading,
        *,
        emptied: Callable[[], None] = lambda: None,
        loaded: Callable[[], None] | None = None,
    ) -> Reduction:
        """One export; the worker goes on when `loaded` is done. Raises what `reduce_file` raises, and worker-died."""
        child = self._take()
        try:
            assert child.stdin is not None and child.stdout is not None
            send(child.stdin, Task(str(path), reading, str(self._folder), waits=loaded is not None))
            while isinstance(answer := _answer(child, path), Loaded | Emptied):
                if isinstance(answer, Emptied):
                    emptied()
                elif loaded is not None:
                    loaded()
                    send(child.stdin, GoOn())
        except BaseException:
            _kill(child)
            raise
        if loaded is None:
            self._idle.put(child)
        else:
            _kill(child)  # with the memory that it would keep, which the next large export is waiting for
        if isinstance(answer, Refused):
            raise TracediffError(answer.slug, answer.message, fix=answer.fix, exit_code=answer.exit_code)
        if isinstance(answer, Denied):
            raise PermissionError(13, "permission denied", answer.file)
        if isinstance(answer, Failed):
            raise RuntimeError(f"reducing {path.name}:\n{answer.trace}")
        from tracediff.execution.cache import unpack

        return unpack(answer.packed)

    def _take(self) -> subprocess.Popen[bytes]:
        if not self._idle.empty():
            return self._idle.get()
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, str(Path(tracediff.__file__).parent.parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_MALLOC},
            process_group=0,  # Ctrl-C is for the process that asked: it ends its workers
        )
        with self._lock:
            self._own.add(child)
        _running.add(child)
        return child

    def close(self) -> None:
        """End the processes, with what they started."""
        with self._lock:
            own = list(self._own)
        for child in own:
            _kill(child)


def _answer(child: subprocess.Popen[bytes], path: Path) -> Answer:
    assert child.stdout is not None
    raw = receive(child.stdout)
    if raw is not None:
        return _ANSWERS.decode(raw)
    status = child.wait()
    ended = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
    raise TracediffError(
        "worker-died",
        f"{path.name}: the process that was reading it was {ended}"
        + (", probably for want of memory" if status == -9 else ""),
        fix="--memory-limit 1GiB reads one export after the other in little memory",
    )


@contextmanager
def pool() -> Iterator[Pool]:
    """A pool until the end of the block."""
    with scratch() as folder:
        started = Pool(folder)
        try:
            yield started
        finally:
            started.close()


def kill_all() -> None:
    """End the workers of every pool: the process itself is about to end."""
    for child in list(_running):
        _kill(child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child not in _running:  # ended before: its number may be another process's by now
        return
    _running.discard(child)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()
