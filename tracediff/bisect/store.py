"""The folder of a search: its state, which is also its report, and git's own log of it."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tracediff.capture import manifest
from tracediff.capture.plan import Plan
from tracediff.errors import TracediffError
from tracediff.formats.files import MOST_RESULT, read_regular
from tracediff.model import encode
from tracediff.model.bisect import BISECT_VERSION, Bisect
from tracediff.report.write import write_atomically

STATE, LOG = "bisect.json", "bisect.log"


def fingerprint(plan: Plan, parts: Sequence[Any], cause: Sequence[Any]) -> str:
    """What makes two searches the same: their runs, `.`, their cause. Values of unrecorded variables do not enter it."""
    words = [manifest.fingerprint(plan), str(plan.baseline.cwd), plan.baseline.build, *parts]
    return ".".join(hashlib.sha256(json.dumps(one).encode()).hexdigest()[:16] for one in (words, list(cause)))


@contextmanager
def opened(folder: Path, fresh: Bisect) -> Iterator[Bisect]:
    """The state of a search to go on with, or a fresh one in an empty folder; nobody else may go on with it meanwhile.

    Raises `TracediffError`: bisect-exists, bisect-changed, bisect-running, bisect-damaged, output-not-writable.
    """
    if (
        folder.exists()
        and not (folder / STATE).exists()
        and (not folder.is_dir() or {*folder.iterdir()} - {folder / ".lock"})
    ):
        raise TracediffError(
            "bisect-exists",
            f"{folder.name} exists and is no search",
            fix="-o names another folder",
            exit_code=2,
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise TracediffError(
            "output-not-writable",
            f"{folder}: {error.strerror or error}",
            fix="-o names a folder that you may write to",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TracediffError(
                "bisect-running",
                f"another process searches in {folder.name}",
                fix="wait for it, or -o names another folder",
            ) from None
        state = _read(folder / STATE) if (folder / STATE).exists() else fresh
        runs, other = (one.fingerprint.partition(".")[0] for one in (state, fresh))
        if runs == other and state.ends is None and not state.probes:
            state = fresh  # of nothing answered the cause may be another: the runs stay
        if state.fingerprint != fresh.fingerprint:
            raise TracediffError(
                "bisect-changed",
                f"{folder.name} was begun with other commits, another cause, build or capture",
                fix="go on with what it was begun with (--max-pairs and --budget may grow), or use another folder",
                exit_code=2,
            )
        state.max_pairs = fresh.max_pairs
        keep(folder, state)
        yield state


def keep(folder: Path, state: Bisect, log: str = "") -> None:
    """Write the state, and git's log of it where there is one."""
    write_atomically(folder / STATE, encode(state), force=True)
    if log:
        write_atomically(folder / LOG, log.encode(), force=True)


def _read(path: Path) -> Bisect:
    try:
        found = msgspec.json.decode(read_regular(path, MOST_RESULT), type=Bisect)
        if found.format_version == BISECT_VERSION:
            return found
        why = f"format {found.format_version}"
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)
    raise TracediffError(
        "bisect-damaged",
        f"{path.parent.name}/{path.name} cannot be read: {why}",
        fix="-o names another folder",
    )
