"""Tables of what host threads did in the steps: ranges, CUDA calls, GIL, garbage collection."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracediff.accounting.gil import Gil
from tracediff.accounting.grouping import Tally, stretches
from tracediff.accounting.hosts import Hosts
from tracediff.accounting.idle import handed_over
from tracediff.accounting.intervals import Intervals, cut
from tracediff.accounting.windows import Windows, served
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame, sql
from tracediff.trace.periods import Timeline
from tracediff.trace.ranges import Places
from tracediff.trace.threads import Thread


def host_tables(
    capture: Capture,
    timeline: Timeline,
    windows: Windows,
    gil: Gil,
    places: Places,
    threads: dict[int, Thread],
    hosts: Hosts,
) -> dict[str, pl.DataFrame]:
    """ranges, apis, gil, gil_pairs, gc and served of `Reduction`."""
    role = pl.DataFrame(
        {"tid": list(threads), "thread": [thread.role for thread in threads.values()]},
        schema={"tid": pl.Int64, "thread": pl.String},
    )
    sums = (
        gil.sums.join(role, on="tid", how="left")
        .group_by("stratum", "thread")
        .agg(pl.col("hold_ns", "wait_ns").sum())
    )
    return {
        "ranges": _ranges(capture, windows, places, threads),
        "apis": _apis(timeline, windows, threads),
        "gil": sums.sort("stratum", "thread"),
        "gil_pairs": _pairs(windows, places, threads, hosts),
        "gc": _collections(capture, windows, threads),
        "served": served(windows, threads),
    }


def _ranges(capture: Capture, windows: Windows, places: Places, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, thread, place, domain -> count, ns."""
    domains = [""] + [
        row[0] for row in capture.db.execute("SELECT DISTINCT name FROM nvtx_domain ORDER BY name").fetchall()
    ]
    roles = sorted({thread.role for thread in threads.values()})
    tally = Tally()  # by stratum, role, domain, place
    for low, high in stretches(capture.count("range")):
        rows = capture.db.execute(sql("accounting/range"), [low, high]).fetchnumpy()
        tid = np.asarray(rows["tid"], np.int64)
        start, end, label, domain = (
            np.asarray(rows[name], np.int64) for name in ("start_ns", "end_ns", "label", "domain")
        )
        place = places.ids(label)
        for one in np.unique(tid).tolist():
            mine = tid == one
            key = (roles.index(threads[one].role) * len(domains) + domain[mine]) * len(places.names) + place[
                mine
            ]
            keys = len(roles) * len(domains) * len(places.names)
            tally.add(windows.code(threads[one].pid, start[mine], key, keys), (end - start)[mine])
    code, count, ns = tally.rows()
    words = max(len(places.names), 1)
    place, code = code % words, code // words
    domain, code = code % len(domains), code // len(domains)
    return pl.DataFrame(
        {
            "stratum": code // max(len(roles), 1),
            "thread": pl.Series(roles, dtype=pl.String).gather(code % max(len(roles), 1)),
            "place": pl.Series(places.names, dtype=pl.String).gather(place),
            "domain": pl.Series(domains, dtype=pl.String).gather(domain),
            "count": count, "ns": ns,
        }
    ).group_by("stratum", "thread", "place", "domain").agg(pl.col("count", "ns").sum()).sort("stratum", "thread", "place", "domain")  # fmt: skip


def _apis(timeline: Timeline, windows: Windows, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, api, kind, thread -> count, ns; a call inside a call counts as well."""
    calls, ids = timeline.calls, sorted(timeline.api_names)
    rows = []
    for tid, mine in calls.of_thread.items():
        tally = Tally()  # by stratum and function
        for low, high in stretches(mine.stop - mine.start):
            here = slice(mine.start + low, mine.start + high)
            start, end = calls.start[here], calls.end[here]
            name = np.searchsorted(ids, calls.name[here])
            tally.add(windows.code(threads[tid].pid, start, name, len(ids)), end - start)
        code, count, ns = tally.rows()
        names = [timeline.api_names[ids[one]] for one in (code % max(len(ids), 1)).tolist()]
        rows.append(
            pl.DataFrame(
                {
                    "stratum": code // max(len(ids), 1), "api": [name for name, _ in names],
                    "kind": [kind for _, kind in names], "thread": [threads[tid].role] * len(code), "count": count, "ns": ns,
                },
                schema=_APIS,
            )
        )  # fmt: skip
    by = ["stratum", "api", "kind", "thread"]
    return (
        pl.concat([pl.DataFrame(schema=_APIS), *rows]).group_by(by).agg(pl.col("count", "ns").sum()).sort(by)
    )


_APIS = {
    "stratum": pl.Int64,
    "api": pl.String,
    "kind": pl.String,
    "thread": pl.String,
    "count": pl.Int64,
    "ns": pl.Int64,
}


def _collections(capture: Capture, windows: Windows, threads: dict[int, Thread]) -> pl.DataFrame:
    """stratum, thread, generation -> count, ns."""
    rows = frame(capture.db, "SELECT start_ns, end_ns, tid, generation FROM gc WHERE tid IS NOT NULL")
    parts = [pl.DataFrame(schema=_GC)]
    for tid in rows["tid"].unique().to_list() if len(rows) else []:
        mine = rows.filter(pl.col("tid") == tid)
        stratum = windows.stratum(threads[tid].pid, mine["start_ns"].to_numpy())
        parts.append(
            mine.select(
                pl.Series("stratum", stratum, dtype=pl.Int64), pl.lit(threads[tid].role).alias("thread"), "generation",
                pl.lit(1, pl.Int64).alias("count"), (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
            ).filter(pl.col("stratum") >= 0)
        )  # fmt: skip
    by = ["stratum", "thread", "generation"]
    return pl.concat(parts).group_by(by).agg(pl.col("count", "ns").sum()).sort(by)


_GC = {"stratum": pl.Int64, "thread": pl.String, "generation": pl.String, "count": pl.Int64, "ns": pl.Int64}


def _pairs(windows: Windows, places: Places, threads: dict[int, Thread], hosts: Hosts) -> pl.DataFrame:
    """stratum, waiter, holder, holder_place -> ns: whose wait met whose hold."""
    names = len(places.names) + 1  # and none
    rows = []
    for tid, thread in sorted(threads.items()):
        waits = hosts.thread(tid).gil_wait
        if not waits.size:
            continue
        spans, holder = hosts.gil_holders(thread.pid)
        pieces = cut(waits, spans)
        who = (
            np.where(pieces.part >= 0, holder[pieces.part], -1)
            if len(holder)
            else np.full(len(pieces.part), -1)
        )
        who = handed_over(who, pieces.query)
        for other in np.unique(who).tolist():
            index = np.flatnonzero(who == other)
            start, end, wait = pieces.start[index], pieces.end[index], pieces.query[index]
            place = np.full(len(index), -1, np.int64)
            if other >= 0:
                ranges, labels = hosts.thread(other).places
                inner = cut(Intervals(start, end), ranges)
                start, end, wait = inner.start, inner.end, wait[inner.query]
                place = (
                    np.where(inner.part >= 0, places.ids(labels[inner.part]), -1)
                    if len(labels)
                    else np.full(len(start), -1, np.int64)
                )
            tally = Tally()  # by stratum and place
            # all parts of a wait belong to the step in which it began, as in the sums of waits
            tally.add(windows.code(thread.pid, waits.start[wait], place + 1, names), end - start)
            code, _, ns = tally.rows()
            rows.append(
                pl.DataFrame(
                    {
                        "stratum": code // names,
                        "waiter": [thread.role] * len(code),
                        "holder": [threads[other].role if other in threads else "nobody recorded"]
                        * len(code),
                        "holder_place": pl.Series(["", *places.names], dtype=pl.String).gather(code % names),
                        "ns": ns,
                    },
                    schema=_PAIRS,
                )
            )
    by = ["stratum", "waiter", "holder", "holder_place"]
    return pl.concat([pl.DataFrame(schema=_PAIRS), *rows]).group_by(by).agg(pl.col("ns").sum()).sort(by)


_PAIRS = {
    "stratum": pl.Int64,
    "waiter": pl.String,
    "holder": pl.String,
    "holder_place": pl.String,
    "ns": pl.Int64,
}
