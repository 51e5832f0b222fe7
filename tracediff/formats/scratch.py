"""Scratch folders: gone when their work ends or is broken off."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache as once
from pathlib import Path

_PREFIX = "tracediff-scratch-"
_MADE_JUST_NOW_S = 60  # between being made and being locked
_open: set[Path] = set()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of one's own until the end of the block.

    The first one of a process also removes what killed processes left behind: a folder is locked as long as its process lives.
    """
    _remove_abandoned(tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    _open.add(folder)
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _open.discard(folder)


def discard_all() -> None:
    """Remove the folders of work that is broken off; only before the process ends."""
    for folder in list(_open):
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether the folder could be locked: no other process holds it, and its file system has locks."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@once
def _remove_abandoned(where: str) -> None:
    with contextlib.suppress(OSError), os.scandir(where) as found:
        for one in found:
            if one.name.startswith(_PREFIX) and _ours_and_old(one):
                with _locked(Path(one.path)) as free:
                    if free:
                        shutil.rmtree(one.path, ignore_errors=True)


def _ours_and_old(one: os.DirEntry[str]) -> bool:
    try:
        status = one.stat(follow_symlinks=False)
    except OSError:
        return False
    return status.st_uid == os.getuid() and time.time() - status.st_mtime > _MADE_JUST_NOW_S
