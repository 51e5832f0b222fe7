"""Host windows of the measured steps: in which stratum something on the host happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.intervals import Ints
from tracediff.formats.database import create_table, run_sql
from tracediff.trace.threads import Thread


@dataclass(frozen=True)
class Windows:
    """For each process its windows in order: starts, ends (ns), strata, periods. Windows do not overlap.

    A window's period is that of the step on the first device of its rank (row of `Reduction.periods`).
    """

    of_pid: dict[int, tuple[Ints, Ints, Ints, Ints]]
    ranks: frozenset[int]  # the processes that have steps of their own

    def stratum(self, pid: int, instant: Ints) -> Ints:
        """The stratum of the window of this process that each instant lies in, -1 outside all."""
        if pid not in self.of_pid:
            return np.full(len(instant), -1, np.int64)
        start, end, stratum, _ = self.of_pid[pid]
        if not len(start):
            return np.full(len(instant), -1, np.int64)
        at = np.searchsorted(start, instant, side="right") - 1
        inside = at >= 0
        inside &= instant < end[at]  # -1, the last one, is left out above
        return np.where(inside, stratum[at], -1)

    def period(self, pid: int, instant: Ints) -> npt.NDArray[np.int32]:
        """The period of the window that each instant lies in, -1 outside all; instants in order: each window is looked up once."""
        if pid not in self.of_pid:
            return np.full(len(instant), -1, np.int32)
        start, end, _, period = self.of_pid[pid]
        edges = np.searchsorted(instant, np.stack((start, end), axis=1).reshape(-1))
        # before the first window, in it, between it and the second, ...
        many = np.diff(edges, prepend=0, append=len(instant))
        which = np.full(len(many), -1, np.int32)
        which[1::2] = period
        return np.repeat(which, many)

    def make_tables(self, db: duckdb.DuckDBPyConnection, threads: dict[int, Thread]) -> None:
        """Tables host_window (pid, start_ns, end_ns, stratum) and thread_role (tid, pid, role), and the macros over them."""
        many = [len(start) for start, *_ in self.of_pid.values()]
        pids = np.repeat(list(self.of_pid), many).astype(np.int64)
        start, end, stratum = (
            np.concatenate([one[column] for one in self.of_pid.values()]) for column in range(3)
        )
        create_table(db, "host_window", {"pid": pids, "start_ns": start, "end_ns": end, "stratum": stratum})
        found = list(threads.values())
        create_table(db, "thread_role", {
            "tid": np.array([one.tid for one in found], np.int64), "pid": np.array([one.pid for one in found], np.int64),
            "role": np.array([one.role for one in found], object),
        })  # fmt: skip
        run_sql(db, "accounting/host_window")

    def code(self, pid: int, instant: Ints, key: Ints | int, keys: int) -> Ints:
        """Stratum and a key below `keys` in one number, stratum * keys + key; -1 outside the windows."""
        stratum = self.stratum(pid, instant)
        return np.where(stratum >= 0, stratum * keys + key, -1)


def active_windows(windows: Windows, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, thread -> windows: the steps in which threads of a role worked, once for each rank that has the role.

    A thread that serves several ranks or devices, or that only the first rank has, works in fewer windows than the
    stratum has steps. A role outside the ranks' processes serves them all.
    """
    carriers: dict[str, set[int]] = {}
    for thread in threads.values():
        carriers.setdefault(thread.role, set()).add(thread.pid)
    rows: list[tuple[int, str, int]] = []
    for role, pids in sorted(carriers.items()):
        pids = {pid for pid in pids if len(windows.of_pid[pid][0])}
        if not pids:
            continue
        counted = sorted(pids & windows.ranks) or sorted(pids)[:1]
        strata = Counter(stratum for pid in counted for stratum in windows.of_pid[pid][2].tolist())
        rows += [(stratum, role, count) for stratum, count in sorted(strata.items())]
    return pl.DataFrame(
        rows, schema={"stratum": pl.Int64, "thread": pl.String, "windows": pl.Int64}, orient="row"
    )


def host_windows(
    periods: pl.DataFrame, first_pid: int, threads: dict[int, Thread], left_out: Collection[int] = ()
) -> Windows:
    """Host windows of the measured steps; a process without steps shares those of `first_pid`, a rank left out has none."""
    own = (
        periods.filter(pl.col("device") == pl.col("device").min().over("pid"))
        .select("pid", "window_start", "window_end", "stratum", "period")
        .unique(["pid", "window_start"], maintain_order=True)
        .sort("pid", "window_start")
    )
    of_pid: dict[int, tuple[Ints, Ints, Ints, Ints]] = {}
    for pid in own["pid"].unique().to_list():
        mine = own.filter(pl.col("pid") == pid)
        start, end, stratum, period = (mine[name].to_numpy() for name in own.columns[1:])
        of_pid[pid] = start, end, stratum, period
    shared = {thread.pid: of_pid[first_pid] for thread in threads.values() if thread.pid not in of_pid}
    nothing = (np.empty(0, np.int64),) * 4
    return Windows({**shared, **dict.fromkeys(left_out, nothing), **of_pid}, frozenset(of_pid))
