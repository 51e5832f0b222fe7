"""What a folder without exports holds: files that other commands than a comparison of steps take."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load.recognise import Kind, recognise

_MOST = 256  # files that are looked into


def held(folder: Path) -> dict[Kind, list[Path]]:
    """The files of a folder by kind, of its subfolders where it has none itself; what is not known is left out."""
    entries = sorted(islice(folder.iterdir(), 10 * _MOST))
    found = _by_kind(one for one in entries if one.is_file())
    if found:
        return found
    return _by_kind(file for one in entries if one.is_dir() for file in _inside(one))


def said(found: dict[Kind, list[Path]]) -> str:
    """How many files of which kind, in words."""
    return ", ".join(f"{len(files)} {'file' if len(files) == 1 else 'files'} of the kind: {kind.title}"
                     for kind, files in found.items())  # fmt: skip


def refuse_folder(folder: Path) -> None:
    """Raise `TracediffError` (other-input) where the files of a folder are known and none is of a program's steps."""
    found = {kind: files for kind, files in held(folder).items() if not kind.side}
    if found:
        raise TracediffError(
            "other-input",
            f"{folder.resolve().name} holds no trace of a program's steps, but {said(found)}",
            fix="; ".join(dict.fromkeys(kind.use for kind in found)),
            exit_code=2,
        )


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in islice(folder.iterdir(), _MOST) if one.is_file())
    except OSError:
        return []


def _by_kind(files: Iterable[Path]) -> dict[Kind, list[Path]]:
    found: dict[Kind, list[Path]] = {}
    for file in islice(files, _MOST):
        try:
            kind = recognise(file)
        except (TracediffError, OSError):
            continue
        if kind is not None:
            found.setdefault(kind, []).append(file)
    return found
