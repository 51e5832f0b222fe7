"""Worker processes that nothing disturbs at their start, and that end with the one that asked, however it ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from tracediff.formats import bounds
from tracediff.formats.scratch import scratch


class _Processes(ProcessPoolExecutor):
    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        try:
            with _undisturbed_start():
                return super().submit(*args, **named)
        except OSError as error:  # one ended while the next was started
            raise BrokenProcessPool("a process could not be started") from error


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """A pool of processes until the end of the block; where it is left by an error, they are killed."""
    context = multiprocessing.get_context("spawn")
    with scratch() as folder:
        ended, alive = context.Pipe(duplex=False)
        with _undisturbed_start():
            executor = _Processes(count, context, _begin, (str(folder), ended))
        try:
            yield executor
            executor.shutdown()
        finally:
            alive.close()
            executor.shutdown(cancel_futures=True)
            ended.close()


@contextmanager
def _undisturbed_start() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, and that import nothing of the calling script or of its folder."""
    script, safe = sys.modules["__main__"], os.environ.get("PYTHONSAFEPATH")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        sys.modules["__main__"] = script
        os.environ.pop("PYTHONSAFEPATH")
        if safe is not None:
            os.environ["PYTHONSAFEPATH"] = safe
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _begin(folder: str, ended: Connection) -> None:
    """Set up a worker process: it and what it starts end when the other end of `ended` is closed, however that came about."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    tempfile.tempdir = folder

    def end(*_: object) -> None:
        os.killpg(0, signal.SIGKILL)

    bounds.last_resort = end

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            ended.recv()
        end()

    signal.signal(signal.SIGTERM, end)  # what the pool sends to the others once one has ended
    threading.Thread(target=wait, daemon=True).start()
