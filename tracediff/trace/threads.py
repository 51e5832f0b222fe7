"""Host threads: their CUDA calls, and their roles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from tracediff.formats.capture import Capture
from tracediff.formats.database import release_memory, sql
from tracediff.trace.ranges import Places

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


# Roles of host threads, learned from the ranges they carry and the calls they make, never from thread ids.


# Checked in this order against a thread's masked ranges; the first rule with a hit names the thread.
# facts: TensorRT-LLM's LLM API and PyTorch executor (life of a response).
_RULES: tuple[tuple[str, str], ...] = (
    ("await-response", r"^await_response"),
    ("dispatch-result", r"^handle_response|proxy_dispatch_result"),
    ("detokenizer", r"decode_incrementally|detokeni[sz]e"),
    ("post-processor", r"post_processor"),
    ("tokenizer", r"^tokenize"),
    ("request-submitter", r"^LLM\.generate|request_queue\.put"),
)


@dataclass(frozen=True)
class Thread:
    """One thread: its role, whether its process has a GPU, and the places seen on it."""

    tid: int
    pid: int
    role: str
    process: str  # worker (has a GPU) or host
    places: frozenset[str]


def thread_roles(capture: Capture, places: Places, launchers: dict[int, list[int]]) -> dict[int, Thread]:
    """Global thread id -> its role. Threads that did nothing but exist are left out.

    `launchers`: thread -> the devices that it launches on.
    """
    db = capture.db
    seen: dict[int, set[str]] = {}
    for tid, label in db.execute("SELECT DISTINCT tid, label FROM range ORDER BY tid, label").fetchall():
        seen.setdefault(int(tid), set()).add(places.of_label(int(label)))
    executors = {int(row[0]) for row in db.execute("SELECT DISTINCT tid FROM step").fetchall()}
    workers = {tid >> 24 & 0xFFFFFF for tid in launchers}
    threads = {}
    for tid, pid, name in db.execute("SELECT tid, pid, name FROM thread ORDER BY tid").fetchall():
        texts = seen.get(int(tid), set())
        if int(tid) in executors:
            role = "executor"
        else:
            role = _by_rule(texts)
            if not role and int(tid) in launchers:
                role = "launcher of device " + "+".join(str(device) for device in launchers[int(tid)])
            role = role or _by_name(texts, str(name))
        threads[int(tid)] = Thread(
            int(tid), int(pid), role, "worker" if pid in workers else "host", frozenset(texts)
        )
    return threads


def similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard similarity of two sets of places; 1 for two empty ones."""
    return len(one & other) / len(one | other) if one | other else 1.0


def _by_rule(texts: set[str]) -> str:
    for role, pattern in _RULES:
        if any(re.search(pattern, text) for text in texts):
            return role
    return ""


def _by_name(texts: set[str], os_name: str) -> str:
    if texts:
        return "thread of " + min(texts)
    # Before Python 3.14 the system's name of every Python thread is the interpreter's: it tells nothing.
    return f"thread {os_name}" if os_name and not os_name.startswith("python") else "thread without ranges"
