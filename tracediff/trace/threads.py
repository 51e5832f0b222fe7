"""Host threads: the places of their NVTX ranges, their CUDA calls, and their roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import duckdb
import msgspec
import numpy as np
import numpy.typing as npt

from tracediff.arrays import Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import release_memory, sql

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
# `aten::mm, op_id = 7, sizes = [[16, 16], ...`
_OPERANDS = re.compile(r", (?:seq|op_id) = [0-9]+(?:, .*)?\Z", re.DOTALL)

_ALGORITHM = re.compile(r"(?:cub|thrust)::")
# All generations of a step label are one place.
STEP_PLACE = "[Executor] _forward_step"
OUTSIDE = "outside any range"
UNNAMED = "thread without ranges"


def mask(text: str) -> str:
    """`layer 12: 0x7f3a` -> `layer N: N`; of an operator that PyTorch's `emit_nvtx` labels, its name alone."""
    return _NUMBER.sub("N", _OPERANDS.sub("", text))


class Places:
    """Label of range_text -> place, as dense ids."""

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        rows = db.execute("SELECT label, text FROM range_text ORDER BY label").fetchall()
        found = db.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'step_text'").fetchone()
        known = db.execute("SELECT label FROM step_text").fetchall() if found and found[0] else []
        steps = {label for (label,) in known}
        names: dict[str, int] = {}
        self._of_label = np.full(max((row[0] for row in rows), default=-1) + 2, -1, np.int64)
        for label, text in rows:
            place = STEP_PLACE if label in steps and "_forward_step" in text else mask(text)
            self._of_label[label] = names.setdefault(place, len(names))
        self.names: list[str] = list(names)
        self._ids = names
        self._outside: dict[int, int] = {}  # the places before and after, in one number -> place

    def ids(self, label: npt.NDArray[np.integer]) -> Ints:
        """Labels -> place ids; -1 stays -1."""
        return np.asarray(self._of_label[label], np.int64)  # its last entry, that of -1, is -1

    def of_label(self, label: int) -> str:
        """The place of one label."""
        return self.name(int(self._of_label[label]))

    def name(self, place: int) -> str:
        """The text of a place; '' for -1."""
        return self.names[place] if place >= 0 else ""

    def outside(self, ranges_start: Ints, labels: Ints, instant: Ints) -> Ints:
        """For instants outside any range of a thread: a place id that says between which ranges they fall.

        `ranges_start`, `labels`: the thread's partition by innermost range.
        """
        following, which = np.unique(
            np.searchsorted(ranges_start, instant, side="right"), return_inverse=True
        )
        around = []
        for at in (following - 1, following):
            place = np.full(len(at), -1, np.int64)  # before the first range and after the last
            inside = (at >= 0) & (at < len(labels))
            place[inside] = self.ids(labels[at[inside]])
            around.append(place + 1)
        pairs, each = np.unique(around[0] << 32 | around[1], return_inverse=True)
        ids = np.array([self._between(pair) for pair in pairs.tolist()], np.int64)
        return np.asarray(ids[each.reshape(-1)][which.reshape(-1)], np.int64)

    def _between(self, pair: int) -> int:
        """The place id for the places before and after, each plus one, in one number."""
        if pair not in self._outside:
            text = outside_text(self.name((pair >> 32) - 1), self.name((pair & 0xFFFFFFFF) - 1))
            if text not in self._ids:
                self._ids[text] = len(self.names)
                self.names.append(text)
            self._outside[pair] = self._ids[text]
        return self._outside[pair]


def outside_text(previous: str, following: str) -> str:
    """How a place in no range is called; CUDA's own algorithms have ranges as well, between which a program may do anything."""
    previous, following = ("" if of_algorithm(one) else one for one in (previous, following))
    if previous and following:
        return f"{OUTSIDE}, between {previous} and {following}"
    if previous or following:
        return f"{OUTSIDE}, " + (f"after {previous}" if previous else f"before {following}")
    return OUTSIDE


def of_algorithm(place: str) -> bool:
    """Whether a range is of an algorithm that comes with CUDA, and not the program's own."""
    return _ALGORITHM.match(place) is not None


def beside(place: str) -> list[str] | None:
    """The ranges before and after a place that `outside_text` made; None for a range."""
    if not place.startswith(OUTSIDE):
        return None
    side, _, text = place.removeprefix(OUTSIDE).removeprefix(", ").partition(" ")
    return text.split(" and ", 1) if side == "between" else [text] if text else []


_AWAITS = re.compile(r"(?i)(?<![a-z])(recv|receive|wait|await|poll|join|barrier)(?![a-z])")


def awaits(place: str) -> bool:
    """Whether a range says of itself that its thread waits there, for another thread or process."""
    return not place.startswith(OUTSIDE) and _AWAITS.search(place) is not None


# CUDA calls.


Index = npt.NDArray[np.integer[Any]]  # narrow where there are many

LAUNCH, SYNC, OTHER = 0, 1, 2  # what a call does to its thread


class Launches(msgspec.Struct, frozen=True):
    """Launching calls by dense id, arrays of one length.

    A runtime call and the driver call under it share a correlation id: the outermost stands for both.
    """

    start: Ints
    end: Ints
    tid: Ints
    api: npt.NDArray[np.int32]  # id in api_name
    shared: int = 0  # those with the correlation id of a later call as well, which began after they were over


class Calls(msgspec.Struct, frozen=True):
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
    every = {name: np.asarray(values) for name, values in found.items()}
    by = (every["thread"], every["start_ns"], -every["end_ns"], every["name"], every["corr"])
    order = ordered(by, leading=2)
    start, end, thread, corr, name, kind, owns = (values[order] for values in every.values())
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


def ordered(keys: Sequence[Index], leading: int) -> Index:
    """Positions of rows in order of the keys, the first one first. The `leading` ones leave few ties.

    Rows of an export come nearly in order of time: here they are merged, in a tenth of the time and half of the memory of a sort in DuckDB.
    """
    order = np.lexsort(keys[:leading][::-1])
    same = np.logical_and.reduce([key[order][1:] == key[order][:-1] for key in keys[:leading]])
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    rows = order[tied]
    order[tied] = rows[np.lexsort([key[rows] for key in keys[::-1]])]
    return order


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
RESPONSE_ROLES = ("await-response", "dispatch-result", "detokenizer", "post-processor")
"""Threads that hand responses on, from the executor to the server."""


class Thread(msgspec.Struct, frozen=True):
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
    rows = db.execute("SELECT DISTINCT tid, label FROM range ORDER BY tid").fetchnumpy()
    tids, first = np.unique(rows["tid"], return_index=True)
    for tid, labels in zip(tids.tolist(), np.split(rows["label"], first[1:]), strict=False):
        seen[tid] = {places.name(place) for place in distinct(places.ids(labels))}
    executors = {int(row[0]) for row in db.execute("SELECT DISTINCT tid FROM step").fetchall()}
    devices: dict[int, set[int]] = {}  # of each process
    for tid, mine in launchers.items():
        devices.setdefault(tid >> 24 & 0xFFFFFF, set()).update(mine)
    threads = {}
    for tid, pid, name in db.execute("SELECT tid, pid, name FROM thread ORDER BY tid").fetchall():
        texts, own = seen.get(int(tid), set()), sorted(devices.get(int(tid) >> 24 & 0xFFFFFF, ()))
        # of threads without labels that launch on a GPU each, it is chance whose rounds are the steps
        if int(tid) in executors and (texts or launchers.get(int(tid), own) == own):
            role = "executor"
        else:
            role = _by_rule(texts)
            if not role and int(tid) in launchers:
                # by their places in the process: another run may be on another GPU
                role = "launcher of device " + "+".join(f"{own.index(one)}" for one in launchers[int(tid)])
            role = role or _by_name(texts, str(name), first=int(tid) & 0xFFFFFF == int(pid))
        threads[int(tid)] = Thread(
            int(tid), int(pid), role, "worker" if pid in devices else "host", frozenset(texts)
        )
    return threads


def _by_rule(texts: set[str]) -> str:
    for role, pattern in _RULES:
        if any(re.search(pattern, text) for text in texts):
            return role
    return ""


def _by_name(texts: set[str], os_name: str, *, first: bool) -> str:
    """first: it is the thread that the process began with, where an event loop runs."""
    if texts:
        return "thread of " + min(texts)
    # Before Python 3.14 the system's name of every Python thread is the interpreter's: it tells nothing.
    unnamed = "main" if first else UNNAMED
    return f"thread {os_name}" if os_name and not os_name.startswith("python") else unnamed
