"""Tables of idle pieces: sums by cell, gaps by neighbours, the longest ones.

Pieces come in stretch by stretch and are summed at once, by integer codes: a capture of millions of kernels has
several times as many pieces, which neither fit into memory nor are looked at again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.align.timeline import Unit
from tracediff.measure.attribution import IdlePieces
from tracediff.measure.grouping import Numbering, Samples, count_by, grouped, sum_by
from tracediff.measure.idle_cells import ENTRY, Cells
from tracediff.measure.intervals import Index, Ints
from tracediff.measure.sweep import Gaps

WORST = 20
_ENTRY_BITS = 20  # of a site's code
_ENTRIES_A_GAP = 4  # 1 where graphs are launched, 3.7 where each kernel is and the GIL is traced


class GapTables:
    """What is kept of the idle pieces of one unit."""

    def __init__(
        self, unit: Unit, gaps: Gaps, first_period: int, stratum: Ints, cells: Cells, worst: Ints
    ) -> None:
        """`first_period`: number of the unit's first period; `stratum`: of each period of the export; `worst`: see `worst_index`."""
        self._unit, self._gaps, self._first, self._cells = unit, gaps, first_period, cells
        self._stratum = stratum
        self._keys = int(unit.key.max(initial=0)) + 1
        self._sums: list[tuple[Ints, ...]] = []  # period, cell, ns, pieces
        self._neighbours = Numbering()  # stratum, ops before and after
        self._sites = Numbering()  # neighbours, entry
        self._entries = Samples(_ENTRIES_A_GAP * gaps.size)  # by site
        self._longest = _Longest()
        self._worst = worst
        self._worst_pieces = np.zeros((4, 0), np.int64)  # gap, cell, start, end

    def add(self, parts: list[IdlePieces], low: int, high: int) -> None:
        """Take in the pieces of the gaps [low, high)."""
        cell = np.concatenate([self._cells.numbers(part) for part in parts])
        gap, start, end, api = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("gap", "start", "end", "api")
        )
        ns, cells = end - start, self._cells.size
        period = self._gaps.period[low:high]
        first = int(period[0])
        code, position = grouped((period - first)[gap] * np.int64(cells) + cell)
        sums = sum_by(position, len(code), ns), count_by(position, len(code))
        self._sums.append((code // cells + first, code % cells, *sums))
        self._add_entries(gap, cell, ns, low, high)
        self._longest.add(cell, start, end, gap + low, api, cells)
        among = slice(*np.searchsorted(self._worst, [low, high]).tolist())
        if among.stop > among.start:
            found = np.flatnonzero(np.isin(gap, self._worst[among] - low))
            pieces = np.stack((gap[found] + low, cell[found], start[found], end[found]))
            self._worst_pieces = np.concatenate((self._worst_pieces, pieces), axis=1)

    def _add_entries(self, gap: Index, cell: Index, ns: Ints, low: int, high: int) -> None:
        """Pieces of one gap with one cause and place (a walk in and out of calls) are one entry of that gap."""
        gap, entry, whole = _merged(gap, self._cells.entries()[cell], ns, high - low)
        gaps, key = self._gaps.take(slice(low, high)), self._unit.key
        around = self._stratum[gaps.period + self._first] * self._keys + key[gaps.previous]
        around = self._neighbours.numbers(around * self._keys + key[gaps.op])
        site = self._sites.numbers(around[gap].astype(np.int64) << _ENTRY_BITS | entry)
        self._entries.add(site, whole)

    def sums(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Period (of the unit), cell -> ns, pieces."""
        if not self._sums:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing, nothing
        period, cell, ns, count = (
            np.concatenate([part[column] for part in self._sums]) for column in range(4)
        )
        # a period may have been met in two stretches
        code, position = grouped(period * self._cells.size + cell)
        sums = sum_by(position, len(code), ns), sum_by(position, len(code), count)
        return code // self._cells.size, code % self._cells.size, *sums

    def gaps(self, names: list[str]) -> pl.DataFrame:
        """stratum, cause, under, thread, place, previous, next -> count, ns, p50_ns, p99_ns."""
        code = np.array(self._sites.codes, np.int64)
        counts, sums, (p50, p99) = self._entries.take(len(code), (0.5, 0.99))
        around = np.array(self._neighbours.codes, np.int64)[code >> _ENTRY_BITS]
        op_name = pl.Series(names, dtype=pl.String)
        table = self._cells.entry_table()[code & ((1 << _ENTRY_BITS) - 1)].with_columns(
            stratum=pl.Series(around // self._keys // self._keys),
            previous=op_name.gather(around // self._keys % self._keys),
            next=op_name.gather(around % self._keys),
            count=pl.Series(counts),
            ns=pl.Series(sums),
            p50_ns=pl.Series(p50),
            p99_ns=pl.Series(p99),
        )
        by = ["stratum", *ENTRY, "previous", "next"]
        # kernels of one name with different grids are rows of their own
        return table.select(*by, "count", "ns", "p50_ns", "p99_ns").sort(*by, "ns", "count", "p50_ns")

    def longest(self, periods: pl.DataFrame, api_names: dict[int, tuple[str, str]]) -> pl.DataFrame:
        """For each cell the longest piece, a place to jump to, and the CUDA function it lies in ('' none)."""
        cell, start, end, gap, api = self._longest.rows()
        table = self._cells.table()[cell].drop("under")
        by = table.columns
        return (
            table.with_columns(
                start=pl.Series(start),
                end=pl.Series(end),
                period=pl.Series(self._gaps.period[gap].astype(np.int64) + self._first),
                api=pl.Series(
                    [api_names[one][0] if one >= 0 else "" for one in api.tolist()], dtype=pl.String
                ),
            )
            .sort(pl.col("end") - pl.col("start"), "start", descending=[True, False])
            .unique(by, keep="first", maintain_order=True)
            .join(
                periods.select("period", "number", "rank", "phase"),
                on="period",
                how="left",
                maintain_order="left",
            )
            .drop("period")
        )

    def worst(self, periods: pl.DataFrame, names: list[str]) -> pl.DataFrame:
        """The longest single gaps, each with its largest cause."""
        gap, cell, start, end = self._worst_pieces
        order = np.lexsort((start, start - end, gap))
        cells = cell[order][np.searchsorted(gap[order], self._worst)]
        gaps, key = self._gaps.take(self._worst), self._unit.key
        op_name = pl.Series(names, dtype=pl.String)
        return (
            self._cells.table()[cells]
            .with_columns(
                start=pl.Series(gaps.start),
                ns=pl.Series(gaps.end - gaps.start),
                period=pl.Series(gaps.period.astype(np.int64) + self._first),
                previous=op_name.gather(key[gaps.previous]),
                next=op_name.gather(key[gaps.op]),
            )
            .sort("ns", "start", descending=[True, False])
            .join(periods.select("period", "phase", "rank"), on="period", how="left", maintain_order="left")
            .select("start", "ns", "cause", "thread", "place", "previous", "next", "phase", "rank")
        )


def worst_index(gaps: Gaps) -> Ints:
    """Positions of the longest gaps, in order of time."""
    length = gaps.end - gaps.start
    least = np.partition(length, -WORST)[-WORST] if gaps.size > WORST else 0
    long = np.flatnonzero(length >= least)
    return np.sort(long[np.lexsort((gaps.start[long], -length[long]))][:WORST])


class _Longest:
    """The longest piece of each cell, the earliest of several; stretches come in order of time."""

    def __init__(self) -> None:
        self._rows = np.zeros((5, 0), np.int64)  # start, end, gap, api, 1 where there is one; a column a cell

    def add(self, cell: Index, start: Ints, end: Ints, gap: Index, api: Index, cells: int) -> None:
        """Take in pieces; `cells`: how many cells there are so far."""
        self._rows = np.pad(self._rows, ((0, 0), (0, cells - self._rows.shape[1])))
        ns, before = end - start, self._rows[1] - self._rows[0]
        longest = before.copy()
        np.maximum.at(longest, cell, ns)
        found = np.flatnonzero((ns == longest[cell]) & (ns > before[cell]))
        found = found[np.lexsort((start[found], cell[found]))]
        found = found[np.unique(cell[found], return_index=True)[1]]
        for row, values in zip(self._rows, (start, end, gap, api), strict=False):
            row[cell[found]] = values[found]
        self._rows[4, cell[found]] = 1

    def rows(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """cell, start, end, gap, api."""
        cell = np.flatnonzero(self._rows[4])
        start, end, gap, api = self._rows[:4, cell]
        return cell, start, end, gap, api


def _merged(gap: Index, entry: Index, ns: Ints, gaps: int) -> tuple[Index, Index, Ints]:
    """Pieces -> each gap and entry once, with the sum of ns. Most gaps are one piece: they are not sorted."""
    several = (count_by(gap, gaps) > 1)[gap]
    rest = np.flatnonzero(several)
    if not len(rest):
        return gap, entry, ns
    rest = rest[_by_two(gap[rest], entry[rest])]
    of, what = gap[rest], entry[rest]
    fresh = np.ones(len(rest), np.bool_)
    fresh[1:] = (of[1:] != of[:-1]) | (what[1:] != what[:-1])
    first = np.flatnonzero(fresh)
    alone = ~several
    return (
        np.concatenate((gap[alone], of[first])),
        np.concatenate((entry[alone], what[first])),
        np.concatenate((ns[alone], np.add.reduceat(ns[rest], first))),
    )


def _by_two(major: Index, minor: Index) -> npt.NDArray[np.intp]:
    """Order by major, then minor. Numbers of 16 bits are sorted in two passes without a comparison (radix sort)."""
    if max(major.max(), minor.max()) >= 1 << 16:
        return np.lexsort((minor, major))
    order = np.argsort(minor.astype(np.uint16), kind="stable")
    return order[np.argsort(major[order].astype(np.uint16), kind="stable")]
