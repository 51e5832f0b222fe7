"""SQL in a process of its own, which ends with its answer: bounds on time, memory and disk that no statement can get around.

A statement that folds a constant, or compares two long texts, hears of no interruption and knows no limit of DuckDB's memory. The process
has an address space of a fixed size, and is killed when its time is over. What a statement made or set is gone with it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from tracediff.errors import TracediffError
from tracediff.formats import bounds
from tracediff.formats.files import scratch
from tracediff.query import guard
from tracediff.query.guard import Answer

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tracediff.query.apart import main; main()"
)
_LIBRARIES = 1 << 30  # bytes of address space of Python and its libraries, with what their threads reserve
_THREAD = 16 << 20  # bytes of address space of a thread of DuckDB
_NO_MEMORY = ("MemoryError", "Cannot allocate memory", "memory allocation of", "bad_alloc")
# each thread reserves more
_ENVIRONMENT = {"MALLOC_ARENA_MAX": "2", "POLARS_MAX_THREADS": "2", "OMP_NUM_THREADS": "1"}


class Bounds(msgspec.Struct, frozen=True):
    """Of one question, sizes in bytes."""

    seconds: float | None
    memory: int | None  # of the process, beside Python and its libraries
    answer: int | None  # of the rows that it answers
    memory_limit: str | None  # of what DuckDB counts: it spills to disk from there on
    disk: str | None  # that it spills, for DuckDB
    threads: int | None
    more: str  # what to do where it takes more


SECONDS = 600  # of a question of the command line


def generous(memory_limit: str | None, threads: int | None) -> Bounds:
    """Of the SQL of a user: as much memory as the machine has. Raises `TracediffError`: bad-limit."""
    times = bounds.times()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Bounds(
        SECONDS * times or None, int(memory * times) or None, None, memory_limit, None, threads,
        f"ask for fewer rows; {bounds.VARIABLE}=10 allows ten times as much, {bounds.VARIABLE}=0 any",
    )  # fmt: skip


def check(path: Path, text: str, within: Bounds) -> None:
    """`guard.check` in a process of its own, on a database file of `guard.empty`. Raises what it raises, and what `run` does."""
    _asked({"path": str(path), "text": text, "check": True, "folder": str(path.parent)}, within)


def run(path: Path, text: str, limit: int | None, within: Bounds) -> list[Answer]:
    """`guard.run` in a process of its own, on a database file. Raises what it raises, and `TracediffError`: query-too-long."""
    import polars as pl

    with scratch() as folder:
        job = {"path": str(path), "text": text, "limit": limit, "folder": str(folder)}
        cuts = _asked(job, within)
        return [Answer(pl.read_ipc(folder / f"{number}.arrow"), bool(cut)) for number, cut in enumerate(cuts)]


def _asked(job: dict[str, Any], within: Bounds) -> list[Any]:
    words = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(sys.path)]
    try:
        done = subprocess.run(
            words, input=json.dumps(job | {"within": asdict(within)}), capture_output=True, encoding="utf-8",
            errors="replace", timeout=within.seconds, check=False, start_new_session=True, env={**os.environ, **_ENVIRONMENT},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TracediffError(
            "query-too-long", f"the query takes more than {within.seconds:g} s", fix=within.more
        ) from None
    if done.returncode < 0 or any(word in done.stderr for word in _NO_MEMORY):
        raise _too_large("the query needs more memory than", within.memory, within)
    if done.returncode:
        raise RuntimeError(f"a query ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        raise TracediffError(**found["error"])
    answers: list[Any] = found["answers"]
    return answers


def _too_large(what: str, size: int | None, within: Bounds) -> TracediffError:
    allowed = "there is" if size is None else f"{size / 2**20:,.0f} MiB"
    return TracediffError("query-out-of-memory", f"{what} {allowed}", fix=within.more)


# The process


def main() -> None:
    """Read a question from stdin, and write to stdout what came of it."""
    job = json.load(sys.stdin)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # DuckDB draws how far a long statement is
    within = Bounds(**job["within"])
    threads = within.threads or os.cpu_count() or 1
    limits = {resource.RLIMIT_CORE: 0}
    if within.memory is not None:
        limits[resource.RLIMIT_AS] = within.memory + _LIBRARIES + threads * _THREAD
    if within.seconds is not None:
        signal.alarm(int(within.seconds) + 5)  # where nobody is left to kill it
    for what, most in limits.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))
    try:
        found: dict[str, Any] = {"answers": _answers(job, within)}
    except TracediffError as error:
        found = {"error": {"slug": error.slug, "message": error.message, "fix": error.fix}}
    told.write(json.dumps(found))
    told.flush()
    os._exit(0)  # threads that no one waits for


def _answers(job: dict[str, Any], within: Bounds) -> list[bool]:
    path = Path(job["path"])
    folder = Path(job["folder"])
    db = guard.connect(
        path,
        memory_limit=within.memory_limit,
        threads=within.threads,
        spill=folder / "spill",
        disk=within.disk,
    )
    if job.get("check"):
        guard.check(db, job["text"])
        return []
    answers, size = guard.run(db, job["text"], job["limit"]), 0
    for number, one in enumerate(answers):
        size += int(one.frame.estimated_size())
        if within.answer is not None and size > within.answer:
            raise _too_large("the answer of the query is larger than", within.answer, within)
        one.frame.write_ipc(folder / f"{number}.arrow")
    return [one.cut for one in answers]
