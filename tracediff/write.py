"""Output files: checked before the work starts, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.inputs import is_given


def special(path: Path) -> bool:
    """Tell whether the path is a device or a pipe (/dev/stdout), which is written to in place."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_output(path: Path, force: bool) -> None:
    """Raise now where a file cannot be written: it is a folder, its folder is not there, or it is and `force` does not say that it may go."""
    if path == Path("-"):
        raise TracediffError("output-not-writable", "- names no file", fix="/dev/stdout is standard output")
    if path.is_dir():
        raise TracediffError("output-is-folder", f"{path} is a folder", fix="name a file inside it")
    _check_parent(path)
    if os.path.lexists(path) and not force and not special(path):
        raise TracediffError(
            "output-exists", f"{path} exists already", fix="-f to overwrite it, or another name"
        )


def _check_parent(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise TracediffError(
            "output-folder-missing", f"the folder of {path} does not exist", fix=f"mkdir -p {path.parent}"
        )


def _check_writable(path: Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise TracediffError(
            "output-not-writable", f"the folder of {path} is not writable", fix="choose another folder"
        )


def check_outputs(
    paths: Iterable[Path | str], force: bool = False, inputs: Sequence[str | os.PathLike[str]] = ()
) -> None:
    """Raise now for what would stop a file from being written after the work is done.

    `inputs`: words of the command line; what they name is never written over, whatever `force` says.
    """
    seen: dict[str, Path] = {}
    for path in map(Path, paths):
        refuse_input(path, inputs)
        check_output(path, force)
        if special(path):
            continue
        real = os.path.realpath(path)
        if real in seen:
            raise TracediffError(
                "output-twice", f"two outputs would be written to {path}", fix="give each output its own file"
            )
        seen[real] = path
        _check_writable(path, path.parent)


def refuse_input(path: Path, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Raise where an output would be written over what the command reads."""
    if is_given(path, [os.fspath(one) for one in inputs]):
        raise TracediffError(
            "output-is-input", f"{path} is an input of this command", fix="another name for the output"
        )


def check_folder(path: Path | str) -> None:
    """Raise now where a folder for many files could not be made."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise TracediffError("output-not-folder", f"{path} is a file", fix="name a folder")
    _check_parent(path)
    _check_writable(path, path if path.is_dir() else path.absolute().parent)


def make_folder(path: Path | str) -> None:
    """Make the folder unless it is there."""
    check_folder(path)
    try:
        Path(path).mkdir(exist_ok=True)
    except OSError as error:
        raise TracediffError(
            "output-not-writable",
            f"{path} could not be made: {error.strerror or error}",
            fix="choose another folder",
        ) from error


def write_atomically(path: Path | str, data: bytes, force: bool = False) -> None:
    """Write a file through a temporary one beside it; after any failure nothing half-written is left."""
    write_all({Path(path): data}, force)


def write_all(files: Mapping[Path, bytes], force: bool = False, of_others: Iterable[Path] = ()) -> None:
    """Write files through temporary ones beside them, which get their names when all are on disk: a full disk changes none.

    of_others: what earlier outputs may have left there; with `force` what is not written again goes.
    """
    written: list[tuple[Path, Path, Path]] = []
    path = Path()
    try:
        for path, data in files.items():
            check_output(path, force)
            if not special(path):
                target = Path(os.path.realpath(path))
                temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
                written.append((path, temporary, target))
                _write(temporary, data)
        for path, temporary, target in written:  # noqa: B007 - of the error
            temporary.replace(target)
        for path in (path for path in files if special(path)):
            path.write_bytes(files[path])
        for path in (path for path in of_others if force and path not in files):
            path.unlink(missing_ok=True)
    except BrokenPipeError:  # its reader has seen enough, as with what is printed
        raise
    except OSError as error:
        raise TracediffError(
            "output-not-writable",
            f"{path} could not be written: {error.strerror or error}",
            fix="check the free space and the permissions of the folder, or choose another one",
        ) from error
    finally:
        for _, temporary, _ in written:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
