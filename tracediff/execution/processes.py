"""Worker processes that nothing disturbs at their start, and that end with the one that asked, however it ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from tracediff.formats import bounds
from tracediff.formats.files import scratch

_SPAWN = multiprocessing.get_context("spawn")


class _ThereError(Exception):
    """The traceback of an error in a process, as text: the cause of the error that arrives here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.tb = text


class _Processes(ThreadPoolExecutor):
    """Threads, each of which has a process do its tasks. A task whose process ends raises `BrokenExecutor`.

    Python's own pool of processes may wait for ever where one ends while the next is being started.
    """

    def __init__(self, count: int, *given: Any) -> None:
        super().__init__(count, thread_name_prefix="tracediff")
        self._most, self._given = count, given
        self._started: list[tuple[BaseProcess, Connection]] = []
        self._idle: SimpleQueue[Connection] = SimpleQueue()

    def submit(self, *task: Any, **named: Any) -> Future[Any]:
        if len(self._started) < self._most:
            try:
                with _undisturbed_start():
                    self._start()
            except OSError as error:
                raise BrokenExecutor("a process could not be started") from error
        return super().submit(self._have_done, *task, **named)

    def _start(self) -> None:
        here, there = _SPAWN.Pipe()
        with there:  # once it is closed here, the end of the process ends what is read from it
            process = _SPAWN.Process(target=_work, args=(there, *self._given))
            process.start()
        self._started.append((process, here))
        self._idle.put(here)

    def _have_done(self, *task: Any, **named: Any) -> Any:
        process = self._idle.get()
        try:
            process.send((task, named))
            found, failed = process.recv()
        except (EOFError, OSError) as error:
            raise BrokenExecutor("the process ended") from error
        finally:
            self._idle.put(process)
        if failed is None:
            return found
        raise found from _ThereError(failed)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        for process, connection in self._started:
            connection.close()
            process.join()


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """A pool of processes until the end of the block; where it is left by an error, they are killed."""
    with scratch() as folder:
        ended, alive = _SPAWN.Pipe(duplex=False)
        executor = _Processes(count, str(folder), ended)
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


def _work(tasks: Connection, folder: str, ended: Connection) -> None:
    """What a process does: task after task. It and what it starts end when the other end of `ended` is closed, however that came about."""
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

    threading.Thread(target=wait, daemon=True).start()
    while True:
        try:
            (do, *given), named = tasks.recv()
        except EOFError:
            return
        try:
            tasks.send((do(*given, **named), None))
        except BaseException as error:
            tasks.send((error, traceback.format_exc()))
