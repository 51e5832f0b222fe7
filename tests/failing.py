"""A disk that fails: the nth change of a folder, or of what is in it, is an error."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock


class Disk:
    """How many changes there were, and which of them fails; 0: none."""

    def __init__(self, root: Path, nth: int, number: int) -> None:
        self.root, self.nth, self.number, self.changes = str(root), nth, number, 0

    def change(self, *places: object) -> None:
        """Count a change, and fail where it is its turn."""
        if any(isinstance(one, str | os.PathLike) and os.fspath(one).startswith(self.root) for one in places):
            self.changes += 1
            if self.changes == self.nth:
                raise OSError(self.number, os.strerror(self.number), str(places[0]))


class _File(io.FileIO):
    """A file whose failing write leaves a half of what was to be written."""

    disk: Disk
    place: object

    def write(self, data) -> int:
        try:
            self.disk.change(self.place)
        except OSError:
            super().write(bytes(data)[: len(data) // 2])
            raise
        return super().write(data)


@contextmanager
def failing(root: Path, nth: int, number: int) -> Iterator[Disk]:
    """The nth of opening to write, writing, syncing, making and renaming under `root` fails with this number of an error."""
    disk = Disk(root, nth, number)
    opened, handles = io.open, {}

    def changes(name):
        real = getattr(os, name)

        def done(*given, **named):
            disk.change(*(handles.get(one, one) for one in given[:2]))
            return real(*given, **named)

        return mock.patch.object(os, name, done)

    def os_open(path, flags, *rest, **named):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            disk.change(path)
        handle = real_open(path, flags, *rest, **named)
        handles[handle] = path
        return handle

    def io_open(file, mode="r", buffering=-1, *rest, **named):
        if not set("wax+") & set(mode):
            return opened(file, mode, buffering, *rest, **named)
        if not isinstance(file, int):
            disk.change(file)
        raw = _File(file, mode.replace("b", "").replace("t", ""), closefd=named.pop("closefd", True))
        raw.disk, raw.place = disk, handles.get(file, file) if isinstance(file, int) else file
        binary = io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, *rest, **named)

    real_open = os.open
    with (
        mock.patch.object(os, "open", os_open), mock.patch.object(io, "open", io_open), mock.patch.object(builtins, "open", io_open),
        changes("fsync"), changes("replace"), changes("rename"), changes("mkdir"),
    ):  # fmt: skip
        yield disk
