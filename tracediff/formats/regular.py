"""Files that a user names and that are read as a whole: policies, plans, saved results, manifests, profiles.

Nothing here waits for a pipe, reads more than it should, or meets more nesting than a parser can follow.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO

MOST_TEXT = 1 << 20  # bytes of a file that a person writes
MOST_RESULT = 1 << 30  # bytes of a saved result
# A dotted key of so many parts: to follow it takes time that grows with its square.
_LONG_KEY = re.compile(rb"""(?:\.[ \t]*(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[\w-]+)[ \t]*){64}""")


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it. Raises OSError, also where it is a pipe, a device or a folder: `strerror` says which."""
    handle = os.open(
        path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    )  # to open a pipe would wait for its other end
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise OSError(errno.EINVAL, f"is {kind}, and must be a file", os.fspath(path))


def read_regular(path: Path, most: int) -> bytes:
    """All of a file. Raises OSError, also where it is no regular file or has more than `most` bytes."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {most >> 20} MiB", os.fspath(path))
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file. Raises OSError as `read_regular` does, ValueError where it is no TOML or nested too deeply."""
    data = read_regular(path, MOST_TEXT)
    if _LONG_KEY.search(data):
        raise ValueError("a key has too many parts")
    try:
        return tomllib.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
