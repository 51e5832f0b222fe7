"""What no command foresaw: a full disk, a name that is not UTF-8, or a mistake of this program, in one message each."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import tempfile
import traceback
from collections.abc import Container, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tracediff
from tracediff.errors import TracediffError, no_permission

_LIBRARIES = ("click", "duckdb", "msgspec", "numpy", "polars", "scipy")
_MOST_FRAMES = 60
_REMOTE = re.compile(r'  File "([^"]+)", line (\d+), in ([\w<>]+)\Z')
# What the machine, not the program, is to blame for.
_OF_THE_MACHINE = {
    errno.EIO, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ENXIO,
    errno.EFBIG, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN,
}  # fmt: skip
_SAYS_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "database or disk is full")


def explained(error: BaseException, words: Sequence[str], commands: Container[str]) -> TracediffError:
    """The message for an error that nothing caught: no-permission, disk-full, io-error, name-not-utf8, out-of-memory, internal-error.

    `words`: the command line; `commands`: the names of all commands.
    """
    said = str(error)
    if any(words in said for words in _SAYS_FULL):  # of a database, of polars, of the system
        place = os.fsdecode(error.filename) if isinstance(error, OSError) and error.filename else "the output"
        return TracediffError(
            "disk-full",
            f"{place} could not be written: no space left",
            fix="free space, or write elsewhere; set TMPDIR to a folder with space",
        )
    if isinstance(error, OSError):
        place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "the output"
        if isinstance(error, PermissionError):
            return no_permission(error.filename and place)
        if error.errno in _OF_THE_MACHINE:
            return TracediffError(
                "io-error",
                f"{place} could not be read or written: {error.strerror}",
                fix="check the path and the disk",
            )
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return TracediffError(
            "name-not-utf8",
            f"a name or a text that was given is not UTF-8: {_around(error.object, error.start)}",
            fix="rename the file or folder; where a terminal is not set to UTF-8, set it so",
        )
    if isinstance(error, MemoryError):
        return TracediffError(
            "out-of-memory",
            "there is not enough memory",
            fix="fewer inputs at once, TRACEDIFF_MEMORY=1GiB, or a larger machine",
        )
    return _internal(error, report(error, words, commands))


def _internal(error: BaseException, text: str) -> TracediffError:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tracediff-error-", suffix=".txt", encoding="utf-8", errors="backslashreplace", delete=False
        ) as file:  # fmt: skip
            file.write(text)
        attached = f"report it with {file.name} attached: it holds no names but those of files"
    except OSError:
        attached = "report it"
    return TracediffError(
        "internal-error",
        f"tracediff met a mistake of its own: {type(error).__name__} in {_place(error)}",
        fix=f"{attached}; TRACEDIFF_DEBUG=1 shows the traceback, with what may be in a capture",
    )


def report(error: BaseException, words: Sequence[str], commands: Container[str]) -> str:
    """What to attach to a report of a mistake: versions, the command with its option names, types and places of the errors.

    Nothing of the environment, of the machine's or a user's name, and no text that could come from a capture: neither what
    an error says nor the value of an option, but for the base name of a file that is there.
    """
    lines = [
        f"tracediff {tracediff.__version__}",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    ]
    lines += [f"{name} {_version(name)}" for name in _LIBRARIES]
    lines += ["", "tracediff " + " ".join(_word(word, commands) for word in words)]
    one: BaseException | None = error
    while one is not None and len(lines) < 10 * _MOST_FRAMES:
        lines += ["", type(one).__name__, *(f"  {place}" for place in _places(one))]
        one = one.__cause__ or one.__context__
    return "\n".join(lines) + "\n"


def _places(error: BaseException) -> list[str]:
    """File, line and function of the frames of an error, the innermost last; files as they are named inside their package."""
    if remote := getattr(error, "tb", None):  # of an error in another process its traceback is a text
        found = (_REMOTE.match(line) for line in str(remote).splitlines())
        places = [f"{_within(one[1])}:{one[2]} {one[3]}" for one in found if one]
        return [place for place in places if place.startswith("tracediff/")][-_MOST_FRAMES:] or ["?"]
    frames = traceback.extract_tb(error.__traceback__)[-_MOST_FRAMES:]
    return [f"{_within(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames] or ["?"]


def _place(error: BaseException) -> str:
    """The innermost place of this program's own."""
    places = _places(error)
    return next((place for place in reversed(places) if place.startswith("tracediff/")), places[-1])


def _within(file: str) -> str:
    parts = Path(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[parts.index(folder) + 1 :])
    root = Path(tracediff.__file__).parent.parent
    path = Path(file)
    return path.relative_to(root).as_posix() if path.is_relative_to(root / "tracediff") else path.name


def _around(text: str, at: int) -> str:
    """What stands around a place of a text: of a path the name of the file or folder."""
    begin = max(text.rfind(mark, 0, at) for mark in "/'\"\n ") + 1
    ends = [end for mark in "/'\"\n " if (end := text.find(mark, at)) >= 0]
    return text[max(begin, at - 100) : min([*ends, at + 100])]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


def _word(word: str, commands: Container[str]) -> str:
    """A word of the command line as a report may hold it."""
    option, sign, value = word.partition("=")
    if option.startswith("-") and option.lstrip("-").replace("-", "").isalnum():
        return option + (f"={_word(value, commands)}" if sign else "")
    if word in commands:
        return word
    for path in (Path(word), Path(value)):  # of label=PATH the second
        with contextlib.suppress(OSError, ValueError):
            if path.name and path.exists():
                return repr(path.name)
    return "..."
