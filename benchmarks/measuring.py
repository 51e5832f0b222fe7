"""A whole command with all the processes that it starts: seconds, and how much memory they hold together."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY_S = 0.02


@dataclass(frozen=True)
class Figure:
    """Wall seconds, processor seconds, and the highest sum of resident memory in MiB seen in samples 20 ms apart."""

    seconds: float
    cpu_s: float
    peak_mib: float


class NotMeasuredError(Exception):
    """A command that gave no figure; its text is the reason, without any path."""


def measure(
    command: Sequence[str],
    where: Path,
    *,
    env: Mapping[str, str] | None = None,
    limit_s: float,
    most_mib: float,
) -> Figure:
    """Run a command to its end in a folder.

    Raises `NotMeasuredError` where it fails, or is stopped because it took longer than `limit_s` or more than `most_mib`.
    """
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            env={**os.environ, **(env or {})}, start_new_session=True,
        )  # fmt: skip
        peak = 0.0
        try:
            while (usage := _ended(child)) is None:
                peak = max(peak, resident(child.pid) / 2**20)
                took = time.perf_counter() - begin
                if took > limit_s:
                    raise NotMeasuredError(f"stopped after {limit_s:.0f} s")
                if peak > most_mib:
                    raise NotMeasuredError(f"stopped after {took:.0f} s at {peak / 1024:.1f} GiB of memory")
                time.sleep(_EVERY_S)
            seconds = time.perf_counter() - begin
        finally:
            if child.returncode is None:
                os.killpg(
                    child.pid, signal.SIGKILL
                )  # the group that start_new_session made: this command's alone
                child.wait()
        if child.returncode != 0:
            errors.seek(0)
            print(errors.read().decode(errors="replace")[-2000:])
            raise NotMeasuredError(f"failed with exit status {child.returncode}")
    return Figure(seconds, usage.ru_utime + usage.ru_stime, peak)


def _ended(child: subprocess.Popen[bytes]) -> resource.struct_rusage | None:
    """What a command used, with all processes that were waited for; None while it runs."""
    pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    if pid == 0:
        return None
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage


def resident(pid: int) -> int:
    """Bytes of memory of a process and all that it started; pages that they share count for each of them."""
    total = 0
    try:
        total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(resident(int(one)) for one in (task / "children").read_text().split())
    except (OSError, IndexError):
        pass  # ended meanwhile
    return total
