"""Child processes with a time limit: whatever they started is gone when a run ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 20.0  # between asking a process tree to end and killing it; nsys writes its report in it
_MARK = "TRACEDIFF_RUN"  # tells the processes of a run, also those that left its tree


@dataclass
class Child:
    """A started program in a session of its own."""

    process: subprocess.Popen[bytes]
    mark: bytes

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, or None when the time is over."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, first: signal.Signals = signal.SIGTERM, grace_s: float | None = None) -> int:
        """End the program and everything it started; its exit code.

        SIGINT goes to the program's group alone, as from a terminal: nsys's agent is outside of it, and has to live
        until the report is written.
        """
        pids = self._others()
        _signal(self.process.pid, set() if first == signal.SIGINT else pids, first)
        if self.wait(grace_s or GRACE_S) is None and first != signal.SIGTERM:
            _signal(self.process.pid, pids, signal.SIGTERM)
            self.wait(GRACE_S)
        _signal(self.process.pid, self._others() | pids, signal.SIGKILL)
        return self.process.wait()

    def _others(self) -> set[int]:
        return _tree(self.process.pid) | _marked(self.mark)


def start(
    command: Sequence[str], *, cwd: Path | None, env: Mapping[str, str], logs: Path, name: str = ""
) -> Child:
    """Start a command with its output in `{name}stdout.log` and `{name}stderr.log` of a folder.

    Raises OSError where the program does not exist or may not be run.
    """
    mark = secrets.token_hex(8)
    with (logs / f"{name}stdout.log").open("wb") as out, (logs / f"{name}stderr.log").open("wb") as err:
        process = subprocess.Popen(
            list(command), cwd=cwd, env={**env, _MARK: mark}, stdin=subprocess.DEVNULL,
            stdout=out, stderr=err, start_new_session=True,
        )  # fmt: skip
    return Child(process, f"{_MARK}={mark}".encode())


def await_url(url: str, child: Child, timeout_s: float, poll_s: float = 0.5) -> bool:
    """Wait until a URL answers with success; False when the server ended or the time is over."""
    end = time.monotonic() + timeout_s
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is ours: no proxy
    while time.monotonic() < end:
        if child.process.poll() is not None:
            return False
        with (
            contextlib.suppress(urllib.error.URLError, OSError, ValueError),
            opener.open(url, timeout=5) as answer,
        ):
            if 200 <= answer.status < 300:
                return True
        time.sleep(poll_s)
    return False


def post(url: str, body: str, timeout_s: float = 60.0) -> str:
    """Post JSON, or nothing where `body` is '', to a server of ours; '' or why it was refused."""
    kind = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(url, data=body.encode(), headers=kind, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s):
            return ""
    except (OSError, ValueError) as error:  # HTTPError and URLError are OSErrors
        return str(error)


def _marked(mark: bytes) -> set[int]:
    """The processes that inherited the mark of a run, whoever their parent is by now."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in entry.read_bytes().split(b"\0"):
                found.add(int(entry.parent.name))
    return found


def _tree(root: int) -> set[int]:
    """Every descendant of a process at this moment."""
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


def _signal(root: int, pids: set[int], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, number)
    for pid in sorted(pids):  # what left the group: a profiler's agent, a worker in a session of its own
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != root:
                os.kill(pid, number)
