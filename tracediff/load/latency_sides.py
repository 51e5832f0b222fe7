"""Words of the command line -> the files of latencies of a side: each file is one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load.latencies import SUFFIXES, LatencyFile, read
from tracediff.load.latency_names import quantity

MAX_RUNS = 1000


def read_side(
    paths: Sequence[Path], *, column: str | None = None, unit: str | None = None
) -> list[LatencyFile]:
    """Read files, and the files of folders in the order of their names.

    Raises `TracediffError`: not-a-file, latencies-empty-folder, latencies-column, and those of `read`.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) > MAX_RUNS:
        raise TracediffError(
            "latencies-empty-folder",
            f"{len(files)} files on a side, the most is {MAX_RUNS}",
            fix="name the runs of one side",
        )
    return _of_one_column([read(file, column=column, unit=unit) for file in files])


def _of_one_column(files: list[LatencyFile]) -> list[LatencyFile]:
    """Refuse runs that measured different things; a file of numbers alone says nothing of what they are."""
    named = [file for file in files if file.column]
    other = next((file for file in named if quantity(file.column) != quantity(named[0].column)), None)
    if other is not None:
        raise TracediffError(
            "latencies-column",
            f"the files of one side have different columns: {named[0].column[:60]} in {named[0].name},"
            f" {other.column[:60]} in {other.name}",
            fix="--column NAME with one that every file has, or a folder for each",
        )
    return files


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.is_file() and one.suffix.lower() in SUFFIXES)
        if not found:
            raise TracediffError(
                "latencies-empty-folder",
                f"{path.name or path}: no file of latencies in this folder ({', '.join(SUFFIXES)})",
                fix="a folder with one file a run",
            )
        return found
    if not path.exists():
        raise TracediffError("not-a-file", f"{path}: there is no such file or folder", fix="check the path")
    return [path]
