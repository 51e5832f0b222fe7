"""Roles of host threads, learned from the ranges they carry and the calls they make, never from thread ids."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracediff.formats.capture import Capture
from tracediff.trace.ranges import Places

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
