"""A process that reduces exports for another one: tasks come on standard input, reductions go to standard output.

Both ways a message is its length (8 bytes, big-endian) and MessagePack. Started by `tracediff.execution.pool` alone.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from tracediff.errors import TracediffError
from tracediff.execution.run import Reading, reduce_file


@dataclass(frozen=True)
class Task:
    """One export to reduce.

    `scratch`: the folder for what is written on the way; `waits`: whether to wait for `GoOn` when the tables are made.
    """

    path: str
    reading: Reading
    scratch: str
    waits: bool = False


class Loaded(msgspec.Struct, tag=True):
    """The tables of the export are made; the worker waits for `GoOn`."""


class GoOn(msgspec.Struct, tag=True):
    """There is memory for what comes after the tables."""


class Emptied(msgspec.Struct, tag=True):
    """The large tables of the export are gone from memory."""


class Done(msgspec.Struct, tag=True):
    """The reduction, as `store.pack` writes it."""

    packed: bytes


class Refused(msgspec.Struct, tag=True):
    """A `TracediffError`."""

    slug: str
    message: str
    fix: str | None
    exit_code: int


class Denied(msgspec.Struct, tag=True):
    """A `PermissionError`."""

    file: str


class Failed(msgspec.Struct, tag=True):
    """Any other error: a fault of the program."""

    trace: str


Answer = Loaded | Emptied | Done | Refused | Denied | Failed


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message."""
    raw = msgspec.msgpack.encode(message)
    pipe.write(len(raw).to_bytes(8, "big"))
    pipe.write(raw)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes | None:
    """Read one message, None at the end of the pipe."""
    head = pipe.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "big")
    raw = pipe.read(size)
    return raw if len(raw) == size else None


def main() -> None:
    """Reduce until there are no more tasks, or nobody to hand them to."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the messages
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    while (raw := receive(sys.stdin.buffer)) is not None:
        send(out, _answer(msgspec.msgpack.decode(raw, type=Task), out))


def _answer(task: Task, out: IO[bytes]) -> Answer:
    tempfile.tempdir = task.scratch
    try:
        reduction = reduce_file(
            Path(task.path),
            task.reading,
            emptied=lambda: send(out, Emptied()),
            loaded=(lambda: _wait(out)) if task.waits else None,
        )
    except TracediffError as error:
        return Refused(error.slug, error.message, error.fix, error.exit_code)
    except PermissionError as error:
        return Denied(str(error.filename or "a file"))
    except Exception:
        return Failed(traceback.format_exc())
    from tracediff.execution.cache import pack

    return Done(pack(reduction))


def _wait(out: IO[bytes]) -> None:
    send(out, Loaded())
    if receive(sys.stdin.buffer) is None:
        os._exit(1)  # nobody is there any more to go on for


def _end_with(parent: int) -> None:
    """A worker is of no use without the process that started it, however that one ended."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
