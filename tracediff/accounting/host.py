"""Tables of what host threads did in the steps: ranges and their payloads, CUDA calls, GIL, garbage collection."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb
import numpy as np
import polars as pl

from tracediff.accounting.intervals import (
    EMPTY,
    Intervals,
    Tally,
    chunks,
    covered,
    cut,
    picked,
    subtract,
    union,
)
from tracediff.accounting.system import Calls as SystemCalls
from tracediff.accounting.walk import Gil, Hosts, HostThread, Names, Windows, active_windows
from tracediff.arrays import Bools, Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, frame, run_sql, sql
from tracediff.trace.periods import Timeline
from tracediff.trace.threads import Calls, Places, Thread, awaits


def host_tables(
    capture: Capture,
    timeline: Timeline,
    periods: pl.DataFrame,
    windows: Windows,
    gil: Gil,
    places: Places,
    threads: dict[int, Thread],
    hosts: Hosts,
) -> dict[str, pl.DataFrame]:
    """ranges, apis, host_speed, gil, gil_pairs, gc and active_windows of `Reduction`, and the counts of host_counts.sql."""
    role = pl.DataFrame(
        {"tid": list(threads), "thread": [thread.role for thread in threads.values()]},
        schema={"tid": pl.Int64, "thread": pl.String},
    )
    sums = (
        gil.sums.join(role, on="tid", how="left")
        .group_by("stratum", "thread")
        .agg(pl.col("hold_ns", "wait_ns").sum())
    )
    db = capture.db
    windows.make_tables(db, threads)
    labels = frame(db, "SELECT label FROM range_text ORDER BY label")["label"]
    create_table(db, "place_of_label", {"label": labels, "id": places.ids(labels.to_numpy())})
    texts = pl.Series(places.names, dtype=pl.String)
    create_table(db, "place_name", {"id": np.arange(len(texts)), "place": texts})
    calls = timeline.calls
    tids = np.repeat(list(calls.of_thread), [mine.stop - mine.start for mine in calls.of_thread.values()])
    known = slice(len(calls.start) - len(tids), None)  # calls of unknown threads come first
    starts, ends, names = calls.start[known], calls.end[known], calls.name[known]
    steps = [windows.period(tid >> 24 & 0xFFFFFF, calls.start[mine]) for tid, mine in calls.of_thread.items()]
    step = np.concatenate([np.empty(0, np.int32), *steps])
    nested = np.concatenate(
        [np.empty(0, np.bool_), *(_nested(calls, mine) for mine in calls.of_thread.values())]
    )
    db.register(
        "cuda_call", {"tid": tids, "period": step, "ns": ends - starts, "name": names, "nested": nested}
    )
    db.register("measured", {name: periods[name].to_numpy() for name in ("period", "stratum")})
    db.register("inside_range", _inside(db, threads, hosts))
    run_sql(db, "accounting/range_of_step")
    db.unregister("inside_range")
    found = {
        "counts": frame(db, sql("accounting/host_counts")),
        "ranges": frame(db, sql("accounting/host_ranges")),
        "apis": frame(db, sql("accounting/host_apis")),
        "host_speed": _of_all_devices(frame(db, sql("accounting/host_speed")), periods),
        "gil": sums.sort("stratum", "thread"),
        "gil_pairs": _pairs(windows, places, threads, hosts),
        "gc": frame(db, sql("accounting/host_gc")),
        "active_windows": active_windows(windows, threads),
    }
    db.unregister("cuda_call")
    db.unregister("measured")
    db.execute("DROP TABLE range_of_step")
    return found


def _nested(calls: Calls, mine: slice) -> Bools:
    """Whether each call of a thread, in order of start, began before a call before it was over."""
    latest = np.maximum.accumulate(calls.end[mine])
    inside = np.zeros(len(latest), np.bool_)
    inside[1:] = calls.start[mine][1:] < latest[:-1]
    return inside


def _inside(db: duckdb.DuckDBPyConnection, threads: dict[int, Thread], hosts: Hosts) -> dict[str, Ints]:
    """What of each range of a known thread are waits for the GIL, and CUDA calls outside of those: row (of `range`), wait_ns, call_ns."""
    parts = [np.empty((3, 0), np.int64)]
    every = frame(db, "SELECT tid, rowid AS row, start_ns, end_ns FROM range")
    for (tid,), table in every.group_by("tid"):
        if tid not in threads:
            continue
        host = hosts.thread(int(tid))
        ranges = Intervals(table["start_ns"].to_numpy(), table["end_ns"].to_numpy())
        waits, calls = covered(ranges, host.gil_wait), covered(ranges, subtract(host.calls, host.gil_wait))
        parts.append(np.stack((table["row"].to_numpy(), waits, calls)))
    return dict(zip(("row", "wait_ns", "call_ns"), np.concatenate(parts, axis=1), strict=True))


def _of_all_devices(table: pl.DataFrame, periods: pl.DataFrame) -> pl.DataFrame:
    """The rows of the first device's periods for the periods of the same steps on each device of the rank."""
    step = periods.select("period", "pid", "step")
    return (
        table.rename({"period": "first"})
        .join(step.rename({"period": "first"}), on="first")
        .join(step, on=["pid", "step"])
        .select(table.columns)
        .sort(table.columns[:2])
    )


def _pairs(windows: Windows, places: Places, threads: dict[int, Thread], hosts: Hosts) -> pl.DataFrame:
    """stratum, waiter, holder, holder_place -> ns: whose wait met whose hold."""
    names = len(places.names) + 1  # and none
    rows = []
    for tid, thread in sorted(threads.items()):
        waits = hosts.thread(tid).gil_wait
        if not waits.size:
            continue
        pieces, who, _ = hosts.waited_for(waits, thread.pid)
        for other in np.unique(who).tolist():
            index = np.flatnonzero(who == other)
            start, end, wait = pieces.start[index], pieces.end[index], pieces.query[index]
            place = np.full(len(index), -1, np.int64)
            if other >= 0:
                ranges, labels = hosts.thread(other).places
                inner = cut(Intervals(start, end), ranges)
                start, end, wait = inner.start, inner.end, wait[inner.query]
                place = places.ids(picked(labels, inner.part))
            tally = Tally()  # by stratum and place
            # all parts of a wait belong to the step in which it began, as in the sums of waits
            tally.add(windows.code(thread.pid, waits.start[wait], place + 1, names), end - start)
            code, _, ns = tally.rows()
            holder = threads[other].role if other in threads else "nobody recorded"
            where = pl.Series(["", *places.names], dtype=pl.String).gather(code % names)
            table = pl.DataFrame({"stratum": code // names, "holder_place": where, "ns": ns})
            rows.append(table.with_columns(waiter=pl.lit(thread.role), holder=pl.lit(holder)).select(*_PAIRS))
    by = ["stratum", "waiter", "holder", "holder_place"]
    return pl.concat([pl.DataFrame(schema=_PAIRS), *rows]).group_by(by).agg(pl.col("ns").sum()).sort(by)


_PAIRS = {
    "stratum": pl.Int64, "waiter": pl.String, "holder": pl.String, "holder_place": pl.String, "ns": pl.Int64,
}  # fmt: skip


# Waits of a launching thread for another one, of its process or of another, and what that did meanwhile.

_AWAITED = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "peer": pl.String, "peer_place": pl.String, "near": pl.Boolean,
    "ns": pl.Int64,
}  # fmt: skip
# OS calls that return when something came. ZeroMQ waits in poll, a pipe in read.
_RECEIVES = ("recv", "recvfrom", "recvmsg", "poll", "ppoll", "epoll_wait", "epoll_pwait", "select", "read")


def awaited_table(
    os_calls: SystemCalls,
    windows: Windows,
    names: Names,
    places: Places,
    threads: dict[int, Thread],
    hosts: Hosts,
    launchers: Collection[int],
) -> pl.DataFrame:
    """_AWAITED: where threads that launch are in a range that waits, or in an OS call that receives; ns, sums by the step in which each began.

    peer '': all of the wait. Else what a thread of another process did during it, by its innermost range, those that wait left
    out; of a process without ranges peer_place '': it held its GIL. near: of the same process; it launches nothing, and held their GIL from end to end
    while the launching thread did nothing: no Python, then, no CUDA call, no wait for the GIL.
    """
    ranged = {one.pid for one in threads.values() if one.places}
    waiting = [number for number, text in enumerate(places.names) if awaits(text)]
    rows = [pl.DataFrame(schema=_AWAITED)]
    for tid in sorted(launchers):
        mine = threads[tid]
        others = [
            one for one in threads.values() if one.pid != mine.pid and (one.places or one.pid not in ranged)
        ]
        waits = _waits(hosts.thread(tid), os_calls, places, waiting) if others else EMPTY
        place = names.places(tid, hosts.thread(tid).label_at(waits.start), waits.start)
        found = [("", False, waits, place, np.zeros(len(place), np.int64))]
        for other in threads.values():
            # threads of a pool that launch steps in turn do not wait for each other
            if other.pid == mine.pid and other.tid not in launchers:
                pieces, doing = _handed_to(hosts, tid, other.tid)
                at = names.places(tid, hosts.thread(tid).label_at(pieces.start), pieces.start)
                found.append((other.role, True, pieces, at, places.ids(doing) + 1))
        for other in others:
            if other.pid in ranged:
                working, label = hosts.thread(other.tid).places
                working, label = working.take(keep := ~np.isin(places.ids(label), waiting)), label[keep]
                doing = places.ids(label) + 1
            else:
                working = hosts.holds(other.tid)
                doing = np.zeros(working.size, np.int64)
            inner = cut(waits, working)
            met = inner.part >= 0
            pieces = Intervals(inner.start[met], inner.end[met])
            found.append((other.role, False, pieces, place[inner.query[met]], doing[inner.part[met]]))
        number = names.tables()["place_name"]
        for peer, near, pieces, at, doing in found:
            tally = Tally()  # by stratum, place and what the other did
            tally.add(
                windows.code(mine.pid, pieces.start, at * len(number) + doing, len(number) ** 2),
                pieces.end - pieces.start,
            )
            code, _, ns = tally.rows()
            spelled = [
                pl.Series(number, dtype=pl.String).gather(code // by % len(number)) for by in (len(number), 1)
            ]
            rows.append(
                pl.DataFrame(
                    {
                        "stratum": code // len(number) ** 2,
                        "place": spelled[0],
                        "peer_place": spelled[1],
                        "ns": ns,
                    }
                )
                .with_columns(thread=pl.lit(mine.role), peer=pl.lit(peer), near=pl.lit(near))
                .select(*_AWAITED)
            )
    by = list(_AWAITED)[:-1]
    return pl.concat(rows).group_by(by).agg(pl.col("ns").sum()).sort(by)


def _handed_to(hosts: Hosts, tid: int, other: int) -> tuple[Intervals, Ints]:
    """Where another thread held the GIL of a process, and this one did nothing all the while; with the innermost ranges of that, -1 none."""
    mine, held = hosts.thread(tid), hosts.holds(other)
    busy = union(*(np.concatenate([mine.calls[end], mine.gil_wait[end]]) for end in (0, 1)))
    ranges, labels = hosts.thread(other).places
    inner = cut(held.take(covered(held, busy) == 0), ranges)
    return Intervals(inner.start, inner.end), picked(labels, inner.part).astype(np.int64)


def _waits(host: HostThread, os_calls: SystemCalls, places: Places, waiting: Sequence[int]) -> Intervals:
    """Where a thread is in a range that waits, and in receiving OS calls outside of those: a partition."""
    ranges, label = host.places
    named = ranges.take(np.isin(places.ids(label), waiting))
    calls, name = os_calls.of(host.tid)
    receives = calls.take(np.isin(name, [at for at, text in enumerate(os_calls.names) if text in _RECEIVES]))
    rest = subtract(receives, named)
    order = np.argsort(start := np.concatenate((named.start, rest.start)))
    return Intervals(start[order], np.concatenate((named.end, rest.end))[order])


# Numbers that a program gave to its NVTX ranges.

PAYLOADS = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "domain": pl.String, "count": pl.Int64,
    "sum": pl.Float64, "low": pl.Float64, "high": pl.Float64,
}  # fmt: skip
_PAYLOADS_BY = ["stratum", "thread", "place", "domain"]
_PAYLOAD_TOTALS = (pl.col("count", "sum").sum(), pl.col("low").min(), pl.col("high").max())
_PAYLOAD_ROWS = """
SELECT p.start_ns, p.tid, p.label::BIGINT AS label, p.value, coalesce(d.name, '') AS domain
FROM payload AS p
LEFT JOIN nvtx_domain AS d ON d.pid = (p.tid >> 24 & 16777215)::INTEGER AND d.domain = p.domain
WHERE p.rowid >= ? AND p.rowid < ? ORDER BY p.rowid
"""


def payload_table(
    capture: Capture, windows: Windows, places: Places, threads: dict[int, Thread]
) -> pl.DataFrame:
    """PAYLOADS: of ranges of known threads, in the step in which each began."""
    names = np.array(places.names, object)
    parts = [pl.DataFrame(schema=PAYLOADS)]
    for low, high in chunks(capture.count("payload")):
        rows = frame(capture.db, _PAYLOAD_ROWS, [low, high])
        for (tid,), mine in rows.group_by("tid", maintain_order=True):
            thread = threads.get(int(str(tid)))
            if thread is None:
                continue
            value = mine["value"].to_numpy()
            table = pl.DataFrame(
                {
                    "stratum": windows.stratum(thread.pid, mine["start_ns"].to_numpy()),
                    "thread": [thread.role] * len(mine),
                    "place": names[places.ids(mine["label"].to_numpy())].tolist(), "domain": mine["domain"],
                    "count": np.ones(len(mine), np.int64), "sum": value, "low": value, "high": value,
                },
                schema=PAYLOADS,
            )  # fmt: skip
            parts.append(
                table.filter(pl.col("stratum") >= 0)
                .group_by(_PAYLOADS_BY, maintain_order=True)
                .agg(_PAYLOAD_TOTALS)
                .sort(_PAYLOADS_BY)
            )
    return (
        pl.concat(parts).group_by(_PAYLOADS_BY, maintain_order=True).agg(_PAYLOAD_TOTALS).sort(_PAYLOADS_BY)
    )
