"""What the operating system and libraries of communication were asked by threads, and when they were off their CPU."""

from __future__ import annotations

from functools import cached_property

import duckdb
import numpy as np

from tracediff.accounting.intervals import EMPTY, Intervals, Ints, union
from tracediff.formats.capture import Capture


class Calls:
    """The outermost calls of one kind, read thread by thread; none where they were not recorded.

    `table`: tid, start_ns, end_ns, name; `texts`: the table that spells names, with its columns for them.
    """

    def __init__(
        self, capture: Capture, kind: str, table: str, texts: tuple[str, str, str] = ("string", "id", "value")
    ) -> None:
        self._db: duckdb.DuckDBPyConnection = capture.db
        self.captured = capture.coverage[kind] == "captured"
        self._table, self._texts = table, texts

    @cached_property
    def _named(self) -> dict[int, str]:
        if not self.captured:
            return {}
        texts, key, value = self._texts
        rows = self._db.execute(
            f"SELECT {key}, coalesce({value}, '?') FROM {texts} SEMI JOIN {self._table}"
            f" ON {self._table}.name = {texts}.{key} ORDER BY {key}"
        )
        return {int(number): str(name) for number, name in rows.fetchall()}

    @cached_property
    def names(self) -> list[str]:
        """The names of the calls, each once and in order; `?` for a call without one."""
        return sorted({*self._named.values(), "?"})

    def of(self, tid: int) -> tuple[Intervals, Ints]:
        """The outermost calls of a thread, a partition, and of each its place in `names`."""
        nothing = np.empty(0, np.int64)
        if not self.captured:
            return EMPTY, nothing
        start, end, name = _read(
            self._db,
            f"SELECT start_ns, end_ns, coalesce(name, -1)::BIGINT AS name FROM {self._table} WHERE tid = ?"
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

    def make_view(self, name: str) -> None:
        """A view of all calls: tid, start_ns, end_ns, name, call (its text, ? without one), bytes (NULL unknown)."""
        texts, key, value = self._texts
        size = "NULL::BIGINT AS bytes" if self._table == "os_call" else "c.bytes"
        self._db.execute(
            f"CREATE OR REPLACE VIEW {name} AS SELECT c.tid, c.start_ns, c.end_ns, c.name, {size}, coalesce(t.{value}, '?') AS call"
            f" FROM {self._table} AS c LEFT JOIN {texts} AS t ON t.{key} = c.name"
        )


class OsTrace:
    """OS calls, context switches and calls of communication of an export; empty where they were not recorded."""

    def __init__(self, capture: Capture) -> None:
        self._db: duckdb.DuckDBPyConnection = capture.db
        self.os = Calls(capture, "os_calls", "os_call")
        self.mpi = Calls(capture, "mpi", "mpi_call")
        self.nccl = Calls(capture, "nccl", "nccl_call", ("range_text", "label", "text"))
        self.switches = capture.coverage["context_switches"] == "captured"

    @property
    def any(self) -> bool:
        """Whether anything was recorded that host work is cut along."""
        return self.os.captured or self.mpi.captured or self.switches

    def off_cpu_of(self, tid: int) -> Intervals:
        """When a thread was on no CPU: a partition."""
        if not self.switches:
            return EMPTY
        query = "SELECT start_ns, end_ns FROM off_cpu WHERE tid = ?"
        return union(*_read(self._db, query, tid, "start_ns", "end_ns"))


def _read(db: duckdb.DuckDBPyConnection, query: str, tid: int, *columns: str) -> list[Ints]:
    rows = db.execute(query, [tid]).fetchnumpy()
    return [np.asarray(rows[column], np.int64) for column in columns]
