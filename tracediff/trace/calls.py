"""The CUDA calls of an export by thread and time, and those of them that launched ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from tracediff.formats.database import release_memory, run_sql

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


def read_calls(db: duckdb.DuckDBPyConnection) -> tuple[Calls, Launches]:
    """The calls and the launches among them; table api_call is dropped, table launch stays."""
    run_sql(db, "trace/call")
    db.execute("DROP TABLE api_call")
    rows = _columns(db, "SELECT start_ns, end_ns, name, kind, thread FROM call ORDER BY rowid")
    db.execute("DROP TABLE call")
    release_memory(db)
    tids = [int(tid) for (tid,) in db.execute("SELECT tid FROM thread ORDER BY tid").fetchall()]
    bounds = np.searchsorted(rows["thread"], np.arange(len(tids) + 1)).tolist()
    of_thread = {tid: slice(bounds[number], bounds[number + 1]) for number, tid in enumerate(tids)}
    found = _columns(db, "SELECT start_ns, end_ns, tid, name, shared FROM launch ORDER BY id")
    return (
        Calls(rows["start_ns"], rows["end_ns"], rows["name"], rows["kind"], of_thread),
        Launches(found["start_ns"], found["end_ns"], found["tid"], found["name"], int(found["shared"].sum())),
    )


def _columns(db: duckdb.DuckDBPyConnection, query: str) -> dict[str, npt.NDArray[Any]]:
    return {name: np.asarray(values) for name, values in db.execute(query).fetchnumpy().items()}


def distinct(values: Index) -> list[int]:
    """The different values, in order."""
    return [int(one) for one in np.unique(values).tolist()]
