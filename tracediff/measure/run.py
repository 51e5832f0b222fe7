"""The files of a side -> reduced runs, one export in memory at a time."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracediff.load.capture import load_capture
from tracediff.load.inputs import SideFiles
from tracediff.measure.host_only import is_host_only, reduce_host
from tracediff.measure.reduce import reduce_capture
from tracediff.measure.reduction import Reduction
from tracediff.measure.sides import Run, Side


@dataclass(frozen=True)
class Reading:
    """How exports are read."""

    step_regex: str | None = None
    whole_capture: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    host_only: bool = False  # measure the host where an export has no GPU kernels
    keep: bool = False  # the events of some steps, to draw


def reduce_side(files: SideFiles, reading: Reading, progress: Callable[[str], None] = lambda _: None) -> Side:
    """Load and reduce every export of a side. `progress` is told each file's name before it is read."""
    runs = []
    for run in files.runs:
        parts = []
        for path in run.files:
            progress(path.name)
            parts.append(reduce_file(path, reading))
        runs.append(Run(run.name, parts))
    return Side(files.label, runs)


def reduce_file(path: Path, reading: Reading) -> Reduction:
    """One export, in a scratch folder of its own that is gone afterwards."""
    scratch = Path(tempfile.mkdtemp(prefix="tracediff-"))
    try:
        capture = load_capture(path, scratch, memory_limit=reading.memory_limit, threads=reading.threads)
        try:
            if reading.host_only and is_host_only(capture):
                return reduce_host(capture, step_regex=reading.step_regex)
            return reduce_capture(
                capture,
                step_regex=reading.step_regex,
                whole_capture=reading.whole_capture,
                keep=reading.keep,
            )
        finally:
            capture.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
