"""The accounting as SQL: what each of its numbers means, over the canonical tables of a capture.

The engine (sweep, walk, idle) computes the same numbers with arrays, in a twentieth of the time; tests hold the two together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, sql
from tracediff.kernels.categories import is_communication
from tracediff.trace.threads import Thread

FILES = tuple(sorted(path.stem for path in (Path(__file__).parent / "sql").glob("[0-9]*.sql")))


def text() -> str:
    """All definitions in the order of running."""
    return "\n".join(sql(f"accounting/{name}") for name in FILES)


def tables() -> list[tuple[str, str, str]]:
    """File, name and first line of the description of each table of the definitions, in the order of running."""
    return [
        (name, *found)
        for name in FILES
        for found in re.findall(r"^-- (\w+): (.*)$", sql(f"accounting/{name}"), re.MULTILINE)
    ]


def define(capture: Capture, threads: Iterable[Thread]) -> None:
    """Make the tables of the definitions in the schema `accounting` of a capture whose steps were found.

    What SQL cannot tell is made first: op_class (which kernels communicate, by name) and role (of threads).
    """
    db = capture.db
    rows = db.execute("SELECT key, kind, name FROM op_key").fetchall()
    kinds = [_class(kind, name) for _, kind, name in rows]
    keys = np.array([key for key, _, _ in rows], np.uint64)
    create_table(db, "op_class", {"key": keys, "kind": np.array(kinds, object)})
    roles = {thread.tid: thread.role for thread in threads}
    tids = np.array(list(roles), np.int64)
    create_table(db, "role", {"tid": tids, "role": np.array(list(roles.values()), object)})
    db.execute("CREATE SCHEMA accounting")
    for name in FILES:
        db.execute(sql(f"accounting/{name}"))


def _class(kind: int, name: str) -> str:
    if kind in (1, 2):
        return "memcpy"
    return "comm" if kind == 0 and is_communication(name) else "compute"
