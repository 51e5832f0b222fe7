"""What a process started: found, and ended with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_running: set[int] = set()
_starting = threading.RLock()  # a signal may come while the main thread holds it
_over = False  # the process is about to end: nothing starts any more


def run(
    command: Sequence[str],
    timeout_s: float | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command that is asked nothing; broken off, it ends with what it started. Raises OSError, also where it takes too long."""
    with _starting:
        if _over:
            raise OSError("the process is ending")
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace",
        )  # fmt: skip
        _running.add(process.pid)
    try:
        with process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except BaseException as error:
                _end(process.pid)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimeoutError(f"it takes more than {timeout_s:g} s") from None
                raise
    finally:
        _running.discard(process.pid)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end_all() -> None:
    """End what `run` started in any thread; only before the process ends."""
    global _over
    with _starting:
        _over = True
        for pid in list(_running):
            _end(pid)


def descendants(root: int) -> set[int]:
    """Every process that a process started, and those started, at this moment."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(entry.parent.name)] = int(
                entry.read_text(errors="replace").rpartition(")")[2].split()[1]
            )
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {root}


def _end(pid: int) -> None:
    for one in (pid, *descendants(pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
