"""Tables of idle pieces by name: cells for the statistics, gaps by neighbours, the longest ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.align.places import Places
from tracediff.align.threads import Thread
from tracediff.align.timeline import Unit
from tracediff.measure.attribution import CODE, IDLE, IdlePieces
from tracediff.measure.hosts import Hosts
from tracediff.measure.intervals import Ints
from tracediff.measure.sweep import Sweep

_WORST = 20


@dataclass(frozen=True)
class GapTable:
    """All idle pieces of a unit as one frame with small integer columns, and the words for them."""

    pieces: pl.DataFrame
    roles: list[str]
    places: Places
    stratum: npt.NDArray[np.int64]

    def words(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Replace ids by names."""
        return _named(frame, self.roles, self.places)

    @property
    def idle(self) -> pl.DataFrame:
        """period, cause, under, thread, place, holder, holder_place, copy -> ns, count."""
        by = ["period", "cause", "under", "thread", "place", "holder", "holder_place", "copy"]
        cells = self.pieces.group_by(by).agg(pl.col("ns").sum(), pl.len().cast(pl.Int64).alias("count"))
        return self.words(cells).group_by(by).agg(pl.col("ns", "count").sum()).sort(by)

    def gaps(self, names: list[str]) -> pl.DataFrame:
        """stratum, cause, under, thread, place, previous, next -> count, ns, p50_ns, p99_ns."""
        by = ["stratum", "cause", "under", "thread", "place", "previous", "next"]
        # Pieces of one gap with one cause (a walk in and out of ranges) are one entry of that gap.
        merged = self.pieces.group_by("gap", *by).agg(pl.col("ns").sum())
        table = merged.group_by(by).agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("ns").sum(),
            p50_ns=pl.col("ns").quantile(0.5, "linear"),
            p99_ns=pl.col("ns").quantile(0.99, "linear"),
        )
        op_name = pl.Series(names)
        return (
            self.words(table)
            .with_columns(previous=op_name.gather(table["previous"]), next=op_name.gather(table["next"]))
            .sort(by)
        )


def gap_table(
    unit: Unit,
    swept: Sweep,
    pieces: IdlePieces,
    first_period: int,
    stratum: npt.NDArray[np.int64],
    places: Places,
    threads: dict[int, Thread],
    hosts: Hosts,
    copy_calls: list[int],
) -> GapTable:
    """The pieces of a unit with role and place ids.

    `first_period` is the row of its first period, `copy_calls` the CUDA functions that launch copies.
    """
    roles = sorted({thread.role for thread in threads.values()})
    role_id = {tid: roles.index(thread.role) for tid, thread in threads.items()}
    period = swept.gap_period[pieces.gap].astype(np.int64) + first_period
    frame = pl.DataFrame(
        {
            "gap": pieces.gap.astype(np.int64),
            "period": period,
            "stratum": stratum[period],
            "cause": pieces.cause,
            "thread": _map(pieces.tid, role_id),
            "place": _places(pieces, pieces.label, pieces.tid, places, hosts),
            "holder": _map(pieces.holder, role_id),
            "holder_place": _places(pieces, pieces.holder_label, pieces.holder, places, hosts),
            "under": np.where(pieces.under >= 0, pieces.under, pieces.cause),
            "api": pieces.api,
            "copy": (pieces.cause == CODE["launch_api"]) & np.isin(pieces.api, copy_calls),
            "start": pieces.start,
            "end": pieces.end,
            "ns": pieces.end - pieces.start,
            "previous": unit.key[swept.gap_previous[pieces.gap]].astype(np.int64),
            "next": unit.key[swept.gap_op[pieces.gap]].astype(np.int64),
        }
    )
    return GapTable(frame, roles, places, stratum)


def worst_gaps(table: GapTable, periods: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """The longest single gaps, each with its largest cause."""
    whole = (
        table.pieces.sort("ns", "start", descending=[True, False])
        .group_by("gap", maintain_order=True)
        .agg(
            pl.col(
                "period", "cause", "thread", "place", "holder", "holder_place", "previous", "next"
            ).first(),
            pl.col("start").min(),
            pl.col("ns").sum(),
        )
        .sort("ns", "start", descending=[True, False])
        .head(_WORST)
    )
    op_name = pl.Series(names, dtype=pl.String)
    return (
        table.words(whole)
        .with_columns(previous=op_name.gather(whole["previous"]), next=op_name.gather(whole["next"]))
        .join(periods.select("period", "phase", "rank"), on="period", how="left", maintain_order="left")
        .select("start", "ns", "cause", "thread", "place", "previous", "next", "phase", "rank")
    )


def gap_moments(
    table: GapTable, periods: pl.DataFrame, api_names: dict[int, tuple[str, str]]
) -> pl.DataFrame:
    """For each cell the longest piece, a place to jump to, and the CUDA function it lies in ('' none)."""
    by = ["cause", "thread", "place", "holder", "holder_place", "copy"]
    longest = (
        table.pieces.sort("ns", "start", descending=[True, False])
        .group_by(by, maintain_order=True)
        .agg(pl.col("start", "end", "period", "api").first())
    )
    longest = longest.with_columns(
        api=pl.Series([api_names[api][0] if api >= 0 else "" for api in longest["api"]], dtype=pl.String)
    )
    return (
        table.words(longest)
        .join(
            periods.select("period", "number", "rank", "phase"),
            on="period",
            how="left",
            maintain_order="left",
        )
        .drop("period")
    )


def _named(frame: pl.DataFrame, roles: list[str], places: Places) -> pl.DataFrame:
    words = {
        "cause": pl.Series(list(IDLE)),
        "under": pl.Series(list(IDLE)),
        "thread": pl.Series(["", *roles]),
        "holder": pl.Series(["", *roles]),
        "place": pl.Series(["", *places.names]),
        "holder_place": pl.Series(["", *places.names]),
    }
    shift = {"cause": 0, "under": 0}
    return frame.with_columns(
        **{
            column: series.gather(frame[column] + shift.get(column, 1))
            for column, series in words.items()
            if column in frame.columns
        }
    )


def _map(tid: Ints, ids: dict[int, int]) -> Ints:
    seen, inverse = np.unique(tid, return_inverse=True)
    return np.array([ids.get(int(one), -1) for one in seen], np.int64)[inverse.reshape(-1)]


def _places(pieces: IdlePieces, label: Ints, tid: Ints, places: Places, hosts: Hosts) -> Ints:
    """Place ids of pieces; outside any range, between which ones."""
    out = np.where(label >= 0, places.ids(np.maximum(label, 0)), -1)
    for thread in np.unique(tid[(label < 0) & (tid >= 0)]):
        mine = np.flatnonzero((label < 0) & (tid == thread))
        ranges, labels = hosts.thread(int(thread)).places
        out[mine] = places.outside(ranges.start, labels, pieces.start[mine])
    return out
