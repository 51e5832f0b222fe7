"""Scratch folders: gone when their work ends or is broken off."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_open: set[Path] = set()


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of one's own until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="tracediff-"))
    _open.add(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _open.discard(folder)


def discard_all() -> None:
    """Remove the folders of work that is broken off; only before the process ends."""
    for folder in list(_open):
        shutil.rmtree(folder, ignore_errors=True)
