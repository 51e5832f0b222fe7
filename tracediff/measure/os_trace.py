"""What the operating system was asked by threads, and when it took them off their CPU."""

from __future__ import annotations

from functools import cached_property

import duckdb
import numpy as np

from tracediff.load.capture import Capture
from tracediff.measure.intervals import EMPTY, Intervals, Ints, union


class OsTrace:
    """OS calls and context switches of an export, read thread by thread; empty where they were not recorded."""

    def __init__(self, capture: Capture) -> None:
        self._db: duckdb.DuckDBPyConnection = capture.db
        self.calls = capture.coverage["os_calls"] == "captured"
        self.switches = capture.coverage["context_switches"] == "captured"

    @property
    def any(self) -> bool:
        """Whether either kind was recorded."""
        return self.calls or self.switches

    @cached_property
    def _named(self) -> dict[int, str]:
        if not self.calls:
            return {}
        rows = self._db.execute(
            "SELECT id, coalesce(value, '?') FROM string SEMI JOIN os_call ON os_call.name = string.id ORDER BY id"
        )
        return {int(key): str(name) for key, name in rows.fetchall()}

    @cached_property
    def names(self) -> list[str]:
        """The names of the calls, each once and in order; `?` for a call without one."""
        return sorted({*self._named.values(), "?"})

    def calls_of(self, tid: int) -> tuple[Intervals, Ints]:
        """The outermost calls of a thread, a partition, and of each its place in `names`."""
        if not self.calls:
            return EMPTY, np.empty(0, np.int64)
        start, end, name = self._read(
            "SELECT start_ns, end_ns, coalesce(name, -1) AS name FROM os_call WHERE tid = ?"
            " ORDER BY start_ns, end_ns DESC, name",
            tid, "start_ns", "end_ns", "name",
        )  # fmt: skip
        outer = np.ones(len(start), np.bool_)
        outer[1:] = start[1:] >= np.maximum.accumulate(end)[:-1]
        number = {key: self.names.index(text) for key, text in self._named.items()}
        unnamed = self.names.index("?")
        kinds, inverse = np.unique(name[outer], return_inverse=True)
        numbers = np.array([number.get(int(kind), unnamed) for kind in kinds], np.int64)
        return Intervals(start[outer], end[outer]), numbers[inverse.reshape(-1)]

    def off_cpu_of(self, tid: int) -> Intervals:
        """When a thread was on no CPU: a partition."""
        if not self.switches:
            return EMPTY
        query = "SELECT start_ns, end_ns FROM off_cpu WHERE tid = ?"
        return union(*self._read(query, tid, "start_ns", "end_ns"))

    def _read(self, query: str, tid: int, *columns: str) -> list[Ints]:
        rows = self._db.execute(query, [tid]).fetchnumpy()
        return [np.asarray(rows[column], np.int64) for column in columns]
