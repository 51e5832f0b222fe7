"""Host work that kept a GPU idle, told apart by the calls that the thread was in and by whether it was on a CPU."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracediff.measure.attribution import CODE, IdlePieces
from tracediff.measure.idle_cells import Words
from tracediff.measure.intervals import Intervals, Ints, cut
from tracediff.measure.os_trace import OsTrace

HOST_WORK = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "gil": pl.Boolean, "call": pl.String,
    "mpi": pl.Boolean, "off_cpu": pl.Boolean, "ns": pl.Int64,
}  # fmt: skip
_BY = ["stratum", "code", "gil", "call", "off_cpu"]


class HostWork:
    """Sums of host work by place, call and whether the thread was on a CPU: they tile the host work of each place.

    What is inside a call into MPI is that call's (`mpi`), also where MPI calls into the operating system.
    A wait for the GIL that would be host work without the GIL's trace is kept apart (`gil`).
    """

    def __init__(self, trace: OsTrace, words: Words) -> None:
        self._trace, self._words = trace, words
        self._threads: dict[int, tuple[Intervals, Ints, Intervals, Ints, Intervals]] = {}
        self._parts: list[pl.DataFrame] = []

    def add(self, parts: list[IdlePieces], stratum: Ints) -> None:
        """Take in the pieces of some gaps; `stratum`: of each gap."""
        for part in parts:
            direct = part.cause == CODE["host_work"]
            waits = np.zeros(len(direct), np.bool_) if part.under is None else part.under == CODE["host_work"]
            chosen = np.flatnonzero(direct | waits)
            if len(chosen) and part.tid >= 0:
                code = self._words.code(part.tid, part.label[chosen], part.start[chosen])
                pieces = Intervals(part.start[chosen], part.end[chosen])
                self._add(part.tid, pieces, stratum[part.gap[chosen]], code, waits[chosen] & ~direct[chosen])

    def _add(self, tid: int, pieces: Intervals, stratum: Ints, code: Ints, gil: Ints) -> None:
        if tid not in self._threads:
            trace = self._trace
            self._threads[tid] = (*trace.mpi.of(tid), *trace.os.of(tid), trace.off_cpu_of(tid))
        mpi, mpi_names, calls, names, off_cpu = self._threads[tid]
        within = cut(pieces, mpi)
        called = cut(Intervals(within.start, within.end), calls)
        part = within.part[called.query]  # the MPI call is outside: the OS calls in it are part of it
        call = np.where(called.part >= 0, names[called.part], -1) if len(names) else called.part
        if len(mpi_names):
            call = np.where(part >= 0, len(self._trace.os.names) + mpi_names[part], call)
        switched = cut(Intervals(called.start, called.end), off_cpu)
        piece = within.query[called.query[switched.query]]
        self._parts.append(
            pl.DataFrame(
                {
                    "stratum": stratum[piece], "code": code[piece], "gil": gil[piece], "call": call[switched.query],
                    "off_cpu": switched.part >= 0, "ns": switched.end - switched.start,
                }
            ).group_by(_BY).agg(pl.col("ns").sum())
        )  # fmt: skip

    def table(self) -> pl.DataFrame:
        """HOST_WORK, a row each combination. call: '' outside any."""
        if not self._parts:
            return pl.DataFrame(schema=HOST_WORK)
        sums = pl.concat(self._parts)
        thread, place = self._words.spelled(sums["code"].to_numpy())
        names = pl.Series(["", *self._trace.os.names, *self._trace.mpi.names], dtype=pl.String)
        named = sums.with_columns(
            thread=thread, place=place, call=names.gather(sums["call"].to_numpy() + 1),
            mpi=pl.col("call") >= len(self._trace.os.names),
        ).cast({"stratum": pl.Int64})  # fmt: skip
        by = [name for name in HOST_WORK if name != "ns"]
        return named.group_by(by).agg(pl.col("ns").sum()).select(*HOST_WORK).sort(by)
