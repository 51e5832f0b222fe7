"""Words of the command line -> the files of latencies of a side: each file is one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load.latencies import SUFFIXES, LatencyFile, read

MAX_RUNS = 1000


def read_side(
    paths: Sequence[Path], *, column: str | None = None, unit: str | None = None
) -> list[LatencyFile]:
    """Read files, and the files of folders in the order of their names.

    Raises `TracediffError`: not-a-file, latencies-empty-folder, and those of `read`.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) > MAX_RUNS:
        raise TracediffError(
            "latencies-empty-folder",
            f"{len(files)} files on a side, the most is {MAX_RUNS}",
            fix="name the runs of one side",
        )
    return [read(file, column=column, unit=unit) for file in files]


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
