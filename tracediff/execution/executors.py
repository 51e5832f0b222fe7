"""Where exports are read: in threads of this process, in processes of this machine, on a Dask cluster. Each is a `concurrent.futures.Executor`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracediff.errors import TracediffError, not_installed
from tracediff.execution.cache import code_version
from tracediff.formats import columnar
from tracediff.formats.capture import LARGE

if TYPE_CHECKING:
    from tracediff.execution.sides import Reading

# Exports that take so much memory together, or so many, are worth the start of processes, each of which imports for a second: threads take
# turns at what is Python's own, which is a fifth of the time of an export of any size.
_WORTH_PROCESSES, _MANY = 3 * LARGE, 32
# Of exports that take so little together a thread reads two or more: its database takes as long to start as reading one.
_TINY = 10 * 2**20
# Two large exports side by side use both halves of a processor; more than this is asked of no machine for it.
_MOST_MEMORY = 2 * 2**30
_BASE = 350 * 2**20  # bytes of the interpreter, DuckDB, polars
_PROCESS = 200 * 2**20  # bytes that a worker process takes, whatever it reads
# Bytes of memory for each byte of a file: 730 MB of SQLite with 5 million kernels took 1.06 GB. Files that are unpacked, converted
# or made from a report, and tables in Parquet:
_GROWS_SQLITE = 1.4
_GROWS = {".xz": 20.0, ".nsys-rep": 5.0, ".gz": 8.0, ".json": 0.5}
_GROWS_FOLDER = 2.3
_CONNECT_S = 30


class Workers(msgspec.Struct, frozen=True):
    """An executor, how many exports it reads at once, threads for each, and a check to be made while waiting.

    `path`: what it finds an export by; `exports`: reports that may be exported at once or wait, exported, to be read; 0: who reads a report exports it.
    """

    executor: Executor
    at_once: int
    threads: int | None = None
    check: Callable[[], None] = lambda: None
    path: Callable[[Path], Path] = lambda path: path
    exports: int = 0


@contextmanager
def workers(paths: Sequence[Path], reading: Reading) -> Iterator[Workers]:
    """Workers for some exports, until the end of the block; where it is left by an error, what they do is broken off.

    Raises `TracediffError`: dask-missing, scheduler-unreachable, scheduler-no-workers, scheduler-other-version.
    """
    if reading.scheduler is not None:
        with _cluster(reading.scheduler) as found:
            yield found
        return
    processors = os.cpu_count() or 1
    sizes = sorted((_memory(path) for path in paths), reverse=True)
    # a limit of memory is meant for the whole
    at_once = 1 if reading.memory_limit is not None else min(processors, len(sizes), _fitting(sizes))
    if sum(sizes) < _TINY:
        at_once = min(at_once, -(-len(sizes) // 2))
    # where not all are read at once, the next report is exported in the meantime
    exports = min(at_once + 1, sum(path.suffix == ".nsys-rep" for path in paths))
    if at_once > 1 and (sum(sizes) >= _WORTH_PROCESSES or len(sizes) >= _MANY):
        # imported late: it needs modules that small exports do without
        from tracediff.execution.processes import processes

        at_once = min(at_once, max(_room() // _PROCESS, 2))
        with processes(max(at_once, exports)) as executor:
            yield Workers(executor, at_once, threads=-(-processors // at_once), exports=exports)
    else:
        executor = ThreadPoolExecutor(max(at_once, exports, 1), thread_name_prefix="tracediff")
        try:
            yield Workers(executor, at_once, threads=-(-processors // at_once), exports=exports)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()


@contextmanager
def alone() -> Iterator[Workers]:
    """One process of this machine, in which nothing else is read."""
    from tracediff.execution.processes import processes

    with processes(1) as executor:
        yield Workers(executor, 1)


def _memory(path: Path) -> int:
    try:
        grows = _GROWS_FOLDER if path.is_dir() else _GROWS.get(path.suffix, _GROWS_SQLITE)
        return int(columnar.size(path) * grows)
    except OSError:
        return 0  # reading it says what is wrong


def _fitting(sizes: Sequence[int]) -> int:
    """How many exports of these sizes, the largest first, fit into memory together, at least one."""
    return max(sum(total <= _room() for total in accumulate(sizes)), 1)


def _room() -> int:
    """Bytes for reading: at most half of the free memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_MOST_MEMORY, free // 2) - _BASE


def explain(error: BaseException, name: str) -> TracediffError | None:
    """The error of a machine or cluster that could not read an export, None for any other."""
    kind = type(error).__name__
    if kind == "KilledWorker":
        return TracediffError(
            "worker-died",
            f"{name}: {getattr(error, 'allowed_failures', 0) + 1} workers of the cluster ended while they were reading it, probably for want of memory",
            fix="workers with more memory and one thread each (dask worker --nthreads 1 --memory-limit 16GiB)",
        )
    if kind in ("CancelledError", "FutureCancelledError"):
        return _lost()
    return None


# A Dask cluster. Dask runs a task again elsewhere when its worker dies, as often as the scheduler allows
# (distributed.scheduler.allowed-failures, 3 unless set otherwise).


@contextmanager
def _cluster(address: str) -> Iterator[Workers]:
    """Connect to a running cluster; it goes on running. `address`: tcp://HOST:PORT, tls://HOST:PORT, or the path of a scheduler file."""
    try:
        import distributed
    except ImportError:
        raise not_installed("dask-missing", "TRACEDIFF_SCHEDULER needs Dask, which", "dask") from None
    where = {"address": address} if "://" in address else {"scheduler_file": str(Path(address))}
    try:
        if "scheduler_file" in where and not Path(address).is_file():
            raise OSError("there is no such scheduler file, and it is no address")
        client = distributed.Client(**where, timeout=_CONNECT_S, set_as_default=False, name="tracediff")
    except (OSError, ValueError, TimeoutError, distributed.TimeoutError) as error:
        raise TracediffError(
            "scheduler-unreachable",
            f"TRACEDIFF_SCHEDULER={address}: {error}",
            fix="tcp://HOST:PORT as `dask scheduler` prints it, or the file of its --scheduler-file",
        ) from error

    def check() -> None:
        if client.status != "running":
            raise _lost()

    try:
        try:
            versions = set(client.run(code_version).values())
        except (ImportError, AttributeError) as error:
            raise _other_code(f"has no tracediff, or another one ({error})") from error
        if not versions:
            raise TracediffError(
                "scheduler-no-workers",
                f"TRACEDIFF_SCHEDULER={address}: the cluster has no workers",
                fix="dask worker ADDRESS --nthreads 1",
            )
        if versions != {code_version()}:
            raise _other_code("runs another version of tracediff, or changed code")
        threads = sum(client.nthreads().values())
        yield Workers(client.get_executor(pure=False), threads, check=check, path=Path.resolve)
    finally:
        client.close(timeout=5)


def worker_died(name: str) -> TracediffError:
    """The error of an export whose reading ended a process that read nothing else."""
    return TracediffError(
        "worker-died",
        f"{name}: the process that was reading it ended, alone as well as beside others, probably for want of memory",
        fix="TRACEDIFF_MEMORY=1GiB reads it in little memory",
    )


def _other_code(why: str) -> TracediffError:
    """The error of a cluster with another version of this package."""
    return TracediffError(
        "scheduler-other-version",
        f"a worker of the cluster {why}: its numbers might not be the same",
        fix="install the same tracediff-gpu on all workers and start them again",
    )


def _lost() -> TracediffError:
    return TracediffError(
        "scheduler-lost",
        "the cluster's scheduler ended or cannot be reached any more",
        fix="start it again; exports that were read are kept, and not read again",
    )
