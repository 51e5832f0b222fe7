"""Tables of what the operating system, communication and CUDA's memory did in the steps; empty where not recorded."""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.grouping import Tally
from tracediff.accounting.idle import HOST_WORK, HostWork
from tracediff.accounting.intervals import Ints
from tracediff.accounting.os_trace import Calls, OsTrace
from tracediff.accounting.windows import Windows
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame, sql
from tracediff.trace.threads import Thread

OS_CALLS = {
    "stratum": pl.Int64, "thread": pl.String, "call": pl.String, "count": pl.Int64, "ns": pl.Int64,
}  # fmt: skip
COMM_CALLS = {
    "stratum": pl.Int64, "library": pl.String, "thread": pl.String, "call": pl.String, "count": pl.Int64,
    "ns": pl.Int64, "sized": pl.Int64, "bytes": pl.Int64,
}  # fmt: skip
OFF_CPU = {"stratum": pl.Int64, "thread": pl.String, "count": pl.Int64, "ns": pl.Int64}
MEMORY = {
    "stratum": pl.Int64, "kind": pl.String, "allocations": pl.Int64, "bytes": pl.Int64, "frees": pl.Int64,
    "freed_bytes": pl.Int64,
}  # fmt: skip
PEAKS = {"kind": pl.String, "bytes": pl.Int64}


def system_tables(
    capture: Capture, trace: OsTrace, windows: Windows, threads: dict[int, Thread], host_work: HostWork | None
) -> dict[str, pl.DataFrame]:
    """os_calls, comm_calls, off_cpu, host_work, memory and memory_peaks of `Reduction`."""
    memory, peaks = _memory(capture, windows)
    return {
        "os_calls": _calls(capture.db, trace.os).select(*OS_CALLS),
        "comm_calls": pl.concat(
            _calls(capture.db, calls).with_columns(library=pl.lit(library)).select(*COMM_CALLS)
            for library, calls in (("MPI", trace.mpi), ("NCCL", trace.nccl))
        ),
        "off_cpu": _off_cpu(trace, windows, threads),
        "host_work": pl.DataFrame(schema=HOST_WORK) if host_work is None else host_work.table(),
        "memory": memory,
        "memory_peaks": peaks,
    }


def _calls(db: duckdb.DuckDBPyConnection, calls: Calls) -> pl.DataFrame:
    """stratum, thread, call, count, ns, sized, bytes: of outermost calls, in the step in which each began."""
    if not calls.captured:
        return pl.DataFrame(schema={name: kind for name, kind in COMM_CALLS.items() if name != "library"})
    calls.make_view("library_call")
    return frame(db, sql("accounting/host_calls"))


def _off_cpu(trace: OsTrace, windows: Windows, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, thread -> count, ns: of stretches on no CPU, in the step in which each began."""
    rows = [pl.DataFrame(schema=OFF_CPU)]
    for tid, thread in threads.items() if trace.switches else ():
        off = trace.off_cpu_of(tid)
        tally = Tally()
        tally.add(windows.stratum(thread.pid, off.start), off.end - off.start)
        stratum, count, ns = tally.rows()
        rows.append(
            pl.DataFrame(
                {"stratum": stratum, "thread": [thread.role] * len(stratum), "count": count, "ns": ns},
                schema=OFF_CPU,
            )
        )
    by = ["stratum", "thread"]
    return pl.concat(rows).group_by(by).agg(pl.col("count", "ns").sum()).sort(by)


def _memory(capture: Capture, windows: Windows) -> tuple[pl.DataFrame, pl.DataFrame]:
    """MEMORY: allocations and frees by the step in which they fell. PEAKS: the most that was allocated at once in any step.

    The level of a process on a device is known from the events before the recording, which nsys writes as well.
    """
    sums, peaks = [pl.DataFrame(schema=MEMORY)], [pl.DataFrame(schema=PEAKS)]
    if capture.coverage["gpu_memory"] == "captured":
        events = frame(
            capture.db,
            "SELECT start_ns, pid, device, kind, freed, bytes FROM memory_event"
            " ORDER BY pid, device, kind, start_ns, freed, bytes",
        )
        for (pid, _, kind), mine in events.group_by("pid", "device", "kind", maintain_order=True):
            start, size = mine["start_ns"].to_numpy(), mine["bytes"].to_numpy()
            freed = mine["freed"].to_numpy()
            stratum = windows.stratum(int(str(pid)), start)
            here = pl.DataFrame(
                {
                    "stratum": stratum, "kind": [str(kind)] * len(stratum), "allocations": (~freed).astype(np.int64),
                    "bytes": np.where(freed, 0, size), "frees": freed.astype(np.int64),
                    "freed_bytes": np.where(freed, size, 0),
                },
                schema=MEMORY,
            )  # fmt: skip
            sums.append(here.filter(pl.col("stratum") >= 0))
            level = np.cumsum(np.where(freed, -size, size))
            highest = _highest(windows, int(str(pid)), start, level, stratum >= 0)
            if highest is not None:
                peaks.append(pl.DataFrame({"kind": [str(kind)], "bytes": [highest]}, schema=PEAKS))
    by = ["stratum", "kind"]
    values = pl.col("allocations", "bytes", "frees", "freed_bytes").sum()
    return (
        pl.concat(sums).group_by(by).agg(values).sort(by),
        pl.concat(peaks).group_by("kind").agg(pl.col("bytes").max()).sort("kind"),
    )


def _highest(
    windows: Windows, pid: int, start: Ints, level: Ints, inside: npt.NDArray[np.bool_]
) -> int | None:
    """The highest level within the steps of a process: where a step begins, or after an event in it; None without steps."""
    begins = windows.of_pid[pid][0] if pid in windows.of_pid else start[:0]
    if not len(begins):
        return None
    before = np.searchsorted(start, begins, side="right") - 1
    return int(max(np.where(before >= 0, level[before], 0).max(initial=0), level[inside].max(initial=0)))
