"""The files of the sides -> reduced runs, as many exports at a time as memory holds."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tracediff.errors import TracediffError
from tracediff.execution import cache
from tracediff.formats import columnar
from tracediff.formats.capture import LARGE, in_file, load_capture
from tracediff.formats.database import connect
from tracediff.formats.inputs import RunFiles, SideFiles
from tracediff.formats.kineto import is_trace_name
from tracediff.formats.scratch import scratch
from tracediff.formats.selection import ALL, Selection, spell_ranks, spell_steps, spell_window
from tracediff.model import LeftOut, Note

if TYPE_CHECKING:
    from tracediff.accounting.reduction import Reduction
    from tracediff.compare.sides import Run, Side
if TYPE_CHECKING:
    from tracediff.accounting.reduce import StepSampler
    from tracediff.accounting.reduction import Reduction
    from tracediff.compare.sides import Side


# Which exports of a side are read, what number their ranks have, and what a result says of the rest.

NAMED = 5  # exports that a warning names; the rest are counted
MOST_NAMED = 20  # the same of an error


@dataclass(frozen=True)
class Part:
    """One export that is read. `place`: which of the run's exports it is; `only`: what of it is measured."""

    path: Path
    place: int
    only: Selection


def parts_of(run: RunFiles, only: Selection) -> list[Part]:
    """The exports of a run that are read: of a run with an export a rank those of the ranks that are asked for."""
    if len(run.files) == 1:
        return [Part(run.files[0], 0, only)]
    ranks = run.ranks or tuple(range(len(run.files)))
    inside = replace(only, ranks=None)
    return [
        Part(path, place, inside)
        for place, (path, rank) in enumerate(zip(run.files, ranks, strict=True))
        if only.has_rank(rank)
    ]


def check_ranks(side: SideFiles) -> None:
    """Raise nothing-selected where a run has none of the ranks that are asked for."""
    for run in side.runs:
        if not parts_of(run, side.only):
            ranks = run.ranks or tuple(range(len(run.files)))
            raise TracediffError(
                "nothing-selected",
                f"{side.label}, run {run.name}: none of its {len(ranks)} ranks is selected",
                fix=f"--ranks: ranks {min(ranks)} to {max(ranks)} are there",
            )


def numbered(files: RunFiles, parts: Sequence[tuple[Part, Reduction]], only: Selection) -> Run:
    """A run of its reductions, each with the number of its first rank.

    Raises `TracediffError`: ranks-unclear, where exports hold several ranks and not all of them were read.
    """
    counts = [part.measured.all_ranks for _, part in parts]
    several = len(files.files) > 1
    cut = several and max(counts) > 1 and len(parts) < len(files.files)
    if cut and (len(set(counts)) > 1 or only.ranks is not None):
        raise TracediffError(
            "ranks-unclear",
            f"{parts[counts.index(max(counts))][0].path.name}: one of several exports of a run, it holds {max(counts)} ranks: which ranks"
            " are in the exports that were not read is not known",
            fix="an export a rank, named rank<N>; or read all of them",
        )
    if several and files.ranks is not None and max(counts) == 1:
        firsts = [files.ranks[part.place] for part, _ in parts]
    elif len(set(counts)) == 1:
        firsts = [part.place * counts[0] for part, _ in parts]
    else:
        firsts = [sum(counts[:place]) for place in range(len(parts))]
    from tracediff.compare.sides import Run

    sources = tuple((part.path, part.only) for part, _ in parts)
    return Run(files.name, [one for _, one in parts], tuple(firsts), sources, len(files.files) - len(parts))


def notes_of(side: SideFiles, runs: Sequence[Run], failed: Sequence[LeftOut]) -> list[Note]:
    """What a result must say of a side that was not measured whole."""
    notes = list(side.notes)
    only = side.only
    parts = [part for run in runs for part in run.parts]
    ranks = sum(part.measured.ranks for part in parts)
    unread = sum(len(run.files) - len(parts_of(run, only)) for run in side.runs)
    all_ranks = sum(part.measured.all_ranks for part in parts) + unread
    if only.ranks is not None and ranks < all_ranks:
        notes.append(
            Note("ranks-left-out", f"{side.label}: {all_ranks - ranks} of {all_ranks} ranks of all runs are left out (--ranks {spell_ranks(only)})")
        )  # fmt: skip
    steps, all_steps = (
        sum(getattr(part.measured, name) for part in parts) for name in ("steps", "all_steps")
    )
    if only.cuts_steps and steps < all_steps:
        options = (("--steps", spell_steps(only)), ("--window", spell_window(only)))
        spelled = " ".join(f"{option} {text}" for option, text in options if text)
        of = " of the ranks kept" if only.ranks is not None else ""
        notes.append(
            Note("steps-left-out", f"{side.label}: {all_steps - steps} of {all_steps} whole steps{of} are left out ({spelled});"
                 " every figure is of the steps kept")
        )  # fmt: skip
    if failed:
        named = "; ".join(f"{one.name}: {one.slug}" for one in failed[:NAMED])
        more = f"; and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
        notes.append(
            Note("exports-left-out", f"{side.label}: {len(failed)} of {len(parts) + len(failed)} exports could not be read and are left out"
                 f" ({named}{more})")
        )  # fmt: skip
    return notes


def warnings_of(sides: Sequence[Side]) -> list[Note]:
    """What was left out of the sides, and the warnings of their exports: each slug for at most `NAMED` exports."""
    kept = dict.fromkeys(note for side in sides for note in side.notes)
    of: Counter[str] = Counter()
    for part in (part for side in sides for part in side.parts):
        fresh = [note for note in part.warnings if note not in kept]
        of.update({note.slug for note in fresh})
        kept.update(dict.fromkeys(note for note in fresh if of[note.slug] <= NAMED))
    more = [(slug, count - NAMED) for slug, count in of.items() if count > NAMED]
    return [
        *kept,
        *(Note(slug, f"the same of {count} further exports, in other numbers") for slug, count in more),
    ]


def one_error(errors: Sequence[tuple[str, TracediffError]], exports: int) -> TracediffError:
    """Say in one error which exports could not be read; `errors`: name and error of each, at least one."""
    first = errors[0][1]
    if len(errors) == 1:
        return first
    fix = "read what is there without them: --skip-unreadable"
    if len({error.slug for _, error in errors}) == 1:
        also = ", ".join(name for name, _ in errors[1 : MOST_NAMED + 1])
        more = f" and {len(errors) - 1 - MOST_NAMED} more" if len(errors) - 1 > MOST_NAMED else ""
        message = f"{first.message}; the same of {also}{more} ({len(errors)} of {exports} exports)"
        # where nothing would be left, leaving out is no help
        said = [one for one in (first.fix, fix if len(errors) < exports else None) if one]
        return TracediffError(first.slug, message, fix="; ".join(said) or None, exit_code=first.exit_code)
    lines = [f"{error.message} [{error.slug}]" for _, error in errors[:MOST_NAMED]]
    lines += [f"and {len(errors) - MOST_NAMED} more"] if len(errors) > MOST_NAMED else []
    return TracediffError(
        "exports-unreadable",
        f"{len(errors)} of {exports} exports cannot be read:" + "".join(f"\n    {line}" for line in lines),
        fix=fix if len(errors) < exports else "mend or replace them",
    )


# How many exports may be in memory at once: as many as a budget holds, and always one.

# Two large exports side by side use both halves of a processor; more than this is asked of no machine for it. Two of
# 5 million kernels each fit.
_MOST = 2 * 2**30
_BASE = 350 * 2**20  # the interpreter, DuckDB, polars

# Bytes a row; measured. What counts are arrays of ops and calls, and ranges, most of which are the GIL's trace and go before
# gaps are cut. Tables of a large export lie in a file (load/capture.py), of which little is in memory.
_KERNELS, _CALLS, _RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_LOADED = {_RANGES: 40, _KERNELS: 125, _CALLS: 40}
_LOADED_IN_FILE = {**_LOADED, _RANGES: 8}
_REDUCED = {_RANGES: 2, _KERNELS: 125, _CALLS: 30}
_PACKED = 20  # an export grows by this when it is unpacked or made from a report
# Traces of torch.profiler: some 300 bytes of text an event, of which gzip leaves some 20.
_PACKED_TRACE = {".json": 0.5, ".gz": 8.0}


class Budget:
    """Memory that exports share: `lease` waits until there is room, or until nobody else holds any."""

    def __init__(self, total: int | None = None) -> None:
        self._total = _default() if total is None else total
        self._used = 0
        self._changed = threading.Condition()

    def together(self, size: int) -> int:
        """How many leases of a size can be held at once, at least one."""
        return max(self._total // size, 1) if size else 1 << 16

    def holds(self, size: int) -> bool:
        """Whether a lease of a size stays within the budget."""
        return size <= self._total

    @contextmanager
    def lease(self, size: int) -> Iterator[Lease]:
        """Hold `size` bytes until the end of the block; `Lease.shrink` gives a part back before."""
        with self._changed:
            self._changed.wait_for(lambda: self._used == 0 or self._used + size <= self._total)
            self._used += size
        held = Lease(self, size)
        try:
            yield held
        finally:
            held.shrink(0)

    def _give_back(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class Lease:
    """A part of a budget."""

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self.size = budget, size

    def shrink(self, size: int) -> None:
        """Keep at most `size` bytes of it."""
        less = max(self.size - size, 0)
        self.size -= less
        self._budget._give_back(less)


def needed(path: Path) -> tuple[int, int]:
    """Bytes of memory that an export takes while it is loaded, and once its tables are read: an estimate."""
    rows = _row_counts(path)
    if rows is None:
        grows = _PACKED_TRACE.get(path.suffix, _PACKED)
        size = int(path.stat().st_size * grows) if path.is_file() else 0
        return size, size
    loaded = _LOADED_IN_FILE if columnar.size(path) >= LARGE else _LOADED
    return _size(rows, loaded), _size(rows, _REDUCED)


def _size(rows: dict[str, int], cost: dict[str, int]) -> int:
    return sum(rows[table] * bytes_a_row for table, bytes_a_row in cost.items())


def _row_counts(path: Path) -> dict[str, int] | None:
    """Highest row number of each table, which SQLite finds without reading it; None where it is no plain export."""
    counts = dict.fromkeys(_REDUCED, 0)
    if path.is_dir():
        return _row_counts_of_folder(path)
    if not path.is_file() or path.suffix != ".sqlite":
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            present = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in present & _REDUCED.keys():
                counts[table] = int(
                    db.execute(f'SELECT coalesce(max(rowid), 0) FROM "{table}"').fetchone()[0]
                )
    except sqlite3.Error:
        return None  # the loader says what is wrong with it
    return counts


def _row_counts_of_folder(folder: Path) -> dict[str, int] | None:
    import polars as pl

    files = columnar.tables(folder)
    try:
        return {table: columnar.estimated_rows(files[table]) if table in files else 0 for table in _REDUCED}
    except (OSError, pl.exceptions.PolarsError):
        return None  # the loader says what is wrong with it


def _default() -> int:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 0
    return max(min(_MOST, free // 2) - _BASE, 0)


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
    from tracediff.compare.sides import Side

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
        from tracediff.execution.remote import cluster

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
    from tracediff.execution.pool import pool

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
    sampler: StepSampler | None = None,
    loaded: Callable[[], None] | None = None,
) -> Reduction:
    """One export, in a scratch folder of its own that is gone afterwards.

    `loaded` is called when its tables are made, `emptied` when the large tables of the export are gone from memory; `sampler`: which
    steps are sampled, where it is not for the page.
    """
    reduction = _reduced(path, reading, emptied, sampler, loaded)
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
    sampler: StepSampler | None,
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
            from tracediff.accounting.reduce import is_host_only, reduce_capture, reduce_host
            from tracediff.steps.sample import FOR_THE_PAGE

            if reading.host_only and is_host_only(capture):
                reduction = reduce_host(capture, step_regex=reading.step_regex, only=reading.only)
            else:
                reduction = reduce_capture(
                    capture,
                    step_regex=reading.step_regex,
                    whole_capture=reading.whole_capture,
                    only=reading.only,
                    sampler=sampler or (FOR_THE_PAGE if reading.keep else None),
                    emptied=emptied,
                )
        except BaseException:
            capture.close()
            raise
        capture.read()
        return reduction
