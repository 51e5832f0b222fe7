"""The files of the sides -> reduced runs, as many exports at a time as memory holds."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from tracediff.errors import TracediffError
from tracediff.load.capture import load_capture
from tracediff.load.database import connect
from tracediff.load.inputs import SideFiles
from tracediff.load.kineto import is_trace_name
from tracediff.load.scratch import scratch
from tracediff.measure import cache
from tracediff.measure.host_only import is_host_only, reduce_host
from tracediff.measure.keeper import DRAWN, Keeper
from tracediff.measure.memory import Budget, needed
from tracediff.measure.reduce import reduce_capture
from tracediff.measure.reduction import Reduction
from tracediff.measure.sides import Run, Side
from tracediff.model import Note

_WORTH_PROCESSES = 256 * 2**20  # bytes that the tables of all exports take


@dataclass(frozen=True)
class Reading:
    """How exports are read."""

    step_regex: str | None = None
    whole_capture: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    host_only: bool = False  # measure the host where an export has no GPU kernels
    keep: bool = False  # the events of some steps, to draw
    two_profilers: bool = False  # nsys and torch.profiler: only what both can say of ranges
    cached: bool = False  # what was read before is taken from the cache, and what is read now kept there


def reduce_sides(
    sides: Sequence[SideFiles], reading: Reading, progress: Callable[[str], None] = lambda _: None
) -> list[Side]:
    """Load and reduce every export of some sides, several at once where memory allows; the order is that of the files.

    `progress` is told each file's name before it is read. Raises what the first file that fails raises.
    """
    files = [path for side in sides for run in side.runs for path in run.files]
    if reading.cached and reading.memory_limit is not None:
        connect(
            memory_limit=reading.memory_limit
        ).close()  # a limit that is none is an error, whatever is kept
    reading = replace(reading, two_profilers=len({is_trace_name(path) for path in files}) > 1)
    # a limit of memory is meant for the whole, and the database cannot share it out
    workers = 1 if reading.memory_limit is not None else min(os.cpu_count() or 1, len(files))
    budget = Budget()
    processes = contextlib.ExitStack()
    at_once = min(workers, budget.together(max((needed(path)[0] for path in files), default=0)))
    if at_once > 1 and _large(files):
        reduce = _in_processes(processes, reading, at_once)
    else:
        reduce = _in_threads(reading)

    several = Counter(path.name for path in set(files))

    def anew(path: Path) -> Reduction:
        loading, reduced = needed(path)
        with budget.lease(loading) as memory:
            return reduce(path, lambda: memory.shrink(reduced))

    def read(path: Path) -> Reduction:
        name = path.name if several[path.name] == 1 else f"{path.parent.name}/{path.name}"
        progress(name)
        try:
            reduction = cache.through(path, reading, anew) if reading.cached else anew(path)
        except TracediffError as error:
            error.rename(path.name, name)
            raise
        notes = [Note(note.slug, note.message.replace(path.name, name)) for note in reduction.warnings]
        return replace(reduction, warnings=notes)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="tracediff")
    finish = True
    try:
        waiting = [[[pool.submit(read, path) for path in run.files] for run in side.runs] for side in sides]
        return [
            Side(
                side.label,
                [
                    Run(run.name, [_result(part) for part in parts])
                    for run, parts in zip(side.runs, runs, strict=True)
                ],
            )
            for side, runs in zip(sides, waiting, strict=True)
        ]
    except (KeyboardInterrupt, SystemExit):
        finish = False  # a large export takes a while, and nobody wants its tables any more
        raise
    finally:
        pool.shutdown(wait=finish, cancel_futures=True)
        processes.close()


_Reduce = Callable[
    [Path, Callable[[], None]], Reduction
]  # an export, and what to call when its tables are gone


def _in_threads(reading: Reading) -> _Reduce:
    return lambda path, emptied: reduce_file(path, reading, emptied=emptied)


def _in_processes(stack: contextlib.ExitStack, reading: Reading, at_once: int) -> _Reduce:
    """`stack` ends the processes when it is closed; `at_once`: how many of them load at the same time."""
    from tracediff.measure.pool import pool

    started = stack.enter_context(pool())
    threads = reading.threads or max(-(-(os.cpu_count() or 1) // at_once), 1)
    shared = replace(reading, threads=threads)
    return lambda path, emptied: started.reduce(path, shared, emptied)


def _large(files: list[Path]) -> bool:
    """Whether there is work for which starting processes pays."""
    return bool(sys.executable) and sum(needed(path)[0] for path in files) >= _WORTH_PROCESSES


def _result(part: Future[Reduction]) -> Reduction:
    """Wait in turns: polars takes over Ctrl-C in a way that a wait without an end never hears of it."""
    while not part.done():
        wait([part], timeout=0.2)
    return part.result()


def reduce_file(
    path: Path, reading: Reading, emptied: Callable[[], None] = lambda: None, keeper: Keeper = DRAWN
) -> Reduction:
    """One export, in a scratch folder of its own that is gone afterwards.

    `emptied` is called when the large tables of the export are gone from memory; `keeper` says what `reading.keep` keeps.
    """
    reduction = _reduced(path, reading, emptied, keeper)
    return _without_domains(reduction) if reading.two_profilers else reduction


def _without_domains(reduction: Reduction) -> Reduction:
    """NVTX domains are nothing that torch.profiler knows: with them no range would meet its like."""
    keys = ["stratum", "thread", "place", "domain"]
    ranges = reduction.ranges.with_columns(domain=pl.lit("")).group_by(keys).agg(pl.col("count", "ns").sum())
    return replace(reduction, ranges=ranges.sort(keys))


def _reduced(path: Path, reading: Reading, emptied: Callable[[], None], keeper: Keeper) -> Reduction:
    with scratch() as folder:
        capture = load_capture(
            path,
            folder,
            memory_limit=reading.memory_limit,
            threads=reading.threads,
            annotations_only=reading.two_profilers,
        )
        try:
            if reading.host_only and is_host_only(capture):
                return reduce_host(capture, step_regex=reading.step_regex)
            return reduce_capture(
                capture,
                step_regex=reading.step_regex,
                whole_capture=reading.whole_capture,
                keep=reading.keep,
                keeper=keeper,
                emptied=emptied,
            )
        finally:
            capture.close()
