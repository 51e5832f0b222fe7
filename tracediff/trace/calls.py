"""The CUDA calls of an export by thread and time, and those of them that launched ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from tracediff.formats.database import release_memory, sql

Ints = npt.NDArray[np.int64]
Index = npt.NDArray[np.integer[Any]]  # narrow where there are many

LAUNCH, SYNC, OTHER = 0, 1, 2  # what a call does to its thread


@dataclass(frozen=True)
class Launches:
    """Launching calls by dense id, arrays of one length.

    A runtime call and the driver call under it share a correlation id: the outermost stands for both.
    """

    start: Ints
    end: Ints
    tid: Ints
    api: npt.NDArray[np.int32]  # id in api_name
    shared: int = 0  # those with the correlation id of a later call as well, which began after they were over


@dataclass(frozen=True)
class Calls:
    """All CUDA calls in order of (thread, start, longest first, name): arrays of one length."""

    start: Ints
    end: Ints
    name: npt.NDArray[np.int32]  # id in api_name
    kind: npt.NDArray[np.int8]  # LAUNCH, SYNC or OTHER
    of_thread: dict[int, slice]  # global thread id -> its calls


def read_calls(db: duckdb.DuckDBPyConnection) -> tuple[Calls, Launches, Ints]:
    """The calls, the launches among them, and the process and correlation id of each launch, in order; drops api_call."""
    found = db.execute(sql("trace/call")).fetchnumpy()
    db.execute("DROP TABLE api_call")
    release_memory(db)
    start, end, thread, corr, name, kind, owns = (np.asarray(values) for values in found.values())
    tids = [int(tid) for (tid,) in db.execute("SELECT tid FROM thread ORDER BY tid").fetchall()]
    bounds = np.searchsorted(thread, np.arange(len(tids) + 1)).tolist()
    of_thread = {tid: slice(bounds[number], bounds[number + 1]) for number, tid in enumerate(tids)}
    # calls of one correlation id side by side, the earliest first (the order within a thread is kept)
    owners = np.flatnonzero(owns)
    owners = owners[np.lexsort((start[owners], corr[owners]))]
    changes = corr[owners][1:] != corr[owners][:-1]
    some = np.ones(min(len(owners), 1), np.bool_)
    first, last = owners[np.append(some, changes)], owners[np.append(changes, some)]
    shared = int((start[last] > end[first]).sum())
    tid = np.array([*tids, -1], np.int64)[thread[first]]  # thread -1 is the last
    launches = Launches(start[first], end[first], tid, name[first], shared)
    return Calls(start, end, name, kind, of_thread), launches, corr[first]


def distinct(values: Index) -> list[int]:
    """The different values, in order."""
    return [int(one) for one in np.unique(values).tolist()]
