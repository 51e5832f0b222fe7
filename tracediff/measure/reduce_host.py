"""Tables of what host threads did in the steps: ranges, CUDA calls, GIL, garbage collection."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracediff.align.places import Places
from tracediff.align.threads import Thread
from tracediff.align.timeline import Timeline
from tracediff.load.capture import Capture
from tracediff.load.database import create_table, frame, run_sql
from tracediff.measure.attribution import handed_over
from tracediff.measure.hosts import Hosts
from tracediff.measure.intervals import Intervals, cut


def host_tables(
    capture: Capture,
    timeline: Timeline,
    periods: pl.DataFrame,
    places: Places,
    threads: dict[int, Thread],
    hosts: Hosts,
) -> dict[str, pl.DataFrame]:
    """ranges, apis, gil, gil_pairs and gc of `Reduction`."""
    db = capture.db
    windows = _windows(timeline, periods, threads)
    create_table(db, "host_window", {name: windows[name].to_numpy() for name in windows.columns})
    run_sql(db, "measure/host_tables")
    role = pl.DataFrame(
        {"tid": list(threads), "thread": [thread.role for thread in threads.values()]},
        schema={"tid": pl.Int64, "thread": pl.String},
    )

    def read(query: str, *by: str) -> pl.DataFrame:
        table = frame(db, query).join(role, on="tid", how="left").with_columns(pl.col("thread").fill_null(""))
        sums = [name for name in ("count", "ns", "hold_ns", "wait_ns") if name in table.columns]
        return table.group_by("stratum", *by).agg(pl.col(*sums).cast(pl.Int64).sum()).sort("stratum", *by)

    names = pl.DataFrame(
        {
            "label": np.arange(max(places.size, 1)),
            "place": [places.of_label(i) for i in range(max(places.size, 1))],
        },
        schema={"label": pl.Int64, "place": pl.String},
    )
    ranges = frame(db, "SELECT stratum, tid, label, domain, count, ns FROM range_stat")
    ranges = (
        ranges.join(role, on="tid", how="left")
        .join(names, on="label", how="left")
        .group_by("stratum", "thread", "place", "domain")
        .agg(pl.col("count", "ns").sum())
        .sort("stratum", "thread", "place", "domain")
    )
    return {
        "ranges": ranges,
        "apis": read(
            "SELECT stratum, tid, api, class AS kind, count, ns FROM api_stat JOIN api_name USING (name)",
            "api", "kind", "thread",
        ),
        "gil": read(
            "SELECT stratum, tid, sum(ns) FILTER (NOT waiting) AS hold_ns, sum(ns) FILTER (waiting) AS wait_ns"
            " FROM gil_stat GROUP BY stratum, tid",
            "thread",
        ),
        "gil_pairs": _pairs(windows, places, threads, hosts),
        "gc": read("SELECT stratum, tid, generation, count, ns FROM gc_stat", "thread", "generation"),
    }  # fmt: skip


def _windows(timeline: Timeline, periods: pl.DataFrame, threads: dict[int, Thread]) -> pl.DataFrame:
    """Host windows of the measured steps of each process; a process without steps shares the first rank's."""
    own = (
        periods.filter(pl.col("device") == pl.col("device").min().over("pid"))
        .select("pid", "stratum", start_ns="window_start", end_ns="window_end")
        .unique(["pid", "start_ns"], maintain_order=True)
    )
    reference = own.filter(pl.col("pid") == timeline.units[0].pid)
    others = sorted({thread.pid for thread in threads.values()} - set(own["pid"]))
    shared = [reference.with_columns(pid=pl.lit(pid, dtype=pl.Int64)) for pid in others]
    return pl.concat([own, *shared]).sort("pid", "start_ns").with_columns(pl.col("pid").cast(pl.Int32))


def _pairs(windows: pl.DataFrame, places: Places, threads: dict[int, Thread], hosts: Hosts) -> pl.DataFrame:
    """stratum, waiter, holder, holder_place -> ns: whose wait met whose hold."""
    rows = []
    for tid, thread in sorted(threads.items()):
        waits = hosts.thread(tid).gil_wait
        mine = windows.filter(pl.col("pid") == thread.pid)
        if not waits.size or not len(mine):
            continue
        spans, holder = hosts.gil_holders(thread.pid)
        pieces = cut(waits, spans)
        who = (
            np.where(pieces.part >= 0, holder[pieces.part], -1)
            if len(holder)
            else np.full(len(pieces.part), -1)
        )
        who = handed_over(who, pieces.query)
        for other in np.unique(who):
            index = np.flatnonzero(who == other)
            start, end = pieces.start[index], pieces.end[index]
            place = np.full(len(index), -1, np.int64)
            if other >= 0:
                ranges, labels = hosts.thread(int(other)).places
                inner = cut(Intervals(start, end), ranges)
                start, end = inner.start, inner.end
                place = (
                    np.where(inner.part >= 0, places.ids(labels[inner.part]), -1)
                    if len(labels)
                    else np.full(len(start), -1, np.int64)
                )
            window = np.searchsorted(mine["start_ns"].to_numpy(), start, side="right") - 1
            inside = (window >= 0) & (start < mine["end_ns"].to_numpy()[np.maximum(window, 0)])
            rows.append(
                pl.DataFrame(
                    {
                        "stratum": mine["stratum"].to_numpy()[np.maximum(window, 0)][inside],
                        "waiter": [thread.role] * int(inside.sum()),
                        "holder": [threads[int(other)].role if int(other) in threads else "nobody recorded"]
                        * int(inside.sum()),
                        "holder_place": [places.name(int(one)) for one in place[inside]],
                        "ns": (end - start)[inside],
                    },
                    schema=_PAIRS,
                )
            )
    if not rows:
        return pl.DataFrame(schema=_PAIRS)
    by = ["stratum", "waiter", "holder", "holder_place"]
    return pl.concat(rows).group_by(by).agg(pl.col("ns").sum()).sort(by)


_PAIRS = {
    "stratum": pl.Int64,
    "waiter": pl.String,
    "holder": pl.String,
    "holder_place": pl.String,
    "ns": pl.Int64,
}
