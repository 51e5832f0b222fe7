"""Exports reduced on the workers of a Dask cluster: what travels back is the stored reduction, as from a local worker.

Each export is one task. Dask runs a task again elsewhere when its worker dies, as often as the scheduler allows
(distributed.scheduler.allowed-failures, 3 unless set otherwise). Workers must see the files under
the same paths, and run the very code that this process runs: both are checked by the task itself.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tracediff.accounting.reduction import Reduction
from tracediff.errors import TracediffError
from tracediff.execution.cache import DamagedStoreError, code_version, pack, unpack
from tracediff.execution.run import Reading, reduce_file
from tracediff.execution.worker import Answer, Denied, Done, Emptied, Failed, Loaded, Refused
from tracediff.formats.unpack import fingerprint

CONNECT_S = 30
_AHEAD = 2  # exports asked for at once, for each thread of the cluster: a worker never waits for the next one
_MOST_AT_ONCE = 256
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def reduce_there(path: str, reading: Reading, identity: str, version: str) -> bytes:
    """One export, on a worker: an `Answer` as bytes. `identity`: the file's fingerprint where it was asked for."""
    return msgspec.msgpack.encode(_answer(Path(path), reading, identity, version))


def _answer(path: Path, reading: Reading, identity: str, version: str) -> Answer:
    try:
        if code_version() != version:
            raise _other_code("runs another version of tracediff, or changed code")
        if not path.exists():
            raise _no_file(path, "there is no such file on it")
        if fingerprint(path) != identity:
            raise _no_file(path, "the file of that path has another content on it")
        return Done(pack(reduce_file(path, reading), compress=True))
    except TracediffError as error:
        return Refused(error.slug, error.message, error.fix, error.exit_code)
    except PermissionError as error:
        return Denied(str(error.filename or "a file"))
    except Exception:
        return Failed(traceback.format_exc())


def _no_file(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "scheduler-no-file",
        f"{path.name}: a worker of the cluster cannot see it: {why}",
        fix="a folder that all workers mount under the same path, given as an absolute path",
    )


def _other_code(why: str) -> TracediffError:
    return TracediffError(
        "scheduler-other-version",
        f"a worker of the cluster {why}: its numbers might not be the same",
        fix="install the same tracediff-gpu on all workers and start them again",
    )


class Cluster:
    """A connected cluster."""

    def __init__(self, client: Any) -> None:
        self._client = client
        threads = sum(client.nthreads().values())
        self.at_once = max(1, min(_AHEAD * threads, _MOST_AT_ONCE))

    def reduce(self, path: Path, reading: Reading) -> Reduction:
        """One export. Raises what `reduce_file` raises, worker-died, scheduler-no-file, -other-version, -lost."""
        plain = replace(reading, scheduler=None, cached=False)
        task = self._client.submit(
            reduce_there, str(path.resolve()), plain, fingerprint(path), code_version(), pure=False,
        )  # fmt: skip
        try:
            raw = _result(task, path)
        finally:
            task.release()
        answer = _ANSWERS.decode(raw)
        if isinstance(answer, Refused):
            raise TracediffError(answer.slug, answer.message, fix=answer.fix, exit_code=answer.exit_code)
        if isinstance(answer, Denied):
            raise PermissionError(13, "permission denied", answer.file)
        if isinstance(answer, Failed):
            raise RuntimeError(f"reducing {path.name}:\n{answer.trace}")
        assert not isinstance(answer, Loaded | Emptied)
        try:
            return unpack(answer.packed)
        except DamagedStoreError as error:
            raise _other_code(f"sent something else than a reduction of this version ({error})") from error


def _result(task: Any, path: Path) -> bytes:
    from distributed import CancelledError, KilledWorker, TimeoutError
    from distributed.client import FutureCancelledError

    while True:
        try:
            raw: bytes = task.result(timeout=1)
            return raw
        except TimeoutError:
            if task.client.status != "running":
                raise _lost() from None
        except KilledWorker as error:
            raise TracediffError(
                "worker-died",
                f"{path.name}: {error.allowed_failures + 1} workers of the cluster ended while they were reading it, probably for want of memory",
                fix="workers with more memory and one thread each (dask worker --nthreads 1 --memory-limit 16GiB)",
            ) from error
        except (CancelledError, FutureCancelledError) as error:
            raise _lost() from error
        except (ImportError, AttributeError) as error:  # the task could not be unpacked there
            raise _other_code(f"has no tracediff, or another one ({error})") from error


def _lost() -> TracediffError:
    return TracediffError(
        "scheduler-lost",
        "the cluster's scheduler ended or cannot be reached any more",
        fix="start it again; exports that were read are kept, and not read again",
    )


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """Connect to a running cluster until the end of the block; it goes on running.

    `address`: tcp://HOST:PORT, tls://HOST:PORT, or the path of a scheduler file. Raises `TracediffError`: dask-missing,
    scheduler-unreachable, scheduler-no-workers.
    """
    try:
        import distributed
    except ImportError:
        raise TracediffError(
            "dask-missing",
            "--scheduler needs Dask, which is not installed",
            fix="pip install 'tracediff-gpu[dask]'",
        ) from None
    where = {"address": address} if "://" in address else {"scheduler_file": str(Path(address))}
    try:
        if "scheduler_file" in where and not Path(address).is_file():
            raise OSError("there is no such scheduler file, and it is no address")
        client = distributed.Client(**where, timeout=CONNECT_S, set_as_default=False, name="tracediff")
    except (OSError, ValueError, TimeoutError, distributed.TimeoutError) as error:
        raise TracediffError(
            "scheduler-unreachable",
            f"--scheduler {address}: {error}",
            fix="tcp://HOST:PORT as `dask scheduler` prints it, or the file of its --scheduler-file",
        ) from error
    try:
        found = Cluster(client)
        if not client.nthreads():
            raise TracediffError(
                "scheduler-no-workers",
                f"--scheduler {address}: the cluster has no workers",
                fix="dask worker ADDRESS --nthreads 1",
            )
        yield found
    finally:
        client.close(timeout=5)
