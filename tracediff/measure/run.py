"""The files of the sides -> reduced runs, as many exports at a time as memory holds."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tracediff.errors import TracediffError
from tracediff.load.capture import in_file, load_capture
from tracediff.load.database import connect
from tracediff.load.inputs import SideFiles
from tracediff.load.kineto_names import is_trace_name
from tracediff.load.scratch import scratch
from tracediff.load.selection import ALL, Selection
from tracediff.measure import cache
from tracediff.measure.chosen import Part, check_ranks, notes_of, numbered, one_error, parts_of
from tracediff.measure.memory import Budget, Lease, needed
from tracediff.model import LeftOut, Note

if TYPE_CHECKING:
    from tracediff.measure.keeper import Keeper
    from tracediff.measure.reduction import Reduction
    from tracediff.measure.sides import Side

# Exports are read in processes where their tables take so many bytes together, or where they are so many: most of the time of a
# small one is Python's own, and threads would take turns.
_WORTH_PROCESSES, _MANY = 256 * 2**20, 32
_PROCESS = 200 * 2**20  # bytes that a process takes, whatever it reads
# Bytes of the tables of one export: below, threads of DuckDB wait for each other, a third of its processor time.
_ONE_THREAD = 32 * 2**20


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
    only: Selection = ALL  # what of an export is measured; its ranks are those of the export alone
    skip_unreadable: bool = False  # exports that cannot be read are left out, not an error
    scheduler: str | None = None  # of a Dask cluster whose workers read


def reduce_sides(
    sides: Sequence[SideFiles],
    reading: Reading,
    progress: Callable[[str], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Side]:
    """Load and reduce every export of some sides, several at once where memory allows; the order is that of the files.

    `progress` is told each file's name before it is read; `meanwhile` is done when reading has begun. Exports that cannot be read are all named in one error, or
    left out (`reading.skip_unreadable`), and the side says so. Raises what reading raises, exports-unreadable,
    nothing-selected, ranks-unclear.
    """
    for side in sides:
        check_ranks(side)
    plans = [[parts_of(run, side.only) for run in side.runs] for side in sides]
    files = [part.path for plan in plans for run in plan for part in run]
    if reading.cached and reading.memory_limit is not None:
        connect(
            memory_limit=reading.memory_limit
        ).close()  # a limit that is none is an error, whatever is kept
    reading = replace(reading, two_profilers=len({is_trace_name(path) for path in files}) > 1)
    several = Counter(path.name for path in set(files))

    def name_of(path: Path) -> str:
        return path.name if several[path.name] == 1 else f"{path.parent.name}/{path.name}"

    with _reducer(files, reading) as (reduce, at_once):

        def read(part: Part) -> Reduction:
            path, name = part.path, name_of(part.path)
            progress(name)
            how = replace(reading, only=part.only)
            try:
                reduction = (
                    cache.through(path, how, lambda path: reduce(path, how))
                    if reading.cached
                    else reduce(path, how)
                )
            except TracediffError as error:
                error.rename(path.name, name)
                raise
            notes = [Note(note.slug, note.message.replace(path.name, name)) for note in reduction.warnings]
            return replace(reduction, warnings=notes)

        pool = ThreadPoolExecutor(at_once, thread_name_prefix="tracediff")
        finish = True
        try:
            waiting = [[[pool.submit(read, part) for part in run] for run in plan] for plan in plans]
            with _undisturbed():
                meanwhile()
            found = [
                [[(part, _outcome(one)) for part, one in zip(parts, futures, strict=True)] for parts, futures in zip(plan, runs, strict=True)]
                for plan, runs in zip(plans, waiting, strict=True)
            ]  # fmt: skip
        except BaseException:
            finish = False  # a large export takes a while, and nobody wants its tables any more
            raise
        finally:
            pool.shutdown(wait=finish, cancel_futures=True)
    failed = [
        (name_of(part.path), one)
        for plan in found for run in plan for part, one in run if isinstance(one, TracediffError)
    ]  # fmt: skip
    if failed and not reading.skip_unreadable:
        raise one_error(failed, len(files))
    return [_side(side, runs, name_of, failed) for side, runs in zip(sides, found, strict=True)]


_Outcomes = list[list[tuple[Part, "Reduction | TracediffError"]]]


def _side(
    side: SideFiles,
    outcomes: _Outcomes,
    name_of: Callable[[Path], str],
    failed: list[tuple[str, TracediffError]],
) -> Side:
    """A side of what could be read of it. Raises the errors `failed` where that is nothing."""
    from tracediff.measure.sides import Side

    runs, left_out = [], []
    for files, parts in zip(side.runs, outcomes, strict=True):
        good = [(part, one) for part, one in parts if not isinstance(one, TracediffError)]
        left_out += [
            LeftOut(name_of(part.path), one.slug, one.message)
            for part, one in parts
            if isinstance(one, TracediffError)
        ]
        if good:
            runs.append(numbered(files, good, side.only))
    if not runs:
        raise one_error(failed, len(failed))
    return Side(side.label, runs, tuple(notes_of(side, runs, left_out)), tuple(left_out))


# Errors of the machine or of the command, whatever the export: going on without it would not help.
_OF_ALL = ("bad-limit", "bad-step-regex", "scanner-missing", "nsys-missing", "out-of-memory")


def _outcome(part: Future[Reduction]) -> Reduction | TracediffError:
    """What came of reading an export. Raises what is no fault of the export alone."""
    try:
        return _result(part)
    except TracediffError as error:
        if error.slug in _OF_ALL or error.slug.startswith("scheduler-"):
            raise
        return error
    except PermissionError as error:
        return TracediffError(
            "no-permission",
            f"{error.filename or 'a file'}: permission denied",
            fix="read from and write to files and folders that this user may use",
        )


_Reduce = Callable[[Path, "Reading"], "Reduction"]


@contextlib.contextmanager
def _reducer(files: Sequence[Path], reading: Reading) -> Iterator[tuple[_Reduce, int]]:
    """How an export is reduced, and how many are at the same time: here, in processes, or on a cluster."""
    if reading.scheduler is not None:
        from tracediff.measure.remote import cluster

        with cluster(reading.scheduler) as remote:
            yield remote.reduce, min(remote.at_once, len(files))
        return
    # a limit of memory is meant for the whole, and the database cannot share it out
    workers = 1 if reading.memory_limit is not None else min(os.cpu_count() or 1, len(files))
    budget, sizes = Budget(), {path: needed(path) for path in files}
    temporary = Path(tempfile.gettempdir())
    with contextlib.ExitStack() as processes:
        at_once = min(workers, budget.together(max((size for size, _ in sizes.values()), default=0)))
        worth = len(files) >= _MANY or sum(sizes[path][0] for path in files) >= _WORTH_PROCESSES
        # one after the other, unless a limit of memory was given, which no process can share
        large = {path for path in files if workers > at_once == 1 and in_file(path, temporary)}
        reduce: _Local = reduce_file
        if ((at_once > 1 and worth) or large) and sys.executable:
            reduce = _in_processes(processes, at_once)
            workers = min(workers, max(budget.together(_PROCESS), 2))
        turn = threading.Lock()

        def leased(path: Path, how: Reading) -> Reduction:
            loading, reduced = sizes[path]
            if loading < _ONE_THREAD:
                how = replace(how, threads=how.threads or 1)
            if path in large and not budget.holds(loading):
                return _in_turn(path, how, reduce, turn, lambda: budget.lease(loading), reduced)
            with budget.lease(loading) as memory:
                return reduce(path, how, emptied=lambda: memory.shrink(reduced))

        yield leased, workers


def _in_turn(
    path: Path,
    how: Reading,
    reduce: _Local,
    turn: threading.Lock,
    lease: Callable[[], AbstractContextManager[Lease]],
    reduced: int,
) -> Reduction:
    """One of several exports that take more than the budget even alone: its tables, which lie in a file, are made while another one is reduced.

    That takes little memory beside; `lease` gives what it takes from then on. The next one has its turn when that is granted.
    """
    with contextlib.ExitStack() as held, contextlib.ExitStack() as loading:
        loading.enter_context(turn)
        memory: list[Lease] = []

        def loaded() -> None:
            memory.append(held.enter_context(lease()))
            loading.close()

        return reduce(path, how, loaded=loaded, emptied=lambda: memory[0].shrink(reduced))


class _Local(Protocol):
    """Reduces an export on this machine; see `reduce_file`."""

    def __call__(
        self,
        path: Path,
        reading: Reading,
        *,
        emptied: Callable[[], None],
        loaded: Callable[[], None] | None = None,
    ) -> Reduction: ...


def _in_processes(stack: contextlib.ExitStack, at_once: int) -> _Local:
    """`stack` ends the processes when it is closed; `at_once`: how many of them load at the same time."""
    from tracediff.measure.pool import pool

    started = stack.enter_context(pool())
    share = max(-(-(os.cpu_count() or 1) // at_once), 1)

    def reduce(
        path: Path, reading: Reading, *, emptied: Callable[[], None], loaded: Callable[[], None] | None = None
    ) -> Reduction:
        how = replace(reading, threads=reading.threads or share)
        return started.reduce(path, how, emptied=emptied, loaded=loaded)

    return reduce


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Answer Ctrl-C and SIGTERM when the block is done: it imports, and Python drops what they raise in its import locks' callbacks."""
    if threading.current_thread() is not threading.main_thread():  # no other has handlers
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if came:
        signal.raise_signal(came[0])


def _result(part: Future[Reduction]) -> Reduction:
    """Wait in turns: polars takes over Ctrl-C in a way that a wait without an end never hears of it."""
    while not part.done():
        wait([part], timeout=0.2)
    return part.result()


def reduce_file(
    path: Path,
    reading: Reading,
    emptied: Callable[[], None] = lambda: None,
    keeper: Keeper | None = None,
    loaded: Callable[[], None] | None = None,
) -> Reduction:
    """One export, in a scratch folder of its own that is gone afterwards.

    `loaded` is called when its tables are made, `emptied` when the large tables of the export are gone from memory; `keeper` says what `reading.keep` keeps, where
    it is not for the page.
    """
    reduction = _reduced(path, reading, emptied, keeper, loaded)
    return _without_domains(reduction) if reading.two_profilers else reduction


def _without_domains(reduction: Reduction) -> Reduction:
    """NVTX domains are nothing that torch.profiler knows: with them no range would meet its like."""
    import polars as pl

    keys = ["stratum", "thread", "place", "domain"]
    ranges = reduction.ranges.with_columns(domain=pl.lit("")).group_by(keys).agg(pl.col("count", "ns").sum())
    return replace(reduction, ranges=ranges.sort(keys))


def _reduced(
    path: Path,
    reading: Reading,
    emptied: Callable[[], None],
    keeper: Keeper | None,
    loaded: Callable[[], None] | None,
) -> Reduction:
    with scratch() as folder:
        capture = load_capture(
            path,
            folder,
            memory_limit=reading.memory_limit,
            threads=reading.threads,
            annotations_only=reading.two_profilers,
        )
        try:
            if loaded is not None:
                loaded()
            # not before the database reads: it needs no interpreter, which imports what comes after it in the meantime
            from tracediff.measure.host_only import is_host_only, reduce_host
            from tracediff.measure.keeper import DRAWN
            from tracediff.measure.reduce import reduce_capture

            if reading.host_only and is_host_only(capture):
                reduction = reduce_host(capture, step_regex=reading.step_regex, only=reading.only)
            else:
                reduction = reduce_capture(
                    capture,
                    step_regex=reading.step_regex,
                    whole_capture=reading.whole_capture,
                    only=reading.only,
                    keep=reading.keep,
                    keeper=keeper or DRAWN,
                    emptied=emptied,
                )
        except BaseException:
            capture.close()
            raise
        capture.read()
        return reduction
