"""The emulator under torch.profiler instead of nsys: one Kineto trace a rank of the profiled steps."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


def file_of_rank(file: str, rank: int, ranks: int) -> Path:
    """The trace of one rank: `trace.json.gz` -> `trace.rank1.json.gz` where there are several."""
    path = Path(file)
    if ranks == 1:
        return path
    stem, dot, suffixes = path.name.partition(".")
    return path.with_name(f"{stem}.rank{rank}{dot}{suffixes}")


class TorchProfile:
    """torch.profiler around the profiled steps, with nothing on that only costs time.

    Made, started and stopped on the thread whose ranges are wanted: no other thread's are recorded.
    """

    def __init__(self, file: Path, *, cuda: bool) -> None:
        self._file = file
        profiler: Any = importlib.import_module("torch.profiler")
        kinds = profiler.ProfilerActivity
        self._profile = profiler.profile(activities=[kinds.CPU, *([kinds.CUDA] if cuda else [])])

    def start(self) -> None:
        """Begin to record."""
        self._profile.start()

    def stop(self) -> None:
        """Stop and write the trace."""
        self._profile.stop()
        self._profile.export_chrome_trace(str(self._file))


def annotation(name: str) -> AbstractContextManager[Any]:
    """A range that torch.profiler records."""
    recorded: AbstractContextManager[Any] = importlib.import_module("torch.profiler").record_function(name)
    return recorded


class Annotation:
    """A range for more than one use, one at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        recorded = annotation(self._name)
        recorded.__enter__()
        self._open.append(recorded)

    def __exit__(self, *exc: object) -> None:
        self._open.pop().__exit__(None, None, None)
