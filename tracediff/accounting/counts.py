"""What each step does, counted: tables `counts` and `counted` of `Reduction`. No time is in them.

Kernels by name and CUDA calls are counted in `kernels` and `apis`. This adds what those do not say:

| kind | name | thread | memory | group | counted in the step |
|-|-|-|-|-|-|
| graph_kernels | | | | | kernels that CUDA graphs launched |
| early | | | | | kernels that began before the op before them on their stream ended |
| queued | | | | | kernels whose launch had returned by then: they might have |
| blocking | | | | | kernels of calls that returned after all that they launched had ended |
| ahead | | | | | synchronisations after which the GPU still had work that was launched before them |
| drained | | | | | synchronisations that ended when the last of it had ended |
| launched | range | role | | | kernels, by the innermost range in which they were launched; '' outside any |
| streams | | | | | streams on which an op started |
| copies | [memcpy HtoD], [memset] | | of the host | | copies, and their bytes; 0 unknown |
| collections | generation | role | | | garbage collections that began |
| ranges | text with numbers masked | role | | | NVTX ranges that began |
| messages | function of NCCL | role | | its name | calls that say the size of their message, and bytes |

What runs on a GPU is in the period in which it started, what a thread does in the step in whose host window it began, as in the other tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from tracediff.accounting.intervals import Index, count_by, grouped, outermost, picked, picked_at
from tracediff.accounting.walk import Names, Windows
from tracediff.arrays import Ints
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame
from tracediff.trace.periods import Timeline, Unit
from tracediff.trace.threads import SYNC, distinct

COUNTS = {"period": pl.Int64, "what": pl.Int64, "count": pl.Int64, "bytes": pl.Int64}
COUNTED = {"kind": pl.String, "name": pl.String, "thread": pl.String, "memory": pl.String, "group": pl.String}
# Names of ranges come from programs: some write a new one for each request. Those with the most events are kept.
MOST_NAMES = 256
_OF_RANGES = ("launched", "ranges")
_ROWS = {"period": pl.Int64, **COUNTED, "count": pl.Int64, "bytes": pl.Int64}
_COPIES = """
SELECT r.start_ns, s.pid::BIGINT AS pid, s.device::BIGINT AS device, k.name, s.host_memory AS memory, coalesce(r.bytes, 0)::BIGINT AS bytes
FROM op_row AS r JOIN op_descriptor AS s USING (descriptor) JOIN op_key AS k USING (key)
WHERE s.kind IN (1, 2)
"""


def read_copies(capture: Capture) -> pl.DataFrame:
    """start_ns, pid, device, name, memory, bytes of every copy and memset; before `build_timeline` drops the ops."""
    return frame(capture.db, _COPIES)


def count_tables(
    timeline: Timeline,
    inside: Sequence[slice],
    op_periods: Sequence[Any],
    graph_kernels: pl.DataFrame,
    copies: pl.DataFrame,
    labels: Ints,
    names: Names,
    windows: Windows,
    of_host: pl.DataFrame,
) -> dict[str, pl.DataFrame]:
    """Tables counts and counted of `Reduction`.

    inside, op_periods: of each unit, its ops in whole periods and the period (of the unit) of each. graph_kernels: period, count.
    labels: of each launch, the innermost range. of_host: see host_counts.sql.
    """
    found = [pl.DataFrame(schema=_ROWS), _rows(of_host)]
    found.append(_rows(graph_kernels.filter(pl.col("count") > 0), kind="graph_kernels"))
    spot, spots = _launched_at(timeline, labels, names)
    kernel = np.isin(timeline.keys["kind"].to_numpy(), (0,))
    ended = _ended(timeline)
    found += [_per_period(period, 0, kind) for kind, period in _waits(timeline, ended, windows).items()]
    first = 0
    for unit, part, period in zip(timeline.units, inside, op_periods, strict=True):
        place = picked(spot + 1, unit.launch[part], 0).astype(np.int64)
        is_kernel = kernel[unit.key[part]]
        found.append(_launched(period, place, is_kernel, first, spots))
        found.append(_streams(period, unit.stream[part], first))
        # a graph's first kernels may end while its launch still goes on
        launch = unit.launch[part]
        blocking = picked(timeline.launches.end, launch, -1) >= ended[launch]
        early, queued = (one[part] for one in _begins_early(unit, timeline.launches.end))
        for kind, mine in (("early", early), ("queued", queued), ("blocking", blocking)):
            found.append(_per_period(period[mine & is_kernel], first, kind))
        found.append(_copies(copies, unit, first))
        first += len(unit.step)
    return _numbered(pl.concat(found))


def _rows(table: pl.DataFrame, **words: str) -> pl.DataFrame:
    """A table with the columns of _ROWS: those that it lacks are as in `words`, '' or 0."""
    texts = [pl.lit(words.get(name, "")).alias(name) for name in COUNTED if name not in table.columns]
    sizes = [pl.lit(0, pl.Int64).alias("bytes")] if "bytes" not in table.columns else []
    return table.with_columns(*texts, *sizes).select(*_ROWS).cast(_ROWS)  # type: ignore[arg-type]


def _launched_at(timeline: Timeline, labels: Ints, names: Names) -> tuple[Index, pl.DataFrame]:
    """Of each launch where it was made, as a row of the second: name (of the range, '' outside any), thread."""
    launches = timeline.launches
    role, place = np.zeros(len(launches.start), np.int64), np.zeros(len(launches.start), np.int64)
    for tid in distinct(launches.tid):
        mine = np.flatnonzero((launches.tid == tid) & (labels >= 0))
        place[mine] = names.places(tid, labels[mine], launches.start[mine])
        role[launches.tid == tid] = names.role(tid)
    words = names.tables()
    found, spot = picked_at(role, place)
    return spot, pl.DataFrame(
        {
            "name": pl.Series(words["place_name"], dtype=pl.String).gather(place[found]),
            "thread": pl.Series(words["role_name"], dtype=pl.String).gather(role[found]),
        }
    )


def _launched(period: Any, place: Ints, kernel: Any, first_period: int, spots: pl.DataFrame) -> pl.DataFrame:
    """Kernels by the place of their launch; those without one are in no row."""
    kernel = kernel & (place > 0)
    code, position = grouped(period[kernel].astype(np.int64) * (len(spots) + 1) + place[kernel])
    count = count_by(position, len(code))
    where = spots[code % (len(spots) + 1) - 1]
    table = where.with_columns(
        period=pl.Series(code // (len(spots) + 1) + first_period), count=pl.Series(count)
    )
    return _rows(table, kind="launched")


def _ended(timeline: Timeline) -> Ints:
    """When all that each launch launched had ended (ns); the last one stands for no launch."""
    ended = np.zeros(len(timeline.launches.end) + 1, np.int64)
    for unit in timeline.units:
        np.maximum.at(ended, unit.launch, unit.end)
    return ended


def _waits(timeline: Timeline, ended: Ints, windows: Windows) -> dict[str, Ints]:
    """The period of each synchronisation by what had been launched before it: `ahead`, some was left, or `drained`, it waited for all.

    Of threads that launch on other GPUs than the one that waits nothing counts. A host that runs ahead launches the next step first and
    waits for this one then. Where all had ended before the call, it says nothing of either; calls inside a call are that call.
    """
    launches, calls = timeline.launches, timeline.calls
    process = launches.tid >> 24 & 0xFFFFFF
    gpus = {tid: frozenset(devices) for tid, devices in timeline.launchers.items()}

    @cache
    def launched(pid: int, own: frozenset[int]) -> tuple[Ints, Ints]:
        """When launches of a process began, but those on other GPUs than `own`, in order; and when all up to each had ended."""
        apart = [tid for tid, others in gpus.items() if own and not own & others]
        near = np.flatnonzero((process == pid) & ~np.isin(launches.tid, apart) if apart else process == pid)
        near = near[np.argsort(launches.start[near], kind="stable")]
        return launches.start[near], np.maximum.accumulate(np.append(0, ended[near]))

    found: dict[str, list[Ints]] = {"ahead": [], "drained": []}
    for tid, own in calls.of_thread.items():
        pid = tid >> 24 & 0xFFFFFF
        began, until = launched(pid, gpus.get(tid, frozenset()))
        if not len(began):
            continue
        sync = own.start + np.flatnonzero(calls.kind[own] == SYNC)
        start, end = calls.start[sync], calls.end[sync]
        outer = outermost(start, end)
        last = until[np.searchsorted(began, start)]
        for kind, chosen in (("ahead", last > end), ("drained", (start < last) & (last <= end))):
            period = windows.period(pid, start[outer & chosen]).astype(np.int64)
            found[kind].append(period[period >= 0])
    return {kind: np.concatenate([np.empty(0, np.int64), *periods]) for kind, periods in found.items()}


def _begins_early(unit: Unit, returned: Ints) -> Any:
    """Which ops began before the op before them on their stream ended, as programmatic dependent launch allows; and which could have.

    Older CUPTI lets the op begin 1 ns after that end; without such launches kernels of a stream are 30 ns apart and more.
    """
    found = np.zeros((2, len(unit.start)), np.bool_)
    order = np.argsort(unit.stream, kind="stable") if (unit.stream != unit.stream[:1]).any() else slice(None)
    stream, start, end = unit.stream[order], unit.start[order], unit.end[order]
    launched = picked(returned, unit.launch, 0)[order][1:]
    for one, those in zip(found, (start[1:] - end[:-1] <= 1, launched <= end[:-1]), strict=True):
        one[np.arange(len(one))[order][1:][(stream[1:] == stream[:-1]) & those]] = True
    return found


def _per_period(period: Any, first_period: int, kind: str) -> pl.DataFrame:
    of, count = np.unique(period, return_counts=True)
    return _rows(pl.DataFrame({"period": of + first_period, "count": count}), kind=kind)


def _streams(period: Any, stream: Any, first_period: int) -> pl.DataFrame:
    found, _ = picked_at(period, stream - np.int64(stream.min(initial=0)))
    return _per_period(period[found], first_period, "streams")


def _copies(copies: pl.DataFrame, unit: Unit, first_period: int) -> pl.DataFrame:
    mine = copies.filter(pid=unit.pid, device=unit.device)
    at = np.searchsorted(unit.bounds, mine["start_ns"].to_numpy(), side="right") - 1
    whole = (at >= 0) & (at < len(unit.step))
    table = mine.with_columns(period=pl.Series(at + first_period)).filter(pl.Series(whole))
    # torch.profiler does not tell how many a copy by a graph moves: then those of all are unknown
    size = pl.when(pl.col("bytes").min() > 0).then(pl.col("bytes").sum()).otherwise(0)
    summed = table.group_by("period", "name", "memory").agg(count=pl.len(), bytes=size)
    return _rows(summed, kind="copies")


def _numbered(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    by = list(COUNTED)
    totals = (
        rows.group_by(by).agg(pl.col("count").sum()).sort("count", *by, descending=[True, *[False] * len(by)])
    )
    rank = pl.int_range(pl.len()).over("kind")
    kept = totals.filter(~pl.col("kind").is_in(_OF_RANGES) | (rank < MOST_NAMES))
    counted = kept.select(by).sort(by).with_row_index("what").cast({"what": pl.Int64})
    counts = rows.join(counted, on=by).group_by("period", "what").agg(pl.col("count", "bytes").sum())
    return {"counts": counts.select(*COUNTS).sort("period", "what"), "counted": counted.drop("what")}
